"""Objects as other tools write them: Firehose, Aiven's sink, Arrow's columns without a value, texts of CSV and JSON."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.avro_containers import container, encoded_long
from support.shapes import batch_plan, config, item, picked, read, rows_in

from sluice.changes.hidden_columns import ROW
from sluice.config.csv_form import CsvForm
from sluice.errors import Incompatible
from sluice.schema.avro import read_writer_schema
from sluice.schema.capture_order import moment_count
from sluice.schema.columns import TIMESTAMP_MICROS
from sluice.schema.evolution import evolve
from sluice_formats.csv_text import csv_schema
from sluice_formats.decode import Decoded, decode, schemas_of
from sluice_formats.errors import CsvWithoutHeader, NotJsonLines
from sluice_formats.json import lines as json_lines
from sluice_formats.parquet_footer import read_footer


def values_of(decoded: Decoded, *names: str) -> list[tuple[Any, ...]]:
    return picked(rows_in(decoded), *names)


@pytest.mark.parametrize("between", ["", " ", "\n", "\r\n"])
def test_json_records_one_after_the_other_are_read_with_and_without_line_breaks(between: str) -> None:
    records = [{"id": n, "v": 'a}{"b', "s": {"t": [{}]}} for n in range(5)]
    read_rows = read(between.join(map(json.dumps, records)).encode(), "json", config())
    assert values_of(read_rows, "id", "v", "_sluice_offset") == [(n, 'a}{"b', 500 + n) for n in range(5)]
    assert not read_rows.rows


def test_of_joined_records_a_damaged_one_is_set_aside_alone() -> None:
    read_rows = read(b'{"id":1}{"id":}{"id":3}\n{"id":4}{"id":5', "json", config())
    assert values_of(read_rows, "id") == [(1,), (3,), (4,)]
    assert [(row.record, row.code) for row in read_rows.rows] == [(1, "damaged_json"), (4, "damaged_json")]


def test_quotes_without_an_end_take_no_longer_than_their_length() -> None:
    for text in (b'{"a":1}{"' + b'\\"' * 10**5, b'{"a":1}{' + b'"\\' * 10**5):
        assert len(list(json_lines.lines(text))) == 2


def test_a_parquet_column_without_a_value_waits_for_its_type() -> None:
    def body(note: pa.DataType, value: Any) -> bytes:
        made = io.BytesIO()
        schema = pa.schema([pa.field("id", pa.int64()), pa.field("note", note)])
        pq.write_table(pa.table({"id": [1], "note": [value]}, schema=schema), made)
        return made.getvalue()

    assert values_of(read(body(pa.null(), None), "parquet", config()), "id") == [(1,)]
    first, second = (
        read_writer_schema(read_footer(body(*of), True).schema) for of in ((pa.null(), None), (pa.string(), "x"))
    )
    assert (first.row.names, second.row.names) == (("id",), ("id", "note"))


def test_members_of_a_record_without_a_value_are_null_in_its_text() -> None:
    """https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#unknown-always-null: pandas and DuckDB."""
    empty = pa.struct([("a", pa.null()), ("b", pa.int32()), ("c", pa.list_(pa.null()))])
    fields = {"id": pa.int64(), "s": empty, "l": pa.list_(empty)}
    row = {"a": None, "b": 1, "c": [None]}
    made = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2], "s": [row, None], "l": [[row], []]}, schema=pa.schema(fields.items())), made)
    text = '{"a":null,"b":1,"c":[null]}'
    assert values_of(read(made.getvalue(), "parquet", config()), "id", "s", "l") == [(1, text, [text]), (2, None, [])]


def test_a_member_of_null_alone_in_avro_is_null_in_text() -> None:
    members = [{"name": "a", "type": "null"}, {"name": "m", "type": {"type": "map", "values": "null"}}]
    kind = {"type": "record", "name": "S", "fields": members}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "long"}, {"name": "s", "type": kind}],
    }
    body = container("null", (1, encoded_long(1) + encoded_long(1) + encoded_long(1) + b"k" + b"\x00"), schema=schema)
    assert values_of(read(body, "avro", config()), "id", "s") == [(1, '{"a":null,"m":{"k":null}}')]


