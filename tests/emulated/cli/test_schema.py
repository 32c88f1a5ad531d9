"""Schema histories in an emulated bucket, and the `schema` verbs that show them."""

import json

import pytest
from emulation.stack import NOW, describe
from support.judged_schemas import BAD, NEW, OLD, STORED, TABLE, decimal, flattened, judged

from sluice.schema.avro import read_writer_schema
from sluice.schema.history import StoredColumns, seen_key, stored_key
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import MAX_AGE_MS, ColumnsAtHand, SchemaHistory, SchemaStore
from sluice_cli.main import run

TABLES = "defaults: {record_key: [id]}\ntables: [{topic: crm.public.user, table: crm.user}]\n"


@pytest.fixture
def history(stack):
    return SchemaHistory(Objects(stack.s3), "s-silver")


def test_a_schema_seen_once_is_stored_once(stack, history):
    history.note(judged(OLD, at=1))
    first = stack.s3.head_object(Bucket="s-silver", Key=seen_key(TABLE, judged(OLD).fingerprint))["LastModified"]
    again = SchemaHistory(Objects(stack.s3), "s-silver")
    for each in (history, again, again):
        each.note(judged(OLD, at=9, batch="b-9"))
    (kept,) = again.schemas(TABLE)
    assert [verdict.at for verdict in kept.judged] == [1]
    assert stack.s3.head_object(Bucket="s-silver", Key=seen_key(TABLE, kept.fingerprint))["LastModified"] == first


def test_admission_looks_at_a_tables_columns_once_a_minute(stack, history):
    clock = [1_000]
    at_hand = ColumnsAtHand(Objects(stack.s3), "s-silver", lambda: clock[0])
    assert at_hand.of(TABLE) is None
    history.keep_columns(StoredColumns(TABLE, STORED))
    assert at_hand.of(TABLE) is None
    clock[0] += MAX_AGE_MS
    assert at_hand.of(TABLE) == STORED
    history.keep_columns(StoredColumns(TABLE, {**STORED, "more": "int"}))
    assert at_hand.of(TABLE) == STORED
    clock[0] += MAX_AGE_MS
    assert at_hand.of(TABLE)["more"] == "int"
    clock[0] += MAX_AGE_MS
    assert at_hand.of(TABLE)["more"] == "int"  # S3 said that nothing has changed
    assert stored_key(TABLE) == "_sluice/schemas/tables/crm.user/stored.json"


@pytest.fixture
def remembered(stack, history, tmp_path, capsys):
    (tmp_path / "tables.yaml").write_text(TABLES)
    assert run(["config", "push", "tables.yaml"]) == 0
    store = SchemaStore(Objects(stack.s3), "s-silver")
    for at, (schema, stored) in enumerate(((OLD, None), (NEW, STORED), (BAD, STORED)), 1):
        store.keep(schema)
        history.note(judged(schema, stored=stored, at=NOW + at))
    history.keep_columns(StoredColumns(TABLE, STORED))
    capsys.readouterr()
    return [read_writer_schema(schema).fingerprint for schema in (OLD, NEW, BAD)]


def test_a_stack_without_schemas_or_requested_services_says_so(stack, capsys):
    assert run(["table", "schema", "list"]) == 0
    assert "No schema is known yet" in capsys.readouterr().err
    assert run(["ops", "services", "list"]) == 0
    assert "No service was requested yet, and none is due" in capsys.readouterr().err


def test_foreign_files_among_the_schemas_are_skipped_and_named(remembered, stack, capsys):
    foreign = [seen_key(TABLE, "f" * 32), stored_key(TABLE)]
    for key in (*foreign, "_sluice/schemas/tables/part-0.parquet"):
        stack.s3.put_object(Bucket="s-silver", Key=key, Body=b"PAR1\xff")
    assert run(["table", "schema", "list", "--json"]) == 0
    found = describe(capsys)
    assert found["tables"] == [
        {"table": TABLE, "columns": 0, "schemas": 3, "incompatible": 1, "last_verdict": "incompatible"}
    ]
    assert sorted(entry["key"] for entry in found["skipped_documents"]) == sorted(foreign)
    assert run(["table", "schema", "history", TABLE]) == 0
    assert foreign[0] in capsys.readouterr().err
    assert ColumnsAtHand(Objects(stack.s3), "s-silver", lambda: 1).of(TABLE) is None


def test_the_history_shows_each_schemas_verdict_and_changes(remembered, capsys):
    assert run(["table", "schema", "history", TABLE, "--json"]) == 0
    found = describe(capsys)
    assert found["columns"] == {"id": "bigint", "price": "decimal(18,4)", "gone": "string"}
    assert [(schema["fingerprint"], schema["verdict"]) for schema in found["schemas"]] == list(
        zip(remembered, ["new_table", "rewritten", "incompatible"], strict=True)
    )
    assert [(change["column"], change["change"]) for change in found["schemas"][1]["judged"][0]["changes"]] == [
        ("price", "rewritten"),
        ("gone", "dropped"),
        ("added", "added"),
    ]
    assert run(["table", "schema", "history", TABLE]) == 0
    printed = capsys.readouterr().out
    assert "Column price is string and the table has decimal(18,4)" in printed and remembered[0][:12] in printed


def test_two_schemas_are_compared_column_by_column(remembered, capsys):
    assert run(["table", "schema", "diff", TABLE, remembered[0][:8], remembered[2][:8], "--json"]) == 0
    assert [(change["column"], change["change"]) for change in describe(capsys)["changes"]] == [
        ("price", "incompatible"),
        ("gone", "dropped"),
    ]
    assert run(["table", "schema", "diff", TABLE, "--json"]) == 0
    document = describe(capsys)
    assert (document["old"], document["new"]) == ("stored", remembered[2])
    assert run(["table", "schema", "diff", TABLE, "stored", remembered[0]]) == 0
    assert (
        capsys.readouterr().out
        == f"no column differs between the table's own columns and the schema {remembered[0][:12]}\n"
    )


def test_the_verdict_on_a_file_shows_its_effect_on_the_table(remembered, tmp_path, capsys):
    (tmp_path / "next.avsc").write_text(
        json.dumps(flattened(id="long", price=decimal(18, 4), gone="string", more="int"))
    )
    assert run(["table", "schema", "verdict", TABLE, "next.avsc", "--json"]) == 0
    document = describe(capsys)
    assert (document["verdict"], [change["described"] for change in document["judged"][0]["changes"]]) == (
        "added",
        ["more is new (int): null in rows from before"],
    )
    assert run(["table", "schema", "verdict", TABLE, remembered[1][:10]]) == 0
    assert "rewrites the table" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["diff", TABLE, "zz"], "No schemas of crm.user begin with 'zz'"),
        (["verdict", TABLE, ""], "3 schemas of crm.user begin with ''"),
    ],
)
def test_a_missing_schema_is_reported_with_the_next_step(remembered, capsys, arguments, message):
    assert run(["table", "schema", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and "sluice table schema list" in error
