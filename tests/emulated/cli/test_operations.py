"""Headings of docs/operations.md as an operator meets them: the symptom, the page's steps, the system well again."""

import json
from pathlib import Path
from unittest.mock import Mock

import pytest
from admit.handler import handler as admit
from announce.handler import handler as announce
from emulation.deployment import SCHEMA, context, failed_items, forget_processes, s3_body, sqs_event, use_bus
from emulation.operated_stack import merge, operated
from emulation.stack import SHARED, cloudformation
from reconcile.handler import handler as reconcile
from support.builders import avro_object, halt

from sluice.ledger import keys as items
from sluice_aws.ledger import expressions as codec
from sluice_aws.stack import Target

TABLES = "tables: [{topic: shop.public.orders, table: public.orders, record_key: id}]\n"
KEY = "topics/shop.public.orders/partition=0/shop.public.orders+0+{:010d}.avro"


@pytest.fixture
def system(stack, monkeypatch, tables, sluice):
    """The stack with its functions, configured."""
    with operated(stack, monkeypatch) as working:
        sluice("config push", tables(TABLES))
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


def admitted(system, number=1):
    """An object that admit has taken."""
    identity = put(system, number)
    assert failed_items(admit(sqs_event(s3_body(identity)), context())) == []
    return identity


def state_of(system, identity):
    record = system.ledger.objects.get([identity]).get(identity)
    return record.state if record else None


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
    admitted(system)
    started = system.ledger.lanes.get("main")
    system.ledger.lanes.lapse("main", started.run_id, 1, job_run_id=started.job_run_id)
    system.ledger.lanes.resume("main")
    halt(system.ledger, "main")
    (lane,) = sluice.json("status")["lanes"]
    assert (lane["state"], lane["failures"]) == ("halted", 5)
    assert sluice.json("ops runs")["runs"][0]["lane"] == "main"
    sluice("resume main")
    assert system.ledger.lanes.get("main").state == "starting", "a run starts at once"


def test_commits_are_not_announced(system, monkeypatch, sluice):
    batch = merge(system, "public.orders", admitted(system))
    bus = use_bus(monkeypatch, refuse=[batch])
    stored = codec.item({**items.batch_key(batch), **system.ledger.batches.get(batch)})
    change = {"NewImage": stored, "OldImage": {**stored, "state": {"S": "claimed"}}, "SequenceNumber": "1"}
    assert failed_items(announce({"Records": [{"eventID": "1", "dynamodb": change}]}, context())) == ["1"]
    given_up = {"DDBStreamBatchInfo": {"approximateArrivalOfLastRecord": "2026-05-01T10:00:00Z"}}
    send("UnannouncedQueueUrl", json.dumps(given_up))
    use_bus(monkeypatch, bus)
    forget_processes()
    sluice("ops dlq list events", code=1)
    sluice("ops dlq redrive events --json")
    assert [detail["id"] for _, detail in bus] == [batch], "reconcile announced it"
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
    codes = [line["code"] for line in logged if line.get("message") == "invocation_failed"]
    assert codes == ["configuration_unreadable"]
    failure = {"requestContext": {"requestId": "42"}, "responsePayload": {"errorMessage": str(raised.value)}}
    send("UnreconciledQueueUrl", json.dumps(failure))  # as Lambda does after two retries
    assert "request 42: " in sluice("ops dlq list calls", code=1).out
    sluice("config push tables.yaml --yes")
    forget_processes()
    sluice("ops dlq redrive calls")
    sluice("ops dlq list")


def test_data_is_missing(system, sluice):
    identity = admitted(system)
    system.s3.delete_object(Bucket="s-bronze", Key=identity.key, VersionId=identity.version)
    assert reconcile({}, context(400_000))["lost"] == 1
    assert "lost_before_read" in sluice("quarantine list --json").out
    again = admitted(system)  # the source sends the changes again
    sluice("quarantine discard --yes", identity.hash)
    assert (state_of(system, identity), state_of(system, again)) == ("ignored", "pending")


def test_objects_wait_for_a_pause_to_end(system, tables, sluice):
    sluice("config push --yes", tables(TABLES.replace("record_key: id", "record_key: id, paused: true")))
    forget_processes()
    admitted(system)
    assert "public.orders is paused" in sluice("wait --timeout 0", code=1).err
    sluice("config push", tables(TABLES))
    assert system.ledger.lanes.get("main").state == "starting"


def test_a_redrive_that_is_cut_off_loses_no_message(system, monkeypatch, sluice):
    """It sends first: a message is at no moment in neither queue."""
    identity = put(system, 1)
    send("DeadLetterQueueUrl", s3_body(identity))
    client, sqs = Target.client, SHARED.client("sqs")
    cut_off = Mock(wraps=sqs, **{"delete_message.side_effect": ConnectionError("cut off")})
    with monkeypatch.context() as patched:
        patched.setattr(Target, "client", lambda self, name: cut_off if name == "sqs" else client(self, name))
        with pytest.raises(ConnectionError):
            sluice("ops dlq redrive notices", code=None)
    assert cut_off.send_message.call_count == 1
    assert deliver() == [] and state_of(system, identity) == "pending"