@pytest.mark.parametrize("rows", [1, 3])
def test_a_frame_that_pandas_writes_by_columns_is_refused(rows: int) -> None:
    """https://pandas.pydata.org/docs/reference/api/pandas.DataFrame.to_json.html: orient is 'columns' by default."""
    frame = {name: {str(number): f"{name}{number}" for number in range(rows)} for name in ("id", "v")}
    with pytest.raises(NotJsonLines, match="orient='records', lines=True"):
        schemas_of(json.dumps(frame).encode(), "json", config())
    for record in ({"id": {"0": "x"}, "v": 1}, {"id": {"$oid": "x"}}, {"id": {"0": "x", "2": "y"}}, {"id": {}}):
        assert schemas_of(json.dumps(record).encode(), "json", config())
    assert schemas_of(2 * json.dumps(frame).encode(), "json", config()), "rows of maps"


@pytest.mark.parametrize(("kind", "text"), [("long", "9223372036854775807"), ("int", "-7"), ("long", "0")])
def test_whole_numbers_that_json_has_as_text_are_read_by_the_rule(kind: str, text: str) -> None:
    """https://cloud.google.com/bigquery/docs/exporting-data#json_exports: INT64 is text, as in Protobuf's JSON."""
    table = config(json_types={"v": kind})
    assert values_of(read(json.dumps({"id": 1, "v": text}).encode(), "json", table), "v") == [(int(text),)]


@pytest.mark.parametrize("text", ["", "5.0", "1_0", " 5", "0x5", "five"])
def test_other_text_is_no_whole_number(text: str) -> None:
    read_rows = read(json.dumps({"id": 1, "v": text}).encode(), "json", config(json_types={"v": "long"}))
    assert [row.code for row in read_rows.rows] == ["undecodable_value"]


@pytest.mark.parametrize("text", ["2026-11-21", "2026-11-21 00:00:00", "2026-11-21T23:59:59.5", "2026-11-21 10:00"])
def test_a_date_with_a_time_of_day_behind_a_space_is_read(text: str) -> None:
    """Oracle's DATE has a time of day, and AWS DMS, SQLcl and pandas write it."""
    table = config(json_types={"id": "long", "v": "date"})
    for body, format in ((f"id,v\n1,{text}\n", "csv"), (json.dumps({"id": 1, "v": text}), "json")):
        assert values_of(read(body.encode(), format, table), "v") == [(20_778,)]


def test_an_avro_field_of_null_alone_is_no_column() -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "a", "type": "null"}, {"name": "b", "type": ["null"]}]
    assert read_writer_schema({"type": "record", "name": "R", "fields": fields}).row.names == ("id",)


def test_an_empty_line_of_a_csv_with_one_column_is_a_row_without_a_value() -> None:
    table = config(ROW, append_only=True)
    assert values_of(read(b"\r\nname\na\n\nb\n", "csv", table), "name") == [("a",), (None,), ("b",)]
    assert values_of(read(b"name,n\na,1\n\nb,2\n", "csv", table), "name") == [("a",), ("b",)]


HEX = ["48656C6C6F21", "DEADBEEF", "68656c6c", "0xDEADBEEF01", "cafe"]


@pytest.mark.parametrize("format", ["csv", "json"])
@pytest.mark.parametrize("text", HEX)
def test_bytes_that_are_hexadecimal_or_base64_ask_for_a_type(format: str, text: str) -> None:
    body = f"id,b\n1,{text}\n".encode() if format == "csv" else json.dumps({"id": 1, "b": text}).encode()
    types = {"id": "long"}
    read_rows = read(body, format, config(json_types={**types, "b": "bytes"}))
    assert [row.code for row in read_rows.rows] == ["undecodable_value"] and "hex bytes" in read_rows.rows[0].reason
    read_rows = read(body, format, config(json_types={**types, "b": "hex bytes"}))
    assert values_of(read_rows, "b") == [(bytes.fromhex(text.removeprefix("0x")),)]
    if not text.startswith("0x") and len(text) % 4 == 0:
        read_rows = read(body, format, config(json_types={**types, "b": "base64 bytes"}))
        assert not read_rows.rows


