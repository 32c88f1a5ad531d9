"""The ways out of quarantine on an emulated stack: list with reasons, retry, discard, each on the record."""

import shlex
from collections import Counter
from dataclasses import replace

import pytest
from emulation.aws import set_fields
from emulation.stack import NOW
from support.builders import avro_object, avro_record, in_a_terminal

from sluice.admission.routing import classify
from sluice.admission.verdict import NO_CONFIGURATION
from sluice.batch.outcome import COMMITTED, ObjectError, Outcome, RowErrorCount
from sluice.batch.row_errors import RowError, to_lines
from sluice.changes.log_restart import LOG_RESTARTED
from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.config.table import TableConfig
from sluice.ledger import keys as items
from sluice.ledger.records import Decision
from sluice.silver_keys import rows_key
from sluice_aws.admission.reassign import Unparked, unpark
from sluice_aws.ledger.rebuilds import RebuildLedger
from sluice_cli.main import run

TABLES = "defaults: {record_key: [id]}\ntables: [{topic: crm.public.user, table: crm.user}]\n"
KEY = "topics/crm.public.user/partition=0/crm.public.user+0+{:010d}.avro"
SCHEMA = avro_record({"id": "long", "__op": "string", "__lsn": "long"})
CONFIG = TableConfig("crm.user", "crm", "user", topic="crm.public.user", record_key=("id",))


@pytest.fixture
def configured(stack, invoked, tables, sluice):
    sluice("config push", tables(TABLES))
    invoked.clear()
    return stack


def put(stack, n, body=None):
    return stack.write(KEY.format(n), body or avro_object(SCHEMA, [{"id": n, "__op": "c", "__lsn": n}]))


def refused(stack, n, **more):
    """An object that admission quarantined."""
    return stack.admit(put(stack, n), items.QUARANTINED, **{"code": "not_avro", "reason": "no", **more})


def untaken(stack, n, topic="other"):
    """An object that no rule takes."""
    return stack.park(put(stack, n), topic, reason="no rule takes this topic")


def states_of(stack, *objects):
    return [record.state for record in stack.ledger.objects.get(objects).values()]


def facts(of, names):
    """What an entry or a record holds under these names."""
    return tuple(of[name] if isinstance(of, dict) else getattr(of, name) for name in names.split())


def settled(stack, objects, *, bad=(), rows=None, parked=(), attempt=0):
    """A batch of these objects, merged by a run: `bad` ones quarantined, `parked` ones as of a log that began again,
    `rows` by object set aside.
    """
    manifest = stack.batch(CONFIG, *(stack.listed(item, attempt=attempt) for item in objects))
    stack.hold()
    stack.claim(manifest)
    counted = []
    for identity, entry in (rows or {}).items():
        key = rows_key(manifest.batch, "crm.user", identity.hash)
        stack.s3.put_object(Bucket="s-silver", Key=key, Body=to_lines(entry).encode())
        codes = {code: sum(row.code == code for row in entry) for code in {row.code for row in entry}}
        counted.append(RowErrorCount(identity.hash, len(entry), codes))
    outcome = Outcome(
        manifest.batch,
        "crm.user",
        COMMITTED,
        NOW,
        instant="20260101000000000",
        counts={"read": 3, "quarantined_rows": sum(count.rows for count in counted)},
        quarantined=tuple(ObjectError(item.hash, "corrupt_object", "it ends inside a block") for item in bad),
        quarantined_rows=tuple(counted),
        parked=tuple(ObjectError(item.hash, LOG_RESTARTED, "the positions are of another kind") for item in parked),
        parked_generation=0 if parked else None,
    )
    stack.settle(manifest, outcome, objects)
    lanes = stack.ledger.lanes
    assert lanes.release("main", "run-1", lanes.get("main").arrivals, None, NOW)
    return manifest.batch


def a_row(record, code="null_record_key"):
    return RowError(record, code, "The key column id is null", 70 + record, None, "json", '{"id":null}', 11)


