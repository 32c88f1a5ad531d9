"""announce: exactly one event for each committed batch, with its tables, instants and counts."""

import json
from unittest.mock import Mock

import pytest
from announce.handler import handler, own_announcer
from emulation.deployment import REGION, context, failed_items, use_bus
from ministack.services.lambda_svc import _match_esm_filter
from reconcile.handler import handler as reconcile
from support.sam_template import TEMPLATE

from sluice.batch.manifest import Manifest, ManifestObject, TablePart
from sluice.batch.outcome import COMMITTED, Outcome
from sluice.config.table import TableConfig
from sluice.ledger.announcement import MAX_DETAIL_BYTES, announcement
from sluice.ledger.keys import PENDING
from sluice.ledger.records import AdmittedObject
from sluice.objects import ObjectId
from sluice_aws.announce import EventBus
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger import expressions as codec

FACTS = {"batch": "b-1", "lane": "main", "run": "run-1", "objects": 3, "bytes": 4096}
BATCH = {
    **{"pk": "batch#b-1", "sk": "batch", "state": "committed", "tables": ["a.x", "a.y"], **FACTS},
    **{"claimed_at": 1_714_557_600_000, "committed_at": 1_714_557_601_500},
}
CHANGED = {"instant": "20240501100001000", "no_change": False, "counts": {"read": 10, "written": 7, "losing": 3}}
PARTS = {
    "a.x": {"state": "committed", **CHANGED},
    "a.y": {"state": "committed", "no_change": True, "counts": {"read": 2}},
}


