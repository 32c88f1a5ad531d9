"""`sluice verify`: tables that Spark wrote are compared with objects of the changes that they were made of."""

import json
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from emulation.aws import set_fields
from emulation.stack import NOW
from support.builders import avro_object, change, flattened
from support.silver_tables import (
    FORGOTTEN_AT,
    SILVER_FOLDER,
    SilverFolder,
    kept_change,
    put_appended,
    put_forgetting,
    put_history,
)

from sluice.batch.kafka_watch import KafkaWatch
from sluice.batch.outcome import COMMITTED, ObjectError, Outcome, RowErrorCount
from sluice.batch.row_errors import row_error, to_lines
from sluice.changes.hidden_columns import ROW
from sluice.changes.row_history import Row
from sluice.config.rules.columns import ColumnRules
from sluice.config.rules.expectations import Expectations
from sluice.config.table import TableConfig
from sluice.errors import SluiceError, UsageError
from sluice.ledger import keys
from sluice.silver_keys import rows_key
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.past_batches import PastBatches
from sluice_cli.trace import verify
from sluice_cli.trace.verification import Disagreement, Verification, Verified
from sluice_read.reading import Shown, open_table

SILVER = "s-silver"
TYPES = {
    "nationality": "string",
    "name": "string",
    "born": {"type": "int", "logicalType": "date"},
    "fee": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "photo": "bytes",
    "seen": {"type": "long", "logicalType": "timestamp-micros"},
    "tags": {"type": "array", "items": ["null", "string"]},
    "note": "string",
    "date": {"type": "int", "logicalType": "date"},
}
COLUMNS = {"id": "int", **{name: ["null", kind] for name, kind in TYPES.items()}}


class Source:
    """A table on disk, and objects of the changes that made it, each with one change at the row's position."""

    def __init__(self, stack, table):
        self.stack, self.table = stack, table
        self.place = SilverFolder(SILVER_FOLDER)
        opened = open_table(self.place, table)
        self.instant = opened.instant
        database, _, name = table.partition(".")
        self.config = TableConfig(table, database, name, topic="t", record_key=("id",))
        self.columns = {name: kind for name, kind in COLUMNS.items() if name in opened.stored_schema.names}
        shown = Shown(with_deleted=True, lineage=True)
        self.rows = [row for batch in opened.batches(shown) for row in batch.to_pylist()]
        self.items, self.batches = {}, 0
        for row in self.rows:
            self.put(row, op="d" if row["__deleted"] else "u")

    def put(self, row, *, op="u", back=0, **values):
        """An object with a change of a row, `back` positions before the stored one."""
        position = int(row["_sluice_position"].rpartition(".")[2]) - back
        given = {name: row[name] for name in self.columns}
        body = avro_object(flattened(self.columns), [change(op, position, source_ts_ms=5, **given | values)])
        key = f"topics/t/partition=0/t+0+{position:010d}.avro"
        identity = self.stack.write(key, body)
        item = self.stack.listed(identity, "t", offset=position)
        self.items[row["id"], back] = item
        return item

    def manifest(self):
        return self.stack.batch(self.config, *self.items.values(), at=NOW + self.batches)

    def set_aside(self, item, error):
        """The record of an object that a batch of all objects so far set aside, and how its outcome counts it."""
        error = row_error(0, error, {"id": 97}, offset=97, position=None)
        key = rows_key(self.manifest().batch, self.table, item.id.hash)
        self.stack.s3.put_object(Bucket=SILVER, Key=key, Body=to_lines([error]).encode())
        return (RowErrorCount(item.id.hash, 1, {error.code: 1}),)

    def copied(self, folder):
        """Read the table in a folder of its own, which a test may change."""
        shutil.copytree(SILVER_FOLDER, folder)
        self.place = SilverFolder(folder)
        return folder

    def merged(self, **more):
        """Manifest and outcome of a batch of all objects so far."""
        manifest, counts = self.manifest(), {"objects": len(self.items)}
        outcome = Outcome(manifest.batch, self.table, COMMITTED, NOW, self.instant, counts=counts, **more)
        self.stack.put_documents(manifest, outcome)
        return manifest.batch

    def replayed(self, **settings):
        """A batch of all objects again, under a rule with these settings."""
        self.config = replace(self.config, **settings)
        self.batches += 1
        self.items = {key: replace(item, attempt=self.batches) for key, item in self.items.items()}
        return self.merged()

    def verify(self, sample=None, table=None, **how):
        target = self.place
        target.ledger, target.objects, target.silver = self.stack.ledger, Objects(self.stack.s3), SILVER
        target.past_batches = lambda: PastBatches(target.objects, SILVER)
        return Verification(target, tick=lambda what, done: None, **how).run(table or self.table, sample)


