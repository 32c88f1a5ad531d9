"""docs/types.md agrees with the code: every row of its table is tried, and every type with a meaning is listed."""

import re

import pytest
from support.documented_types import ROWS, TEXT, column_of, described_types

from sluice.schema import columns as kinds
from sluice.schema.columns import as_raw

HUDI = {
    "boolean": "boolean",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": "int date",
    "timestamp": "long timestamp-micros",
}


def hudi(spark):
    items = re.fullmatch(r"array<(.*)>", spark)
    if items:
        return f"array of {hudi(items[1])}"
    return f"fixed {spark}" if spark.startswith("decimal") else HUDI[spark]


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:60] for row in ROWS])
def test_a_source_type_becomes_what_the_document_says(row):
    _, comes, spark, stored, glue, raw, _ = row
    columns = [column_of(described) for described in described_types(comes)]
    types = list(dict.fromkeys(column.spark_type for column in columns))
    assert " ".join(types) == spark == glue
    assert " ".join(hudi(column) for column in types) == stored
    raw_types = list(dict.fromkeys(as_raw(column).spark_type for column in columns))
    assert " ".join(raw_types) == (raw or spark)


def test_every_type_with_a_meaning_of_its_own_is_in_the_document():
    described = {item for row in ROWS for item in described_types(row[1])}
    with_meaning = {f"{base} {name}" for table in (kinds.SEMANTIC_TYPES, kinds._LOGICAL_TYPES) for base, name in table}
    assert with_meaning - described == set()
    assert {column_of(item).kind for item in described} | {
        column_of(item).element.kind for item in described if column_of(item).element
    } >= set(kinds.SPARK_TYPES)


def test_the_table_of_reads_has_every_stored_type_and_no_unread_one():
    lines = TEXT[TEXT.index("| stored as |") :].partition("\n\n")[0].splitlines()
    header, _, *cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    stored = {re.sub(r"\(.*?\)", "", column_of(item).spark_type) for row in ROWS for item in described_types(row[1])}
    plain = {kind for kind in stored if not kind.startswith("array")}
    assert {row[0] for row in cells} == stored | {f"array<{kind}>" for kind in plain}
    assert len(header) == 6 and all(row[1:] == ["all"] * 5 for row in cells)


def test_the_document_covers_every_verdict():
    from sluice.schema.evolution import ADDED, DROPPED, INCOMPATIBLE, NARROWER, PROMOTED, REWRITTEN, SAME

    assert all(
        f"`{verdict}`" in TEXT for verdict in (SAME, DROPPED, NARROWER, ADDED, PROMOTED, REWRITTEN, INCOMPATIBLE)
    )
