"""`sluice table drop`: what goes and what stays, what it waits for, and the way back from bronze."""

from pathlib import Path
from unittest.mock import Mock

import pytest
from driving.lane import LANE
from emulation.stack import SHARED
from emulation.topic_world import BODY, BOTH, RAW, TopicWorld

from sluice.ledger.keys import PENDING
from sluice.schema.history import stored_key
from sluice_aws.ledger.rebuilds import DropLedger
from sluice_aws.s3.move_prefix import Mover

KEPT = "tables:\n  - {topic: other, table: crm.other, record_key: id}\n"


@pytest.fixture
def world(stack, tmp_path, sluice, invoked):
    return TopicWorld(stack, tmp_path, sluice)


@pytest.fixture
def dropping(world):
    """Two committed objects of crm.user, one of them in quarantine, one pending, and files; no rule makes it."""
    world.push(RAW)
    world.objects = world.write(3)
    world.lane.merger.quarantined = frozenset(world.objects[:1])
    world.command("backfill", "--yes")
    world.merge()
    world.objects.append(world.stack.write("topics/crm.user/crm.user+0+9.avro", BODY))
    world.command("backfill", "--yes")
    world.stack.ledger.tables.pin("crm.user", {"topic": "crm.user", "record_key": ["id"]})
    names = ("crm/user/.hoodie/hoodie.properties", "crm/user/a.parquet", "crm/user_2/b.parquet", stored_key("crm.user"))
    for name in names:
        world.stack.s3.put_object(Bucket="s-silver", Key=name, Body=b"data")
    world.push(KEPT)
    return world


def silver(world):
    keys = [entry["Key"] for entry in world.stack.s3.list_objects_v2(Bucket="s-silver").get("Contents", [])]
    return {key for key in keys if not key.startswith(("_sluice/manifests/", "_sluice/outcomes/"))}


def test_without_yes_it_shows_what_would_go_and_changes_nothing(dropping, sluice):
    before = silver(dropping), dropping.states(*dropping.objects)
    plan = dropping.command("table", "drop", "crm.user")
    assert (plan["dropped"], plan["objects"], plan["files"], plan["kept_in"]) == (False, 4, 2, None)
    assert (silver(dropping), dropping.states(*dropping.objects)) == before
    assert "Nothing has changed: --yes does it" in sluice("table drop crm.user").err


def test_data_and_states_go_and_backfill_makes_the_table_again(dropping, sluice):
    world = dropping
    assert world.command("table", "drop", "crm.user", "--yes")["objects"] == 4
    left = silver(world)
    assert {name for name in left if not name.endswith((".json", ".avsc"))} == {"crm/user_2/b.parquet"}
    expected = {"rebuild.json", "finished.json"}
    assert {name.rpartition("/")[2] for name in left if name.startswith("_sluice/replaced/")} == expected
    status = world.command("status")
    assert "crm.user" not in {table["table"] for table in status["tables"]}
    assert [reason["reason"] for reason in status["set_aside"]["ignored"]["reasons"]] == ["dropped: crm.user"]
    assert not status["set_aside"]["quarantined"]["objects"] and not status["set_aside"]["parked"]["objects"]
    assert world.command("audit")["objects"] == {"ignored": 4}
    assert not world.stack.ledger.pending.oldest(LANE, 10)
    sluice("table drop crm.user --yes", code=2)  # it is unknown now

    assert world.command("backfill", "--yes")["objects"] == 0  # without a rule they stay ignored
    world.push(RAW)
    assert world.command("backfill", "--yes")["admitted"] == {"pending": 4}
    world.lane.merger.quarantined = frozenset()
    world.merge()
    assert world.states(*world.objects) == [{"crm.user": "committed"}] * 4
    batches = [batch for batch, table, _ in world.lane.tables.commits if table == "crm.user"]
    assert len(batches) == len(set(batches)) == 2
    assert world.stack.ledger.tables.get("crm.user").totals["objects"] == 4


