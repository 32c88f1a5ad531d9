"""Columns of the partition path that Sluice makes by transforms: in batches of every format, in UTC."""

from datetime import datetime, timezone
from typing import Any
from zlib import crc32

import pytest
from support.builders import avro_object, change, flattened
from support.shapes import batch_plan, config, json_rows, lines, read, rows_in

from sluice.config.rules.partition_fields import partition_field
from sluice.errors import Incompatible
from sluice.schema.avro import read_writer_schema
from sluice.schema.columns import plain_column
from sluice.schema.evolution import evolve_table
from sluice.schema.made_columns import partition_value
from sluice.schema.table_row import row_for_table

MICROS = ["null", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}]
DATE = ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}]
ZONED = ["null", {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}]
TIMES = ("year(at)", "month(at)", "day(at)", "hour(at)")


def micros(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=timezone.utc).timestamp()) * 10**6


def rows_of(schema: Any, *changes: dict[str, Any], key: tuple[str, ...] = ("id",), **settings: Any) -> list[Any]:
    """The rows as a read task gives them."""
    decoded = read(avro_object(schema, changes), "avro", config(*key, **settings))
    assert not decoded.rows, decoded.rows
    return rows_in(decoded)


@pytest.mark.parametrize(
    ("kind", "raw", "wanted"),
    [
        ("timestamp_micros", micros(2026, 11, 28, 23, 59, 59), (2026, "2026-11", 20785, "2026-11-28-23")),
        ("timestamp_millis", micros(2026, 11, 29) // 1000, (2026, "2026-11", 20786, "2026-11-29-00")),
        ("timestamp_nanos", micros(2026, 11, 29) * 1000 - 1, (2026, "2026-11", 20785, "2026-11-28-23")),
        ("timestamp_micros", -1, (1969, "1969-12", -1, "1969-12-31-23")),
        ("timestamp_micros", 253_402_300_800 * 10**6, (10000, "+10000-01", 2932897, "+10000-01-01-00")),
        ("timestamp_micros", -62_198_755_200 * 10**6, (-1, "-0001-01", -719893, "-0001-01-01-00")),
        ("zoned_timestamp", "2026-11-28T23:30:00-02:00", (2026, "2026-11", 20786, "2026-11-29-01")),
        ("timestamp_micros", 2**63 - 1, (None,) * 4),
        ("zoned_timestamp", "infinity", (None,) * 4),
        ("timestamp_micros", None, (None,) * 4),
        ("date", 20785, (2026, "2026-11", 20785)),
        ("iso_date", "2026-11-28Z", (2026, "2026-11", 20785)),
    ],
)
def test_values_of_times_are_in_utc_for_any_year(kind: str, raw: Any, wanted: tuple[Any, ...]):
    column = plain_column("at", kind, True, "")
    assert tuple(partition_value(partition_field(one), [raw], [column]) for one, _ in zip(TIMES, wanted)) == wanted


def test_buckets_are_the_keys_checksum_whatever_type_its_number_has():
    narrow, long = (flattened({"id": kind, "shop": "string"}) for kind in ("int", "long"))
    changes = [change(id=number, shop=f"s{number % 7}") for number in range(400)]
    actual = [rows_of(schema, *changes, partition_by=("bucket(16)",)) for schema in (narrow, long)]
    assert actual[0] == actual[1] and {row["key_bucket"] for row in actual[0]} == set(range(16))
    assert actual[0][200]["key_bucket"] == crc32(b"200") % 16
    several = rows_of(narrow, *changes, key=("id", "shop"), partition_by=("bucket(4)",))
    assert several[200]["key_bucket"] == crc32(b"200,s4") % 4


def test_rows_have_the_columns_in_raw_form_and_deletions_by_key_alone_have_none():
    schema = flattened({"id": "int", "at": MICROS, "on": DATE})
    at = micros(2026, 11, 28, 13)
    changes = change(id=1, at=at, on=3), change("d", id=2, at=None, on=None)
    made = rows_of(schema, *changes, partition_by=("hour(at)", "day(on)"))
    assert [(row["at_hour"], row["on_day"]) for row in made] == [("2026-11-28-13", 3), (None, None)]


def test_json_has_them_of_the_types_that_the_rule_declares():
    table = config("id", partition_by=("day(at)",), json_types={"at": "timestamp_millis"})
    rows = json_rows(lines({"id": 1, "at": 86_400_000}, {"id": 2, "at": None}), table)
    assert [row["at_day"] for row in rows] == [1, None]


def test_a_value_that_a_change_leaves_unchanged_leaves_its_partition_unchanged():
    schema = flattened({"id": "int", "at": MICROS})
    settings = {"partition_by": ("day(at)",), "null_is_unchanged": ("at",)}
    made = rows_of(schema, change("u", id=1, at=None), change("u", id=2, at=0), **settings)
    assert [(row["_sluice_unchanged"], row["at_day"]) for row in made] == [(["at", "at_day"], None), (None, 0)]


@pytest.mark.parametrize(
    ("written", "kind", "settings"),
    [
        ("day(at)", ["null", "long"], {}),
        ("day(at)", ["null", "string"], {}),
        ("hour(at)", DATE, {}),
        ("day(at)", MICROS, {"raw": ("at",)}),
    ],
)
def test_a_column_that_is_no_time_is_refused_with_what_would_make_it_one(written: str, kind: Any, settings: Any):
    table = config("id", partition_by=(written,), **settings)
    row = row_for_table(read_writer_schema(flattened({"id": "int", "at": kind})), table)
    with pytest.raises(Incompatible, match="of partition_by needs a") as refused:
        evolve_table(None, row, table)
    assert refused.value.facts["column"] == "at"


def test_a_column_of_the_source_under_the_name_is_refused():
    table = config("id", partition_by=("day(at)",))
    row = row_for_table(read_writer_schema(flattened({"id": "int", "at": ZONED, "At_Day": "string"})), table)
    with pytest.raises(Incompatible, match=r"At_Day and day\(at\) would both be at_day"):
        evolve_table(None, row, table)


def test_a_first_batch_without_the_source_column_is_refused_by_its_name():
    (error,) = batch_plan(config("id", partition_by=("day(at)",)), flattened({"id": "int"})).refused.values()
    assert error.facts["column"] == "at"
