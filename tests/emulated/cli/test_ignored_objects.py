"""What `ignore` names is counted and never parked, and comes back once nothing names it."""

import pytest
from emulation.stack import describe
from support.builders import avro_object, flattened

from sluice.ledger.records import AdmittedObject
from sluice_cli.main import run

TABLES = "tables:\n  - {topic: crm.*, table: 'crm.{1}', record_key: id}\n"
IGNORING = "ignore: {topics: crm.heartbeat, keys: ['*.RESOLVED']}\n" + TABLES
BODY = avro_object(flattened({"id": "long"}), [{"id": 1, "__lsn": 1}])


@pytest.fixture
def push(stack, tmp_path, capsys, invoked):
    def pushed(text):
        (tmp_path / "tables.yaml").write_text(text)
        assert run(["config", "push", "tables.yaml", "--json", "--yes"]) == 0
        return describe(capsys)

    return pushed


@pytest.fixture
def objects(stack):
    keys = ("topics/crm.user/crm.user+0+1.avro", "topics/crm.heartbeat/crm.heartbeat+0+1.avro", "feed/1.RESOLVED")
    return [stack.write(key, BODY) for key in keys]


def state_and_rule(stack, identity):
    record = stack.ledger.objects.get([identity])[identity]
    return record.state, record.rule


def test_ignored_objects_are_counted_and_backfill_brings_them_in_later(stack, objects, push, capsys):
    user, heartbeat, resolved = objects
    push(IGNORING)
    assert run(["backfill", "--yes", "--json"]) == 0
    assert describe(capsys)["admitted"] == {"ignored": 2, "pending": 1}
    assert state_and_rule(stack, resolved) == ("ignored", "ignore: *.RESOLVED")
    assert run(["status", "--json"]) == 0
    aside = describe(capsys)["set_aside"]["ignored"]["reasons"]
    expected = {"ignore: *.RESOLVED": 1, "ignore: crm.heartbeat": 1}
    assert {reason["reason"]: reason["objects"] for reason in aside} == expected
    assert run(["backfill", "--yes"]) == 0
    assert "The ledger knows every object" in capsys.readouterr().out

    push(TABLES)
    assert run(["backfill", "--dry-run", "--json"]) == 0
    assert describe(capsys)["objects"] == 1 and state_and_rule(stack, heartbeat)[0] == "ignored"
    assert run(["backfill", "--yes", "--json"]) == 0
    assert describe(capsys)["admitted"] == {"parked": 1, "pending": 1}
    assert [state_and_rule(stack, one)[0] for one in objects] == ["pending", "pending", "parked"]


def test_a_push_ignores_what_is_parked_and_leaves_what_was_discarded(stack, push, capsys):
    push(TABLES)
    parked, discarded = stack.write("feed/1.RESOLVED"), stack.write("feed/2.RESOLVED")
    for identity in (parked, discarded):
        stack.ledger.objects.admit(AdmittedObject(identity, "parked", 1, reason="no topic"))
    assert run(["quarantine", "discard", "--yes", "--parked", discarded.key, "--note", "x"]) == 0
    capsys.readouterr()
    assert push(IGNORING)["ignored"] == 1
    assert state_and_rule(stack, parked) == ("ignored", "ignore: *.RESOLVED")
    push(TABLES)
    assert run(["backfill", "--yes", "--json"]) == 0
    assert state_and_rule(stack, parked)[0] == "parked" and state_and_rule(stack, discarded)[1] == "discarded"


def test_a_rule_for_an_ignored_topic_is_a_mistake_and_show_writes_ignore_back(stack, push, tmp_path, capsys):
    (tmp_path / "wrong.yaml").write_text(
        "ignore: {topics: crm.heartbeat, keys: ['']}\n"
        "tables:\n  - {topic: crm.heartbeat, table: crm.heartbeat, record_key: id}\n"
    )
    assert run(["config", "check", "wrong.yaml"]) == 1
    said = capsys.readouterr().err
    assert "ignore leaves crm.heartbeat out" in said and "ignore.keys" in said
    push(IGNORING)
    assert run(["config", "show"]) == 0
    shown = capsys.readouterr().out
    (tmp_path / "tables.yaml").write_text(shown)
    assert run(["config", "plan", "tables.yaml"]) == 0 and "crm.heartbeat" in shown
