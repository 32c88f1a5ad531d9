"""announce: exactly one event for each committed batch, with its tables, instants and counts."""

import json
from types import SimpleNamespace

import pytest
from announce.handler import handler
from emulation.deployment import REGION, Recorder, context, failed_items
from reconcile.handler import handler as reconcile

from sluice.batch.manifest import Manifest, ManifestObject, TablePart
from sluice.batch.outcome import COMMITTED, Outcome
from sluice.config.table import TableConfig
from sluice.ledger.announcement import MAX_DETAIL_BYTES, announcement, batch_seconds, lane_metrics, newly_committed
from sluice.ledger.keys import PENDING
from sluice.ledger.records import AdmittedObject
from sluice.objects import ObjectId
from sluice_aws.announce import Announcer
from sluice_aws.clock import epoch_ms
from sluice_aws.errors import AnnouncementRefused
from sluice_aws.ledger import expressions as codec

BATCH = {
    "pk": "batch#b-1",
    "sk": "batch",
    "batch": "b-1",
    "state": "committed",
    "lane": "main",
    "run": "run-1",
    "objects": 3,
    "bytes": 4096,
    "tables": ["a.x", "a.y"],
    "claimed_at": 1_714_557_600_000,
    "committed_at": 1_714_557_601_500,
}
PARTS = {
    "a.x": {
        "state": "committed",
        "instant": "20240501100001000",
        "no_change": False,
        "counts": {"read": 10, "written": 7, "losing": 3},
    },
    "a.y": {"state": "committed", "no_change": True, "counts": {"read": 2}},
}


def record(new, old=None, number="1"):
    change = {
        "Keys": codec.item({"pk": new["pk"], "sk": new["sk"]}),
        "NewImage": codec.item(new),
        "SequenceNumber": number,
        "StreamViewType": "NEW_AND_OLD_IMAGES",
    }
    if old is not None:
        change["OldImage"] = codec.item(old)
    return {
        "eventID": number,
        "eventName": "MODIFY",
        "eventSource": "aws:dynamodb",
        "awsRegion": REGION,
        "dynamodb": change,
        "eventSourceARN": "arn:aws:dynamodb:x",
    }


@pytest.fixture
def bus(deployment, monkeypatch):
    """What the event bus was asked to take, in a deployment where the batch's parts are in the ledger."""
    for table, part in PARTS.items():
        deployment.dynamodb.put_item(
            TableName="sluice-ledger",
            Item=codec.item({"pk": "batch#b-1", "sk": f"table#{table}", "table": table, **part}),
        )
    asked = []
    monkeypatch.setattr("sluice_aws.clients.Clients.events", property(lambda self: Bus(asked)))
    return asked


