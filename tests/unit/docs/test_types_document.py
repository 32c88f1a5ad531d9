"""docs/types.md agrees with the code: every row of its table is tried, and every type with a meaning is listed."""

import re
from pathlib import Path

import pytest

from sluice.schema import columns as kinds
from sluice.schema.avro import read_writer_schema
from sluice.schema.columns import as_raw

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "types.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.count("|") == 8][2:]
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
NUMBER = [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}]
SHAPE = [{"name": "wkb", "type": "bytes"}, {"name": "srid", "type": ["null", "int"]}]


def avro_type(described):
    """The Avro type that "comes as" tells."""
    nested = re.match(r"(array|map)( \S+)? of ", described)
    if nested:
        name = {"connect.name": nested[2].strip()} if nested[2] else {}
        return {
            "type": nested[1],
            **name,
            "items" if nested[1] == "array" else "values": avro_type(described[nested.end() :]),
        }
    base, _, name = described.partition(" ")
    decimal = re.fullmatch(r"decimal\((\w+),(-?\d+)\)", name)
    kind = {"type": base}
    if base in ("fixed", "enum"):
        kind.update(name="N", size=8, symbols=["A"])
    if base == "record":
        kind.update(
            name=name.rpartition(".")[2],
            namespace=name.rpartition(".")[0],
            fields=NUMBER if name.endswith("Decimal") else SHAPE,
        )
    if decimal:
        named = decimal[1] != "unnamed"
        parameters = {"scale": decimal[2], **({"connect.decimal.precision": decimal[1]} if named else {})}
        kind.update(
            {
                "logicalType": "decimal",
                "precision": int(decimal[1]) if named else kinds.UNNAMED_PRECISION,
                "scale": int(decimal[2]),
                "connect.parameters": parameters,
            }
        )
    elif name:
        kind["connect.name" if "." in name else "logicalType"] = name
    return kind


def hudi(spark):
    items = re.fullmatch(r"array<(.*)>", spark)
    if items:
        return f"array of {hudi(items[1])}"
    return f"fixed {spark}" if spark.startswith("decimal") else HUDI[spark]


def column(described):
    return read_writer_schema(
        {"type": "record", "name": "V", "fields": [{"name": "c", "type": avro_type(described)}]}
    ).row.columns[0]


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:60] for row in ROWS])
def test_a_source_type_becomes_what_the_document_says(row):
    _, comes, spark, stored, glue, raw, _ = row
    columns = [column(described) for described in re.findall(r"`([^`]+)`", comes)]
    types = list(dict.fromkeys(each.spark_type for each in columns))
    assert " ".join(types) == spark == glue
    assert " ".join(hudi(each) for each in types) == stored
    raw_types = list(dict.fromkeys(as_raw(each).spark_type for each in columns))
    assert " ".join(raw_types) == (raw or spark)


def test_every_type_with_a_meaning_of_its_own_is_in_the_document():
    described = {item for row in ROWS for item in re.findall(r"`([^`]+)`", row[1])}
    with_meaning = {f"{base} {name}" for table in (kinds._SEMANTIC_TYPES, kinds._LOGICAL_TYPES) for base, name in table}
    assert with_meaning - described == set()
    assert {column(item).kind for item in described} | {
        column(item).element.kind for item in described if column(item).element
    } >= set(kinds.SPARK_TYPES)


def test_the_document_covers_every_verdict():
    from sluice.schema.evolution import ADDED, DROPPED, INCOMPATIBLE, NARROWER, PROMOTED, REWRITTEN, SAME

    assert all(
        f"`{verdict}`" in TEXT for verdict in (SAME, DROPPED, NARROWER, ADDED, PROMOTED, REWRITTEN, INCOMPATIBLE)
    )
