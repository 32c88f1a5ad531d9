"""CSV objects: which rows they give, types by the rule alone, and which are refused with the row and the next step."""

from __future__ import annotations

import base64
import gzip
import json
import tracemalloc
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from support import shapes
from support.shapes import batch_plan, config, item, picked, read, rows_in

from sluice.batch.row_errors import RowError
from sluice.config.csv_form import CsvForm
from sluice.config.delete_when import DeleteWhen
from sluice.config.limits import Limits
from sluice.config.rules.columns import ColumnRules
from sluice.config.table import TableConfig
from sluice.config.values import MIB
from sluice.errors import EmptyObject, ExpansionLimit, SchemaTooComplex, SluiceError, Unordered, UnusableSchema
from sluice.schema.meaning import stored_value
from sluice_formats.csv_records import _check_closing_quotes
from sluice_formats.csv_text import check_head, csv_schema
from sluice_formats.decode import decode, schemas_of
from sluice_formats.errors import CsvWithoutHeader, DeletionsUnmarked, NotCsv, RaggedCsv, TooManyBadRows


def rows(
    body: bytes | str, table: TableConfig | None = None, bad: list[RowError] | None = None
) -> list[dict[str, Any]]:
    decoded = read(body.encode() if isinstance(body, str) else body, "csv", table)
    assert bad is not None or not decoded.rows, decoded.rows
    (bad if bad is not None else []).extend(decoded.rows)
    return rows_in(decoded)


def refused(body: bytes | str, table: TableConfig | None = None) -> SluiceError:
    with pytest.raises(SluiceError) as error:
        rows(body, table)
    return error.value


def test_every_column_is_text_unless_the_rule_says_its_type():
    text = "id,price,day,ok\n1,2.50,2026-11-21,true\n"
    assert picked(rows(text), "id", "price", "day", "ok") == [("1", "2.50", "2026-11-21", "true")]
    typed = config(json_types={"id": "long", "price": "decimal(5,2)", "day": "date", "ok": "boolean"})
    assert picked(rows(text, typed), "id", "day", "ok") == [(1, 20_778, True)]
    assert rows(text, typed)[0]["price"] == Decimal("2.50")


def test_the_schema_of_two_objects_is_equal_whatever_their_values():
    first, second = (schemas_of(body, "csv", config())[0] for body in (b"id,v\n1,2\n", b"id,v\nx,\n"))
    assert first == second


@pytest.mark.parametrize(
    "kind, text, value",
    [
        ("long", "-9223372036854775808", -(2**63)),
        ("int", "007", 7),
        ("double", "-1.5e3", -1500.0),
        ("double", "NaN", None),
        ("boolean", "F", False),
        ("bytes", base64.b64encode(b"\0x").decode(), b"\0x"),
        ("json", '{"a":1}', '{"a":1}'),
        ("date", "1969-12-31", -1),
        ("timestamp_millis", "1970-01-01 00:00:01.5", 1_500),
        ("timestamp_micros", "1970-01-01T00:00:01+01:00", -3_599_000_000),
        ("timestamp_nanos", "1700000000000000000", 1_700_000_000_000_000_000),
        ("time_micros", "-00:00:01.25", -1_250_000),
        ("zoned_timestamp", "2026-11-21 10:00:00+02", "2026-11-21T08:00:00.000000Z"),
    ],
)
def test_a_declared_type_reads_the_text_that_databases_write(kind, text, value):
    (row,) = rows('id,v\n1,"{}"\n'.format(text.replace('"', '""')), config(json_types={"v": kind}))
    assert row["v"] == value or value is None and row["v"] != row["v"]


