"""`sluice history`, `trace` and `row` on an emulated stack, over batches that a run has written to S3."""

import json
import re
import shutil
from dataclasses import replace

import pytest
from emulation.stack import NOW
from support.builders import to_a_terminal
from support.shapes import lines
from support.silver_tables import FORGOTTEN_AT, SILVER_FOLDER, SilverFolder, put_forgetting

from sluice.batch.outcome import COMMITTED, ObjectError, Outcome, RowErrorCount, Stage
from sluice.config.table import TableConfig
from sluice.ledger import keys as items
from sluice.ledger.records import AdmittedObject, Decision
from sluice.silver_keys import manifest_key, outcome_key
from sluice_cli.trace import row_life
from sluice_cli.trace.row_changes import FoundChange
from sluice_read.moments import iso, ms_of
from sluice_read.place import find_table
from sluice_read.reading import open_table

CONFIG = TableConfig("crm.user", "crm", "user", "crm.public.user", ("id", "name"), ("v",))
NASTY = ["", "NULL", "qu\"o'te", "東京/=+& ", "<b>\x1b[2J", "-5"]


def change(lsn, op, id, name, value):
    """A plain flattened change record."""
    return {"id": id, "name": name, "v": value, "__op": op, "__lsn": lsn, "__deleted": str(op == "d").lower()}


class TracedStack:
    """A stack and the batches that its only run has committed."""

    def __init__(self, stack):
        self.stack, self.record, self.at = stack, stack.record, NOW
        ledger = stack.ledger
        stack.hold()
        ledger.history.run_started("run-1", "main", NOW - 5_000)
        ledger.history.run_started("run-1", "main", NOW - 1_000, "job")

    def put(self, key, *rows, state=items.PENDING, **more):
        identity = self.stack.write(key, lines(*(change(*row) for row in rows)))
        self.stack.ledger.objects.admit(admitted(identity, state, self.at, **more))
        self.at += 1_000
        return identity

    def replay(self, *objects, while_paused=False):
        records = list(self.stack.ledger.objects.get(objects).values())
        self.stack.ledger.rebuilds.replay(records, "main", {}, self.at, while_paused=while_paused)

    def pause(self):
        lanes = self.stack.ledger.lanes
        assert lanes.pause("main") and lanes.release("main", "run-1", 1, None, self.at)

    def retry(self, identity, at=None, batch=None):
        """A retry of an object, or of the rows of one that was merged without them."""
        record = self.record(identity)
        decision = Decision(identity, "retried", at or self.at, "retry", "me", record.state, "crm.user", batch=batch)
        assert self.stack.ledger.quarantine.retry(record, replace(record, rows_aside=None), decision)

    def discard(self, identity):
        record = self.record(identity)
        decision = Decision(identity, "discarded", self.at, "discard", "me", record.state, "crm.user")
        assert self.stack.ledger.quarantine.discard(record, decision)

    def merged(self, *objects, read, bad=(), rows=(), instant="20260101000000000", config=CONFIG, **counts):
        manifest = self.stack.batch(config, *(in_manifest(item, self.stack) for item in objects), at=self.at)
        self.stack.claim(manifest)
        outcome = Outcome(
            manifest.batch,
            config.table,
            COMMITTED,
            self.at + 900,
            instant,
            counts={"objects": len(objects), "quarantined_objects": len(bad), "read": read, **counts},
            quarantined=tuple(ObjectError(item.hash, "corrupt_object", "a block is damaged") for item in bad),
            quarantined_rows=tuple(RowErrorCount(item.hash, 1, {"null_record_key": 1}) for item in rows),
            stages=(Stage("read", self.at + 100, 300), Stage("commit", self.at + 400, 400)),
        )
        self.stack.put_documents(manifest, outcome)
        self.stack.settle(manifest, outcome, list(objects), self.at + 950)
        self.at += 10_000
        return manifest.batch


