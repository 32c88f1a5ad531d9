"""Dates beyond the ends of 64 bits of nanoseconds, and of writers that used the Julian calendar."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builders import avro_record
from support.shapes import config, read, rows_in

from sluice.schema.temporal import civil_of, days_of_civil
from sluice.schema.writer_calendar import proleptic_day, writer_calendar
from sluice_formats.decode import Decoded
from sluice_formats.parquet_footer import read_footer

EPOCH = dt.datetime(1970, 1, 1)
# The counts that Spark's legacy mode writes for days by their names: 0001-01-01 is two days before the proleptic one.
JULIAN = {(1, 1, 1): -719_164, (1500, 3, 1): -171_595, (1500, 2, 29): -171_596, (1582, 10, 4): -141_428}
MICROS_A_DAY = 86_400 * 10**6


def micros(year: int, month: int = 1, day: int = 1) -> int:
    return days_of_civil(year, month, day) * MICROS_A_DAY


def int96(fields: dict[str, pa.DataType], rows: list[dict[str, Any]], **how: Any) -> bytes:
    schema = pa.schema([pa.field("id", pa.int64()), *(pa.field(name, kind) for name, kind in fields.items())])
    body = io.BytesIO()
    pq.write_table(
        pa.Table.from_pylist(rows, schema=schema), body, use_deprecated_int96_timestamps=True, store_schema=False, **how
    )
    return body.getvalue()


FAR = [dt.datetime(1, 1, 1), dt.datetime(1677, 9, 21), dt.datetime(2262, 4, 12), dt.datetime(9999, 12, 31, 23, 59, 59)]
US = pa.timestamp("us")


def test_int96_holds_every_year_also_in_lists_and_structs() -> None:
    fields = {"v": US, "l": pa.list_(US), "s": pa.struct([pa.field("t", US)])}
    body = int96(fields, [{"id": n, "v": at, "l": [at, None], "s": {"t": at}} for n, at in enumerate(FAR)])
    assert {chunk.int96_of for chunk in read_footer(body, True).chunks} == {None, *fields}
    read_rows = read(body, "parquet", config())
    assert not read_rows.rows
    for row, at in zip(rows_in(read_rows), FAR):
        count = (at - EPOCH) // dt.timedelta(microseconds=1)
        assert (row["v"], row["l"]) == (count, [count, None])
        assert row["s"] == f'{{"t":"{at.isoformat()}Z"}}'


def test_int96_orders_rows_over_all_years() -> None:
    rows = read(int96({"v": US}, [{"id": 1, "v": at} for at in FAR]), "parquet", config(position="v"))
    places = [row["_sluice_position"] for row in rows_in(rows)]
    assert places == sorted(places) and len(set(places)) == 4


@pytest.mark.parametrize("inside", [False, True])
def test_an_int96_that_64_bits_cant_count_sets_its_row_aside(inside: bool) -> None:
    kind, values = (pa.list_(US), [[at] for at in FAR]) if inside else (US, FAR)
    body = int96(
        {"v": kind}, [{"id": n, "v": at} for n, at in enumerate(values)], use_dictionary=False, compression="none"
    )
    day = (2_440_588 + days_of_civil(2262, 4, 12)).to_bytes(4, "little")
    assert body.count(bytes(8) + day) >= 1
    read_rows = read(body.replace(bytes(8) + day, bytes(8) + b"\xff" * 4), "parquet", config())
    assert [row["id"] for row in rows_in(read_rows)] == [0, 1, 3]
    assert [(row.record, row.code) for row in read_rows.rows] == [(2, "undecodable_value")]


def test_a_raw_int96_keeps_its_nanoseconds() -> None:
    body = int96({"v": US}, [{"id": n, "v": at} for n, at in enumerate([EPOCH.replace(year=2026), FAR[3]])])
    read_rows = read(body, "parquet", config(raw=("v",)))
    assert [row["v"] for row in rows_in(read_rows)] == [micros(2026) * 1000]
    assert [row.code for row in read_rows.rows] == ["value_out_of_range"]


def test_julian_days_keep_their_names() -> None:
    names = {name: civil_of(proleptic_day(day)) for name, day in JULIAN.items()}
    assert names.pop((1500, 2, 29)) == (1500, 3, 1)  # no such day in the other calendar
    assert all(name == civil for name, civil in names.items())


@pytest.mark.parametrize(
    ("metadata", "dates", "int96"),
    [
        ({}, False, False),
        ({b"org.apache.spark.version": b"2.4.8"}, True, True),
        ({b"org.apache.spark.version": b"3.0.1"}, False, True),
        ({b"org.apache.spark.version": b"3.5.8"}, False, False),
        ({b"org.apache.spark.version": b"3.5.8", b"org.apache.spark.legacyDateTime": b""}, True, False),
        ({b"org.apache.spark.version": b"3.5.8", b"org.apache.spark.legacyINT96": b""}, False, True),
        ({b"writer.date.proleptic": b"false"}, True, False),
        ({b"writer.date.proleptic": b"true"}, False, False),
        ({b"writer.proleptic": b"false"}, True, True),
    ],
)
def test_a_files_metadata_tell_its_calendar(metadata: dict[bytes, bytes], dates: bool, int96: bool) -> None:
    actual = writer_calendar(metadata)
    assert (actual.dates, actual.int96) == (dates, int96)


SPARK = {"org.apache.spark.version": "3.5.8"}
LEGACY = {**SPARK, "org.apache.spark.legacyDateTime": "", "org.apache.spark.timeZone": "UTC"}
DAYS = [day for day in JULIAN.values()] + [days_of_civil(1899, 12, 30), 20_000]
NAMED = [(1, 1, 1), (1500, 3, 1), (1500, 3, 1), (1582, 10, 4), (1899, 12, 30), civil_of(20_000)]


def legacy_parquet(metadata: dict[str, str], *, int96: bool = False) -> bytes:
    at = pa.timestamp("us") if int96 else pa.timestamp("us", "UTC")
    inner = {"d": pa.date32(), "t": at}
    kinds = {"id": pa.int64(), **inner, "l": pa.list_(pa.date32()), "s": pa.struct(inner.items()), "n": US}
    schema = pa.schema(list(kinds.items()), metadata=metadata)
    days = pa.array(DAYS, pa.int32()).cast(pa.date32())
    times = pa.array([day * MICROS_A_DAY + 5 for day in DAYS], pa.int64()).cast(at)
    columns = [
        pa.array(range(len(DAYS)), pa.int64()),
        days,
        times,
        pa.ListArray.from_arrays(pa.array(range(len(DAYS) + 1), pa.int32()), days),
        pa.StructArray.from_arrays([days, times], names=["d", "t"]),
        pa.array([0] * len(DAYS), pa.int64()).cast(US) if int96 else times.cast(US),
    ]
    with pq.ParquetWriter(
        made := io.BytesIO(), schema, store_schema=False, use_deprecated_int96_timestamps=int96
    ) as out:
        out.write_table(pa.table(columns, schema=schema))
        out.add_key_value_metadata(metadata)
    return made.getvalue()


def legacy_avro(metadata: dict[str, str]) -> bytes:
    date, time = {"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-micros"}
    inner = avro_record({"d": date, "t": ["null", time]}, name="S")
    fields = {"id": "long", "d": ["null", date], "t": time, "l": {"type": "array", "items": date}, "s": inner}
    fields["n"] = {"type": "long", "logicalType": "local-timestamp-micros"}
    schema = avro_record(fields, name="topLevelRecord")
    rows = [
        {"id": n, "d": day, "t": (at := day * MICROS_A_DAY + 5), "l": [day], "s": {"d": day, "t": at}, "n": at}
        for n, day in enumerate(DAYS)
    ]
    body = io.BytesIO()
    fastavro.writer(body, schema, rows, metadata={**metadata})  # counts are written as they are
    return body.getvalue()


def legacy(format: str, metadata: dict[str, str]) -> Decoded:
    body = legacy_parquet(metadata) if format == "parquet" else legacy_avro(metadata)
    return read(body, format)


def in_proleptic_days(decoded: Decoded) -> tuple[list[Any], ...]:
    rows = rows_in(decoded)
    days = [[civil_of(day) for day in of] for of in ([row["d"] for row in rows], [row["l"][0] for row in rows])]
    times = [civil_of(row["t"] // MICROS_A_DAY) for row in rows]
    assert all(row["t"] % MICROS_A_DAY == 5 for row in rows)
    texts = [(f"{y:04d}-{m:02d}-{d:02d}", f"{y:04d}-{m:02d}-{d:02d}T00:00:00.000005Z") for y, m, d in days[0]]
    assert [row["s"] for row in rows] == [f'{{"d":"{day}","t":"{at}"}}' for day, at in texts]
    return (*days, times)


@pytest.mark.parametrize("format", ["parquet", "avro"])
def test_dates_and_times_of_a_legacy_writer_keep_their_names(format: str) -> None:
    read_rows = legacy(format, LEGACY)
    assert not read_rows.rows
    assert in_proleptic_days(read_rows) == (NAMED, NAMED, NAMED)
    # Spark rebases no timestamp without a zone.
    assert [row["n"] for row in rows_in(read_rows)] == [day * MICROS_A_DAY + 5 for day in DAYS]


@pytest.mark.parametrize("format", ["parquet", "avro"])
def test_dates_of_other_writers_stay(format: str) -> None:
    for metadata in ({}, SPARK):
        assert [row["d"] for row in rows_in(legacy(format, metadata))] == DAYS


@pytest.mark.skipif(int(pa.__version__.split(".")[0]) <= 21, reason="this pyarrow writes INT96 before 1677 wrong")
def test_int96_has_a_mark_of_its_own() -> None:
    marked = {**SPARK, "org.apache.spark.legacyINT96": ""}
    rows = rows_in(read(legacy_parquet(marked, int96=True), "parquet", config()))
    assert [row["d"] for row in rows] == DAYS
    assert [civil_of(row["t"] // MICROS_A_DAY) for row in rows] == NAMED


@pytest.mark.parametrize("format", ["parquet", "avro"])
def test_a_legacy_time_of_another_zone_sets_its_row_aside(format: str) -> None:
    read_rows = legacy(format, {**LEGACY, "org.apache.spark.timeZone": "America/Los_Angeles"})
    assert [row["id"] for row in rows_in(read_rows)] == [5]
    assert [row.code for row in read_rows.rows] == ["undecodable_value"] * 5