@pytest.mark.parametrize(
    "kind, text",
    [
        *(("long", text) for text in ("1_0", "5.5", " 5", "x")),
        *(("double", text) for text in ("1_0", "inf ", "0x1")),
        *(("decimal(5,2)", text) for text in ("1_0.00", "1.234", "NaN", "1e9999")),
        *(("date", text) for text in ("20261121", "2026-02-30", "21.11.2026")),
        ("timestamp_micros", "yesterday"),
        ("boolean", "yes"),
        ("time_millis", "noon"),
        ("bytes", "%"),
    ],
)
def test_a_value_that_is_not_of_its_type_sets_its_row_aside_alone(kind, text):
    bad: list[RowError] = []
    read_rows = rows(f"id,v\n1,{text}\n2,\n", config(json_types={"v": kind}), bad)
    assert picked(read_rows, "id", "v") == [("2", None)]
    assert [(row.record, row.code) for row in bad] == [(0, "undecodable_value")]
    assert json.loads(bad[0].content)["v"] == text


def test_a_number_that_its_column_cannot_hold_sets_its_row_aside_too():
    bad: list[RowError] = []
    assert rows("id,v\n1,9223372036854775808\n", config(json_types={"v": "long"}), bad) == []
    assert [row.code for row in bad] == ["value_out_of_range"]


def test_an_object_with_too_many_such_rows_is_refused_whole():
    table = config(json_types={"v": "long"}, limits=Limits(quarantined_rows=1))
    with pytest.raises(TooManyBadRows, match="Column v holds 'x', which is not what its type in `types` says"):
        rows("id,v\n1,x\n2,x\n", table)


@pytest.mark.parametrize(
    "body",
    [
        b'\xef\xbb\xbfid,v\n1,"a,""b""\nc"\n2,\n',
        b'id,v\r\n1,"a,""b""\nc"\r\n\r\n2,\r\n',
        b'"id","v"\n"1","a,""b""\nc"\n"2",',
        gzip.compress(b'id,v\n1,"a,""b""\nc"\n2,\n'),
    ],
    ids=["byte order mark", "crlf and blank line", "all quoted", "gzip"],
)
def test_quotes_line_ends_and_a_byte_order_mark_are_read_by_rfc_4180(body):
    assert picked(rows(body), "id", "v") == [("1", 'a,"b"\nc'), ("2", None)]


def test_unquoted_empty_text_is_null_and_quoted_empty_text_is_empty():
    assert picked(rows('id,v\n1,""\n2,\n'), "v") == [("",), (None,)]
    dms = config(csv=CsvForm(null_text="NULL"), json_types={"n": "long"})
    expected = [(None, None), ("", None), ("NULL", 1)]
    assert picked(rows('id,v,n\n1,NULL,NULL\n2,,\n3,"NULL",1\n', dms), "v", "n") == expected


def test_another_delimiter_stands_in_the_rule():
    assert picked(rows("id\tv\n1\ta,b\n", config(csv=CsvForm(delimiter="\t"))), "v") == [("a,b",)]


def test_the_rule_names_the_columns_of_objects_without_a_header():
    table = config(csv=CsvForm(columns=("id", "v")))
    assert picked(rows("1,a\n2,b\n", table), "id", "v") == [("1", "a"), ("2", "b")]
    assert picked(rows("id,v\n1,a\n", table), "id", "v") == [("1", "a")], "and a header is not taken for a row"
    assert picked(rows("v,id\na,1\n", table), "id", "v") == [("1", "a")], "and its own order counts"
    assert "Row 1 has 3 values for 2 columns" in str(refused("1,a,b\n", table))
    assert "Row 2 has 1 value for 2 columns" in str(refused("1,a\n2\n", table))


def test_a_header_in_another_case_names_the_columns_of_the_rule():
    table = config(csv=CsvForm(columns=("id", "v")))
    assert picked(rows("ID,V\n1,a\n", table), "id", "v") == [("1", "a")]
    assert picked(rows("V,ID\na,1\n", table), "id", "v") == [("V", "ID"), ("a", "1")], "may be a row of codes"
    assert picked(rows("ID\n1\n", config(csv=CsvForm(columns=("id",)))), "id") == [("ID",), ("1",)], "may be a value"