def record(new, old=None, number="1"):
    change = {"Keys": codec.item({"pk": new["pk"], "sk": new["sk"]}), "NewImage": codec.item(new)}
    change |= {"SequenceNumber": number, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    if old is not None:
        change["OldImage"] = codec.item(old)
    source = {"eventSource": "aws:dynamodb", "awsRegion": REGION, "eventSourceARN": "arn:aws:dynamodb:x"}
    return {"eventID": number, "eventName": "MODIFY", "dynamodb": change, **source}


@pytest.fixture
def bus(deployment, monkeypatch):
    """What the event bus was asked to take, in a deployment where the batch's parts are in the ledger."""
    for table, part in PARTS.items():
        item = {"pk": "batch#b-1", "sk": f"table#{table}", "table": table, **part}
        deployment.dynamodb.put_item(TableName="sluice-ledger", Item=codec.item(item))
    return use_bus(monkeypatch)


def test_a_committed_batch_is_announced_with_its_tables_instants_and_counts(bus, capsys):
    assert failed_items(handler({"Records": [record(BATCH, {**BATCH, "state": "claimed"})]}, context())) == []
    ((entry, detail),) = bus
    assert (entry["Source"], entry["DetailType"], entry["EventBusName"]) == ("Sluice", "Batch Committed", "default")
    assert detail == {
        **{"stack": "s", "id": "b-1", "message": "batch b-1 committed 2 tables", **FACTS, "left_out": 0},
        "claimed_at": "2024-05-01T10:00:00.000Z",
        "committed_at": "2024-05-01T10:00:01.500Z",
        "tables": [{"table": table, "instant": None, **part} for table, part in PARTS.items()],
    }
    summary = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    metrics = {name: line[name] for line in summary if "_aws" in line for name in line if name[0].isupper()}
    assert metrics == {
        **{"BatchesCommitted": [1.0], "ObjectsCommitted": [3.0], "BytesCommitted": [4096.0], "TablesCommitted": [1.0]},
        **{"TablesQuarantined": [0.0], "TablesLosingChanges": [0.0], "ObjectsSetAside": [0.0], "RowsSetAside": [0.0]},
        **{"RowsRead": [12.0], "RowsWritten": [7.0], "RowsLosing": [3.0], "BatchSeconds": [1.5]},
    }
    assert [line["batch"] for line in summary if line.get("message") == "batch_committed"] == ["b-1"]


def test_other_records_that_pass_the_filter_are_not_announced(bus):
    idle = {"pk": "lane#main", "sk": "lane", "state": "idle"}
    event = {"Records": [record({**BATCH, "state": "claimed"}), record(idle, number="2")]}
    assert failed_items(handler(event, context())) == []
    assert bus == []


def test_an_event_that_the_bus_refuses_is_retried_and_the_others_are_sent(bus, monkeypatch):
    use_bus(monkeypatch, bus, refuse=["b-2"])
    other = {**BATCH, "pk": "batch#b-2", "batch": "b-2"}
    event = {"Records": [record(BATCH, number="11"), record(other, number="12")]}
    assert failed_items(handler(event, context())) == ["12"]
    assert [detail["batch"] for _, detail in bus] == ["b-1"]


def test_many_events_and_large_ones_take_several_calls():
    client = Mock(**{"put_events.return_value": {"FailedEntryCount": 0, "Entries": []}})
    bus = EventBus(client, bus="lake", stack="s")
    bus.put(("A", {"id": str(n)}) for n in range(23))
    bus.put([("A", {"id": "x" * 100_000})] * 3)
    assert [len(call.kwargs["Entries"]) for call in client.put_events.mock_calls] == [10, 10, 3, 2, 1]


def test_a_batch_that_the_stream_repeats_is_announced_once(bus, deployment):
    committed(deployment.ledger, "b-2")
    event = {"Records": [record(deployment.ledger.batches.get("b-2"), {"state": "claimed"})]}
    for _ in range(2):
        assert failed_items(handler(event, context())) == []
    assert [detail["batch"] for _, detail in bus] == ["b-2"]


FAILED = {"pk": "table#a.x", "sk": "table", "failures": 1, "last_error": "no memory"}
HALTED = {"pk": "lane#main", "sk": "lane", "state": "halted", "failures": 5, "reason": "FAILED"}
REFUSED = [
    {"pk": f"object#sluice-bronze/{n}", "sk": "v", "state": "quarantined", "table": "a.x", "code": "not_avro"}
    for n in range(3)
]


def test_failures_halts_and_refused_objects_are_announced_and_a_repetition_is_not(bus, deployment):
    items = [FAILED, REFUSED[0], HALTED, *REFUSED[1:]]
    event = {"Records": [record(item, number=str(n)) for n, item in enumerate(items)]}
    for _ in range(2):
        assert failed_items(handler(event, context())) == []
    expected = [("Table Failed", None), ("Lane Halted", None), ("Object Quarantined", 3)]
    assert [(entry["DetailType"], detail.get("objects")) for entry, detail in bus] == expected
    sent = deployment.dynamodb.get_item(TableName="sluice-ledger", Key=codec.item({"pk": "event#0", "sk": "event"}))
    assert int(sent["Item"]["expires_at"]["N"]) > epoch_ms() / 1000 + 86_400, "the ledger forgets it after days"


def test_what_was_not_sent_is_delivered_again_and_nothing_else_is_sent_twice(bus, monkeypatch):
    event = {"Records": [record(item, number=str(n)) for n, item in enumerate([FAILED, HALTED, *REFUSED])]}
    use_bus(monkeypatch, bus, refuse=["1"])
    assert failed_items(handler(event, context())) == ["1"]
    use_bus(monkeypatch, bus)
    own_announcer.cache_clear()
    # Lambda delivers the record that failed, and all that follow it.
    assert failed_items(handler({"Records": event["Records"][1:]}, context())) == []
    assert [entry["DetailType"] for entry, _ in bus] == ["Table Failed", "Object Quarantined", "Lane Halted"]


def test_a_batch_says_what_it_set_aside_and_which_columns_changed(bus, deployment):
    columns = [{"column": "email", "change": "added", "from": None, "to": "string"}]
    part = {"state": "committed", "instant": "1", "counts": {"quarantined_objects": 2}, "columns": columns}
    item = codec.item({"pk": "batch#b-1", "sk": "table#a.x", "table": "a.x", **part})
    deployment.dynamodb.put_item(TableName="sluice-ledger", Item=item)
    assert failed_items(handler({"Records": [record(BATCH, {**BATCH, "state": "claimed"})]}, context())) == []
    assert [entry["DetailType"] for entry, _ in bus] == ["Batch Committed", "Object Quarantined", "Schema Changed"]
    assert (bus[1][1]["objects"], bus[2][1]["columns"]) == (2, columns)


def test_metrics_of_each_table_are_published_on_request_only(bus, deployment, capsys):
    event = {"Records": [record(BATCH, {**BATCH, "state": "claimed"})]}
    handler(event, context())
    assert "TableRowsRead" not in capsys.readouterr().out
    deployment.environment(TABLE_METRICS="true")
    handler(event, context())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    read = {line["table"]: line["TableRowsRead"] for line in lines if "TableRowsRead" in line and "table" in line}
    assert read == {"a.x": [10.0], "a.y": [2.0]}


OBJECT = ObjectId("sluice-bronze", "topics/shop.orders/0.avro", "v1")


def committed(ledger, batch="b-1", object=OBJECT, now=1_714_557_601_500):
    """A batch that a run settled and closed."""
    place = {"table": "a.x", "lane": "main", "topic": "a.x", "format": "avro", "via": "s3"}
    ledger.objects.admit(AdmittedObject(object, PENDING, now, size=1, noticed_at=now, **place))
    ledger.lanes.request_start("main", "run-1", now)
    ledger.lanes.hold("main", "run-1", "job-1", 1, now)
    config = TableConfig("a.x", "a", "x", topic="a.x", record_key=("id",))
    listed = ManifestObject(object.bucket, object.key, object.version, 1, None, "avro", "a.x", None, None, now)
    manifest = Manifest(batch, "main", "run-1", now, "c", {"a.x": TablePart(config.to_dict(), (listed,))})
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
    change = record(deployment.ledger.batches.get("b-2"), {"state": "claimed"})
    assert failed_items(handler({"Records": [change]}, context())) == []
    committed(deployment.ledger, "b-3", ObjectId("sluice-bronze", "other", "v1"), now=epoch_ms())
    deployment.environment(RECONCILE_GRACE_SECONDS="900")
    assert reconcile({}, context(400_000))["announced"] == 0
    assert [detail["batch"] for _, detail in bus] == ["b-2"]


def test_a_batch_that_cannot_be_announced_now_keeps_no_other_waiting(bus, deployment, monkeypatch):
    deployment.configure()
    for n in (2, 3):
        committed(deployment.ledger, f"b-{n}", ObjectId("sluice-bronze", str(n), "v1"), now=n)
    use_bus(monkeypatch, bus, refuse=["b-2"])
    assert reconcile({}, context(400_000))["announced"] == 1
    assert [batch["batch"] for batch in deployment.ledger.batches.unannounced(before=10)] == ["b-2"]


@pytest.mark.parametrize("tables", [10, 2_000, 20_000])
def test_an_event_always_fits_and_counts_what_it_leaves_out(tables):
    part = {"state": "committed", "instant": "20240501100001000"}
    parts = {f"database.table_{n:05d}": {**part, "counts": {"read": n, "written": n}} for n in range(tables)}
    detail = announcement(BATCH, parts, stack="s")
    assert len(json.dumps(detail).encode()) <= MAX_DETAIL_BYTES
    assert len(detail["tables"]) + detail["left_out"] == tables


SOURCES = TEMPLATE["Resources"]["AnnounceFunction"]
CRITERIA = SOURCES["Properties"]["Events"]["Ledger"]["Properties"]["FilterCriteria"]
FILTERS = [json.loads(one["Pattern"]) for one in CRITERIA["Filters"]]


@pytest.mark.parametrize(
    ("new", "old", "taken"),
    [
        ({"pk": "batch#b", "sk": "batch", "state": "committed"}, {"state": "claimed"}, True),
        ({"pk": "batch#b", "sk": "batch", "state": "committed", "announced_at": 1}, {"state": "committed"}, False),
        ({"pk": "batch#b", "sk": "table#a.x", "state": "quarantined"}, {"state": "claimed"}, False),
        ({"pk": "table#a.x", "sk": "table", "failures": 1}, {"failures": 0}, True),
        ({"pk": "table#a.x", "sk": "table", "failures": 0}, {"failures": 1}, False),
        ({"pk": "table#a.x", "sk": "table"}, None, False),
        ({"pk": "lane#m", "sk": "lane", "state": "halted"}, {"state": "running"}, True),
        ({"pk": "lane#m", "sk": "lane", "state": "halted", "arrivals": 2}, {"state": "halted"}, False),
        ({"pk": "lane#m", "sk": "lane", "state": "running"}, {"state": "starting"}, False),
        ({"pk": "object#b/k", "sk": "v", "state": "quarantined"}, None, True),
        ({"pk": "object#b/k", "sk": "v", "state": "quarantined"}, {"state": "pending"}, True),
        ({"pk": "object#b/k", "sk": "v", "state": "quarantined"}, {"state": "claimed"}, False),
        ({"pk": "object#b/k", "sk": "v", "state": "pending"}, None, False),
        ({"pk": "event#1", "sk": "event"}, None, False),
    ],
)
def test_the_filters_let_pass_what_is_announced(new, old, taken):
    images = {"NewImage": codec.item(new), **({"OldImage": codec.item(old)} if old else {})}
    record = {"eventName": "MODIFY" if old else "INSERT", "dynamodb": images}
    assert any(_match_esm_filter(record, pattern) for pattern in FILTERS) is taken