def totals(stack):
    """The table's totals of objects and rows that aren't zero."""
    result = stack.ledger.tables.get("crm.user").totals
    names = ("objects", "objects_quarantined", "objects_discarded", "quarantined_rows", "discarded_rows")
    return Counter({name: result[name] for name in names if result.get(name)})


def test_whole_objects_and_rows_of_objects_are_listed_with_why_and_where(configured, sluice):
    good, bad, holed = (configured.admit(put(configured, n)) for n in range(3))
    unread = configured.admit(put(configured, 9, b"{}"), items.QUARANTINED, None, code="not_avro", reason="no")
    batch = settled(configured, [good, bad, holed], bad=[bad], rows={holed: [a_row(1), a_row(4)]})

    entries = {entry["key"]: entry for entry in sluice.json("quarantine list")["entries"]}
    assert set(entries) == {bad.key, holed.key, unread.key}
    expected = ("object", ["corrupt_object"], batch, "crm.user")
    assert facts(entries[bad.key], "kind codes batch table") == expected
    assert facts(entries[holed.key], "kind rows rows_by_code") == ("rows", 2, {"null_record_key": 2})
    assert [entry["id"] for entry in sluice.json("quarantine list --code not_avro")["entries"]] == [unread.hash]
    document = sluice.json("quarantine list --table crm.user --limit 1")
    assert len(document["entries"]) == 1 and document["more"] is True
    assert bad.hash[:12] in sluice("quarantine list").out


def test_an_entry_is_shown_with_its_rows_and_their_bytes(configured, sluice):
    holed = configured.admit(put(configured, 1))
    settled(configured, [holed], rows={holed: [a_row(7), a_row(2)]})
    document = sluice.json("quarantine show", holed.hash[:8])
    expected = [(2, 72, '{"id":null}'), (7, 77, '{"id":null}')]
    assert [(row["record"], row["offset"], row["content"]) for row in document["rows_shown"]] == expected
    assert document["decisions"] == [] and document["admitted_at"] == NOW
    assert sluice("quarantine show", holed.key, "--rows", "1").out.count("\nrow ") == 1


@pytest.fixture
def uploaded_again(configured):
    """A damaged version whose newer one is merged, one whose newer one waits, and one whose older one is merged.

    Notices came in the wrong order: the newer version was admitted first.
    """
    damaged = {"code": "corrupt_object", "reason": "It ends inside a block"}
    merged = configured.admit(put(configured, 1, b"new"), sequencer="0065F0A2")
    settled(configured, [merged])
    bad = configured.admit(put(configured, 1, b"bad"), items.QUARANTINED, sequencer="0065F0A1F", **damaged)
    configured.admit(put(configured, 2, b"new"), sequencer="0065F0A2")
    waits = configured.admit(put(configured, 2, b"bad"), items.QUARANTINED, sequencer="0065F0A1", **damaged)
    older = configured.admit(put(configured, 3), sequencer="0065F0A1")
    settled(configured, [older])
    newest = configured.admit(put(configured, 3, b"bad"), items.QUARANTINED, sequencer="0065F0A2", **damaged)
    return bad, merged, waits, newest


def test_an_entry_says_that_a_newer_version_of_its_key_is_merged(uploaded_again, sluice, monkeypatch):
    bad, merged, waits, newest = uploaded_again
    by_id = {entry["id"]: entry["newer_version"] for entry in sluice.json("quarantine list")["entries"]}
    assert by_id == {bad.hash: merged.version, waits.hash: None, newest.hash: None}
    advice = f"a newer version of this key is merged; discard it: `sluice quarantine discard {bad.hash[:12]}`"
    lines = sluice("quarantine list").out.splitlines()
    assert [line for line in lines if "newer" in line] == [line for line in lines if line.startswith(bad.hash[:12])]
    assert f"It ends inside a block; {advice}" in "\n".join(lines)
    shown = sluice("quarantine show", bad.hash).out
    assert f"\nnewer        {merged.version}\n" in shown and advice in shown
    assert sluice.json("quarantine show", waits.hash)["newer_version"] is None
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert advice in " ".join(sluice("quarantine list").out.split())
    sluice("quarantine discard --yes", bad.hash[:12])


