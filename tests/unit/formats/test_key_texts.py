"""Texts of a record key that Hudi confuses with other keys are refused with column and record; all others are keys."""

import pyarrow as pa
import pytest
from support.shapes import config, lines, read

from sluice_formats.checks.stored_keys import check_folder_texts, check_key_texts, check_key_times
from sluice_formats.errors import InexactRecordKey, UnusablePartitionValue, UnusableRecordKey


@pytest.mark.parametrize(
    ("key", "empty_parts", "column", "record"),
    [
        ({"id": ["x", ""]}, False, "id", 11),
        ({"id": ["x", ""]}, True, "id", 11),
        ({"a": ["", "x"], "b": ["", ""]}, True, "a", 10),
        ({"a": ["x", "__empty__"], "b": ["y", "y"]}, True, "a", 11),
        ({"a": ["x", "y"], "b": ["__empty__", "y"]}, True, "b", 10),
        ({"a": ["x", "y"], "b": ["__empty__", ""]}, False, "b", 11),
        ({"a": ["1", "1,b:2"], "b": ["2,b:3", "3"]}, False, "a", 11),
        ({"a": [1, 2], "b": ["x" * 16_384, "x" * 16_385]}, False, "b", 11),
    ],
)
def test_a_key_that_hudi_would_take_for_another_or_for_none_is_refused(key, empty_parts, column, record):
    with pytest.raises(UnusableRecordKey) as refused:
        check_key_texts({name: pa.array(values) for name, values in key.items()}, [10, 11], empty_parts=empty_parts)
    assert refused.value.facts == {"column": column, "record": record}


@pytest.mark.parametrize(
    "key",
    [
        {"id": ["__empty__", "__null__", "a,b:c", "NULL", None]},
        {"a": ["", "x", "b:1", ",c:"], "b": ["x", "", ",b:1", "__null__"], "c": ["", "", "1", "1"]},
        {"id": [0, None], "t": ["", "x"]},
        {"id": [0, 1]},
        {},
    ],
)
def test_every_other_text_is_a_key(key):
    check_key_texts({name: pa.array(values) for name, values in key.items()}, list(range(5)), empty_parts=True)


def test_an_empty_part_is_refused_where_the_history_has_no_partitions():
    body = lines({"id": 1, "code": "", "place": "A"}, {"id": 1, "code": "x", "place": "A"})
    for history, refused in ((False, []), (True, [UnusableRecordKey.code])):
        decoded = read(body, "json", config("id", "code", partition_by=("place",), history=history))
        assert [row.code for row in decoded.rows] == refused


@pytest.mark.parametrize(
    ("kind", "exact", "inexact"),
    [
        ("date", [0, -719_162, None], [-622_191_234]),
        ("timestamp_micros", [-1, 2**60], [9_223_372_036_825_200_000, -9_223_372_036_832_400_000]),
        ("timestamp_millis", [1], [2**62]),
        ("timestamp_nanos", [-1_000, 0, None], [1, -1, 2**63 - 1]),
        ("iso_date", ["2024-01-01Z"], ["infinity"]),
        ("int", [2**31 - 1], []),
        ("string", ["infinity"], []),
        (
            "zoned_timestamp",
            ["2021-12-31T18:29:59.123456Z", "2021-12-31T18:29:59.123456000Z", "+12345-01-01T00:00:00Z"],
            ["infinity", "-infinity", "+292278994-08-16T23:00:00Z", "2021-12-31T18:29:59.1234567Z"],
        ),
    ],
)
def test_a_time_that_its_column_does_not_hold_is_no_key(kind, exact, inexact):
    check_key_times({"id": (pa.array(exact), kind)}, list(range(9)))
    for value in inexact:
        with pytest.raises(InexactRecordKey) as refused:
            check_key_times({"id": (pa.array([*exact[:1], value]), kind)}, [10, 11])
        assert refused.value.facts == {"column": "id", "record": 11}


@pytest.mark.parametrize(
    ("partition", "column"),
    [
        ({"p": ["x", "a\0b"]}, "p"),
        ({"p": [None, "x" * 254]}, "p"),
        ({"p": ["x" * 100, "/" * 85]}, "p"),
        ({"p": ["", "ü" * 127]}, "p"),
        ({"n": [1, 2], "p": ["x", "x" * 300]}, "p"),
        ({"a": [None, "x" * 200], "b": ["", "x" * 200], "c": ["", "x" * 200]}, "a"),
    ],
)
def test_a_value_that_no_store_holds_as_a_folder_is_refused(partition, column):
    with pytest.raises(UnusablePartitionValue) as refused:
        check_folder_texts({name: pa.array(values) for name, values in partition.items()}, [10, 11])
    assert refused.value.facts == {"column": column, "record": 11}


def test_every_other_text_is_a_folder():
    check_folder_texts(
        {"p": pa.array(["", None, "x" * 253, "/" * 84, "ü" * 126, "..", " ", "a=b%", "\n"]), "n": pa.array([1] * 9)},
        list(range(9)),
    )
    check_folder_texts({"p": pa.array([], pa.string()), "q": pa.nulls(0, pa.string())}, [])