def admitted(identity, state, at, **more):
    facts = {"table": "crm.user", "lane": "main", "topic": "crm.public.user", "format": "json", "size": 10, **more}
    kafka = {"offset": 0, "kafka_partition": 0}
    return AdmittedObject(identity, state, at, noticed_at=at - 200, etag=identity.version, **kafka, **facts)


def in_manifest(identity, stack):
    record = stack.record(identity)
    facts = {name: getattr(record, name) for name in ("size", "admitted_at", "attempt", "first_batch")}
    return stack.listed(identity, format="json", **facts)


@pytest.fixture
def traced(stack):
    return TracedStack(stack)


@pytest.mark.parametrize("parked", [False, True], ids=["pending", "parked"])
def test_trace_names_the_run_that_died_while_an_object_waited_and_was_not_parked(traced, sluice, parked):
    for run, lane in (("run-0", "main"), ("run-z", "other")):
        traced.stack.ledger.history.run_started(run, lane, NOW - 58_000, f"job of {run}")
        traced.stack.ledger.history.run_ended(run, "failed", "it was killed", 0, NOW - 40_000)
    traced.at = NOW - 60_000
    identity = traced.put("late", (1, "c", 1, "a", 1), **({"state": items.PARKED, "table": None} if parked else {}))
    if parked:
        assert traced.stack.ledger.objects.unpark(traced.record(identity), CONFIG, NOW - 6_000)
    traced.at = NOW + 1_000
    traced.merged(identity, read=1)
    (wait,) = [span for span in sluice.json("trace late")["spans"] if span["name"] == "wait"]
    assert wait["note"] == "until a run was requested" + " after run-0 died" * (not parked)


def test_a_history_is_bounded_and_its_pages_meet_without_a_gap(traced, sluice):
    for number in range(7):
        one = traced.put(f"{number}.json", (number, "c", number, "x", "v"))
        traced.merged(one, read=1, instant=f"2026010100000000{number}")
    seen, before, more = [], [], True
    while more:
        document = sluice.json("history --limit 3", *before)
        seen, more = [entry["key"] for entry in document["objects"]] + seen, document["more"]
        before = ["--before", iso(document["objects"][0]["admitted_at"])]
    assert seen == [f"{number}.json" for number in range(7)]
    assert document["totals"]["counts"]["read"] == 1, "the sums are those of what is shown"


def test_history_can_be_limited_to_one_table_or_one_key(traced, sluice):
    one = traced.put("a.json", (1, "c", 1, "x", "a"))
    traced.merged(one, read=1)
    traced.put("a.json", (1, "c", 1, "x", "other"), table="crm.other")
    assert [entry["version"] for entry in sluice.json("history --table crm.user")["objects"]] == [one.version]
    versions = sluice.json("history --key a.json")["objects"]
    assert [entry["state"] for entry in versions] == ["committed", "pending"]
    assert versions[0]["claims"][0]["part"]["read"] == 1
    sluice("history --key a.json --table crm.user", code=2)
    sluice("history --key nowhere", code=2)


def test_an_object_is_found_by_its_address_and_by_a_unique_part_of_its_key(traced, sluice):
    one = traced.put("topics/a/x+0+1.json", (1, "c", 1, "x", "a"))
    other = traced.put("topics/b/x+0+1.json", (2, "c", 2, "x", "b"))
    traced.put("topics/b/x+0+2.json", (3, "c", 3, "x", "c"))
    traced.merged(one, other, read=2)
    for name, key in (
        (f"s3://s-bronze/{one.key}", one.key),
        ("x+0+2.json", "topics/b/x+0+2.json"),
        ("b/x+0+1.json", other.key),
        ("+0+2.json", "topics/b/x+0+2.json"),
        ("…/x+0+2.json", "topics/b/x+0+2.json"),
        ("topics/b…+1.json", other.key),
        ("topics/a", one.key),
    ):
        assert sluice("trace", name).out.splitlines()[0] == key
        assert [entry["key"] for entry in sluice.json("history --key", name)["objects"]] == [key]
    for name, described_so in (
        ("x+0+1.json", f"Keys that end with it: {one.key}, {other.key}"),
        ("zzz", "sluice history"),
        ("topics/b", "Keys that contain it: topics/b/x+0+1.json, topics/b/x+0+2.json"),
        ("topics/b", "error: No key equals 'topics/b', but others contain it\n"),
        ("zzz", "error: Neither the ledger nor bronze has the key 'zzz'\n"),
    ):
        assert described_so in sluice("trace", name, code=2).err