@pytest.fixture
def good_again(configured):
    """A damaged version between two uploads of the same good bytes; the later one is superseded."""
    good = configured.admit(put(configured, 1), sequencer="A1", etag="good")
    settled(configured, [good])
    damaged = {"code": "corrupt_object", "reason": "It ends inside a block"}
    bad = configured.admit(put(configured, 1, b"bad"), items.QUARANTINED, sequencer="A2", etag="bad", **damaged)
    again = configured.admit(put(configured, 1), sequencer="A3", etag="good")
    assert configured.record(again).state == items.SUPERSEDED
    return bad, again


@pytest.mark.parametrize("others", [0, 1], ids=["all-merged", "one-missing"])
def test_a_discard_says_whose_changes_will_be_missing(configured, good_again, monkeypatch, others, sluice):
    for n in range(others):
        refused(configured, 5 + n)
    asked = in_a_terminal(monkeypatch, True)
    sluice("quarantine discard --all")
    missing = "A newer version is merged: nothing will be missing."
    if others:
        missing = "The changes of 1 will be missing from the tables; newer versions of the others are merged."
    entries = "2 entries (2 objects)" if others else "1 entry (1 object)"
    assert asked == [f"Discard {entries} of crm.user? {missing}"]


def test_a_retried_object_keeps_its_age_and_goes_to_another_batch(configured, invoked, sluice):
    bad = configured.admit(put(configured, 1))
    before = settled(configured, [bad], bad=[bad])
    arrivals = configured.ledger.lanes.get("main").arrivals

    retried = sluice.json("quarantine retry", bad.hash[:12], "--note", "release 2 reads it")["retried"]
    assert [entry["id"] for entry in retried] == [bad.hash]
    record, expected = configured.record(bad), ("pending", 1, NOW, None, None, None)
    assert facts(record, "state attempt admitted_at batch code listed_at") == expected
    (waiting,) = configured.ledger.pending.oldest("main", 10)
    assert (waiting.id, waiting.attempt, waiting.table, waiting.schema) == (bad, 1, "crm.user", record.schema)
    assert configured.ledger.lanes.get("main").arrivals == arrivals + 1 and invoked
    (decision,) = configured.ledger.quarantine.decisions_about(bad)
    expected = ("retried", before, "corrupt_object", "release 2 reads it")
    assert facts(decision, "verb batch code note") == expected
    assert decision.command == f"sluice quarantine retry {bad.hash[:12]} --note 'release 2 reads it' --json"
    assert decision.by.startswith("arn:aws:")

    after = settled(configured, [bad], attempt=1)
    record = configured.record(bad)
    assert (record.state, record.batch, record.code) == ("committed", after, None) and after != before
    assert totals(configured) == {"objects": 1}
    sluice("wait --strict --timeout 0")
    sluice("quarantine list --decided --json")


def test_an_object_is_retried_for_its_rows_and_counted_once(configured, invoked, sluice):
    holed = configured.admit(put(configured, 1))
    batch = settled(configured, [holed], rows={holed: [a_row(0), a_row(1)]})
    assert totals(configured)["quarantined_rows"] == 2
    sluice("quarantine retry --code null_record_key")
    record = configured.record(holed)
    assert (record.state, record.quarantined_rows, record.attempt) == ("pending", 0, 1)
    (waiting,) = configured.ledger.pending.oldest("main", 10)
    expected = (True, rows_key(batch, "crm.user", holed.hash))
    assert facts(waiting, "merged rows_aside") == facts(record, "merged rows_aside") == expected
    settled(configured, [holed], rows={holed: [a_row(1)]}, attempt=1)
    assert totals(configured) == {"objects": 1, "quarantined_rows": 1}
    assert "\nretried at 20" in sluice("quarantine show", holed.hash).out