def test_a_header_behind_a_byte_order_mark_is_no_row():
    bad: list[RowError] = []
    body = '\ufeffid,v\n1,a\n\ufeffid,v\n2,b\n\ufeff"id","v"\n3,c\n'
    assert picked(rows(body, None, bad), "id") == [("1",), ("2",), ("3",)]
    assert [row.record for row in bad] == [1, 3]


@pytest.mark.parametrize("types", [{}, {"id": "long"}])
def test_a_header_between_rows_is_set_aside_as_no_row(types: dict[str, str]):
    bad: list[RowError] = []
    read_rows = rows("id,v\n1,a\nid,v\n2,id\n", config(json_types=types), bad)
    assert [str(row["id"]) for row in read_rows] == ["1", "2"]
    assert ["header once more" in row.reason for row in bad] == [True]
    assert picked(rows("id\n1\nid\n"), "id") == [("1",), ("id",)], "a value alone may be the same"


@pytest.mark.parametrize("text", ["I,1,Ann,2020-01-01\n", "Ann,Bob,x\n", "v,w\n1,2\n", "1,2\n", "id,,v\n"])
def test_an_object_without_a_header_is_refused_with_the_next_step(text):
    error = refused(text)
    assert isinstance(error, CsvWithoutHeader)
    assert "AddColumnName=true" in (error.next_step or "") and "columns: [...]" in (error.next_step or "")


def test_a_renamed_column_of_the_key_is_in_the_header_by_its_own_name():
    rules = ColumnRules(rename={"eml": "mail", "region": "area"})
    table = config("mail", "area", columns=rules, path_columns=("region",))
    body, at = b"eml,n\na@x,1\n", replace(item("csv"), key="exports/region=eu/part-0.csv")
    assert picked(rows_in(shapes.read(body, at, table)), "mail", "area", "n") == [("a@x", "eu", "1")]


def test_an_append_only_object_without_a_header_is_refused_by_its_values():
    assert isinstance(refused("17,x\n", config(append_only=True)), CsvWithoutHeader)


@pytest.mark.parametrize(
    "text, row, count", [("id,v\n1,a\n2\n", 3, 1), ("id,v\n1,a,b\n", 2, 3), ('id,v\n1,"x\ny"\n2\n', 3, 1)]
)
def test_a_row_of_another_length_refuses_the_object_with_its_number(text, row, count):
    error = refused(text)
    assert isinstance(error, RaggedCsv)
    assert (error.facts["row"], error.facts["expected"], error.facts["found"]) == (row, 2, count)
    assert f"Row {row} has {count} value" in str(error)


@pytest.mark.parametrize(
    "body, error, message",
    [
        (b"", EmptyObject, "no"),
        (b"\n\n", EmptyObject, "no row"),
        (b"id,v\n1,\xff\n", NotCsv, "Row 2 is not UTF-8"),
        (b"id,\xff\n1,a\n", NotCsv, "The first row is not UTF-8"),
        ("id,v\n1,a\n".encode("utf-16"), NotCsv, "UTF-16"),
        (b"PAR1\x15\x04", NotCsv, "Parquet"),
        (b"Obj\x01", NotCsv, "Avro"),
        (b"id,v\x00\n", NotCsv, "binary"),
        (b'id,v\n1,"a\n2,b\n', NotCsv, "odd number of quotes"),
        (b"id,id\n1,2\n", UnusableSchema, "unique"),
        (b"id,_hoodie_x\n1,2\n", UnusableSchema, "Sluice or Hudi"),
        (b"id," + b"c" * 200_000 + b"\n", CsvWithoutHeader, "names no column"),
    ],
)
def test_what_is_not_csv_is_refused_with_the_reason(body, error, message):
    refusal = refused(body)
    assert isinstance(refusal, error) and message in str(refusal)