def test_a_history_shows_one_batch_and_an_unknown_row_is_reported(traced, sluice):
    traced.merged(traced.put("a.json", (1, "c", 1, "x", "a")), read=1)
    assert "1 change in 1 batch of 1 table\n" in sluice("history").err
    traced.merged(*(traced.put(f"{name}.json", (2, "c", 8, "x", "b")) for name in "bcd"), read=3)
    said = sluice("history --limit 2").err
    assert "3 changes in 1 batch of 1 table; 1 object of this table in it is not shown\n" in said
    assert "No record with this key was found" in sluice("row crm.user 7 x --check 0", code=1).err


def test_a_row_whose_only_change_is_in_quarantine_is_not_called_unknown(traced, sluice):
    identity = traced.put("a.json", (1, "c", 1, "x", "a"), (2, "Q", 2, "x", "b"))
    traced.merged(identity, read=1, rows=(identity,))
    printed = sluice("row crm.user 2 x --check 0", code=1)
    assert "quarantined  record 1 of a.json" in printed.out
    assert "No record with this key was found" not in printed.err
    assert "`sluice quarantine list --table crm.user`" in printed.err


def test_a_commit_names_its_objects_by_its_instant(traced, sluice):
    earlier, later = "29990101000000000", "29990101000000001"  # no manifest here is dated after them
    traced.merged(traced.put("a.json", (1, "c", 1, "x", "a")), read=1, instant=earlier)
    batch = traced.merged(*(traced.put(f"{name}.json", (2, "c", 8, "x", "b")) for name in "bc"), read=2, instant=later)
    objects = sluice.json("history --batch", later)["objects"]
    assert {(entry["key"], entry["claims"][0]["batch"]) for entry in objects} == {("b.json", batch), ("c.json", batch)}
    assert [entry["key"] for entry in sluice.json("history --batch", earlier)["objects"]] == ["a.json"]
    unknown = f"{int(later) + 1}"
    err = sluice("history --batch", unknown, code=2).err
    assert f"No batch made the commit {unknown}" in err and "sluice table commits" in err


def test_the_trace_shows_that_an_object_was_deleted_or_quarantined(traced, sluice):
    gone, bad = traced.put("gone.json", (1, "c", 1, "x", "a")), traced.put("bad.json")
    traced.merged(gone, bad, read=1, bad=[bad])
    traced.stack.s3.delete_object(Bucket="s-bronze", Key="gone.json", VersionId=gone.version)
    by_key = {entry["key"]: entry for entry in sluice.json("history")["objects"]}
    assert by_key["gone.json"]["gone"] and not by_key["bad.json"]["gone"]
    assert (by_key["bad.json"]["state"], by_key["bad.json"]["claims"][0]["code"]) == ("quarantined", "corrupt_object")
    for part, key in (("gone", "gone.json"), ("one.json", "gone.json")):
        assert sluice("trace", part).out.splitlines()[0] == key


def test_objects_that_two_batches_merged_count_once_beside_the_shown(traced, sluice):
    objects = [traced.put(f"{name}.json", (1, "c", 1, "x", "a")) for name in "abc"]
    traced.merged(*objects, read=3)
    traced.replay(*objects)
    traced.merged(*objects, read=3, instant=None, objects_again=3, read_again=3)
    assert "opened 3 objects with 3 records" in sluice("row crm.user 1 x", code=None).err
    assert "in 2 batches of 1 table; 2 objects of this table in them are not shown\n" in sluice("history --limit 1").err