def test_unmerged_rows_are_known_until_a_batch_reports_them_again(configured, invoked, sluice):
    holed = configured.admit(put(configured, 1))
    first = settled(configured, [holed], rows={holed: [a_row(0), a_row(1)]})
    sluice("quarantine retry", holed.hash)
    settled(configured, [holed], bad=[holed], attempt=1)  # the whole object this time: the same rows are still missing
    sluice("quarantine retry", holed.hash)
    record = configured.record(holed)
    assert (record.merged, record.rows_aside) == (True, rows_key(first, "crm.user", holed.hash))
    third = settled(configured, [holed], rows={holed: [a_row(1)]}, attempt=2)
    sluice("quarantine retry", holed.hash)
    assert configured.record(holed).rows_aside == rows_key(third, "crm.user", holed.hash)


def test_rows_are_retried_under_the_generation_of_their_object(configured, invoked, tables, sluice):
    holed, other = configured.admit(put(configured, 1)), configured.admit(put(configured, 2))
    batch = settled(configured, [holed, other], rows={holed: [a_row(1)], other: [a_row(0)]})
    sluice("config push --yes", tables(TABLES.replace("table: crm.user}", "table: crm.user, generation: 2}")))

    # Of a ledger that doesn't know it; else that says it.
    set_fields(configured.ledger, items.object_key(holed), merged_generation=None)
    assert f"the manifest of its batch {batch} is gone" in sluice("quarantine retry", holed.hash, "--json", code=1).out
    manifest = configured.batch(replace(CONFIG, generation=1), configured.listed(holed), configured.listed(other))
    assert manifest.batch == batch
    configured.put_documents(manifest)
    sluice("quarantine retry", holed.hash)

    record = configured.record(holed)
    (waiting,) = configured.ledger.pending.oldest("main", 10)
    assert (record.generation, waiting.generation, waiting.id) == (1, 1, holed)
    # Another table has none of its rows: what that merges is merged as new.
    record = configured.record(other)
    decision = Decision(other, "retried", NOW, "sluice quarantine retry", "me", record.state, batch=record.batch)
    assert configured.ledger.quarantine.retry(record, replace(record, table="crm.people", generation=1), decision)
    (waiting,) = [item for item in configured.ledger.pending.oldest("main", 10) if item.table == "crm.people"]
    assert (waiting.merged, waiting.rows_aside, waiting.generation) == (False, None, None)


def test_a_retried_object_that_is_still_unusable_stays_quarantined(configured, invoked, sluice):
    damaged = put(configured, 1, b"Obj\x01garbage")
    garbage = configured.admit(damaged, items.QUARANTINED, code="corrupt_object", reason="damaged")
    lost = refused(configured, 2, code="lost_before_read", reason="gone")
    configured.s3.delete_object(Bucket="s-bronze", Key=lost.key, VersionId=lost.version)
    left = {entry["key"]: entry["because"] for entry in sluice.json("quarantine retry --all", code=1)["left"]}
    assert set(left) == {garbage.key, lost.key} and "gone" in left[lost.key]
    assert states_of(configured, garbage, lost) == ["quarantined"] * 2
    assert configured.ledger.quarantine.decisions_about(garbage) == [] and not invoked