@pytest.mark.parametrize("text", ["aGVsbG8=", "SGVsbG8h", "AQ==", "abCD"])
def test_bytes_that_are_no_hexadecimal_digits_are_base64(text: str) -> None:
    assert not read(f"id,b\n1,{text}\n".encode(), "csv", config(json_types={"id": "long", "b": "bytes"})).rows


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("20261121100700", 1_795_255_620_000_000),
        ("20261321100700", 20_261_321_100_700),  # no month: a count
        ("1700000000123456", 1_700_000_000_123_456),
        ("0", 0),
        ("2026-11-21 10:07:00", 1_795_255_620_000_000),
    ],
)
def test_fourteen_digits_of_a_date_and_time_are_no_count(text: str, micros: int) -> None:
    assert moment_count(text, TIMESTAMP_MICROS) == micros
    table = config(json_types={"id": "long", "at": "timestamp_micros"})
    assert values_of(read(f"id,at\n1,{text}\n".encode(), "csv", table), "at") == [(micros,)]
    if text.isdigit():
        for written in (text, int(text)) if len(text) == 14 else (int(text),):
            assert values_of(read(json.dumps({"id": 1, "at": written}).encode(), "json", table), "at") == [(micros,)]


@pytest.mark.parametrize("unit", ["millis", "micros", "nanos"])
def test_eight_digits_of_a_date_are_no_count_of_a_timestamp(unit: str) -> None:
    table = config(json_types={"id": "long", "at": f"timestamp_{unit}"})
    for body, format in ((b"id,at\n1,20240506\n", "csv"), (b'{"id":1,"at":20240506}\n', "json")):
        assert [row.code for row in read(body, format, table).rows] == ["undecodable_value"]
    assert not read(b"id,at\n1,20241306\n", "csv", table).rows  # no month: a count


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("timestamp_millis", 1_714_953_600_000_000),
        ("timestamp_micros", 1_714_953_600 * 10**9),
        ("time_micros", 10 * 3_600 * 10**9),
    ],
)
def test_a_count_of_finer_units_than_declared_is_refused(kind: str, count: int) -> None:
    table = config(json_types={"id": "long", "at": kind})
    for body, format in ((f"id,at\n1,{count}\n", "csv"), (f'{{"id":1,"at":{count}}}\n', "json")):
        assert [row.code for row in read(body.encode(), format, table).rows] == ["undecodable_value"]


@pytest.mark.parametrize("number", [20240506, 1_714_953_600])
def test_a_date_in_digits_and_seconds_are_no_count_of_days(number: int) -> None:
    table = config(json_types={"id": "long", "on": "date"})
    read_rows = read(f'{{"id":1,"on":{number}}}\n{{"id":2,"on":19849}}\n'.encode(), "json", table)
    assert ([row.code for row in read_rows.rows], values_of(read_rows, "on")) == (["undecodable_value"], [(19_849,)])


def test_a_byte_of_sql_server_is_no_base64() -> None:
    table = config(json_types={"id": "long", "v": "bytes"})
    assert [row.code for row in read(b"id,v\n1,0x41\n2,QUI=\n", "csv", table).rows] == ["undecodable_value"]


def test_whole_numbers_as_pandas_writes_them_beside_nulls_are_read() -> None:
    read_rows = read(b"id,n\n1,1.0\n2,\n3,3.0\n4,3.5\n", "csv", config(json_types={"id": "long", "n": "long"}))
    assert values_of(read_rows, "id", "n") == [(1, 1), (2, None), (3, 3)]
    assert [row.record for row in read_rows.rows] == [3]


def test_the_default_output_of_aivens_sink_is_refused_by_its_settings() -> None:
    for body in (b'{"value": {"id": 1}}\n', b'[\n{"value": {"id": 1}}\n]'):
        schema = schemas_of(body, "json", config())[0][0]
        with pytest.raises(Incompatible, match="format.output.envelope"):
            evolve(None, read_writer_schema(schema).row, record_key=("id",), partition_by=())
    with pytest.raises(CsvWithoutHeader, match="format.output.type=jsonl"):
        csv_schema(b"eyJpZCI6IDF9\n", config(csv=CsvForm(columns=("value",))))


def test_an_enum_has_symbols_of_any_text() -> None:
    texts = ["in progress", "1st", "done"]
    enum = {"type": "enum", "name": "E", "symbols": texts}
    fields = {"id": "long", "e": ["null", enum], "l": {"type": "array", "items": "E"}, "s": "string"}
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}
    blocks = b"".join(
        encoded_long(n) + b"\x02" + encoded_long(n) + encoded_long(1) + encoded_long(2 - n) + b"\x00" + b"\x02x"
        for n in range(3)
    )
    body = container("null", (3, blocks), schema=schema)
    plan = batch_plan(config(), schema).plan
    decoded = decode(body, item("avro"), plan)
    assert values_of(decoded, "id", "e", "l", "s") == [(n, texts[n], [texts[2 - n]], "x") for n in range(3)]
