"""Headings of docs/operations.md as an operator meets them: the symptom, the page's steps, the system well again."""

import json
from pathlib import Path

import pytest
from admit.handler import handler as admit
from announce.handler import handler as announce
from emulation.deployment import SCHEMA, context, failed_items, forget_processes, s3_body, sqs_event
from emulation.operated_stack import merge, operated
from emulation.stack import SHARED, cloudformation
from reconcile.handler import handler as reconcile
from support.builders import avro_object, halt

from sluice.ledger import keys as items
from sluice.objects import ObjectId
from sluice_aws.ledger import expressions as codec
from sluice_aws.stack import Target

TABLES = "tables: [{topic: shop.public.orders, table: public.orders, record_key: id}]\n"
KEY = "topics/shop.public.orders/partition=0/shop.public.orders+0+{:010d}.avro"


@pytest.fixture
def system(stack, monkeypatch, tmp_path, sluice):
    """The stack with its functions, configured."""
    with operated(stack, monkeypatch) as working:
        (tmp_path / "tables.yaml").write_text(TABLES)
        sluice("config push tables.yaml")
        yield working


def put(system, number):
    return system.write(KEY.format(number), avro_object(SCHEMA, [{"id": number}]))


def send(output, body):
    SHARED.client("sqs").send_message(QueueUrl=cloudformation().outputs[output], MessageBody=body)


def deliver(output="QueueUrl"):
    """Hand a queue's messages to admit, as Lambda does; returns the messages that failed."""
    sqs, url = SHARED.client("sqs"), cloudformation().outputs[output]
    failed = []
    for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ()):
        failed += failed_items(admit(sqs_event(message["Body"]), context()))
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return failed


def state_of(system, identity):
    records = system.ledger.objects.get([identity]).get(identity)
    return records.state if records else None


def test_notifications_are_late(system, monkeypatch, sluice):
    identity = put(system, 1)
    with monkeypatch.context() as broken:
        broken.setenv("LEDGER_TABLE", "no-such-table")
        forget_processes()
        assert failed_items(admit(sqs_event(s3_body(identity)), context())) == ["m0"]
    forget_processes()
    send("DeadLetterQueueUrl", s3_body(identity))  # as SQS does after five receives
    assert f"unknown\t{identity.key}" in sluice("ops dlq list notices", code=1).out
    sluice("ops dlq redrive notices")
    assert deliver() == [] and state_of(system, identity) == "pending"
    sluice("ops dlq list")


def test_a_notification_that_never_came(system, capsys):
    identity = put(system, 1)
    assert reconcile({}, context(400_000))["missing"] == 1
    assert state_of(system, identity) == "pending"


@pytest.mark.parametrize("lost", [False, True], ids=["damaged", "gone"])
def test_the_configuration_is_broken(system, sluice, lost):
    identity = put(system, 1)
    if lost:
        system.s3.delete_object(Bucket="s-artifacts", Key="config/tables.json")
    else:
        system.s3.put_object(Bucket="s-artifacts", Key="config/tables.json", Body=b"{")
    forget_processes()
    with pytest.raises(Exception, match="configuration"):
        admit(sqs_event(s3_body(identity)), context())
    assert state_of(system, identity) is None, "nothing is parked meanwhile"
    send("DeadLetterQueueUrl", s3_body(identity))
    Path("tables.yaml").write_text(sluice("config show --earlier 1").out)
    sluice("config push tables.yaml --yes")
    forget_processes()
    sluice("ops dlq redrive notices")
    assert deliver() == [] and state_of(system, identity) == "pending"
    sluice("config show --earlier 1", code=2)  # there was none before


def test_a_lane_has_halted(system, sluice):
    assert failed_items(admit(sqs_event(s3_body(put(system, 1))), context())) == []
    system.ledger.lanes.lapse(
        "main", system.ledger.lanes.get("main").run_id, 1, job_run_id=system.ledger.lanes.get("main").job_run_id
    )
    system.ledger.lanes.resume("main")
    halt(system.ledger, "main")
    (lane,) = sluice.json("status")["lanes"]
    assert (lane["state"], lane["failures"]) == ("halted", 5)
    assert sluice.json("ops runs")["runs"][0]["lane"] == "main"
    sluice("resume main")
    assert system.ledger.lanes.get("main").state == "starting", "a run starts at once"


class Bus:
    """An event bus that is out of order until it is mended."""

    def __init__(self):
        self.taken, self.mended = [], False

    def put_events(self, Entries):
        if not self.mended:
            refused = [{"ErrorCode": "InternalFailure", "ErrorMessage": "x"} for _ in Entries]
            return {"FailedEntryCount": len(Entries), "Entries": refused}
        self.taken += [json.loads(entry["Detail"])["id"] for entry in Entries]
        return {"FailedEntryCount": 0, "Entries": [{"EventId": "1"} for _ in Entries]}


