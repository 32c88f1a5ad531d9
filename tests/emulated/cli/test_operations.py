"""Headings of docs/operations.md as an operator meets them: the symptom, the page's steps, the system well again."""

import json
from pathlib import Path

import pytest
from admit.handler import handler as admit
from announce.handler import handler as announce
from emulation.deployment import SCHEMA, context, failed_items, forget_processes, s3_body, sqs_event
from emulation.operated_stack import merge, operated
from emulation.stack import SHARED, cloudformation, describe
from reconcile.handler import handler as reconcile
from support.builders import avro_object, halt

from sluice.ledger import keys as items
from sluice.objects import ObjectId
from sluice_aws.ledger import expressions as codec
from sluice_aws.stack import Target
from sluice_cli.main import run

TABLES = "tables: [{topic: shop.public.orders, table: public.orders, record_key: id}]\n"
KEY = "topics/shop.public.orders/partition=0/shop.public.orders+0+{:010d}.avro"


@pytest.fixture
def system(stack, monkeypatch, tmp_path):
    """The stack with its functions, configured."""
    with operated(stack, monkeypatch) as working:
        (tmp_path / "tables.yaml").write_text(TABLES)
        assert run(["config", "push", "tables.yaml"]) == 0
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


def test_notifications_are_late(system, monkeypatch, capsys):
    identity = put(system, 1)
    with monkeypatch.context() as broken:
        broken.setenv("LEDGER_TABLE", "no-such-table")
        forget_processes()
        assert failed_items(admit(sqs_event(s3_body(identity)), context())) == ["m0"]
    forget_processes()
    send("DeadLetterQueueUrl", s3_body(identity))  # as SQS does after five receives
    capsys.readouterr()
    assert run(["ops", "dlq", "list", "notices"]) == 1
    assert f"unknown\t{identity.key}" in capsys.readouterr().out
    assert run(["ops", "dlq", "redrive", "notices"]) == 0
    assert deliver() == [] and state_of(system, identity) == "pending"
    assert run(["ops", "dlq", "list"]) == 0


def test_a_notification_that_never_came(system, capsys):
    identity = put(system, 1)
    assert reconcile({}, context(400_000))["missing"] == 1
    assert state_of(system, identity) == "pending"


@pytest.mark.parametrize("lost", [False, True], ids=["damaged", "gone"])
def test_the_configuration_is_broken(system, capsys, lost):
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
    capsys.readouterr()
    assert run(["config", "show", "--earlier", "1"]) == 0
    Path("tables.yaml").write_text(capsys.readouterr().out)
    assert run(["config", "push", "tables.yaml", "--yes"]) == 0
    forget_processes()
    assert run(["ops", "dlq", "redrive", "notices"]) == 0
    assert deliver() == [] and state_of(system, identity) == "pending"
    assert run(["config", "show", "--earlier", "1"]) == 2, "there was none before"


def test_a_lane_has_halted(system, capsys):
    assert failed_items(admit(sqs_event(s3_body(put(system, 1))), context())) == []
    system.ledger.lanes.lapse(
        "main", system.ledger.lanes.get("main").run_id, 1, job_run_id=system.ledger.lanes.get("main").job_run_id
    )
    system.ledger.lanes.resume("main")
    halt(system.ledger, "main")
    capsys.readouterr()
    assert run(["status", "--json"]) == 0
    (lane,) = describe(capsys)["lanes"]
    assert (lane["state"], lane["failures"]) == ("halted", 5)
    assert run(["ops", "runs", "--json"]) == 0
    assert describe(capsys)["runs"][0]["lane"] == "main"
    assert run(["resume", "main"]) == 0
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


def test_commits_are_not_announced(system, monkeypatch, capsys):
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
    assert run(["ops", "dlq", "list", "events"]) == 1
    assert run(["ops", "dlq", "redrive", "events", "--json"]) == 0
    assert bus.taken == [batch], "reconcile announced it"
    capsys.readouterr()
    assert run(["ops", "dlq", "redrive", "events", "--json"]) == 0
    assert describe(capsys)["left"] == 0
    assert run(["ops", "dlq", "list"]) == 0


def test_a_rule_cannot_deliver(system, capsys):
    names = {"RULE_ARN": "arn:aws:events:eu-central-1:123456789012:rule/s-EventsRule-1", "ERROR_CODE": "NO_PERMISSIONS"}
    SHARED.client("sqs").send_message(
        QueueUrl=cloudformation().outputs["UndeliveredQueueUrl"],
        MessageBody=json.dumps({"detail-type": "Lane Halted"}),
        MessageAttributes={name: {"DataType": "String", "StringValue": value} for name, value in names.items()},
    )
    assert run(["ops", "dlq", "list"]) == 1
    assert "s-EventsRule-1: NO_PERMISSIONS" in capsys.readouterr().out
    assert run(["ops", "dlq", "redrive", "rules"]) == 0
    assert run(["ops", "dlq", "list"]) == 0


def test_a_function_fails(system, capsys):
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
    assert run(["ops", "dlq", "list", "calls"]) == 1
    assert "request 42: " in capsys.readouterr().out
    assert run(["config", "push", "tables.yaml", "--yes"]) == 0
    forget_processes()
    assert run(["ops", "dlq", "redrive", "calls"]) == 0
    assert run(["ops", "dlq", "list"]) == 0


def test_data_is_missing(system, capsys):
    identity = put(system, 1)
    assert failed_items(admit(sqs_event(s3_body(identity)), context())) == []
    system.s3.delete_object(Bucket="s-bronze", Key=identity.key, VersionId=identity.version)
    assert reconcile({}, context(400_000))["lost"] == 1
    capsys.readouterr()
    assert run(["quarantine", "list", "--json"]) == 0
    assert "lost_before_read" in capsys.readouterr().out
    again = put(system, 1)  # the source sends the changes again
    assert failed_items(admit(sqs_event(s3_body(again)), context())) == []
    assert run(["quarantine", "discard", "--yes", ObjectId("s-bronze", identity.key, identity.version).hash]) == 0
    assert (state_of(system, identity), state_of(system, again)) == ("ignored", "pending")


def test_objects_wait_for_a_pause_to_end(system, tmp_path, capsys):
    (tmp_path / "tables.yaml").write_text(TABLES.replace("record_key: id", "record_key: id, paused: true"))
    assert run(["config", "push", "tables.yaml", "--yes"]) == 0
    forget_processes()
    identity = put(system, 1)
    assert failed_items(admit(sqs_event(s3_body(identity)), context())) == []
    capsys.readouterr()
    assert run(["wait", "--timeout", "0"]) == 1
    assert "public.orders is paused" in capsys.readouterr().err
    (tmp_path / "tables.yaml").write_text(TABLES)
    assert run(["config", "push", "tables.yaml"]) == 0
    assert system.ledger.lanes.get("main").state == "starting"


def test_a_redrive_that_is_cut_off_loses_no_message(system, monkeypatch):
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
            run(["ops", "dlq", "redrive", "notices"])
    assert calls == ["send_message"]
    assert deliver() == [] and state_of(system, identity) == "pending"
