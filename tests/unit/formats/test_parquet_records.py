"""Parquet objects to Arrow batches: logical types, with and without the sinks' schema in the footer."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.bad_input import not_utf8
from support.builders import avro_record, change
from support.hostile_objects import NO_GROUPS, ROWS, SCHEMA, binary, footer_of_structs, group, structs
from support.hostile_objects import parquet as parquet_of
from support.shapes import CREATE, DELETE, config, picked, read, rows_in

from sluice.batch.row_errors import RowError
from sluice.config.limits import Limits
from sluice.errors import ExpansionLimit, SluiceError, UnusableSchema
from sluice.schema.avro import read_writer_schema
from sluice_formats.errors import DamagedParquet, NotParquet, UnsupportedParquet
from sluice_formats.parquet_footer import MAX_FOOTER_BYTES, MAX_VALUES, footer_bytes, read_footer

KEY = pa.field("id", pa.int32(), nullable=False)
TEXT, LONG = pa.string(), pa.int64()


def columns(**kinds: pa.DataType) -> list[pa.Field]:
    return [pa.field(name, kind) for name, kind in kinds.items()]


META = columns(__op=TEXT, __deleted=TEXT, __lsn=LONG, __source_ts_ms=LONG)


def parquet(
    fields: list[pa.Field], rows: list[dict[str, Any]], *, avro: dict[str, Any] | None = None, **how: Any
) -> bytes:
    body = io.BytesIO()
    size = how.pop("row_group_size", None)
    with pq.ParquetWriter(body, pa.schema(fields), store_schema=False, **how) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=pa.schema(fields)), row_group_size=size)
        if avro is not None:
            writer.add_key_value_metadata({"parquet.avro.schema": json.dumps(avro)})
    return body.getvalue()


DEFAULT_LIMITS = Limits()


def rows_of(body: bytes, *, limits: Limits = DEFAULT_LIMITS, bad: list[RowError] | None = None) -> list[dict[str, Any]]:
    decoded = read(body, "parquet", config(limits=limits))
    if bad is not None:
        bad += decoded.rows
    else:
        assert not decoded.rows, decoded.rows
    return rows_in(decoded)


def good_row(**values: Any) -> dict[str, Any]:
    return change(**{"id": 1, **values})


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
def test_every_codec_of_the_sinks_is_read_over_row_groups_and_chunks(codec: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sluice_formats.records.CHUNK_ROWS", 2_000)
    body = parquet([KEY, *META], [good_row(lsn=n, id=n) for n in range(4_500)], compression=codec, row_group_size=1_000)
    rows = rows_of(body)
    assert [row["id"] for row in rows] == list(range(4_500))
    expected = (4_999, "0000.00000000000000004499.00000000000000004999")
    assert (rows[-1]["_sluice_offset"], rows[-1]["_sluice_position"]) == expected


MOST_DIGITS = Decimal("-1234567890123456789012345678.0123456789")


# The types of https://github.com/apache/parquet-format/blob/master/LogicalTypes.md, as pyarrow writes them.
@pytest.mark.parametrize(
    ("kind", "value", "raw"),
    [
        (pa.bool_(), True, True),
        (pa.int8(), -5, -5),
        (pa.uint16(), 65_535, 65_535),
        (pa.uint32(), 2**32 - 1, 2**32 - 1),
        (pa.uint64(), 2**64 - 1, Decimal(2**64 - 1)),
        (pa.int64(), -(2**63), -(2**63)),
        (pa.float32(), 0.5, 0.5),
        (pa.float64(), 0.1, 0.1),
        (pa.string(), "é", "é"),
        (pa.large_string(), "x", "x"),
        (pa.binary(), b"\x00", b"\x00"),
        (pa.date32(), dt.date(1996, 7, 8), 9685),
        (pa.timestamp("ms", "UTC"), 10**12, 10**12),
        (pa.timestamp("us"), -1, -1),
        (pa.timestamp("ns"), 10**18 + 1, 10**18 + 1),
        (pa.time32("ms"), 5, 5),
        (pa.time64("us"), 5, 5),
        (pa.time64("ns"), 5, 5),
        (pa.decimal128(38, 10), MOST_DIGITS, MOST_DIGITS),
        (pa.decimal128(5, 2), Decimal("1.50"), Decimal("1.50")),
        (pa.list_(pa.int32()), [1, None, 3], [1, None, 3]),
        (pa.list_(pa.list_(pa.string())), [["a"], [], None], [["a"], [], None]),
        (pa.list_(pa.date32()), [dt.date(1970, 1, 2)], [1]),
        (pa.dictionary(pa.int32(), pa.string()), "word", "word"),
        (pa.float16(), np.float16(1.5), 1.5),
        (pa.map_(pa.int32(), pa.date32()), [(7, dt.date(1970, 1, 2))], ['{"key":7,"value":"1970-01-02"}']),
        (pa.map_(pa.string(), pa.int32()), [("a", 1)], '{"a":1}'),
    ],
)
def test_a_logical_type_of_parquet_is_the_same_kind_as_avros(kind: pa.DataType, value: Any, raw: Any) -> None:
    rows = [good_row(v=value), good_row(v=None), good_row(v=value)]
    for row in rows:
        if isinstance(row["v"], int) and (pa.types.is_timestamp(kind) or pa.types.is_time(kind)):
            row["v"] = pa.scalar(row["v"], pa.int64() if not pa.types.is_time32(kind) else pa.int32()).cast(kind)
    assert picked(rows_of(parquet([KEY, pa.field("v", kind), *META], rows)), "v") == [(raw,), (None,), (raw,)]


def test_names_beyond_ascii_are_stored_under_names_that_avro_allows() -> None:
    body = parquet([KEY, *columns(größe=pa.int32(), grüße=TEXT), *META], [good_row(größe=3, grüße="x")])
    assert picked(rows_of(body), "id", "gr_u00f6_u00dfe", "gr_u00fc_u00dfe") == [(1, 3, "x")]


def test_a_uuid_is_text() -> None:
    value = uuid.UUID("12345678-1234-5678-1234-567812345678")
    if not hasattr(pa, "uuid"):
        pytest.skip("this pyarrow writes no UUID")
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([value.bytes, None], pa.binary(16)))
    pq.write_table(pa.table([pa.array([1, 2], pa.int32()), uuids], names=["id", "v"]), body := io.BytesIO())
    assert picked(rows_of(body.getvalue()), "v") == [(str(value),), (None,)]


def test_columns_are_read_as_parquet_stores_them_despite_arrows_embedded_schema() -> None:
    """pandas and pyarrow leave it in the footer (`ARROW:schema`): other types then come out of a file than its own."""
    sixteen = pa.array([b"A" * 16], pa.binary(16))
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), sixteen) if hasattr(pa, "uuid") else pa.array(["x"])
    nested = pa.StructArray.from_arrays([uuids], names=["u"])
    table = pa.table(
        {
            "id": pa.array([1], pa.int32()),
            "took": pa.array([dt.timedelta(seconds=1)], pa.duration("us")),
            "days": pa.array([[dt.date(1970, 1, 2), None]], pa.list_(pa.date32(), 2)),
            "half": pa.array([np.float16(1.5)], pa.float16()),
            "nested": nested,
            "index level": pa.array([0]),
        }
    )
    pq.write_table(table, body := io.BytesIO())
    text = '{"u":"41414141-4141-4141-4141-414141414141"}' if hasattr(pa, "uuid") else '{"u":"x"}'
    expected = [(1_000_000, [1, None], 1.5, text, 0)]
    assert picked(rows_of(body.getvalue()), "took", "days", "half", "nested", "index_level") == expected


def test_timestamps_as_hive_and_impala_write_them_are_read_as_microseconds() -> None:
    row = good_row(v=pa.scalar(10**15, pa.timestamp("ns")))
    body = parquet([KEY, *columns(v=pa.timestamp("ns")), *META], [row], use_deprecated_int96_timestamps=True)
    assert picked(rows_of(body), "v") == [(10**12,)]


def test_an_envelope_gives_the_row_after_and_for_a_delete_the_row_before() -> None:
    row = pa.struct([KEY, *columns(first_name=TEXT, last_name=TEXT, email=TEXT)])
    source = {"version": TEXT, "connector": TEXT, "ts_ms": LONG, "lsn": LONG}
    sides = columns(before=row, after=row)
    fields = [*sides, pa.field("source", pa.struct(columns(**source)), False), *columns(op=TEXT, ts_ms=LONG)]
    events = [{**event, "source": {name: event["source"][name] for name in source}} for event in (CREATE, DELETE)]
    rows = rows_of(parquet(fields, events, compression="gzip"))
    assert picked(rows, "id", "first_name", "__deleted", "_sluice_position") == [
        (1, "Anne", False, "0000.00000000000024023128.00000000000000000500"),
        (1, "", True, "0000.00000000000046523128.00000000000000000501"),
    ]


# parquet-avro, which Confluent's and Lenses' sinks write with, leaves its Avro schema in the footer (AvroWriteSupport,
# key parquet.avro.schema).
OF_CONNECT: dict[str, Any] = {
    "day": {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"},
    "at": {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"},
    "price": {
        **{"type": "bytes", "scale": 2, "precision": 9, "connect.version": 1},
        "connect.parameters": {"scale": "2", "connect.decimal.precision": "9"},
        "connect.name": "org.apache.kafka.connect.data.Decimal",
        "logicalType": "decimal",
    },
    **{"__op": "string", "__deleted": "string", "__lsn": "long", "__source_ts_ms": "long"},
}
AVRO: dict[str, Any] = {
    **{"type": "record", "name": "Value", "namespace": "s.public.t", "connect.name": "s.public.t.Value"},
    "fields": [
        {"name": "id", "type": "int"},
        *({"name": name, "type": ["null", kind], "default": None} for name, kind in OF_CONNECT.items()),
    ],
}


def test_semantic_types_of_the_connector_come_from_the_schema_in_the_footer() -> None:
    fields = [KEY, *columns(day=pa.int32(), at=LONG, price=pa.decimal128(9, 2)), *META]
    body = parquet(fields, [good_row(day=9685, at=10**15, price=Decimal("12.34"))], avro=AVRO)
    assert read_footer(body, True).schema == AVRO  # so its fingerprint is that of the same schema in an Avro object
    writer = read_writer_schema(read_footer(body, True).schema)
    expected = {"id": "int", "day": "date", "at": "timestamp_micros", "price": "decimal"}
    assert {column.name: column.kind for column in writer.row.columns} == expected
    assert picked(rows_of(body), "day", "at", "price") == [(9685, 10**15, Decimal("12.34"))]


def test_a_time_is_in_the_unit_that_the_sinks_schema_says() -> None:
    avro = avro_record({"id": "int", "v": ["null", {"type": "long", "logicalType": "timestamp-millis"}]}, name="V")
    row = {"id": 1, "v": dt.datetime(1970, 1, 1, 0, 0, 1)}
    assert picked(rows_of(parquet([KEY, *columns(v=pa.timestamp("us"))], [row], avro=avro)), "v") == [(1_000,)]


# pyarrow keeps the key-value metadata of a file in the schema of the table that it reads, and writes it again.
@pytest.mark.parametrize(
    ("name", "array", "value"),
    {
        "a column that was added": ("region", pa.array(["eu"]), "eu"),
        "another scale": ("price", pa.array([Decimal("12.3400")]), Decimal("12.3400")),
        "a number of another kind": ("price", pa.array([12.34]), 12.34),
        "a day as a time": ("day", pa.array([dt.datetime(2024, 5, 6)]), 1_714_953_600_000_000),
        "a time within a record": (
            "place",
            pa.array([{"at": dt.datetime(1970, 1, 1, 0, 0, 1)}]),
            '{"at":"1970-01-01T00:00:01Z"}',
        ),
    }.values(),
)
def test_a_column_that_another_writer_changed_has_the_type_of_the_file(name: str, array: pa.Array, value: Any) -> None:
    seconds = {"type": "long", "logicalType": "timestamp-millis"}
    place = {"name": "place", "type": ["null", avro_record({"at": seconds}, name="Place")]}
    avro = {**AVRO, "fields": [*AVRO["fields"][:4], *([place] if name == "place" else [])]}
    row = {"id": 1, "day": 9685, "at": 10**15, "price": Decimal("12.34")}
    fields = [KEY, pa.field("day", pa.int32()), pa.field("at", pa.int64()), pa.field("price", pa.decimal128(9, 2))]
    table = pq.read_table(io.BytesIO(parquet(fields, [row], avro={**avro, "fields": avro["fields"][:4]})))
    table = table.replace_schema_metadata({"parquet.avro.schema": json.dumps(avro)})
    there = table.schema.get_field_index(name)
    table = table.append_column(name, array) if there < 0 else table.set_column(there, name, array)
    pq.write_table(table, body := io.BytesIO())
    (read_row,) = rows_of(body.getvalue())
    assert read_row == {**read_row, "day": 9685, "at": 10**15, "price": Decimal("12.34"), name: value}
    columns = read_writer_schema(read_footer(body.getvalue(), True).schema).row.columns
    kinds = {column.name: column.kind for column in columns}
    assert kinds["at"] == "timestamp_micros"


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_an_enum_stays_text_in_whatever_form_a_copy_has_it(kind: pa.DataType) -> None:
    enum = {"type": "enum", "name": "Kind", "symbols": ["a", "b"]}
    avro = json.dumps(avro_record({"id": "int", "kind": ["null", enum]}, name="V"))
    table = pa.table({"id": pa.array([1], pa.int32()), "kind": pa.array(["a"]).cast(kind)})
    pq.write_table(table.replace_schema_metadata({"parquet.avro.schema": avro}), body := io.BytesIO())
    assert picked(rows_of(body.getvalue()), "kind") == [("a",)]


def test_a_footer_that_names_columns_the_file_lacks_is_damaged() -> None:
    with pytest.raises(DamagedParquet):
        rows_of(parquet([KEY, *META], [good_row()], avro=AVRO))


GOOD = parquet([KEY, *META], [good_row(lsn=n, id=n) for n in range(3_000)], compression="snappy")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", NotParquet),
        (b"PAR1", NotParquet),
        (b"PAR1PAR1", NotParquet),
        (b'{"id": 1}\n', NotParquet),
        (GOOD[:-1], NotParquet),
        (b"x" + GOOD, NotParquet),
        (GOOD[:-4] + b"PARE", UnsupportedParquet),
        (GOOD[:-8] + (MAX_FOOTER_BYTES + 1).to_bytes(4, "little") + b"PAR1", UnsupportedParquet),
        (GOOD[:-8] + (len(GOOD) + 10).to_bytes(4, "little") + b"PAR1", DamagedParquet),
        (GOOD[:-8] + (3).to_bytes(4, "little") + b"PAR1", DamagedParquet),
        (GOOD[: -footer_bytes(GOOD, True)] + bytes(52) + GOOD[52 - footer_bytes(GOOD, True) :], DamagedParquet),
        (GOOD[:4] + bytes(len(GOOD) // 3) + GOOD[4 + len(GOOD) // 3 :], DamagedParquet),
    ],
)
def test_what_is_no_sound_parquet_file_is_refused(body: bytes, error: type[SluiceError]) -> None:
    with pytest.raises(error) as refused:
        rows_of(body)
    assert not refused.value.retriable


NAMED_LIST = binary(b"\x48", b"l") + b"\x15\x02\x15\x06\x00"  # a group of one child, marked as a list
LISTS_IN_LISTS = structs(SCHEMA, 2_001, group(b"r", 1) + NAMED_LIST * 2_000)
UNREAD = structs(b"\x79", MAX_VALUES // 2, b"\x15\x02\x00" * (MAX_VALUES // 2))


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (footer_of_structs(0)[1], UnsupportedParquet),
        (parquet_of(UNREAD)[1], UnsupportedParquet),
        (parquet_of(LISTS_IN_LISTS, ROWS, NO_GROUPS)[1], UnusableSchema),
    ],
    ids=["values_of_the_schema", "values_that_nobody_reads", "lists_in_lists"],
)
def test_a_footer_that_costs_too_much_is_refused(body: bytes, error: type[SluiceError]) -> None:
    with pytest.raises(error) as refused:
        read_footer(body, True)
    assert not refused.value.retriable


def test_every_flipped_byte_of_a_footer_is_refused_or_harmless() -> None:
    body = parquet([KEY, *META], [good_row()])
    length = footer_bytes(body, True)
    for at in range(len(body) - length, len(body)):
        damaged = bytearray(body)
        damaged[at] ^= 0xFF
        try:
            read_footer(bytes(damaged), True)
        except SluiceError as error:
            assert not error.retriable  # and nothing else is ever raised


def test_a_footer_that_contradicts_itself_does_not_end_the_process() -> None:
    """pyarrow throws where nothing catches when it is asked for a column whose histogram of levels has another length
    than its schema says.
    """
    body = parquet([KEY, pa.field("v", pa.string()), *META], [good_row(v="x"), good_row(v="y")])
    # A list of two numbers, 0 nulls and 2 values.
    at = body.find(b"\x26\x00\x04", len(body) - int.from_bytes(body[-8:-4], "little"))
    if at < 0:
        pytest.skip("this pyarrow writes no histograms")
    shorter = (int.from_bytes(body[-8:-4], "little") - 1).to_bytes(4, "little")
    damaged = body[:at] + b"\x16\x04" + body[at + 3 : -8] + shorter + b"PAR1"
    with pytest.raises(DamagedParquet):
        rows_of(damaged)


def test_a_footer_with_two_numbers_of_rows_is_refused_whatever_the_limits() -> None:
    body = parquet([KEY, *META], [good_row(), good_row()])
    footer = body[-8 - int.from_bytes(body[-8:-4], "little") : -8]
    # Once more the number of rows, as field 3 in the long form: Arrow takes the first, this reader the last.
    twice = footer[:-1] + bytes([0x05, 0x06, 0x02, 0x00])
    damaged = body[: -8 - len(footer)] + twice + len(twice).to_bytes(4, "little") + b"PAR1"
    for most in (1, 2, 1_000):
        with pytest.raises(DamagedParquet):
            rows_of(damaged, limits=Limits(object_rows=most))


def test_a_file_whose_columns_come_to_too_much_is_refused_before_it_is_read() -> None:
    body = parquet([KEY, *META], [good_row(id=7)] * 100_000, compression="zstd")
    with pytest.raises(ExpansionLimit):
        rows_of(body, limits=Limits(decoded_bytes=len(body) * 2))


def test_a_row_that_cannot_be_read_costs_itself_and_is_kept_with_its_bytes() -> None:
    bad: list[RowError] = []
    rows = rows_of(not_utf8(), bad=bad)
    assert picked(rows, "id") == [(120,), (121,)]
    assert [(row.record, row.code) for row in bad] == [(1, "undecodable_value")]
    content = json.loads(bad[0].content)
    assert (content["id"], content["name"]) == (1, {"base64": base64.b64encode(b"\xff\xfe").decode()})
    assert bad[0].position == "0000.00000000000000000007.00000000000000000501"


def test_a_time_that_its_unit_does_not_hold_costs_its_row() -> None:
    avro = avro_record({"id": "int", "v": ["null", {"type": "long", "logicalType": "timestamp-nanos"}]}, name="V")
    bad: list[RowError] = []
    written = [{"id": 1, "v": 10**6}, {"id": 2, "v": 2**62}]
    rows = rows_of(parquet([KEY, *columns(v=pa.timestamp("us"))], written, avro=avro), bad=bad)
    assert picked(rows, "id", "v") == [(1, 10**9)] and [row.code for row in bad] == ["undecodable_value"]
    assert json.loads(bad[0].content) == {"id": 2, "v": 2**62}
