"""Schema histories in an emulated bucket, and the `schema` verbs that show them."""

import pytest
from emulation.stack import NOW
from support.judged_schemas import BAD, NEW, OLD, STORED, TABLE, judged

from sluice.schema.avro import read_writer_schema
from sluice.schema.history import StoredColumns, seen_key, stored_key
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import MAX_AGE_MS, ColumnsAtHand, SchemaHistory, SchemaStore

TABLES = "defaults: {record_key: [id]}\ntables: [{topic: crm.public.user, table: crm.user}]\n"


@pytest.fixture
def history(stack):
    return SchemaHistory(Objects(stack.s3), "s-silver")


def test_a_schema_seen_once_is_stored_once(stack, history):
    history.note(judged(OLD, at=1))
    first = stack.s3.head_object(Bucket="s-silver", Key=seen_key(TABLE, judged(OLD).fingerprint))["LastModified"]
    again = SchemaHistory(Objects(stack.s3), "s-silver")
    for written in (history, again, again):
        written.note(judged(OLD, at=9, batch="b-9"))
    (schema,) = again.schemas(TABLE)
    assert [verdict.at for verdict in schema.judged] == [1]
    assert stack.s3.head_object(Bucket="s-silver", Key=seen_key(TABLE, schema.fingerprint))["LastModified"] == first


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
def remembered(stack, history, tables, sluice):
    sluice("config push", tables(TABLES))
    store = SchemaStore(Objects(stack.s3), "s-silver")
    for at, (schema, stored) in enumerate(((OLD, None), (NEW, STORED), (BAD, STORED)), 1):
        store.keep(schema)
        history.note(judged(schema, stored=stored, at=NOW + at))
    history.keep_columns(StoredColumns(TABLE, STORED))
    return [read_writer_schema(schema).fingerprint for schema in (OLD, NEW, BAD)]


def test_foreign_files_among_the_schemas_are_skipped_and_named(remembered, stack, sluice):
    foreign = [seen_key(TABLE, "f" * 32), stored_key(TABLE)]
    for key in (*foreign, "_sluice/schemas/tables/part-0.parquet"):
        stack.s3.put_object(Bucket="s-silver", Key=key, Body=b"PAR1\xff")
    document = sluice.json("table schema list")
    assert document["tables"] == [
        {"table": TABLE, "columns": 0, "schemas": 3, "incompatible": 1, "last_verdict": "incompatible"}
    ]
    assert sorted(entry["key"] for entry in document["skipped_documents"]) == sorted(foreign)
    assert foreign[0] in sluice("table schema history", TABLE).err
    assert ColumnsAtHand(Objects(stack.s3), "s-silver", lambda: 1).of(TABLE) is None