def test_a_trace_tells_quarantine_from_the_time_before_a_rebuild(traced, sluice):
    identity = traced.put("a.json", (1, "c", 1, "x", "a"))
    aside = traced.merged(identity, read=0, bad=[identity])
    retried_at, ledger = traced.at + 60_000, traced.stack.ledger
    set_aside_at = ledger.batches.parts(aside)["crm.user"]["settled_at"]
    traced.retry(identity, retried_at, aside)
    traced.at = retried_at + 1_000
    traced.merged(identity, read=1)
    rebuilt_at = traced.at
    record = traced.record(identity)
    traced.pause()
    traced.replay(identity, while_paused=True)
    spans = [(span["name"], span["began_at"], span["ended_at"]) for span in sluice.json("trace", identity.key)["spans"]]
    assert spans[1:4] == [
        ("wait", record.admitted_at, set_aside_at),
        ("set aside", set_aside_at, retried_at),
        ("merged before", retried_at, rebuilt_at),
    ]


def test_a_history_counts_rows_in_quarantine_once_and_only_while_they_are(traced, sluice):
    some = traced.put("some.json", (2, "c", 1, "x", "b"), (3, "Q", 1, "x", "c"))

    def said():
        return sluice("history").err.splitlines()[1]

    traced.merged(some, read=1, rows=[some])
    assert said() == "1 object, 10 B: 1 committed; 1 row in quarantine"
    traced.retry(some)
    traced.merged(some, read=1, rows=[some], instant=None)
    assert said() == "1 object, 10 B: 1 committed; 1 row in quarantine"
    traced.discard(some)
    assert said() == "1 object, 10 B: 1 committed"


def test_a_retry_for_rows_says_that_the_others_were_readable_before(traced, sluice):
    some = traced.put("some.json", (2, "c", 1, "x", "b"), (3, "Q", 1, "x", "c"))
    batch = traced.merged(some, read=1, rows=[some])
    traced.retry(some, batch=batch)
    traced.merged(some, read=2)
    notes = {span["name"]: span["note"] for span in sluice.json("trace some.json")["spans"][1:3]}
    assert notes == {
        "wait": "until a batch set rows of it aside",
        "set aside": "rows of it in quarantine: the others were readable",
    }


def test_a_row_names_what_is_in_quarantine_once_and_only_while_it_is(traced, sluice):
    whole = traced.put("bad.json", (1, "c", 1, "x", "a"))
    some = traced.put("some.json", (2, "c", 1, "x", "b"), (3, "Q", 1, "x", "c"))

    def set_aside():
        document = sluice.json("row crm.user 1 x", code=None)
        objects, rows = document["quarantined_objects"], document["set_aside"]
        return [[item["key"] for item in objects], [item["object"] for item in rows]]

    traced.merged(whole, some, read=2, bad=[whole], rows=[some])
    assert set_aside() == [["bad.json"], ["some.json"]]
    for identity in (whole, some):
        traced.retry(identity, batch=traced.record(identity).batch)
    assert set_aside() == [[], []]
    traced.merged(whole, some, read=2, bad=[whole], rows=[some], instant=None)
    assert set_aside() == [["bad.json"], ["some.json"]]
    for identity in (whole, some):
        traced.discard(identity)
    assert set_aside() == [[], []]
    assert "ignored (attempt 2, discarded, corrupt_object)" in sluice("history").out


def test_a_row_names_its_undecodable_records_and_counts_those_without_a_key(traced, sluice):
    config = replace(CONFIG, json_types={"v": "date"})
    good = {"id": 1, "name": "x", "v": "2026-01-01", "__op": "c", "__lsn": 1}
    bad = {**good, "v": "no date", "__lsn": 2}, {**good, "id": 2, "v": "no date"}
    identity = traced.stack.write("some.json", lines(good, *bad, '{"id": 1, "n'))
    traced.stack.ledger.objects.admit(admitted(identity, items.PENDING, traced.at))
    traced.merged(identity, read=4, rows=[identity], config=config)
    document = sluice.json("row crm.user 1 x")
    assert [(item["record"], item["code"]) for item in document["set_aside"]] == [(1, "undecodable_value")]
    assert document["set_aside_with_unknown_key"] == 1
    printed = sluice("row crm.user 1 x")
    assert "quarantined  record 1 of some.json: undecodable_value: Column v holds a value" in printed.out
    assert "`sluice quarantine list --table crm.user` lists them" in printed.err


