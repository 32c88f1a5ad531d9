"""`sluice ops replay`: which committed objects become pending again, which are left and why, and what came of it."""

import pytest
from emulation.aws import set_fields
from emulation.stack import NOW

from sluice.batch.manifest import Manifest, TablePart
from sluice.batch.outcome import COMMITTED, Outcome
from sluice.ledger import keys as items
from sluice_aws.ledger.rebuilds import RebuildLedger

TABLE, TOPIC = "crm.user", "crm.public.user"
RULE = '{topic: crm.public.*, table: "crm.{1}", record_key: id, generation: %s}'


@pytest.fixture
def push(tables, sluice):
    """Push the rule of this generation."""
    return lambda generation: sluice("config push --yes --with-waiting", tables(f"tables: [{RULE % generation}]"))


class Committed:
    """Two tables with committed objects, and one object in every other state."""

    def __init__(self, stack):
        self.stack, self.record = stack, stack.record
        self.first, self.second = (self.committed(f"topics/{TOPIC}/{n}", "b-1") for n in (1, 2))
        self.other = self.committed("topics/crm.public.city/1", "b-2", table="crm.city", topic="crm.public.city")
        for state in (items.PENDING, items.QUARANTINED, items.PARKED, items.SUPERSEDED, items.IGNORED):
            stack.admit(stack.write(f"topics/{TOPIC}/{state}"), state, code="x", reason="x")
        stack.admit(stack.write(f"topics/{TOPIC}/discarded"), items.IGNORED, rule=items.DISCARDED)
        self.batch("b-1", self.first, self.second)
        self.moved = self.committed("topics/moved", "b-3", table="crm.gone")

    def committed(self, key, batch, table=TABLE, topic=TOPIC):
        id = self.stack.admit(self.stack.write(key), items.COMMITTED, table=table, topic=topic)
        self.set(id, batch=batch)
        return id

    def set(self, id, **fields):
        set_fields(self.stack.ledger, items.object_key(id), **fields)

    def batch(self, batch, *objects, generation=0, instant=None, table=TABLE, **counts):
        listed = tuple(map(self.stack.listed, objects))
        manifest = Manifest(batch, "main", "r", NOW, "v", {table: TablePart({"generation": generation}, listed)})
        outcome = Outcome(batch, table, COMMITTED, NOW, instant=instant, no_change=instant is None, counts=counts)
        self.stack.put_documents(manifest, outcome)
        set_fields(self.stack.ledger, items.batch_key(batch), batch=batch, lane="main")

    def states(self):
        return [self.record(id).state for id in (self.first, self.second, self.other)]


@pytest.fixture
def committed(stack, push, invoked):
    push(0)
    return Committed(stack)


def test_a_superseded_object_is_merged_where_its_whole_key_is_named(committed, sluice):
    key = f"topics/{TOPIC}/{items.SUPERSEDED}"
    (superseded,) = (record.id for record in committed.stack.ledger.objects.in_state(items.SUPERSEDED))
    sluice("ops replay --prefix", key[:-1], "--yes")
    assert committed.record(superseded).state == items.SUPERSEDED
    sluice("ops replay --prefix", key, "--yes")
    record = committed.record(superseded)
    assert (record.state, record.generation) == (items.PENDING, None)


def test_a_dry_run_says_what_would_be_merged_and_why_the_rest_is_left(committed, sluice):
    document = sluice.json("ops replay --all --dry-run")
    assert {table: counts["objects"] for table, counts in document["tables"].items()} == {TABLE: 2, "crm.city": 1}
    assert document["replayed"] == 0 and committed.states() == ["committed"] * 3
    assert sorted(document["left"]) == [
        "a committed version has the same bytes: `--prefix` with the whole key merges it all the same",
        "discarded",
        "ignored, as no file of changes",
        "in quarantine: `sluice quarantine list` says what to do",
        "parked: `sluice quarantine list --parked` says why",
        "pending already",
        "the topic feeds the table no more",
    ]


@pytest.mark.parametrize(
    "chosen, states",
    [
        (["--prefix", "topics/crm.public.city/"], ["committed", "committed", "pending"]),
        (["--table", TABLE], ["pending", "pending", "committed"]),
        (["--batch", "b-1"], ["pending", "pending", "committed"]),
        (["--table", TABLE, "--prefix", f"topics/{TOPIC}/1"], ["pending", "committed", "committed"]),
        (["--since", "1h"], ["pending"] * 3),
        (["--before", "1h"], ["committed"] * 3),
        (["--all"], ["pending"] * 3),
    ],
)
def test_objects_are_chosen_by_prefix_table_batch_and_time(committed, chosen, states, sluice):
    sluice("ops replay", *chosen, "--yes")
    assert committed.states() == states