def test_commits_are_not_announced(system, monkeypatch, sluice):
    bus = Bus()
    monkeypatch.setattr("sluice_aws.clients.Clients.events", property(lambda self: bus))
    identity = put(system, 1)
    assert failed_items(admit(sqs_event(s3_body(identity)), context())) == []
    batch = merge(system, "public.orders", identity)
    stored = codec.item({**items.batch_key(batch), **system.ledger.batches.get(batch)})
    change = {"NewImage": stored, "OldImage": {**stored, "state": {"S": "claimed"}}, "SequenceNumber": "1"}
    assert failed_items(announce({"Records": [{"eventID": "1", "dynamodb": change}]}, context())) == ["1"]
    send(
        "UnannouncedQueueUrl",
        json.dumps({"DDBStreamBatchInfo": {"approximateArrivalOfLastRecord": "2026-05-01T10:00:00Z"}}),
    )
    bus.mended = True
    sluice("ops dlq list events", code=1)
    sluice("ops dlq redrive events --json")
    assert bus.taken == [batch], "reconcile announced it"
    assert sluice.json("ops dlq redrive events")["left"] == 0
    sluice("ops dlq list")


def test_a_rule_cannot_deliver(system, sluice):
    names = {"RULE_ARN": "arn:aws:events:eu-central-1:123456789012:rule/s-EventsRule-1", "ERROR_CODE": "NO_PERMISSIONS"}
    SHARED.client("sqs").send_message(
        QueueUrl=cloudformation().outputs["UndeliveredQueueUrl"],
        MessageBody=json.dumps({"detail-type": "Lane Halted"}),
        MessageAttributes={name: {"DataType": "String", "StringValue": value} for name, value in names.items()},
    )
    assert "s-EventsRule-1: NO_PERMISSIONS" in sluice("ops dlq list", code=1).out
    sluice("ops dlq redrive rules")
    sluice("ops dlq list")


def test_a_function_fails(system, capsys, sluice):
    system.s3.put_object(Bucket="s-artifacts", Key="config/tables.json", Body=b"{")
    forget_processes()
    with pytest.raises(Exception, match="configuration") as raised:
        reconcile({}, context(400_000))
    logged = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [line["code"] for line in logged if line.get("message") == "invocation_failed"] == [
        "configuration_unreadable"
    ]
    failure = {"requestContext": {"requestId": "42"}, "responsePayload": {"errorMessage": str(raised.value)}}
    send("UnreconciledQueueUrl", json.dumps(failure))  # as Lambda does after two retries
    assert "request 42: " in sluice("ops dlq list calls", code=1).out
    sluice("config push tables.yaml --yes")
    forget_processes()
    sluice("ops dlq redrive calls")
    sluice("ops dlq list")


def test_data_is_missing(system, sluice):
    identity = put(system, 1)
    assert failed_items(admit(sqs_event(s3_body(identity)), context())) == []
    system.s3.delete_object(Bucket="s-bronze", Key=identity.key, VersionId=identity.version)
    assert reconcile({}, context(400_000))["lost"] == 1
    assert "lost_before_read" in sluice("quarantine list --json").out
    again = put(system, 1)  # the source sends the changes again
    assert failed_items(admit(sqs_event(s3_body(again)), context())) == []
    sluice("quarantine discard --yes", ObjectId("s-bronze", identity.key, identity.version).hash)
    assert (state_of(system, identity), state_of(system, again)) == ("ignored", "pending")


def test_objects_wait_for_a_pause_to_end(system, tmp_path, sluice):
    (tmp_path / "tables.yaml").write_text(TABLES.replace("record_key: id", "record_key: id, paused: true"))
    sluice("config push tables.yaml --yes")
    forget_processes()
    identity = put(system, 1)
    assert failed_items(admit(sqs_event(s3_body(identity)), context())) == []
    assert "public.orders is paused" in sluice("wait --timeout 0", code=1).err
    (tmp_path / "tables.yaml").write_text(TABLES)
    sluice("config push tables.yaml")
    assert system.ledger.lanes.get("main").state == "starting"


def test_a_redrive_that_is_cut_off_loses_no_message(system, monkeypatch, sluice):
    """It sends first: a message is at no moment in neither queue."""
    identity = put(system, 1)
    send("DeadLetterQueueUrl", s3_body(identity))
    client = Target.client
    calls = []

    class CutOff:
        def __init__(self, sqs):
            self.sqs = sqs

        def __getattr__(self, name):
            if name in ("send_message", "delete_message"):
                if calls:
                    raise ConnectionError("cut off")
                calls.append(name)
            return getattr(self.sqs, name)

    with monkeypatch.context() as patched:
        patched.setattr(
            Target, "client", lambda self, name: CutOff(client(self, name)) if name == "sqs" else client(self, name)
        )
        with pytest.raises(ConnectionError):
            sluice("ops dlq redrive notices", code=None)
    assert calls == ["send_message"]
    assert deliver() == [] and state_of(system, identity) == "pending"
