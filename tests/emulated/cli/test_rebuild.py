"""`sluice rebuild table`: what it moves aside, merges again and refuses, and how it resumes after an interruption."""

import json
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from driving.lane import LANE, SimulatedLane, configuration, emulated_dynamodb
from emulation.aws import set_fields
from emulation.stack import NOW

from sluice.batch.manifest import Manifest, TablePart
from sluice.batch.outcome import COMMITTED, Outcome
from sluice.config.rules.table_rule import TableRule
from sluice.ledger import keys as items
from sluice.objects import ObjectId
from sluice.schema.history import stored_key
from sluice.silver_keys import BEGUN, FINISHED, manifest_key
from sluice_aws.errors import LaneNotPaused
from sluice_aws.ledger.rebuilds import RebuildLedger
from sluice_aws.s3.move_prefix import Mover
from sluice_aws.s3.objects import Objects
from sluice_cli.main import run
from sluice_cli.tables.rebuild_plan import obstacles_of_lanes

TABLE, TOPIC = "crm.user", "crm.public.user"
TABLES = f"tables: [{{topic: {TOPIC}, table: {TABLE}, record_key: KEY, generation: 1}}]"


@pytest.fixture
def push(tables, sluice):
    """Push the rule with this key."""
    return lambda key="id", code=0: sluice("config push --yes", tables(TABLES.replace("KEY", key)), code=code)


class Merged:
    """A table that two batches made, the first under generation 0, and what else there is of its topic."""

    def __init__(self, stack):
        self.stack, self.record = stack, stack.record
        self.old, self.new = (stack.admit(stack.write(key), items.COMMITTED) for key in ("old", "new"))
        self.waits = stack.admit(stack.write("waits"))
        self.bad = stack.admit(stack.write("bad"), items.QUARANTINED, code="not_avro", reason="not Avro")
        self.other = stack.admit(stack.write("other"), items.COMMITTED, table="crm.other", topic="crm.public.other")
        self.batch("b-1", self.old, generation=0, at=NOW)
        self.batch("b-2", self.new, generation=1, at=NOW + 1)
        stack.ledger.tables.pin(TABLE, {"record_key": ["id"], "partition_by": [], "table_type": "cow", "topic": TOPIC})
        stack.ledger.tables.raise_purge_floor(TABLE, {0: "0000.9"})
        names = ("crm/user/.hoodie/hoodie.properties", "crm/user/a.parquet", "crm/user_2/b.parquet", stored_key(TABLE))
        for name in names:
            stack.s3.put_object(Bucket="s-silver", Key=name, Body=name.encode())

    def batch(self, batch, *objects, generation, at):
        part = TablePart({"generation": generation}, tuple(map(self.stack.listed, objects)))
        manifest = Manifest(batch, "main", "r", at, "v", {TABLE: part})
        self.stack.put_documents(manifest, Outcome(batch, TABLE, COMMITTED, at, instant=batch))

    def silver(self):
        keys = [entry["Key"] for entry in self.stack.s3.list_objects_v2(Bucket="s-silver")["Contents"]]
        return {key for key in keys if "/manifests/" not in key and "/outcomes/" not in key}


@pytest.fixture
def merged(stack, push):
    push()
    return Merged(stack)


@pytest.mark.parametrize("catalog", ["", ", catalog: off"])
def test_a_rebuild_names_what_other_partitions_must_drop_in_glue(merged, push, sluice, catalog):
    push(f"id{catalog}")
    merged.stack.ledger.lanes.pause("main", "test")
    drop = sluice.json("rebuild table", TABLE, "--dry-run")["drop_in_glue"]
    assert ("aws glue delete-table" in (drop or "")) is not bool(catalog)
    said = sluice("rebuild table", TABLE, "--yes").err.replace("\n", " ")
    drop = "before `sluice resume main`, drop the table in Glue (its data stays), or its sync fails: `aws glue "
    assert (drop in said and "--database-name crm --name user_all`" in said) is not bool(catalog)


