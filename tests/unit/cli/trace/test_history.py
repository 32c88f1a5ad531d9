"""What `sluice history` prints in terminals of several widths."""

from support.builders import to_a_terminal, unstyled

from sluice.batch.manifest import Manifest, ManifestObject, TablePart
from sluice.batch.outcome import ObjectError, Outcome, RowErrorCount
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_aws.clock import epoch_ms
from sluice_aws.s3.past_batches import PastBatch
from sluice_cli.trace.history import print_history
from sluice_cli.trace.history_search import Gathered
from sluice_cli.trace.object_history import Claim, Entry, claims_of, moments, totals

BATCH, RUN = "b-8a85abb73509df04e8c7fccfb81fb18e", "run-main-20261121T154711Z-94f63899"
PUT, NOW = 1_795_000_000_000, epoch_ms()


def entry(number, table="crm.user", put=PUT):
    key = f"topics/tickit.{table}/year=2026/month=11/day=21/tickit.{table}+0+{number:010d}.avro"
    identity = ObjectId("bronze", key, "v1")
    record = ObjectRecord(identity, "committed", put + 500, size=37_474, table=table, batch=BATCH)
    at = put + 32_700
    claim = Claim(BATCH, table, RUN, put + 7_900, "committed", 3, 9, at, at, part={"read": 564})
    return Entry(identity, record, put, (claim,))


ENTRIES = tuple(entry(number) for number in range(3))


def printed(monkeypatch, capsys, *entries, width=None):
    if width is not None:
        to_a_terminal(monkeypatch, width)
    shown = entries or ENTRIES
    print_history(Gathered(shown, ()), totals(shown, ()))
    return unstyled(capsys.readouterr().out)


def claimed(number, state="committed", **columns):
    """An object that a batch of four claimed."""
    identity = ObjectId("bronze", f"topics/crm.user/crm.user+0+{number}.avro", "v1")
    return ObjectRecord(identity, state, PUT + 500, size=9, table="crm.user", batch=BATCH, noticed_at=PUT, **columns)


def batch_of(records, *committed, **outcome):
    part = TablePart(
        {}, tuple(ManifestObject("bronze", r.id.key, "v1", 9, None, "avro", "t", 0, 1, PUT) for r in records)
    )
    manifest = Manifest(BATCH, "main", RUN, PUT + 7_900, "c", {"crm.user": part})
    return PastBatch(manifest, {"crm.user": Outcome(BATCH, "crm.user", "committed", *committed, **outcome)})


def test_what_a_batch_set_aside_is_neither_readable_nor_among_its_changes(monkeypatch, capsys):
    good = (claimed(1), claimed(2))
    bad, behind = claimed(3, "quarantined", code="not_avro"), claimed(4, "parked", code="log_restarted")
    records = (*good, bad, behind)
    counts = {"objects": 4, "quarantined_objects": 1, "parked_objects": 1, "read": 564}
    aside = (ObjectError(bad.id.hash, "not_avro", "no Avro"),)
    parked = (ObjectError(behind.id.hash, "log_restarted", "it restarted"),)
    batch = batch_of(records, PUT + 32_700, "20261121154740440", counts=counts, quarantined=aside, parked=parked)
    entries = tuple(Entry(record.id, record, PUT, claims_of(record.id, record, [batch])) for record in records)
    assert [record.readable_at for record in entries] == [PUT + 32_700] * 2 + [None] * 2
    assert [record.claims[0].state for record in entries] == ["committed", "committed", "quarantined", "parked"]
    lines = [line.split("\t") for line in printed(monkeypatch, capsys, *entries)[1:5]]
    assert [(line[3], line[8]) for line in lines] == [("+32.7 s", "564 / 2")] * 2 + [("-", "-")] * 2
    print_history(Gathered(entries[2:], (batch,)), totals(entries[2:], [batch]))
    assert "564" not in capsys.readouterr().err, "a batch's changes are not those of objects that it set aside"


def test_changes_that_nothing_counted_are_named(monkeypatch, capsys):
    record = claimed(1)
    counts = {"objects": 1, "inserted": 3}  # of Hudi's commit, as a take-over finds it
    batch = batch_of([record], PUT + 32_700, "20261121154740440", counts=counts)
    of_object = Entry(record.id, record, PUT, claims_of(record.id, record, [batch]))
    print_history(Gathered((of_object,), (batch,)), totals((of_object,), [batch]))
    said = "Not counted: the changes of 1 table's part of a batch, whose run died after its commit"
    assert said in capsys.readouterr().err


def test_an_object_all_of_whose_rows_were_set_aside_is_committed_and_not_readable():
    holed = claimed(1, "committed", quarantined_rows=2)
    counts = (RowErrorCount(holed.id.hash, 2, {"unordered_change": 2}),)
    batch = batch_of([holed], PUT + 9_000, no_change=True, quarantined_rows=counts)
    of_object = Entry(holed.id, holed, PUT, claims_of(holed.id, holed, [batch]))
    assert of_object.readable_at is None
    assert ("committed", PUT + 9_000) in [(moment.name, moment.at) for moment in moments(of_object)]