@pytest.fixture(params=[pytest.param("moma.artists", marks=pytest.mark.long), "moma.works"])
def source(stack, request):
    return Source(stack, request.param)


def alive(source):
    return [row for row in source.rows if not row["__deleted"]]


def kinds(verified):
    return {(disagreement.key, disagreement.kind) for disagreement in verified.disagreements}


def test_a_table_that_equals_its_objects_is_proven_whatever_came_late_or_twice(source):
    twice, late = alive(source)[:2]
    source.items["again", 0] = source.items[twice["id"], 0]
    source.put(twice)
    source.put(late, back=1, name="older")
    source.merged()
    verified = source.verify()
    assert kinds(verified) == set() and verified.proven and verified.unread == []
    assert (verified.keys, verified.rows, verified.share) == (len(source.rows), len(source.rows), 1)
    assert verify.document_of(verified)["proven"]


def test_a_value_that_differs_is_found_in_whatever_pass(source):
    row = alive(source)[-1]
    source.put(row, name="another")
    source.merged()
    verified = source.verify(keys_at_once=2)
    assert kinds(verified) == {((row["id"],), "other_values")} and not verified.proven
    assert verified.keys == len(source.rows)


def test_rows_that_the_table_lacks_or_should_not_have_are_found(source):
    gone, newer, back = alive(source)[:3]
    del source.items[gone["id"], 0]
    source.put(newer, back=-50)
    source.put(back, op="d", back=-60)
    source.put({**back, "id": 99})
    source.merged()
    verified = source.verify()
    expected = {((gone["id"],), "back"), ((newer["id"],), "other_position"), ((back["id"],), "back"), ((99,), "lost")}
    assert kinds(verified) == expected


def test_a_truncate_removes_every_older_row(source):
    source.put(source.rows[0], op="t", back=-10_000)
    source.merged()
    assert kinds(source.verify()) == {((row["id"],), "back") for row in alive(source)}


@pytest.fixture
def edited(source, tmp_path):
    """The source with its table in a folder of its own, and a function that edits the rows of the table's files."""
    folder = source.copied(tmp_path / "silver") / source.table.replace(".", "/")

    def edit(change):
        for file in folder.rglob("*.parquet"):
            whole = pq.read_table(file)
            pq.write_table(pa.Table.from_pylist(change(whole.to_pylist()), whole.schema), file)

    source.folder, source.edit = folder, edit
    source.merged()
    return source


def planted(source):
    return {disagreement.kind for disagreement in source.verify().disagreements}


def test_a_row_that_is_there_twice_is_found(edited):
    edited.edit(lambda rows: [*rows, *rows[-1:]])
    assert planted(edited) == {"twice"}


def test_a_tombstone_that_is_gone_is_found_unless_it_was_purged(edited):
    gone = [row for row in edited.rows if row["__deleted"]]
    edited.edit(lambda rows: [row for row in rows if not row["__deleted"]])
    assert kinds(edited.verify()) == {((row["id"],), "no_tombstone") for row in gone} and gone
    with (edited.folder / ".hoodie" / "hoodie.properties").open("a") as file:
        file.write(f"\nsluice.purged_below={max(row['_sluice_position'] for row in gone)}\n")
    assert edited.verify().proven


def test_columns_that_are_owed_or_no_more_owed_are_found(edited):
    row = alive(edited)[0]
    owed = {"_sluice_owed": json.dumps({"name": row["_sluice_position"]})}
    edited.edit(lambda rows: [{**stored, **(owed if stored["id"] == row["id"] else {})} for stored in rows])
    assert kinds(edited.verify()) == {((row["id"],), "other_owed")}


def test_values_that_no_object_brought_are_named(opened, monkeypatch, sluice):
    source, row = opened, alive(opened)[0]
    del source.items[row["id"], 0]
    source.put(row, name="__debezium_unavailable_value")
    source.merged()
    whole = Verification._stored

    def rows(self, opened, wanted):
        for key, stored in whole(self, opened, wanted):
            owes = {"values": {**stored.values, "name": None}, "owed": {"name": ""}} if key == (row["id"],) else {}
            yield key, replace(stored, **owes)

    monkeypatch.setattr(Verification, "_stored", rows)
    assert source.verify().owing == [((row["id"],), ("name",))]
    assert f"row {row['id']}: no object brought its name\n" in sluice("verify", source.table).out