def test_a_replay_is_shown_apart_and_changes_no_time(traced, sluice):
    identity = traced.put("a.json", (1, "c", 1, "x", "a"))
    first = traced.merged(identity, read=1)
    (before,) = sluice.json("history")["objects"]
    traced.at += 86_400_000
    traced.replay(identity)
    traced.at += 500
    second = traced.merged(identity, read=1, instant=None, objects_again=1, read_again=1)
    document = sluice.json("trace", identity.key)
    assert (document["batch"], document["to_readable_ms"]) == (first, 2_000)
    assert document["replay"]["batch"] == second != first
    out = sluice("trace", identity.key).out
    assert "readable 2.000 s after its put" in out and "rebuilt" not in out
    assert f"no change of the table\nbatch {second}, run run-1\n" in out
    for arguments in ([], ["--key", "a.json"]):
        actual = sluice.json("history", *arguments)
        (entry,) = actual["objects"]
        assert entry["readable_at"] == before["readable_at"] is not None
        assert [claim["batch"] for claim in entry["claims"]] == [first, second]
        assert "replayed" in [moment["name"] for moment in entry["moments"]]
    printed = sluice("history")
    assert printed.out.splitlines()[1].split("\t")[3:5] == ["+2.0 s", "committed (replayed)"]
    assert "1 new change and 1 merged again in 2 batches" in printed.err


def test_the_history_of_a_batch_shows_it_for_objects_that_were_replayed_since(traced, sluice):
    one = traced.put("a.json", (1, "c", 1, "x", "a"))
    first = traced.merged(one, read=1)
    traced.replay(one)
    second = traced.merged(one, read=1, instant=None)
    for asked in (first, second):
        printed = sluice("history --batch", asked)
        cells = dict(zip(*(line.split("\t") for line in printed.out.splitlines()), strict=True))
        assert (cells["batch"], cells["run"], cells["state"]) == (asked, "run-1", "committed (replayed)")
        assert cells["claimed"].startswith("+") and cells["readable"].startswith("+")


def test_an_object_that_is_replayed_or_merged_after_a_rebuild_says_so(traced, sluice):
    replayed, rebuilt = (traced.put(f"{name}.json", (1, "c", 1, "x", "a")) for name in "ab")
    traced.merged(replayed, rebuilt, read=2)
    traced.replay(replayed)
    traced.pause()
    traced.replay(rebuilt, while_paused=True)
    states = [line.split("\t")[3:5] for line in sluice("history").out.splitlines()[1:]]
    assert states == [["+3.0 s", "pending (being replayed)"], ["-", "pending (after a rebuild)"]]


def verdicts(document):
    return [[(change["key"], change["verdict"]) for change in chapter["changes"]] for chapter in document["chapters"]]