def test_a_dry_run_shows_steps_and_obstacles_and_changes_nothing(merged, sluice):
    before = merged.silver()
    merged.stack.s3.delete_object(Bucket="s-bronze", Key="new", VersionId=merged.new.version)
    document = sluice.json("rebuild table", TABLE, "--dry-run")
    expected = {"replayed": 1, "pending_already": 1, "quarantined": 1, "parked": 0, "gone": 1, "archived": 0}
    assert document["objects"] == expected
    expected = (2, len("crm/user/.hoodie/hoodie.properties") + len("crm/user/a.parquet"), False, "main")
    assert (document["bytes"], document["silver_bytes"], document["changed"], document["lane"]) == expected
    assert document["gone"] == [{"key": "new", "version": merged.new.version}]
    idle, gone = document["obstacles"]
    assert "lane main is idle" in idle and "no longer in bronze" in gone
    out, err = sluice("rebuild table", TABLE, "--yes", code=1)
    assert "gone\tnew\t" in out and "Nothing was changed" in err
    assert out.count("obstacle: ") == 2 and "can't be rebuilt now: 2 obstacles" in err and "lane main" not in err
    assert merged.silver() == before and merged.record(merged.old).state == "committed"


STEPS = "`sluice wait`, `sluice pause main`"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("running", f"lane main is running, a batch of crm.user in it is unfinished, and|{STEPS}, until"),
        ("halted", f"lane main is halted, a batch|write the table: `sluice resume main`, {STEPS}, until"),
        ("paused", f"is unfinished: `sluice resume main`, {STEPS}"),
    ],
)
def test_an_unfinished_batch_and_its_lane_are_one_obstacle_with_its_steps(state, said):
    pointer = SimpleNamespace(tables=[TABLE], settled_tables=[])
    ledger = SimpleNamespace(
        lanes=SimpleNamespace(all=lambda: [SimpleNamespace(lane="main", state=state)]),
        batches=SimpleNamespace(unsettled=lambda lane: [pointer]),
    )
    (obstacle,) = obstacles_of_lanes(TABLE, "main", ledger=ledger, at_rest=state == "paused")
    assert all(part in obstacle for part in said.split("|"))


def test_a_rebuild_looks_for_archived_objects_before_it_moves_anything(merged, sluice):
    s3 = merged.stack.s3

    def stored(key, storage_class, state=items.COMMITTED):
        put = s3.put_object(Bucket="s-bronze", Key=key, Body=b"x", StorageClass=storage_class)
        return merged.stack.admit(ObjectId("s-bronze", key, put["VersionId"]), state)

    cold, warm = stored("cold", "GLACIER"), stored("warm", "GLACIER_IR")
    stored("aside", "DEEP_ARCHIVE", items.PARKED)
    before = merged.silver()
    merged.stack.ledger.lanes.pause("main")
    out, err = sluice("rebuild table", TABLE, "--yes", code=1)
    assert f"archived\tcold\t{cold.version}" in out and "1 object is part of crm.user and archived" in out
    assert merged.silver() == before and merged.record(warm).state == "committed"
    document = sluice.json("rebuild table", TABLE, "--dry-run", "--without-gone")
    assert (document["archived"], document["obstacles"]) == ([{"key": "cold", "version": cold.version}], [])


@pytest.mark.parametrize(
    ("answer", "archived"),
    [
        ({}, False),
        ({"StorageClass": "GLACIER"}, True),
        ({"StorageClass": "GLACIER", "Restore": 'ongoing-request="true"'}, True),
        ({"StorageClass": "DEEP_ARCHIVE", "Restore": 'ongoing-request="false", expiry-date="x"'}, False),
        ({"StorageClass": "INTELLIGENT_TIERING"}, False),
        ({"StorageClass": "INTELLIGENT_TIERING", "ArchiveStatus": "ARCHIVE_ACCESS"}, True),
    ],
    ids=["standard", "archived", "being_restored", "restored", "frequent", "archive_tier"],
)
def test_an_object_is_archived_until_it_is_restored(answer, archived):
    s3 = SimpleNamespace(head_object=lambda **_: answer)
    assert Objects(s3).is_archived(ObjectId("b", "k", "v")) is archived