def test_a_discarded_object_is_ignored_and_its_record_names_the_command(configured, sluice):
    bad, holed = (configured.admit(put(configured, n)) for n in range(2))
    settled(configured, [bad, holed], bad=[bad], rows={holed: [a_row(0)]})
    sluice("wait --strict --timeout 0", code=1)
    sluice("quarantine discard --yes", bad.hash[:12], holed.hash[:12], "--note", "a broken test wrote them")
    records = configured.ledger.objects.get([bad, holed])
    assert (records[bad].state, records[bad].rule, records[bad].code) == ("ignored", "discarded", "corrupt_object")
    assert (records[holed].state, records[holed].quarantined_rows, records[holed].discarded_rows) == ("committed", 0, 1)
    assert totals(configured) == {"objects": 1, "objects_discarded": 1, "discarded_rows": 1}
    sluice("wait --strict --timeout 0")
    decisions = {item["key"]: item for item in sluice.json("quarantine list --decided")["decisions"]}
    assert {(item["verb"], item["note"]) for item in decisions.values()} == {("discarded", "a broken test wrote them")}
    assert "quarantine discard" in decisions[bad.key]["command"] and decisions[holed.key]["rows"] == 1
    assert sluice.json("quarantine list")["entries"] == []


def test_no_higher_generation_admits_a_discarded_object_of_a_restarted_log(configured, invoked, sluice):
    good, odd, behind = (configured.admit(put(configured, n)) for n in range(3))
    batch = settled(configured, [good, odd, behind], parked=[odd, behind])
    parked = untaken(configured, 7)
    assert sluice.json("quarantine list")["entries"] == []
    entries = {entry["key"]: entry for entry in sluice.json("quarantine list --code log_restarted")["entries"]}
    assert set(entries) == {odd.key, behind.key}
    expected = ("parked", ["log_restarted"], batch, NOW)
    assert facts(entries[odd.key], "kind codes batch parked_at") == expected
    expected = {odd.key: ["log_restarted"], behind.key: ["log_restarted"], parked.key: []}
    entries = sluice.json("quarantine list --parked")["entries"]
    assert {entry["key"]: entry["codes"] for entry in entries} == expected
    assert parked.hash[:12] not in sluice("quarantine list --parked --table crm.user").out

    before = totals(configured)
    sluice("quarantine discard --yes", odd.hash[:12], "--note", "not of this connector")
    record = configured.record(odd)
    assert (record.state, record.rule, record.code) == ("ignored", "discarded", "log_restarted")
    assert totals(configured) == {**before, "objects_discarded": 1}
    assert (before["objects"], before["objects_quarantined"]) == (1, 0)
    (decision,) = configured.ledger.quarantine.decisions_about(odd)
    expected = ("discarded", "parked", "log_restarted", batch, "not of this connector")
    assert facts(decision, "verb state code batch note") == expected
    raised = Configuration((TableRule("crm.user", ("id",), topic="crm.public.user", generation=1),))
    assert unpark(configured.ledger, raised, lambda: NOW + 1) == Unparked(1, frozenset({"main"}))
    assert [item.id for item in configured.ledger.pending.oldest("main", 10)] == [behind]


def test_what_waits_for_a_rule_is_discarded_only_where_it_is_named(configured, sluice):
    parked, bad = untaken(configured, 1), refused(configured, 2)
    sluice("quarantine discard --yes --all")
    assert (configured.record(parked).state, configured.record(bad).state) == ("parked", "ignored")
    assert "kind      parked" in sluice("quarantine show", parked.hash[:8]).out
    sluice("quarantine discard --yes", parked.key)
    assert configured.record(parked).rule == "discarded"


def test_parked_objects_are_discarded_by_topic_and_all_at_once(configured, sluice):
    of_one, of_other = [untaken(configured, n, "scratch") for n in range(3)], untaken(configured, 3)
    bad = refused(configured, 4, topic="scratch")
    assert "error: Nothing is chosen\n" in sluice("quarantine discard --parked", code=2).err
    listed = sluice.json("quarantine list --parked --topic scratch")["entries"]
    assert {entry["key"] for entry in listed} == {item.key for item in of_one}
    sluice("quarantine discard --yes --parked --topic scratch")
    assert sorted(states_of(configured, *of_one, of_other, bad)) == ["ignored"] * 3 + ["parked", "quarantined"]
    sluice("quarantine discard --yes --parked --all")
    assert sorted(states_of(configured, *of_one, of_other, bad)) == ["ignored"] * 4 + ["quarantined"]
    sluice("wait --strict --timeout 0", code=1)
    sluice("quarantine discard --yes --all")
    sluice("wait --strict --timeout 0")