def test_a_row_is_followed_through_its_objects_with_winners_and_deletions(traced, sluice, monkeypatch):
    created = traced.put("1.json", (1, "c", 7, "x", "a"), (1, "c", 8, "x", "other"))
    updated = traced.put("2.json", (3, "u", 7, "x", "c"))
    late, gone = traced.put("3.json", (2, "u", 7, "x", "b")), traced.put("4.json", (9, "u", 8, "x", "z"))
    traced.merged(created, updated, read=3, instant="20260101000000001")
    traced.merged(late, gone, read=2, instant="20260101000000002")
    traced.stack.s3.delete_object(Bucket="s-bronze", Key="4.json", VersionId=gone.version)
    traced.put("5.json", (4, "d", 7, "x", None))
    document = sluice.json("row crm.user 7 x")
    assert verdicts(document) == [[("1.json", "overtaken"), ("2.json", "won")], [("3.json", "lost")]]
    assert [chapter["row"]["values"] for chapter in document["chapters"]] == [{"v": "c"}, {"v": "c"}]
    assert [change["key"] for change in document["waiting"]] == ["5.json"]
    assert (document["objects_read"], document["records_read"], document["complete"]) == (5, 5, False)
    assert [item["key"] for item in document["gone"]] == ["4.json"]
    out, err = sluice("row crm.user 7 x --max-objects 2")
    assert "newest" in out and "won" not in out and "2 objects of older batches not opened" in err
    positions = [f"0000.{lsn:020d}.{0:020d}" for lsn in (1, 2, 3, 4)]
    out = sluice("row crm.user 7 x").out
    assert [position in out for position in positions] == [True] * 4
    to_a_terminal(monkeypatch)
    out = sluice("row crm.user 7 x").out
    assert "0000.0" not in out and "position …2\n             the table has a newer change, …3\n" in out
    assert re.search(r"^2023.* instant \d+\n  batch b-[^ ]+$", out, re.MULTILINE)
    assert "The key of crm.user is id, name" in sluice("row crm.user 7", code=2).err
    sluice("row crm.user 99 x", code=1)
    sluice("row crm.nothing 1", code=2)