def test_a_rebuild_moves_the_data_and_makes_every_object_pending_as_it_was_merged(merged, push, invoked, sluice):
    ledger = merged.stack.ledger
    assert "sluice rebuild table" in push("uid", code=1).err
    ledger.lanes.pause("main")
    sluice("rebuild table", TABLE, code=2)  # nobody to ask
    folder = sluice.json("rebuild table", TABLE, "--yes")["kept_in"].removeprefix("s3://s-silver/")
    moved = ("table/.hoodie/hoodie.properties", "table/a.parquet", "stored.json", "rebuild.json", "finished.json")
    assert merged.silver() == {"crm/user_2/b.parquet", *(folder + name for name in moved)}
    noted = merged.stack.s3.get_object(Bucket="s-silver", Key=f"{folder}rebuild.json")["Body"].read()
    assert json.loads(noted)["table"] == TABLE
    state = ledger.tables.get(TABLE)
    assert (state.pinned, state.purge_floors, state.rebuild) == (None, {}, None)
    waiting = {item.id: item for item in ledger.pending.oldest("main", 10)}
    assert {identity: (item.attempt, item.generation, item.admitted_at) for identity, item in waiting.items()} == {
        merged.old: (1, 0, NOW),
        merged.new: (1, 1, NOW),
        merged.waits: (0, None, NOW),
    }
    states = [merged.record(identity).state for identity in (merged.old, merged.new, merged.bad, merged.other)]
    assert states == ["pending", "pending", "quarantined", "committed"]
    push("uid")
    sluice("resume main")


def test_an_object_whose_manifest_is_gone_keeps_the_generation_of_the_ledger(merged, sluice):
    """Under the table's own, its old changes would win over all later ones."""
    for identity, merged_under in ((merged.old, 0), (merged.new, 1)):
        set_fields(merged.stack.ledger, items.object_key(identity), merged_generation=merged_under)
    merged.stack.s3.delete_object(Bucket="s-silver", Key=manifest_key("main", "b-1"))
    merged.stack.ledger.lanes.pause("main")
    sluice("rebuild table", TABLE, "--yes")
    waiting = {item.id: item.generation for item in merged.stack.ledger.pending.oldest("main", 10)}
    assert waiting == {merged.old: 0, merged.new: 1, merged.waits: None}


HISTORY = ("crm/user_history/.hoodie/hoodie.properties", "crm/user_history/a.parquet", stored_key(f"{TABLE}_history"))


def interrupted(monkeypatch, owner, method, *options):
    """A rebuild that is cut off where it calls this."""
    with monkeypatch.context() as patched:
        patched.setattr(owner, method, Mock(side_effect=KeyboardInterrupt))
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            raise SystemExit(run(["rebuild", "table", TABLE, *options, "--yes"]))


@pytest.fixture
def historied(merged):
    """The same with a history table, and its lane paused."""
    for name in HISTORY:
        merged.stack.s3.put_object(Bucket="s-silver", Key=name, Body=b"x")
    merged.stack.ledger.lanes.pause("main")
    return merged


def test_a_rebuild_leaves_the_history_table_which_may_hold_more_than_bronze(historied, sluice):
    sluice("rebuild table", TABLE, "--yes")
    assert set(HISTORY) <= historied.silver()


def test_a_rebuild_that_was_begun_with_its_history_table_moves_that_too(historied, monkeypatch, sluice):
    assert sluice.json("rebuild table", TABLE, "--history", "--dry-run")["history"] is True
    interrupted(monkeypatch, Mover, "_copy", "--history")
    moved = sluice.json("rebuild table", TABLE, "--yes")["kept_in"].removeprefix("s3://s-silver/")
    wanted = {"history/.hoodie/hoodie.properties", "history/a.parquet", "history_stored.json", "table/a.parquet"}
    assert {f"{moved}{name}" for name in wanted} <= historied.silver() and not set(HISTORY) & historied.silver()


def test_a_rebuild_allows_objects_of_another_table_and_refuses_lost_records(merged, sluice):
    merged.stack.ledger.lanes.pause("main")
    merged.batch("b-3", merged.other, generation=1, at=NOW + 2)  # it went to crm.other between plan and claim
    document = sluice.json("rebuild table", TABLE, "--dry-run")
    assert (document["gone"], document["obstacles"]) == ([], [])
    merged.batch("b-4", merged.stack.write("lost record"), generation=1, at=NOW + 3)
    (obstacle,) = sluice.json("rebuild table", TABLE, "--dry-run")["obstacles"]
    assert "1 object of crm.user in bronze is not in the ledger: `sluice rebuild ledger` first" in obstacle