def test_a_floor_that_is_gone_is_found(source):
    source.put(min(source.rows, key=lambda row: row["_sluice_position"]), op="t", back=1)
    source.merged()
    verified = source.verify()
    (missing,) = verified.floors
    assert missing.startswith("sluice.truncated_at=") and not verified.proven
    lines = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify, "print_line", lambda text, **_: lines.append(text))
        verify._print(verified)
    assert any("properties lack sluice.truncated_at=" in line for line in lines)
    source.stack.ledger.tables.raise_purge_floor(source.table, {0: "0000.9"})
    assert "sluice.purged_below=0000.9" in source.verify().floors


def test_rows_and_commits_that_a_history_table_lacks_are_found(stack, tmp_path):
    source = Source(stack, "crm.user")
    silver = source.copied(tmp_path / "silver")
    source.config = replace(source.config, history=True)
    source.merged()
    rows, place = source.rows, "_sluice_position"
    changes = [{**kept_change(row["id"], row["name"], 1), place: row[place]} for row in rows]
    put_history(silver, changes)
    assert source.verify().proven
    put_history(silver, changes[1:])
    assert kinds(source.verify()) == {((source.rows[0]["id"],), "no_history")}
    for commit in (silver / "crm" / "user_history" / ".hoodie").glob("*commit"):
        commit.unlink()
    assert {disagreement.kind for disagreement in source.verify().disagreements} == {"no_history"}


def test_records_of_a_table_without_a_key_are_compared_one_by_one(stack, tmp_path):
    source = Source(stack, "crm.user")
    silver = source.copied(tmp_path / "silver")
    source.config = replace(source.config, record_key=(ROW,), append_only=True)
    source.merged()
    rows = {row["id"]: row for row in source.rows}
    names = {id: f"{item.id.bucket}/{item.id.key}#0000000000" for (id, _), item in source.items.items()}
    put_appended(silver, [{**rows[id], ROW: name, "__deleted": False} for id, name in names.items()])
    verified = source.verify()
    assert verified.proven and verified.keys == len(rows)
    put_appended(silver, [{**rows[1], ROW: names[1], "name": "x"}, {**rows[2], ROW: names[2]}])
    assert kinds(source.verify()) == {((names[1],), "other_values"), ((names[3],), "lost")}


def test_records_whose_reasons_are_gone_leave_the_table_unproven(source):
    item = source.items[alive(source)[0]["id"], 0]
    source.merged(quarantined_rows=(RowErrorCount(item.id.hash, 1, {"null_record_key": 1}),))
    verified = source.verify()
    assert [key for key, _ in verified.unread] == [item.key] and not verified.proven