def test_a_parked_object_that_was_freed_meanwhile_is_not_discarded(configured):
    waiting = configured.admit(put(configured, 1), items.PARKED, None, reason="no rule takes this topic")
    stale = configured.record(waiting)
    assert configured.ledger.objects.unpark(stale, CONFIG, NOW + 1)
    decision = Decision(waiting, "discarded", NOW, "sluice", "me", "parked")
    assert not configured.ledger.quarantine.discard(stale, decision)
    assert not configured.ledger.quarantine.retry(stale, stale, decision)
    assert configured.record(waiting).state == "pending"
    assert configured.ledger.quarantine.decisions_about(waiting) == []


def test_two_commands_about_one_entry_decide_once(configured, sluice):
    bad = refused(configured, 1)
    stale = configured.record(bad)
    sluice("quarantine discard --yes", bad.key)
    retried = Decision(bad, "retried", NOW, "sluice", "me", "quarantined")
    assert not configured.ledger.quarantine.retry(stale, stale, retried)
    assert [decision.verb for decision in configured.ledger.quarantine.decisions_about(bad)] == ["discarded"]
    assert configured.ledger.pending.oldest("main", 10) == []


@pytest.mark.parametrize("arguments", [["retry"], ["discard"], ["show", "abcdef012345"], ["retry", "ab"]])
def test_a_choice_of_nothing_is_a_wrong_command_line(configured, sluice, arguments):
    refused(configured, 1)
    sluice("quarantine", *arguments, code=2)


def test_status_and_wait_count_quarantined_rows(configured, sluice):
    holed = configured.admit(put(configured, 1))
    settled(configured, [holed], rows={holed: [a_row(0), a_row(1, "value_out_of_range")]})
    document = sluice.json("status")
    rows = document["quarantined_rows"]
    assert facts(rows, "rows objects more") == (2, 1, False)
    reasons = {item["reason"]: facts(item, "code rows examples") for item in rows["reasons"]}
    codes = ("null_record_key", "value_out_of_range")
    assert reasons == {f"{code}: {a_row(0, code).reason}": (code, 1, [holed.key]) for code in codes}
    expected = {"objects": 0, "rows": 2}
    assert {table["table"]: table["quarantined"] for table in document["tables"]}["crm.user"] == expected
    document = sluice.json("wait --timeout 0")
    assert facts(document, "succeeded quarantined_rows") == (True, 2)
    assert document["with_quarantined_rows"][0]["rows_by_code"] == dict.fromkeys(codes, 1)
    out = sluice("wait --timeout 0 --strict", code=1).out
    assert "rows quarantined\t2 rows of 1 object from before: `sluice quarantine list`" in out
    assert "(in bronze: 1 committed, 2 rows quarantined)" in out
    out = sluice("status").out
    assert f"null_record_key: {a_row(0).reason}" in out and "`sluice quarantine list` shows each" in out


@pytest.mark.parametrize("has_data", [True, False])
def test_status_counts_what_admission_quarantined_and_names_the_lane_of_a_table(configured, sluice, has_data):
    good, bad = configured.admit(put(configured, 1)), configured.admit(put(configured, 2))
    settled(configured, [good, bad], bad=[bad])
    refused(configured, 3)
    if has_data:
        configured.ledger.tables.pin("crm.user", CONFIG.pinned)
    (table,) = sluice.json("status")["tables"]
    assert table["quarantined"] == {"objects": 2, "rows": 0}
    assert (table["pending"]["objects"], table["lane"]) == (0, "main")