def test_objects_that_only_a_dropped_table_of_the_name_had_are_not_missed(merged, sluice):
    merged.stack.ledger.lanes.pause("main")
    merged.batch("b-0", ObjectId("s-bronze", "gone", "v"), generation=0, at=NOW - 2)
    assert sluice.json("rebuild table", TABLE, "--dry-run")["objects"]["gone"] == 1
    mark = {"table": TABLE, "lane": "main", "to": "x", "at": NOW - 1, "dropped": True}
    place = f"_sluice/replaced/{TABLE}/{NOW - 1:013d}/"
    merged.stack.s3.put_object(Bucket="s-silver", Key=f"{place}{BEGUN}", Body=json.dumps(mark).encode())
    # A drop that was given up leaves the table as it was.
    assert sluice.json("rebuild table", TABLE, "--dry-run")["objects"]["gone"] == 1
    merged.stack.s3.put_object(Bucket="s-silver", Key=f"{place}{FINISHED}", Body=b"{}")
    assert sluice.json("rebuild table", TABLE, "--dry-run")["objects"]["gone"] == 0


@pytest.mark.parametrize("dies", ["while files are moved", "while objects become pending"])
def test_a_rebuild_that_was_cut_off_keeps_its_lane_from_being_resumed_and_goes_on(merged, monkeypatch, sluice, dies):
    ledger, was = merged.stack.ledger, merged.silver()
    ledger.lanes.pause("main")
    interrupted(monkeypatch, *((Mover, "_copy") if dies == "while files are moved" else (RebuildLedger, "replay")))
    assert "continues it, then `sluice resume main`" in sluice("resume main", code=1).err
    (notes,) = (table["notes"] for table in sluice.json("status")["tables"] if table["table"] == TABLE)
    assert notes[0].startswith("its data is being moved aside")
    assert not ledger.pending.oldest("main", 1) or ledger.tables.get(TABLE).rebuild
    sluice("rebuild table", TABLE, "--yes")
    assert "crm/user/a.parquet" in was and not any(key.startswith("crm/user/") for key in merged.silver())
    assert len({key.split("/")[3] for key in merged.silver() if "/replaced/" in key}) == 1  # in one place
    assert {item.id for item in ledger.pending.oldest("main", 10)} == {merged.old, merged.new, merged.waits}
    assert ledger.tables.get(TABLE).rebuild is None


def test_nothing_is_changed_where_the_lane_was_resumed_meanwhile(merged):
    ledger = merged.stack.ledger
    record = merged.record(merged.old)
    for call in (
        lambda: ledger.rebuilds.begin(TABLE, "main", {"to": "x"}),
        lambda: ledger.rebuilds.replay([record], "main", {}, NOW),
        lambda: ledger.rebuilds.end(TABLE, "main"),
    ):
        with pytest.raises(LaneNotPaused):
            call()
    assert merged.record(merged.old).state == "committed" and ledger.tables.get(TABLE).pinned


def test_a_rebuilt_table_merges_objects_by_generation_lowest_first():
    with emulated_dynamodb() as client:
        rule = TableRule(table="shop.{1}", record_key=("id",), topic="shop.*", freshness_s=0, generation=1)
        simulated = SimulatedLane(client, configuration(rules=[rule]))
        first, second = simulated.put(n=2), simulated.put(n=1)
        assert simulated.run().batches == 1
        simulated.ledger.lanes.pause(LANE)
        records = list(simulated.ledger.objects.get(first + second).values())
        rebuilds, now = simulated.ledger.rebuilds, simulated.clock.now_ms()
        rebuilds.begin("shop.orders", LANE, {"to": "x"})
        assert rebuilds.replay(records, LANE, dict.fromkeys(first, 0), now) == 3
        assert rebuilds.replay(records, LANE, {}, now) == 0, "again, it changes nothing"
        later = simulated.put()
        rebuilds.end("shop.orders", LANE)
        simulated.ledger.lanes.resume(LANE)
        assert simulated.run().batches == 2
        assert simulated.states(first + second + later) == {"committed": 4}
        stored = simulated.documents.stored
        manifests = [Manifest.from_json(text) for key, text in stored.items() if "/manifests/" in key]
        manifests.sort(key=lambda manifest: manifest.created_at)
        merged = [(batch.tables["shop.orders"].config["generation"], len(batch.objects)) for batch in manifests]
        assert merged == [(1, 3), (0, 2), (1, 2)]
        assert len({manifest.batch for manifest in manifests}) == 3
