"""Schema histories are read back as they were written."""

import pytest
from support.judged_schemas import BAD, NEW, OLD, STORED, TABLE, judged

from sluice.errors import UnreadableHistory
from sluice.schema.history import SeenSchema, StoredColumns


@pytest.mark.parametrize("schema", [OLD, NEW, BAD])
def test_a_schema_and_its_verdict_are_written_and_read_back(schema):
    assert SeenSchema.from_json(judged(schema).to_json()) == judged(schema)


def test_a_tables_columns_keep_their_order():
    columns = StoredColumns(TABLE, STORED, "log")
    assert StoredColumns.from_json(columns.to_json()) == columns
    with pytest.raises(UnreadableHistory):
        StoredColumns.from_json(columns.to_json().replace('"log"', "7"))
    assert list(StoredColumns.from_json(StoredColumns(TABLE, STORED).to_json()).columns.items()) == list(STORED.items())


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 9}', '{"format": 1}', '{"format": 1, "table": "t", "columns": [1]}']
)
@pytest.mark.parametrize("kind", [SeenSchema, StoredColumns])
def test_a_document_of_another_kind_is_refused(kind, text):
    with pytest.raises(UnreadableHistory):
        kind.from_json(text)


def test_a_verdict_is_added_only_where_a_schema_changes_sides():
    bad = judged(BAD)
    assert bad.judged_again(judged(BAD, at=5).judged[-1]) is bad
    let_in = bad.judged_again(judged(BAD, stored={"id": "bigint", "price": "string"}, at=7).judged[-1])
    assert [(verdict.verdict, verdict.at) for verdict in let_in.judged] == [("incompatible", 1), ("same", 7)]
    assert let_in.verdict == "same"
