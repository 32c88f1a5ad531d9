"""A topic that feeds two tables: each object is merged once into each, and may end differently in each."""

from dataclasses import replace

import pytest
from driving.lane import LANE
from emulation.topic_world import BODY, BOTH, RAW, TopicWorld


@pytest.fixture
def world(stack, tmp_path, sluice, invoked):
    return TopicWorld(stack, tmp_path, sluice)


def merged(world):
    world.push(BOTH)
    return world.merged()


def test_each_object_is_merged_once_into_each_table(world):
    objects = merged(world)
    assert world.states(*objects) == [{"crm.user": "committed", "masked.user": "committed"}] * 2
    assert set(world.lane.tables.times_committed().values()) == {1} and len(world.lane.tables.times_committed()) == 4
    assert world.command("backfill", "--yes")["objects"] == 0
    audit = world.command("audit", "--objects", code=1)  # no table of Hudi is there
    assert audit["objects"] == {"committed": 4}
    assert {one["code"] for one in audit["contradictions"]} == {"commit_missing"}
    assert {one["table"] for one in audit["object_versions"]} == {"crm.user", "masked.user"}
    assert {one["version"] for one in audit["object_versions"]} == {one.version for one in objects}


def test_a_further_table_of_objects_that_were_merged_gets_them_by_backfill(world):
    world.push(RAW)
    objects = world.merged()
    plan = world.push(BOTH)["plan"]
    assert [(one["table"], one["kind"]) for one in plan["tables"]] == [("masked.user", "new")]
    assert world.command("wait")["settled"]  # these objects are nothing that a run could merge
    world.command("backfill", "--yes")
    world.merge()
    assert world.states(*objects) == [{"crm.user": "committed", "masked.user": "committed"}] * 2
    assert set(world.lane.tables.times_committed().values()) == {1}


def test_quarantine_in_one_table_is_none_in_the_other_and_is_retried_alone(world):
    world.push(BOTH)
    (one,) = world.write(1)
    world.command("backfill", "--yes")
    world.lane.merger.quarantined = frozenset({replace(one, also_for="masked.user")})
    world.merge()
    assert world.states(one) == [{"crm.user": "committed", "masked.user": "quarantined"}]
    (entry,) = world.command("quarantine", "list")["entries"]
    assert (entry["table"], entry["version"]) == ("masked.user", one.version)
    world.lane.merger.quarantined = frozenset()
    world.command("quarantine", "retry", "--all", "--yes")
    world.merge()
    assert world.states(one) == [{"crm.user": "committed", "masked.user": "committed"}]
    assert [table for _, table, _ in world.lane.tables.commits].count("crm.user") == 1
    history = world.command("history", "--key", one.key)
    assert {entry["table"] for entry in history["objects"]} == {"crm.user", "masked.user"}


def test_a_trace_is_of_the_table_that_is_named(world, sluice):
    one, _ = merged(world)
    assert world.command("trace", one.key)["table"] == "crm.user"
    assert world.command("trace", one.key, "--table", "masked.user")["table"] == "masked.user"
    assert f"--version {one.version} --table masked.user" in sluice("trace", one.key).err
    assert "crm.user, masked.user" in sluice("trace", one.key, "--table", "crm.other", code=2).err


def test_a_rebuild_replays_the_objects_of_its_table_alone(world):
    objects = merged(world)
    world.command("pause", LANE)
    assert world.command("rebuild", "table", "masked.user", "--yes")["objects"]["replayed"] == 2
    assert world.states(*objects) == [{"crm.user": "committed", "masked.user": "pending"}] * 2
    world.command("resume", LANE)
    world.merge()
    assert world.states(*objects) == [{"crm.user": "committed", "masked.user": "committed"}] * 2
    by_table = [table for _, table, _ in world.lane.tables.commits]
    assert (by_table.count("crm.user"), by_table.count("masked.user")) == (1, 2)


def test_a_lost_ledger_comes_back_for_both_tables(world):
    objects = merged(world)
    world.command("pause", LANE)
    for identity in objects:
        for record in world.records(identity).values():
            assert world.stack.ledger.objects.forget(record)
    world.command("rebuild", "ledger", "--yes")
    assert world.states(*objects) == [{"crm.user": "committed", "masked.user": "committed"}] * 2


def test_replay_and_the_same_bytes_again_are_judged_for_each_table(world):
    (one, _) = merged(world)
    again = world.stack.write(one.key, BODY)
    world.command("backfill", "--yes")
    versions = world.stack.ledger.objects.versions(one.bucket, one.key)
    states = [(record.table, record.state) for record in versions if record.id.version == again.version]
    assert sorted(states) == [("crm.user", "superseded"), ("masked.user", "superseded")]
    world.command("ops", "replay", "--table", "masked.user", "--yes")
    states = [(record.table, record.state) for record in world.stack.ledger.objects.versions(one.bucket, one.key)]
    assert ("masked.user", "pending") in states and ("crm.user", "pending") not in states


def test_a_rule_that_goes_leaves_its_table_and_the_other_as_they_are(world):
    merged(world)
    pushed = world.push(RAW)
    (table,) = pushed["plan"]["tables"]
    assert (table["table"], table["kind"]) == ("masked.user", "removed")
    assert table["risk"] == "objects of topic crm.user go only to crm.user from now on"
    objects = world.merged(3)
    assert world.states(objects[2]) == [{"crm.user": "committed"}]


def test_a_rule_with_also_needs_a_rule_beside_it(world, sluice):
    (world.tmp_path / "alone.yaml").write_text("tables:\n  - {topic: a.b, table: a.b, record_key: id, also: true}\n")
    assert "has no effect: no other rule takes a.b" in sluice("config check alone.yaml", code=1).err