def test_what_won_is_read_from_the_table_and_objects_are_opened_where_a_change_lost(traced, sluice, monkeypatch):
    silver = SilverFolder(SILVER_FOLDER)
    monkeypatch.setattr(row_life, "open_table", lambda place, table, span: open_table(silver, table, span=span))
    config = TableConfig("moma.works", "moma", "works", "crm.public.user", ("id",), ("nationality",))
    clean = {"overtaken": 0, "losing": 0}
    loaded = traced.put("1.json", (6, "c", 6, "x", "six"), table=config.table)
    traced.merged(loaded, read=6, instant="20261121080011861", config=config, **clean)
    moved, late = (traced.put(f"{at}.json", (at, "u", 6, "x", "late"), table=config.table) for at in (2, 3))
    traced.merged(moved, late, read=5, instant="20261121080012602", config=config, overtaken=2, losing=0)
    noted = traced.put("4.json", (22, "u", 6, "x", "six c"), table=config.table)
    traced.merged(noted, read=2, instant="20261121080013968", config=config, **clean)
    traced.stack.s3.delete_object(Bucket="s-bronze", Key="1.json", VersionId=loaded.version)
    document = sluice.json("row moma.works 6")
    expected = [["won"], ["lost", "lost", "won"], ["won"]]
    assert [[change["verdict"] for change in chapter["changes"]] for chapter in document["chapters"]] == expected
    names = [chapter["row"]["values"]["name"] for chapter in document["chapters"]]
    assert names == [chapter["table"]["row"]["name"] for chapter in document["chapters"]] == ["six", "six b", "six c"]
    assert all(chapter["table"]["agrees"] is True for chapter in document["chapters"])
    assert (document["objects_read"], document["gone"], document["complete"]) == (2, [], True)
    assert "confirmed by reading the table as of this commit" in sluice("row moma.works 6").out
    assert sluice("row moma.works 06").out.startswith('moma.works id="6"\n'), "as it is stored, not as it was given"
    assert "in the order of `record_key`" in sluice("row moma.works 6.0", code=1).err


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A copy of the tables, which `sluice row` reads."""
    shutil.copytree(SILVER_FOLDER, tmp_path / "silver")
    silver = SilverFolder(tmp_path / "silver")
    monkeypatch.setattr(row_life, "open_table", lambda place, table, span: open_table(silver, table, span=span))
    monkeypatch.setattr(row_life, "find_table", lambda place, table: find_table(silver, table))
    return tmp_path / "silver"


WORKS = TableConfig("moma.works", "moma", "works", "crm.public.user", ("id",))


def test_a_forgotten_row_is_told_with_its_time_and_the_source_of_its_values(traced, own, sluice):
    brought = traced.put("1.json", (40, "c", 99, "secret", "v"), table=WORKS.table)
    traced.merged(brought, read=1, instant="20261121080013968", config=WORKS)
    document = sluice.json("row moma.works 99")
    position = document["chapters"][0]["changes"][0]["position"]
    assert document["forgotten"] is None
    put_forgetting(own, "moma.works", ["99"], position)

    told = sluice.json("row moma.works 99")["forgotten"]
    assert told == {"at": ms_of(FORGOTTEN_AT), "instant": FORGOTTEN_AT, "until": position}
    out, err = sluice("row moma.works 99")
    assert out.index("won") < out.index(f"2026-11-21T09:00:00Z  instant {FORGOTTEN_AT}\n  forgotten  changes until ")
    assert out.endswith("= nothing\n") and "they are read from objects in bronze" in err


def test_a_row_of_a_rebuilt_table_is_written_anew(traced, sluice):
    brought = traced.put("1.json", (1, "c", 1, "x", "a"))
    traced.merged(brought, read=1)
    mark = {"table": "crm.user", "lane": "main", "to": "_sluice/replaced/crm.user/1/", "at": traced.at}
    traced.stack.s3.put_object(Bucket="s-silver", Key=f"{mark['to']}rebuild.json", Body=json.dumps(mark).encode())
    traced.at += 1_000
    again = traced.put("2.json", (1, "c", 1, "x", "a"))
    traced.merged(again, read=1, instant="20260101000000002")
    chapters = sluice.json("row crm.user 1 x")["chapters"]
    assert [chapter["changes"][0]["verdict"] for chapter in chapters] == ["won", "won"]
    assert [chapter["rebuilt_at"] for chapter in chapters] == [None, mark["at"]]
    out = sluice("row crm.user 1 x").out
    assert "rebuilt    at " in out and out.count('  = v="a"') == 2 and "since the table was rebuilt" in out


def test_with_a_history_table_a_rows_changes_need_no_object_in_bronze(traced, sluice, monkeypatch):
    config = replace(CONFIG, history=True)
    before, created, late = (traced.put(f"{at}.json", (at, "u", 7, "x", f"v{at}")) for at in (1, 3, 2))
    again = traced.put("4.json", (3, "u", 7, "x", "v3"))
    traced.merged(before, read=1, instant="20260101000000001")
    traced.merged(created, read=1, instant="20260101000000002", config=config)
    traced.merged(late, again, read=2, instant="20260101000000003", config=config)
    for gone in (created, late, again):
        traced.stack.s3.delete_object(Bucket="s-bronze", Key=gone.key, VersionId=gone.version)
    changes = tuple(
        FoundChange(item.key, item.version, at, 0, f"0000.{at:020d}.{0:020d}", "u", False, None, {"v": f"v{at}"})
        for at, item in ((2, late), (3, created))
    )
    read = {"changes": changes, "history": "crm.user_history"}
    monkeypatch.setattr(row_life, "with_history", lambda life, *of: replace(life, **read))
    document = sluice.json("row crm.user 7 x")
    assert verdicts(document) == [[("1.json", "won")], [("3.json", "won")], [("2.json", "lost")]]
    assert [chapter["row"]["values"] for chapter in document["chapters"]] == [{"v": "v1"}, {"v": "v3"}, {"v": "v3"}]
    assert (document["objects_read"], document["gone"], document["complete"]) == (1, [], True)
    assert "opened 1 object with 1 record, others read from crm.user_history" in sluice("row crm.user 7 x").err


def test_row_refuses_a_history_table_by_name(traced, sluice):
    key, fields = "crm/user_history/.hoodie/hoodie.properties", b"hoodie.table.recordkey.fields=id,_sluice_position\n"
    traced.stack.s3.put_object(Bucket="s-silver", Key=key, Body=fields)
    for options in ("", " --as-of 2026-01-01T00:00:00Z"):
        assert "is a history table" in sluice(f"row crm.user_history 7 x{options}", code=2).err


@pytest.mark.long
def test_every_key_and_value_survives(traced, sluice):
    rows = [(number, "c", number, text, text or None) for number, text in enumerate(NASTY, 1)]
    traced.merged(traced.put(NASTY[2] + "/" + NASTY[3] + ".json", *rows), read=len(rows))
    for number, text in enumerate(NASTY, 1):
        (chapter,) = json.loads(sluice("row crm.user --json --", str(number), text).out)["chapters"]
        assert chapter["row"]["values"] == {"v": text or None}
        assert "\x1b" not in sluice("row crm.user --", str(number), text).out
    (entry,) = sluice.json("history")["objects"]
    sluice("history")
    sluice("trace", entry["key"])


def test_a_manifest_of_another_release_is_an_error_and_no_gap(traced, sluice):
    traced.stack.s3.put_object(Bucket="s-silver", Key=manifest_key("main", "b-x"), Body=b'{"format": 99}')
    assert "format 99" in sluice("history", code=1).err


FOREIGN = {
    "_sluice/manifests/.hoodie/metadata/hoodie.properties": b"hoodie.table.name=manifests",
    "_sluice/manifests/main/b-0.json": b"\x00\xff\xfe",
    "_sluice/manifests/main/b-1.json": b"[]",
    "_sluice/manifests/main/b-2.json": b'{"format": 1, "batch": "b-2"}',
    "_sluice/manifests/main/b-3.json": b"[" * 100_000,
    "_sluice/manifests/part-0.parquet": b"PAR1",
    "_sluice/manifests/\x1b[2J": b"",
}


@pytest.fixture
def among_foreign(traced):
    """One committed object, and files that another program wrote among the manifests."""
    identity = traced.put("a.json", (1, "c", 1, "x", "a"))
    batch = traced.merged(identity, read=1)
    for key, body in FOREIGN.items():
        traced.stack.s3.put_object(Bucket="s-silver", Key=key, Body=body)
    return traced, identity, batch


PAGE = "status --html page.html --since 2025-01-01T00:00:00Z"


@pytest.mark.parametrize("command", ["history", PAGE, "rebuild ledger --dry-run", "row crm.user 1 x"])
def test_foreign_files_among_the_documents_are_skipped_and_named(among_foreign, sluice, command):
    printed = sluice(command, "--json")
    by_key = {entry["key"]: entry["reason"] for entry in json.loads(printed.out)["skipped_documents"]}
    assert by_key.keys() == FOREIGN.keys() and all(by_key.values())
    assert "7 documents in the silver bucket can't be read" in printed.err
    assert "_sluice/manifests/main/b-0.json: it is not text" in printed.err and "\x1b" not in printed.err


def test_a_trace_goes_without_a_document_that_was_overwritten(among_foreign, sluice):
    traced, identity, batch = among_foreign
    for key in (manifest_key("main", batch), outcome_key(batch, "crm.user")):
        traced.stack.s3.put_object(Bucket="s-silver", Key=key, Body=b"foreign")
        document = sluice.json("trace", identity.key)
        assert document["batch"] == batch and [entry["key"] for entry in document["skipped_documents"]][-1] == key
    (entry,) = sluice.json("history --key", identity.key)["objects"]
    assert entry["state"] == "committed"


def test_an_outcome_under_the_key_of_another_part_does_not_count(among_foreign, sluice):
    traced, _, batch = among_foreign
    key = outcome_key(batch, "crm.user")
    text = Outcome(batch, "crm.order", COMMITTED, NOW).to_json()
    traced.stack.s3.put_object(Bucket="s-silver", Key=key, Body=text.encode())
    document = sluice.json("rebuild ledger --dry-run")
    assert key in [entry["key"] for entry in document["skipped_documents"]] and document["tables"] == []