class Bus:
    """An event bus that takes entries, or refuses those of the batches named."""

    def __init__(self, asked, refuse=()):
        self.asked, self.refuse = asked, refuse

    def put_events(self, Entries):
        assert len(Entries) == 1
        detail = json.loads(Entries[0]["Detail"])
        if detail["batch"] in self.refuse:
            return {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException", "ErrorMessage": "slow"}]}
        self.asked.append((Entries[0], detail))
        return {"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}


def test_a_committed_batch_is_announced_with_its_tables_instants_and_counts(bus, capsys):
    assert failed_items(handler({"Records": [record(BATCH, {**BATCH, "state": "claimed"})]}, context())) == []
    ((entry, detail),) = bus
    assert (entry["Source"], entry["DetailType"], entry["EventBusName"]) == ("Sluice", "Batch Committed", "default")
    assert detail == {
        "stack": "s",
        "batch": "b-1",
        "lane": "main",
        "run": "run-1",
        "objects": 3,
        "bytes": 4096,
        "left_out": 0,
        "claimed_at": "2024-05-01T10:00:00.000Z",
        "committed_at": "2024-05-01T10:00:01.500Z",
        "tables": [
            {
                "table": "a.x",
                "state": "committed",
                "instant": "20240501100001000",
                "no_change": False,
                "counts": {"read": 10, "written": 7, "losing": 3},
            },
            {"table": "a.y", "state": "committed", "instant": None, "no_change": True, "counts": {"read": 2}},
        ],
    }
    summary = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    metrics = {name: line[name] for line in summary if "_aws" in line for name in line if name[0].isupper()}
    assert metrics == {
        "BatchesCommitted": [1.0],
        "ObjectsCommitted": [3.0],
        "BytesCommitted": [4096.0],
        "TablesCommitted": [2.0],
        "TablesQuarantined": [0.0],
        "TablesMostlyLosing": [0.0],
        "ObjectsSetAside": [0.0],
        "RowsSetAside": [0.0],
        "RowsRead": [12.0],
        "RowsWritten": [7.0],
        "RowsLosing": [3.0],
        "BatchSeconds": [1.5],
    }
    assert [line["batch"] for line in summary if line.get("message") == "batch_committed"] == ["b-1"]


@pytest.mark.parametrize(
    "old, new",
    [
        (None, {"sk": "batch", "state": "claimed", "batch": "b"}),
        ({"state": "claimed"}, {"sk": "batch", "state": "returned", "batch": "b"}),
        ({"state": "claimed"}, {"sk": "table#a.x", "state": "committed", "batch": "b"}),
        ({"state": "claimed"}, {"sk": "v1", "state": "committed", "batch": "b"}),
        ({"state": "committed"}, {"sk": "batch", "state": "committed", "batch": "b"}),
        ({"state": "committed"}, None),
    ],
)
def test_every_other_change_of_the_ledger_is_no_news(old, new):
    assert newly_committed(old, new) is None


def test_other_records_that_pass_the_filter_are_not_announced(bus):
    event = {
        "Records": [
            record({**BATCH, "state": "claimed"}),
            record({"pk": "lane#main", "sk": "lane", "state": "idle"}, number="2"),
        ]
    }
    assert failed_items(handler(event, context())) == []
    assert bus == []


def test_an_event_that_the_bus_refuses_is_retried_and_the_others_are_sent(bus, monkeypatch):
    monkeypatch.setattr("sluice_aws.clients.Clients.events", property(lambda self: Bus(bus, refuse=["b-2"])))
    other = {**BATCH, "pk": "batch#b-2", "batch": "b-2"}
    event = {"Records": [record(BATCH, number="11"), record(other, number="12")]}
    assert failed_items(handler(event, context())) == ["12"]
    assert [detail["batch"] for _, detail in bus] == ["b-1"]


def test_a_refusal_quotes_the_error_of_the_bus():
    batches = SimpleNamespace(parts=lambda batch: PARTS)
    announcer = Announcer(
        batches=batches, events=Bus([], refuse=["b-1"]), bus="lake", stack="s", report=Recorder(), now=lambda: 1
    )
    with pytest.raises(AnnouncementRefused) as raised:
        announcer.announce(record(BATCH)["dynamodb"])
    assert raised.value.facts == {"batch": "b-1", "bus": "lake", "cause": "ThrottlingException", "described": "slow"}


OBJECT = ObjectId("sluice-bronze", "topics/shop.orders/0.avro", "v1")


def committed(ledger, batch="b-1", object=OBJECT, now=1_714_557_601_500):
    """A batch that a run settled and closed."""
    ledger.objects.admit(
        AdmittedObject(
            object, PENDING, now, size=1, noticed_at=now, table="a.x", lane="main", topic="a.x", format="avro", via="s3"
        )
    )
    ledger.lanes.request_start("main", "run-1", now)
    ledger.lanes.hold("main", "run-1", "job-1", 1, now)
    config = TableConfig("a.x", "a", "x", topic="a.x", record_key=("id",))
    part = TablePart(
        config.to_dict(),
        (ManifestObject(object.bucket, object.key, object.version, 1, None, "avro", "a.x", None, None, now),),
    )
    manifest = Manifest(
        batch=batch, lane="main", run="run-1", created_at=now, configuration_version="c", tables={"a.x": part}
    )
    assert ledger.batches.open(manifest, "key", "run-1", "job-1") and ledger.batches.claim(manifest) == [object]
    assert ledger.batches.settle("main", batch, Outcome(batch, "a.x", COMMITTED, now), [object], "run-1", now)
    assert ledger.batches.close("main", batch, "run-1", now)


def test_a_batch_that_the_stream_gave_up_is_announced_by_the_schedule_once(bus, deployment):
    deployment.configure()
    committed(deployment.ledger, "b-2")
    assert reconcile({}, context(400_000))["announced"] == 1
    assert [detail["batch"] for _, detail in bus] == ["b-2"]
    assert deployment.ledger.batches.get("b-2")["announced_at"]
    assert reconcile({}, context(400_000))["announced"] == 0


def test_what_the_stream_announced_and_what_it_still_may_is_left_to_it(bus, deployment):
    deployment.configure()
    committed(deployment.ledger, "b-2")
    assert (
        failed_items(
            handler({"Records": [record(deployment.ledger.batches.get("b-2"), {"state": "claimed"})]}, context())
        )
        == []
    )
    committed(deployment.ledger, "b-3", ObjectId("sluice-bronze", "other", "v1"), now=epoch_ms())
    deployment.environment(RECONCILE_GRACE_SECONDS="900")
    assert reconcile({}, context(400_000))["announced"] == 0
    assert [detail["batch"] for _, detail in bus] == ["b-2"]


def test_a_batch_that_cannot_be_announced_now_keeps_no_other_waiting(bus, deployment, monkeypatch):
    deployment.configure()
    for n in (2, 3):
        committed(deployment.ledger, f"b-{n}", ObjectId("sluice-bronze", str(n), "v1"), now=n)
    monkeypatch.setattr("sluice_aws.clients.Clients.events", property(lambda self: Bus(bus, refuse=["b-2"])))
    assert reconcile({}, context(400_000))["announced"] == 1
    assert [batch["batch"] for batch in deployment.ledger.batches.unannounced(before=10)] == ["b-2"]


@pytest.mark.parametrize("tables", [10, 2_000, 20_000])
def test_an_event_always_fits_and_counts_what_it_leaves_out(tables):
    parts = {
        f"database.table_{n:05d}": {
            "state": "committed",
            "instant": "20240501100001000",
            "counts": {"read": n, "written": n},
        }
        for n in range(tables)
    }
    detail = announcement(BATCH, parts, stack="s")
    assert len(json.dumps(detail).encode()) <= MAX_DETAIL_BYTES
    assert len(detail["tables"]) + detail["left_out"] == tables


def test_metrics_are_sums_over_tables():
    assert lane_metrics(BATCH, {})["TablesCommitted"] == 0
    assert lane_metrics(BATCH, {"a.x": {"state": "quarantined"}})["TablesQuarantined"] == 1
    aside = lane_metrics(
        BATCH,
        {
            name: {"counts": {"quarantined_objects": 1, "quarantined_rows": rows}}
            for name, rows in (("a.x", 2), ("a.y", 0))
        },
    )
    assert (aside["ObjectsSetAside"], aside["RowsSetAside"], aside["ObjectsCommitted"]) == (2, 2, BATCH["objects"] - 2)
    parked = lane_metrics(BATCH, {"a.x": {"counts": {"quarantined_objects": 0, "parked_objects": 2}}})
    assert (parked["ObjectsSetAside"], parked["ObjectsCommitted"]) == (2, BATCH["objects"] - 2)
    assert batch_seconds({}) is None
