"""Schemas of one table are united by name; types widen if every value is kept, and are refused otherwise."""

import json
from pathlib import Path

import pytest

from sluice.errors import Incompatible
from sluice.schema.avro import read_writer_schema
from sluice.schema.columns import Column, RowSchema, array_column, decimal_column, plain_column
from sluice.schema.union import merge_columns, merge_schemas, union_of

DATA = Path(__file__).resolve().parents[3] / "data"


def plain(kind, name="c", nullable=False):
    return plain_column(name, kind, nullable, kind)


def decimal(precision, scale):
    return decimal_column("c", precision, scale, False, "decimal")


def recorded(name, topic):
    return read_writer_schema(json.loads((DATA / name / "schemas" / f"{topic}.avsc").read_text())).row


@pytest.mark.parametrize(
    "first, second, merged",
    [
        (plain("int"), plain("long"), "bigint"),
        (plain("float"), plain("double"), "double"),
        (plain("string"), plain("string"), "string"),
        (decimal(18, 4), decimal(24, 6), "decimal(24,6)"),
        (decimal(10, 0), decimal(10, 5), "decimal(15,5)"),
        (decimal(38, 0), decimal(38, 0), "decimal(38,0)"),
        (plain("timestamp_millis"), plain("zoned_timestamp"), "timestamp"),
        (plain("time_millis"), plain("time_micros"), "string"),
        (plain("string"), plain("variable_decimal"), "string"),
        (plain("string"), plain("time_micros"), "string"),
        (plain("date"), plain("iso_date"), "date"),
        (array_column("c", plain("int"), True), array_column("c", plain("long"), True), "array<bigint>"),
    ],
)
def test_a_column_of_both_becomes_what_holds_both(first, second, merged):
    assert merge_columns(first, second).spark_type == merge_columns(second, first).spark_type == merged


@pytest.mark.parametrize(
    "first, second, merged",
    [
        ("timestamp_millis", "timestamp_micros", "timestamp_micros"),
        ("timestamp_millis", "timestamp_nanos", "zoned_timestamp"),
        ("timestamp_micros", "timestamp_nanos", "zoned_timestamp"),
        ("timestamp_millis", "zoned_timestamp", "zoned_timestamp"),
        ("timestamp_nanos", "zoned_timestamp", "zoned_timestamp"),
        ("date", "iso_date", "date"),
        ("time_millis", "time_micros", "string"),
        ("time_millis", "time_nanos", "string"),
        ("time_micros", "time_nanos", "string"),
    ],
)
def test_times_of_two_kinds_are_read_as_one_that_cuts_no_digit_of_either(first, second, merged):
    assert merge_columns(plain(first), plain(second)).kind == merge_columns(plain(second), plain(first)).kind == merged


@pytest.mark.parametrize(
    "first, second",
    [
        (plain("int"), plain("string")),
        (plain("long"), plain("double")),
        (plain("int"), plain("float")),
        (decimal(38, 0), decimal(38, 2)),
        (plain("int"), decimal(5, 0)),
        (plain("date"), plain("timestamp_millis")),
        (plain("string"), plain("zoned_timestamp")),
        (plain("string"), array_column("c", plain("string"), True)),
        (plain("string"), plain("bytes")),
    ],
)
def test_a_column_that_no_type_holds_is_refused_by_name_and_types(first, second):
    for a, b in ((first, second), (second, first)):
        with pytest.raises(Incompatible) as refused:
            merge_columns(a, b)
        assert refused.value.facts["column"] == "c" and len(refused.value.facts["types"]) == 2


def test_a_column_of_one_only_is_nullable_and_keeps_its_place():
    first, second = RowSchema((plain("int", "a"), plain("int", "b"))), RowSchema((plain("int", "c"), plain("int", "a")))
    expected = [("a", False), ("b", True), ("c", True)]
    assert [(c.name, c.nullable) for c in merge_schemas(first, second).columns] == expected


def test_columns_that_differ_in_case_only_are_refused():
    with pytest.raises(Incompatible, match="case only. Put `columns: {rename: {id: Id}}`"):
        merge_schemas(RowSchema((plain("int", "Id"),)), RowSchema((plain("int", "id"),)))


def test_a_refusal_of_two_schemas_names_the_setting_that_gives_csv_types():
    with pytest.raises(Incompatible, match="is int in one schema and string in another.*in the rule's `types`"):
        merge_schemas(RowSchema((plain("int", "n"),)), RowSchema((plain("string", "n"),)))


def test_recorded_schemas_that_grew_add_up():
    grown = merge_schemas(*(recorded("pagila_env", f"pagila.public.rental.v{version}") for version in (1, 2)))
    assert grown.column("inventory_id").spark_type == "bigint"
    both = union_of([recorded("tickit_small", f"tickit.ecomm.sale.v{version}") for version in (2, 1)])
    assert both.column("channel") == Column("channel", "string", "string", True, source_type="string")