def test_no_verb_lets_an_objects_key_steer_the_terminal_or_break_a_line(configured, sluice, monkeypatch):
    monkeypatch.setattr("sluice_cli.ingest.wait.JUST_BEFORE_MS", 10**13)
    key = "topics/crm.public.user/<b>&amp; %2B+é=\u202e\ttab\nline 'q\" $(x).avro"
    configured.admit(configured.write(key), items.QUARANTINED, code="not_avro", reason=f"no: \x1b[2J {key}")
    waiting = configured.admit(configured.write(key + "2"))
    keys = ["quarantine show", key], ["trace", waiting.key]
    for arguments in (["wait --timeout 0"], ["status"], ["history"], ["quarantine list"], *keys):
        printed = sluice(*arguments, code=int("wait" in arguments[0])).out
        shown = [line for line in printed.splitlines() if "(x).avro" in line]
        assert shown and all("line 'q\" $(x).avro" in line for line in shown), arguments
        assert arguments == ["quarantine list"] or not {"\x1b", "\u202e"} & set(printed), arguments


@pytest.mark.parametrize("answer", [False, True], ids=["no", "yes"])
def test_a_discard_in_a_terminal_says_what_goes_and_asks_once(configured, monkeypatch, sluice, answer):
    bad = [refused(configured, n) for n in range(2)]
    asked = in_a_terminal(monkeypatch, answer)
    sluice("quarantine discard --all", code=0 if answer else 1)
    assert asked == ["Discard 2 entries (2 objects) of crm.user? Their changes will be missing from the tables."]
    assert states_of(configured, *bad) == [items.IGNORED if answer else items.QUARANTINED] * 2
    sluice("quarantine discard --all --yes", code=1 if answer else 0)
    assert len(asked) == 1


def rebuild(stack, sluice, *options):
    stack.ledger.lanes.pause("main")
    sluice("rebuild table crm.user --yes", *options)


def counted_in_status(sluice):
    (table,) = (item for item in sluice.json("status")["tables"] if item["table"] == "crm.user")
    return table["quarantined"]


def test_a_rebuild_keeps_the_count_of_what_stays_in_quarantine(configured, sluice):
    good, bad, holed = (configured.admit(put(configured, n)) for n in range(3))
    configured.admit(put(configured, 9, b"{}"), items.QUARANTINED, None, code="not_avro", reason="no container file")
    settled(configured, [good, bad, holed], bad=[bad], rows={holed: [a_row(1), a_row(4)]})
    assert counted_in_status(sluice) == {"objects": 1, "rows": 2}
    rebuild(configured, sluice)
    assert counted_in_status(sluice) == {"objects": 1, "rows": 0}, "the other object is pending again"
    assert (totals(configured)["objects"], totals(configured)["objects_quarantined"]) == (0, 1)
    assert totals(configured)["quarantined_rows"] == 0
    sluice("quarantine retry", bad.key)
    assert counted_in_status(sluice) == {"objects": 0, "rows": 0} and totals(configured)["objects_quarantined"] == 0


def test_a_rebuild_without_an_object_that_is_gone_keeps_its_rows_counted(configured, sluice):
    good, holed = (configured.admit(put(configured, n)) for n in range(2))
    settled(configured, [good, holed], rows={holed: [a_row(1), a_row(4)]})
    configured.s3.delete_object(Bucket="s-bronze", Key=holed.key, VersionId=holed.version)
    rebuild(configured, sluice, "--without-gone")
    assert counted_in_status(sluice)["rows"] == totals(configured)["quarantined_rows"] == 2
    sluice("quarantine discard", holed.key, "--yes")
    assert totals(configured)["quarantined_rows"] == 0


def test_status_shows_what_is_listed_where_a_total_is_wrong_and_a_rebuild_mends_it(configured, sluice):
    good, bad = (configured.admit(put(configured, n)) for n in range(2))
    settled(configured, [good, bad], bad=[bad])
    set_fields(configured.ledger, items.table_key("crm.user"), total_objects_quarantined=-1)
    assert counted_in_status(sluice)["objects"] == 1
    rebuild(configured, sluice)
    assert totals(configured)["objects_quarantined"] == 1


