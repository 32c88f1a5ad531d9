"""What `ignore` names is counted and never parked, and comes back once nothing names it."""

import pytest
from support.builders import avro_object, flattened

from sluice.ledger.records import AdmittedObject

TABLES = "tables:\n  - {topic: crm.*, table: 'crm.{1}', record_key: id}\n"
IGNORING = "ignore: {topics: crm.heartbeat, keys: ['*.RESOLVED']}\n" + TABLES
BODY = avro_object(flattened({"id": "long"}), [{"id": 1, "__lsn": 1}])


@pytest.fixture
def push(stack, tmp_path, sluice, invoked):
    def pushed(text):
        (tmp_path / "tables.yaml").write_text(text)
        return sluice.json("config push tables.yaml --yes")

    return pushed


@pytest.fixture
def objects(stack):
    keys = ("topics/crm.user/crm.user+0+1.avro", "topics/crm.heartbeat/crm.heartbeat+0+1.avro", "feed/1.RESOLVED")
    return [stack.write(key, BODY) for key in keys]


def state_and_rule(stack, identity):
    record = stack.ledger.objects.get([identity])[identity]
    return record.state, record.rule


def test_ignored_objects_are_counted_and_backfill_brings_them_in_later(stack, objects, push, sluice):
    user, heartbeat, resolved = objects
    push(IGNORING)
    assert sluice.json("backfill --yes")["admitted"] == {"ignored": 2, "pending": 1}
    assert state_and_rule(stack, resolved) == ("ignored", "ignore: *.RESOLVED")
    aside = sluice.json("status")["set_aside"]["ignored"]["reasons"]
    expected = {"ignore: *.RESOLVED": 1, "ignore: crm.heartbeat": 1}
    assert {reason["reason"]: reason["objects"] for reason in aside} == expected
    assert "The ledger knows every object" in sluice("backfill --yes").out

    push(TABLES)
    assert sluice.json("backfill --dry-run")["objects"] == 1 and state_and_rule(stack, heartbeat)[0] == "ignored"
    assert sluice.json("backfill --yes")["admitted"] == {"parked": 1, "pending": 1}
    assert [state_and_rule(stack, one)[0] for one in objects] == ["pending", "pending", "parked"]


def test_a_push_ignores_what_is_parked_and_leaves_what_was_discarded(stack, push, sluice):
    push(TABLES)
    parked, discarded = stack.write("feed/1.RESOLVED"), stack.write("feed/2.RESOLVED")
    for identity in (parked, discarded):
        stack.ledger.objects.admit(AdmittedObject(identity, "parked", 1, reason="no topic"))
    sluice("quarantine discard --yes --parked", discarded.key, "--note", "x")
    assert push(IGNORING)["ignored"] == 1
    assert state_and_rule(stack, parked) == ("ignored", "ignore: *.RESOLVED")
    push(TABLES)
    sluice("backfill --yes --json")
    assert state_and_rule(stack, parked)[0] == "parked" and state_and_rule(stack, discarded)[1] == "discarded"


def test_a_rule_for_an_ignored_topic_is_a_mistake_and_show_writes_ignore_back(stack, push, tmp_path, sluice):
    (tmp_path / "wrong.yaml").write_text(
        "ignore: {topics: crm.heartbeat, keys: ['']}\n"
        "tables:\n  - {topic: crm.heartbeat, table: crm.heartbeat, record_key: id}\n"
    )
    said = sluice("config check wrong.yaml", code=1).err
    assert "ignore leaves crm.heartbeat out" in said and "ignore.keys" in said
    push(IGNORING)
    shown = sluice("config show").out
    (tmp_path / "tables.yaml").write_text(shown)
    assert "crm.heartbeat" in shown
    sluice("config plan tables.yaml")