def test_the_last_table_goes_with_an_empty_list_of_rules(world, sluice):
    world.push(BOTH)
    Path("tables.yaml").write_text("tables: []\n")
    for verb in ("push --yes", "plan"):
        refused = sluice(f"config {verb} tables.yaml", code=1).err
        assert "`tables` is empty, and 2 rules are in force" in refused
    world.push(RAW)
    objects = world.merged()
    world.stack.ledger.tables.pin("crm.user", {"topic": "crm.user", "record_key": ["id"]})
    for text, code in (("", 1), ("tables:\n", 1), ("tables: []\n", 2)):  # the last asks, and nobody answers
        Path("tables.yaml").write_text(text)
        sluice("config push tables.yaml", code=code)
    world.push("tables: []\n")
    assert world.command("config", "show")["rules"] == []
    assert world.command("table", "drop", "crm.user", "--yes")["objects"] == 2
    assert not world.stack.ledger.pending.oldest(LANE, 10) and world.merge()
    assert world.command("config", "push", "tables.yaml", "--yes")["changed"] is False
    world.push(RAW)
    assert world.command("backfill", "--yes")["admitted"] == {PENDING: 2}
    world.merge()
    assert [states["crm.user"] for states in world.states(*objects)] == ["committed"] * 2


def test_kept_data_is_moved_aside(dropping):
    dropping.command("table", "drop", "crm.user", "--yes", "--keep-data")
    expected = {".hoodie/hoodie.properties", "a.parquet", ""}
    assert {name.partition("/crm/user/")[2] for name in silver(dropping) if "/replaced/" in name} == expected


def test_a_table_that_a_rule_makes_or_a_run_works_on_stays(dropping, sluice):
    world = dropping
    world.push(RAW)
    assert "a rule in force makes crm.user" in sluice("table drop crm.user --yes", code=1).err
    assert len(world.command("table", "drop", "crm.user")["obstacles"]) == 1  # what would go is shown all the same
    world.push(KEPT)
    world.lane.start()
    assert "a run could write the table" in sluice("table drop crm.user --yes", code=1).err
    assert world.stack.ledger.tables.get("crm.user").pinned


@pytest.mark.parametrize("broken", [(Mover, "remove"), (DropLedger, "objects"), (DropLedger, "table")])
def test_an_interrupted_drop_ends_when_it_is_repeated(dropping, monkeypatch, broken, sluice):
    with monkeypatch.context() as cut:
        cut.setattr(*broken, Mock(side_effect=ConnectionError("on purpose")))
        with pytest.raises(ConnectionError):
            sluice("table drop crm.user --yes", code=None)
    dropping.command("table", "drop", "crm.user", "--yes")
    assert {state for one in dropping.states(*dropping.objects) for state in one.values()} == {"ignored"}
    assert dropping.stack.ledger.tables.get("crm.user").pinned is None
    assert dropping.command("audit")["objects"] == {"ignored": 4}


def test_a_table_of_a_rule_with_also_goes_alone(world):
    world.push(BOTH)
    objects = world.merged()
    world.stack.ledger.tables.pin("masked.user", {"topic": "crm.user", "record_key": ["id"]})
    world.push(RAW)
    assert world.command("table", "drop", "masked.user", "--yes")["objects"] == 2
    assert world.states(*objects) == [{"crm.user": "committed", "masked.user": "ignored"}] * 2
    world.push(BOTH)
    assert world.command("backfill", "--yes")["admitted"] == {PENDING: 2}
    world.merge()
    assert world.states(*objects) == [{"crm.user": "committed", "masked.user": "committed"}] * 2


def test_entries_of_the_catalog_go_where_they_are_the_tables_own(dropping):
    glue = SHARED.client("glue")
    glue.create_database(DatabaseInput={"Name": "crm"})
    for name, owner in (("user", "crm.user"), ("user_all", "crm.user"), ("other", "crm.other")):
        glue.create_table(DatabaseName="crm", TableInput={"Name": name, "Parameters": {"sluice.table": owner}})
    assert dropping.command("table", "drop", "crm.user", "--keep-catalog")["catalog"] == []
    assert dropping.command("table", "drop", "crm.user", "--yes")["catalog"] == ["crm.user", "crm.user_all"]
    assert [table["Name"] for table in glue.get_tables(DatabaseName="crm")["TableList"]] == ["other"]