def test_sizes_are_bounded():
    small = Limits(block_bytes=MIB, schema_columns=3, object_rows=2)
    assert isinstance(refused("id,a,b,c\n1,2,3,4\n", config(limits=small)), SchemaTooComplex)
    assert isinstance(refused("id\n1\n2\n3\n", config(limits=small)), ExpansionLimit)
    long = refused("id,v\n1," + "x" * (MIB // 4) + "\n", config(limits=small))
    assert isinstance(long, ExpansionLimit) and "A row takes more than" in str(long)
    bomb = gzip.compress(b"id\n" + b"1\n" * MIB)
    assert isinstance(refused(bomb, config(limits=Limits(decoded_bytes=MIB))), ExpansionLimit)


def test_many_rows_come_in_order_and_blocks_hide_no_row():
    body = "id,v\n" + "".join(f"{number},{'x' * (number % 90)}\n" for number in range(30_000))
    read_rows = rows(body, config(limits=Limits(block_bytes=MIB)))
    assert [row["id"] for row in read_rows] == [str(number) for number in range(30_000)]
    assert [row["_sluice_offset"] for row in read_rows[-2:]] == [500 + 29_998, 500 + 29_999]


def test_an_object_of_a_header_alone_has_no_rows():
    assert rows("id,v\n") == []


def test_the_offset_of_the_last_record_is_counted_back():
    rows = rows_in(read(b"id\n1\n2\n", item("csv", "x(0_51)", offset=51)))
    assert [row["_sluice_offset"] for row in rows] == [50, 51]


def test_changes_that_debezium_flattened_keep_their_meaning():
    read_rows = rows("id,__op,__lsn,__deleted\n1,c,5,false\n1,d,6,true\n")
    assert picked(read_rows, "id", "_sluice_op", "__deleted") == [("1", "c", False), ("1", "d", True)]
    assert read_rows[0]["_sluice_position"] < read_rows[1]["_sluice_position"]


SEQUENCE = "20230521061524000000000000000000001"
DMS = {"delete_when": DeleteWhen(column="Op", values=("D",)), "position": "seq"}


def test_changes_of_aws_dms_are_ordered_and_deleted_as_those_in_parquet():
    load = rows("id,title,seq\n1,a,\n2,a,\n", config(**DMS))
    later = SEQUENCE[:-1] + "2"
    changes = rows(f"Op,id,title,seq\nU,1,b,{SEQUENCE}\nD,2,a,{later}\n", config(**DMS))
    assert picked(load + changes, "id", "__deleted") == [("1", False), ("2", False), ("1", False), ("2", True)]
    positions = [row["_sluice_position"] for row in load + changes]
    assert positions == sorted(positions)


def test_changes_of_aws_dms_under_a_plain_rule_are_refused_with_the_next_step():
    changes = f"Op,id,title,seq\nU,1,b,{SEQUENCE}\nD,2,a,{SEQUENCE}\n"
    error = refused(changes)
    assert isinstance(error, DeletionsUnmarked)
    assert "delete_when: {column: Op, values: [D]}" in str(error) and "quarantine retry" in (error.next_step or "")
    with pytest.raises(Unordered, match="neither a position column nor the object's name"):
        read(changes.encode(), item("csv", offset=None), config(delete_when=DMS["delete_when"]))


def test_admission_looks_at_the_first_bytes():
    check_head(b"\xef\xbb\xbfid,v\n")
    check_head(gzip.compress(b"id,v\n"))
    with pytest.raises(NotCsv, match="Parquet"):
        check_head(b"PAR1")
    with pytest.raises(EmptyObject):
        check_head(b"\n ")


def test_quotes_that_spark_escapes_need_the_rule_to_say_so():
    text = 'id,v\n1,"say \\"hi\\""\n2,"a\\\\"\n'
    error = refused(text)
    assert isinstance(error, NotCsv) and "csv: {escape:" in (error.next_step or "")
    spark = config(csv=CsvForm(escape="\\"))
    assert picked(rows(text, spark), "id", "v") == [("1", 'say "hi"'), ("2", "a\\")]
    assert isinstance(refused('id,v\n1,"say \\"hi\n', spark), NotCsv), "the value isn't closed"
    # Spark escapes nothing in values that it doesn't quote, at the end of a line either.
    expected = [("C:\\",), ("a\\b",), ("x,\\",), ("",)]
    assert picked(rows('id,v\n1,C:\\\n2,a\\b\n3,"x,\\\\"\n4,""\n', spark), "v") == expected


def test_line_ends_that_mysql_escapes_are_line_ends():
    """https://dev.mysql.com/doc/refman/8.4/en/load-data.html: the first character of LINES TERMINATED BY is escaped."""
    mysql = config(csv=CsvForm(escape="\\", null_text="\\N"))
    text = 'id,v\n"1","a\\\nb"\n"2","c:\\\\d"\n"3",\\N\n"4","e\\\r\nf"\n"5","g\\\\\nh"\n'
    assert picked(rows(text, mysql), "v") == [("a\nb",), ("c:\\d",), (None,), ("e\r\nf",), ("g\\\nh",)]


@pytest.mark.parametrize("delimiter", [",", "|", "\t", "^", "]", "-"])
@pytest.mark.parametrize("value", ['"Crocodile" Dundee', '"a"b', '"a""" x', '"a" and "b"', '"Hi\n" she said'])
def test_text_behind_a_closing_quote_refuses_the_object(delimiter: str, value: str):
    table = config(csv=CsvForm(delimiter=delimiter))
    error = refused(f'id{delimiter}v\n0{delimiter}"x\n"\n1{delimiter}{value}\n', table)
    assert isinstance(error, NotCsv) and "Line 4 has text behind a closing quote" in str(error)
    assert "FIELD_OPTIONALLY_ENCLOSED_BY" in (error.next_step or "")


def test_an_open_quote_beside_another_within_a_value_refuses_the_object():
    error = refused('id,v\n1,5" pipe\n2,"Hello\n3,b\n')
    assert isinstance(error, NotCsv) and "Line 3 has an open quote" in str(error), "row 3 would be a part of row 2"


@pytest.mark.parametrize("begin", ["a", '9,5" x 3" y\n'])
def test_the_check_of_quotes_takes_little_more_than_the_text(begin: str):
    body = (begin + '"' * 1_000_000 + "a\n").encode()
    tracemalloc.start()
    try:
        with suppress(NotCsv):
            _check_closing_quotes(body, CsvForm())
        assert tracemalloc.get_traced_memory()[1] < 4 * len(body)
    finally:
        tracemalloc.stop()


def test_blanks_behind_a_closing_quote_refuse_nothing():
    body = 'id,v\n"1" ,5" x 3" pipe\n2,"a"\t\n3,"{""a"": [""b"", ""c d""]}"\n'
    assert picked(rows(body), "v") == [('5" x 3" pipe',), ("a\t",), ('{"a": ["b", "c d"]}',)]


LONG = '{"a":"\\"' + "x" * 200_000 + '"}'


@pytest.mark.parametrize(
    ("values", "read_values"),
    [
        (['"a ""b"" c"', 'a "b" c', '"""a"" b"'], ['a "b" c', 'a "b" c', '"a" b']),
        (['"{}"'.format(LONG.replace('"', '""'))], [LONG]),
        (['"C:\\"'], ["C:\\"]),
    ],
    ids=["inside of a value", "behind a backslash in a long value", "a backslash before the closing one"],
)
def test_quotes_inside_of_a_value_are_text(values: list[str], read_values: list[str]) -> None:
    assert [row["v"] for row in rows("id,v\n" + "".join(f"1,{value}\n" for value in values))] == read_values


@pytest.mark.parametrize("kind", ["date", "timestamp_millis", "timestamp_micros", "timestamp_nanos", "zoned_timestamp"])
def test_infinite_times_of_postgresqls_copy_are_null(kind: str) -> None:
    table = config(json_types={"v": kind})
    body = b"id,v\n1,infinity\n2,-infinity\n"
    one, schema = item("csv"), csv_schema(body, table)
    plan = batch_plan(table, schema, scanned=one).plan
    decoded, column = decode(body, one, plan), next(column for column in plan.columns if column.name == "v")
    assert ([stored_value(row["v"], column) for row in rows_in(decoded)], decoded.rows) == ([None, None], [])