def test_a_replayed_object_is_in_its_lane_again_with_another_attempt(committed, invoked, sluice):
    arrivals = committed.stack.ledger.lanes.get("main").arrivals
    sluice("ops replay --table", TABLE, "--yes")
    record = committed.record(committed.first)
    assert (record.attempt, record.batch, record.generation) == (1, None, 0) and record.replayed_at
    assert record.first_batch == "b-1", "the batch since which readers see its rows"
    waiting = {item.id: item.attempt for item in committed.stack.ledger.pending.oldest("main", 9)}
    assert waiting[committed.first] == 1
    assert committed.stack.ledger.lanes.get("main").arrivals > arrivals and ("s-supervise", "Event") in invoked


def test_an_object_keeps_the_generation_that_it_was_merged_under(committed, push, sluice):
    push(3)
    committed.batch("b-2", committed.other, generation=2, table="crm.city")
    sluice("ops replay --all --yes")
    assert [committed.record(id).generation for id in (committed.first, committed.other)] == [0, 2]


def test_an_object_whose_generation_is_unknown_is_left(committed, push, sluice):
    push(3)
    assert list(sluice.json("ops replay --table crm.city --yes")["left"]) == [
        "the manifest of its batch is gone: the generation of its rows is unknown"
    ]
    assert committed.states()[2] == "committed"


def test_an_object_with_rows_in_quarantine_is_left_to_their_retry(committed, sluice):
    committed.set(committed.first, quarantined_rows=1)
    committed.set(committed.second, discarded_rows=1)
    left = sluice.json("ops replay --table", TABLE, "--yes")["left"]
    assert sum(number for reason, number in left.items() if "or discarded" in reason) == 2


def test_a_batch_without_a_manifest_and_an_object_that_is_gone_are_said(committed, sluice):
    assert "There is no batch b-none" in sluice("ops replay --batch b-none --yes", code=2).err
    committed.stack.s3.delete_object(Bucket="s-bronze", Key=committed.first.key, VersionId=committed.first.version)
    document = sluice.json("ops replay --batch b-1 --dry-run")
    assert (document["objects"], document["left"]) == (1, {"no longer in bronze": 1})


def test_without_a_terminal_it_needs_a_yes(committed, sluice):
    assert "--yes" in sluice("ops replay --all", code=2).err and committed.states() == ["committed"] * 3


def merging(committed, monkeypatch, instant=None, aside=None, **counts):
    """Have a run merge what is replayed as batch b-9. `aside` are fields that it sets on the first object."""
    replayed = RebuildLedger.replay

    def merges(self, records, *rest, **more):
        done = replayed(self, records, *rest, **more)
        committed.batch("b-9", *(record.id for record in records), instant=instant, **counts)
        for record in records:
            committed.set(record.id, state=items.COMMITTED, batch="b-9")
        if aside:
            committed.set(records[0].id, **aside)
        return done

    monkeypatch.setattr(RebuildLedger, "replay", merges)


def test_waiting_says_what_was_quarantined_and_what_history_got(committed, monkeypatch, sluice):
    codes = {"quarantined_rows": 3, "row_codes": {"unexpected_value": 2, "null_record_key": 1}}
    merging(committed, monkeypatch, aside=codes, history_changes=40)
    document = sluice.json("ops replay --table", TABLE, "--yes", "--wait")
    assert (document["unchanged_tables"], document["changed_tables"]) == ([], {})
    assert document["merged_tables"][TABLE] == {
        "instants": [],
        "history_changes": 40,
        "quarantined_objects": 0,
        "quarantined_rows": 3,
        "rows_by_code": {"unexpected_value": 2, "null_record_key": 1},
    }
    for id in (committed.first, committed.second):
        committed.set(id, quarantined_rows=None, row_codes=None)
    said = sluice("ops replay --table", TABLE, "--yes", "--wait").out
    rows = "3 rows quarantined (1 null_record_key, 2 unexpected_value)"
    assert f"{TABLE}: no row changed; 40 changes committed to its history table; {rows}\n" in said
    assert "nothing changed" not in said and "sluice quarantine list" in said


def test_waiting_ends_at_the_timeout_with_what_is_unsettled(committed, sluice):
    assert sluice.json("ops replay --table", TABLE, "--yes", "--wait", "--timeout", "0", code=1)["unsettled"] == 2