def test_samples_take_a_share_of_the_keys_and_find_what_is_lost(source):
    for number in range(100, 140):
        source.put({**alive(source)[0], "id": number}, back=-number)
    source.merged()
    verified = source.verify(sample=2)
    whole = len(source.rows) + 40
    assert verified.share == -(-len(source.rows) // 2) and 0 < verified.keys < whole
    assert {disagreement.kind for disagreement in verified.disagreements} == {"lost"}


def test_objects_and_records_that_were_set_aside_do_not_count(source):
    row = alive(source)[0]
    whole = source.put({**row, "id": 98}, back=-98)
    rows = source.set_aside(source.put({**row, "id": 97}, back=-97), SluiceError("a shared key"))
    source.merged(quarantined=(ObjectError(whole.id.hash, "corrupt", "cut off"),), quarantined_rows=rows)
    assert source.verify().proven


def test_a_change_that_is_gone_from_bronze_leaves_the_table_unproven(source):
    row = alive(source)[0]
    item = source.items[row["id"], 0]
    source.merged()
    source.stack.s3.delete_object(Bucket=item.bucket, Key=item.key, VersionId=item.version)
    verified = source.verify()
    assert [key for key, _ in verified.unread] == [item.key] and not verified.proven
    assert kinds(verified) == {((row["id"],), "back")}


def test_a_later_change_that_lost_leaves_the_table_unproven(opened, sluice):
    source, row = opened, alive(opened)[0]
    source.put(row, back=1, name="late")
    source.merged()
    assert source.verify().proven
    lsn, key = int(row["_sluice_position"].rpartition(".")[2]) - 2, "topics/t/partition=0/t+0+0000900000.avro"
    body = avro_object(flattened(source.columns), [change(op="u", lsn=lsn, source_ts_ms=99, id=row["id"], name="new")])
    identity = source.stack.write(key, body)
    source.items["fallen", 0] = source.stack.listed(identity, "t", offset=900_000)
    source.merged()
    verified = source.verify()
    assert (verified.outdated, verified.disagreements, verified.proven) == ([(row["id"],)], [], False)
    out = sluice("verify", source.table, code=1).out
    assert f"row {row['id']}: a later change of it lost\n1 later change lost" in out
    assert f"raise the `generation` of {source.table}" in out and "every row is" not in out
    # Raised, and read anew.
    source.config = replace(source.config, generation=1)
    assert source.verify().outdated


def test_what_the_batches_counted_as_lost_leaves_the_table_unproven(source):
    source.merged()
    watch = KafkaWatch().with_lost(3, generation=0).to_dict()
    set_fields(source.stack.ledger, keys.table_key(source.table), watch=watch)
    verified = source.verify()
    assert (verified.lost, verified.outdated, verified.proven) == (3, [], False)
    source.replayed(generation=1)
    assert source.verify().lost == 0


@pytest.fixture
def opened(source, monkeypatch):
    """The source, whose table the command reads."""
    monkeypatch.setattr(
        "sluice_cli.trace.row_life.open_table", lambda _, table, span: open_table(source.place, table, span=span)
    )
    return source


def test_a_replay_under_another_rule_explains_differences_and_conceals_values(opened, sluice):
    source, row = opened, alive(opened)[0]
    source.merged()
    source.replayed(columns=ColumnRules(mask={"name": 0}))
    out = sluice("verify", source.table, code=1).out
    assert f"row {row['id']}: the table has other values: name differs\n" in out
    verdict = f"{len(alive(source))} rows differ, all explained by the changed `columns` of the table's rule"
    assert out.splitlines()[-2:] == [verdict, f"`sluice rebuild table {source.table}` writes the table again"]
    document = sluice.json("verify", source.table, code=1)
    assert {tuple(disagreement["rule_changed"]) for disagreement in document["disagreements"]} == {("columns",)}
    assert row["name"] not in str(document) and "***" not in str(document)


def test_rows_are_named_by_their_keys_and_one_line_is_the_verdict(capsys):
    row = Row("p", False, {"fee": 1, "name": "a", "note": "x"})
    other = replace(row, values={"fee": 2, "name": "b", "note": "y"})
    verified = Verified("crm.user", "1", keys=2)
    verified.disagreements += [
        Disagreement((1001, "it's"), "other_position", row, other),
        Disagreement((5,), "lost", row, None, ("columns", "expect")),
    ]
    verify._print(verified)
    assert capsys.readouterr().out.splitlines()[1:] == [
        """row 1001 'it'"'"'s': the table has another change of the row: fee, name and note differ""",
        "row 5: the table lacks the row",
        "2 rows differ, 1 of them explained by the changed `columns` and `expect` of the table's rule",
        "`sluice row crm.user KEY` shows where a row comes from, "
        "`sluice rebuild table crm.user` writes the table again",
    ]


def test_rows_that_a_later_expectation_sets_aside_are_expected_to_differ(opened, sluice):
    source, row = opened, alive(opened)[0]
    source.merged()
    item = source.items[row["id"], 0]
    source.replayed(expect=Expectations(columns={"name": {"in": ["nobody"]}}))
    source.merged(quarantined_rows=source.set_aside(item, SluiceError("not in the list")))
    out = sluice("verify", source.table, code=1).out
    assert f"row {row['id']}: the table has a row that is deleted, or " in out
    assert "explained by the changed `expect`" in out


@pytest.fixture
def forgotten(source, tmp_path):
    """The source with a row 99 that was merged and then forgotten, and its object in bronze."""
    silver, row = source.copied(tmp_path / "silver"), {**alive(source)[0], "id": 99}
    source.put(row, op="c")
    source.merged()
    put_forgetting(silver, source.table, ["99"], row["_sluice_position"])
    return source, row


def test_a_forgotten_row_is_no_lost_one_and_its_table_is_still_compared(forgotten):
    source, row = forgotten
    verified = source.verify()
    assert kinds(verified) == set() and verified.proven and verified.instant == FORGOTTEN_AT
    source.put(row, op="u", back=-900)
    source.merged()
    assert kinds(source.verify()) == {((99,), "lost")}, "a later change is a new row"


def test_a_table_without_a_kept_batch_is_refused(source):
    with pytest.raises(UsageError, match="No commit of a table"):
        source.verify()