def test_a_decision_that_is_made_while_a_rebuild_counts_is_counted(configured, sluice, monkeypatch):
    good, bad = (configured.admit(put(configured, n)) for n in range(2))
    settled(configured, [good, bad], bad=[bad])
    counted, decided = RebuildLedger._in_quarantine, []

    def counting(self, table):
        actual = counted(self, table)
        if not decided:
            decided.append(run(["quarantine", "discard", bad.key, "--yes"]))
        return actual

    monkeypatch.setattr(RebuildLedger, "_in_quarantine", counting)
    rebuild(configured, sluice)
    assert decided == [0] and totals(configured)["objects_quarantined"] == 0


@pytest.mark.parametrize(
    ("key", "proposed"),
    [
        ("exports/people/2026.json", True),
        *((key, False) for key in ("drop/notes.txt", "notes.json", "topics/a b/x.json")),
    ],
    ids=["by its folders", "no format", "no folder", "no topic of Kafka's"],
)
def test_no_step_of_a_parked_object_leads_to_a_proposal_that_discover_lacks(stack, sluice, monkeypatch, key, proposed):
    monkeypatch.setattr("sluice_cli.ingest.wait.JUST_BEFORE_MS", 10**13)
    identity = stack.write(key, b'{"id": 1, "name": "a"}\n' if proposed else b"a line of a text\n")
    waits = stack.park(identity, None, reason=classify(key, 9).reason)
    assert bool(sluice.json("config discover", code=None)["proposals"]) is proposed
    for verb in ("status", "wait", f"trace {shlex.quote(key)}"):
        said = "".join(sluice(*shlex.split(verb), code=None))
        assert ("`sluice config discover`" in said, "`key_pattern`" in said) == (proposed, not proposed), verb
    parked = sluice.json("status")["set_aside"]["parked"]
    assert (parked["without_rule"], parked["rules_proposed"]) == (1, int(proposed))
    assert ("`key_pattern`" in sluice("quarantine retry", waits.hash, code=1).out) is not proposed


OTHER_RULE = "defaults: {record_key: [id]}\ntables: [{topic: hr.staff, table: hr.staff}]\n"
TAKEN = "crm.user takes it now, and a `sluice config push` of the same file makes it pending"


@pytest.mark.parametrize(
    ("rules", "why", "unruled"),
    [
        pytest.param(None, NO_CONFIGURATION, True, id="none pushed"),
        pytest.param(OTHER_RULE, "no rule of tables.yaml takes this topic", True, id="no rule"),
        pytest.param(TABLES, TAKEN, False, id="a rule"),
    ],
)
def test_a_parked_object_has_the_reason_of_the_rules_in_force(stack, tables, sluice, monkeypatch, rules, why, unruled):
    monkeypatch.setattr("sluice_cli.ingest.wait.JUST_BEFORE_MS", 10**13)
    if rules is not None:
        sluice("config push", tables(rules))
    key = "topics/crm.public.user/partition=0/crm.public.user+0+0000000000.avro"
    waits = stack.park(stack.write(key), reason=NO_CONFIGURATION)
    shown = {}
    for verb in ("status", "quarantine list --parked", "wait", f"trace {key}", "history", "audit --objects"):
        out, err = sluice(*verb.split(), code=None)
        shown[verb] = (why in out.replace("\n", " "), "`sluice config discover`" in out + err)
    proposes = {"status", "quarantine list --parked", "wait", f"trace {key}"} if unruled else set()
    assert shown == {verb: (True, verb in proposes) for verb in shown}
    parked = sluice.json("status")["set_aside"]["parked"]
    assert [reason["reason"] for reason in parked["reasons"]] == [f"topic crm.public.user: {why}"]
    assert parked["without_rule"] == parked["rules_proposed"] == int(unruled)
    left = sluice("quarantine retry", waits.hash, code=1).out
    assert (TAKEN in left) is not unruled and ("proposes a rule for its topic" in left) is unruled
    if not unruled:
        assert "1 parked object now pending" in sluice("config push tables.yaml").out
