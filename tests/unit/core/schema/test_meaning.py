"""Text that keeps every digit, and times read from text."""

from datetime import date, timedelta

import pytest
from support.meanings import EXAMPLES

from sluice.schema.columns import SPARK_TYPES, VARIABLE_DECIMAL, array_column, decimal_column, json_column, plain_column
from sluice.schema.meaning import (
    MEANINGS,
    Unrepresentable,
    decimal_text,
    json_text,
    stored_json,
    time_text,
    timestamp_text,
    value_text,
)
from sluice.schema.temporal import days_of


def unscaled(number):
    return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.kind} {example.raw!r}")
def test_a_raw_value_has_one_stored_value_and_one_text(example):
    assert stored_json(example.raw, example.column) == example.stored
    assert stored_json([example.raw, None], array_column("c", example.column, True)) == [example.stored, None]
    assert value_text(example.raw, example.column) == example.text


def test_every_kind_has_a_meaning():
    assert MEANINGS.keys() == {*SPARK_TYPES, "decimal", "array"}


@pytest.mark.parametrize(
    "number, scale, text",
    [
        (12345678901234567890123456789, 18, "12345678901.234567890123456789"),
        (-1, 6, "-0.000001"),
        (0, 2, "0.00"),
        (5, -3, "5000"),
        (100, 0, "100"),
        (-12300, 2, "-123.00"),
    ],
)
def test_a_number_is_written_in_full(number, scale, text):
    assert decimal_text(unscaled(number), scale) == text


def test_numbers_as_long_as_postgresql_has_them_keep_every_digit():
    number = 10**20_000 + 7
    text = decimal_text(unscaled(number), 16_383)
    assert text.index(".") == 20_001 - 16_383
    assert text.replace(".", "") == "1" + "0" * 19_999 + "7"


@pytest.mark.parametrize("scale", [2**31 - 1, -(2**31), 200_000])
def test_an_absurd_scale_is_refused_and_makes_no_long_text(scale):
    with pytest.raises(Unrepresentable):
        decimal_text(b"\x01", scale)


@pytest.mark.parametrize(
    "count, kind, text",
    [
        (0, "time_millis", "00:00:00.000000"),
        (45_296_789, "time_millis", "12:34:56.789000"),
        (86_400_000_000, "time_micros", "24:00:00.000000"),
        (-3_020_399_000_000, "time_micros", "-838:59:59.000000"),
        (1, "time_nanos", "00:00:00.000000001"),
        (-1, "time_micros", "-00:00:00.000001"),
    ],
)
def test_a_time_of_day_may_be_negative_or_longer_than_a_day(count, kind, text):
    assert time_text(count, kind) == text


def test_json_keeps_numbers_exact_and_names_what_it_does_not_have():
    def plain(name, kind):
        return plain_column(name, kind, True, kind)

    fields = {  # each with its value and the text of that
        decimal_column("d", 20, 2, True, ""): (unscaled(110), "1.10"),
        plain_column("v", VARIABLE_DECIMAL, True, ""): ({"scale": 1, "value": unscaled(25)}, "2.5"),
        plain("b", "bytes"): (b"\x00\xff", '"AP8="'),
        plain("day", "date"): (9681, '"1996-07-04"'),
        plain("far", "date"): (10**8, "100000000"),
        plain("at", "timestamp_millis"): (1_500, '"1970-01-01T00:00:01.500000Z"'),
        plain("long_ago", "timestamp_micros"): (-(10**18), "-1000000000000000000"),
        plain("t", "time_micros"): (1, '"00:00:00.000001"'),
        plain("nan", "double"): (float("nan"), '"NaN"'),
        plain("inf", "float"): (float("-inf"), '"-Infinity"'),
        array_column("list", plain("x", "long"), True): ([1, None], "[1,null]"),
        json_column("m", True, "map", element=plain("value", "string")): ({'k"': "v"}, '{"k\\"":"v"}'),
        plain("none", "string"): (None, "null"),
        plain("text", "string"): ("ž\n", '"ž\\n"'),
    }
    column = json_column("c", True, "record", fields=tuple(fields))
    text = json_text({field.name: value for field, (value, _) in fields.items()}, column)
    assert text == "{" + ",".join(f'"{field.name}":{written}' for field, (_, written) in fields.items()) + "}"
    assert json_text(None, column) == "null"


@pytest.mark.parametrize(
    "text, count",
    [
        ("1970-01-01Z", 0),
        ("1969-12-31", -1),
        ("2000-02-29", 11_016),
        ("0001-01-01", -719_162),
        ("-0001-03-01", -719_834),
        ("+12345-01-01", 3_789_391),
        ("2021-12-31T18:29:59.123456Z", 18_992),
        ("infinity", 2**31 - 1),
        ("-infinity", -(2**31)),
        ("+292278994-08-17Z", 2**31 - 1),
    ],
)
def test_the_text_of_a_date_is_counted_from_1970(text, count):
    assert days_of(text) == count


NO_DATES = "yesterday 2024-13-01 2024-00-01 2024-02-30Z 2023-02-29 2024-01-00 2024-01-01T25:00Z infinity2"


@pytest.mark.parametrize("text", ["", "2024-01-01 00:00:00", *NO_DATES.split()])
def test_text_that_is_no_date_is_refused(text):
    with pytest.raises(ValueError):
        days_of(text)


@pytest.mark.parametrize(
    "count, kind, text",
    [
        (0, "timestamp_millis", "1970-01-01T00:00:00.000000Z"),
        (-1, "timestamp_millis", "1969-12-31T23:59:59.999000Z"),
        (-1, "timestamp_nanos", "1969-12-31T23:59:59.999999999Z"),
        (1_700_000_000_123_456_789, "timestamp_nanos", "2023-11-14T22:13:20.123456789Z"),
        (1_700_000_000_123_456_000, "timestamp_nanos", "2023-11-14T22:13:20.123456Z"),
        (253_402_300_800_000, "timestamp_millis", "+10000-01-01T00:00:00.000000Z"),
        (-62_167_219_200_000_001, "timestamp_micros", "-0001-12-31T23:59:59.999999Z"),
        (-210_866_803_200_000, "timestamp_millis", "-4713-11-24T00:00:00.000000Z"),
        (-210_866_803_200_001, "timestamp_millis", "-infinity"),
        (9_223_372_036_825_200_000, "timestamp_micros", "infinity"),
        (2**63 - 1, "timestamp_nanos", "infinity"),
        (9_223_372_036_825_200_000, "timestamp_millis", "infinity"),
    ],
)
def test_a_count_of_a_timestamp_has_its_text_with_every_digit(count, kind, text):
    assert timestamp_text(count, kind) == text


def test_every_day_of_the_calendar_has_one_text_and_one_count():
    for day in (*range(-2_440_588, 2_200_000, 997), *range(-800, 800)):
        text = timestamp_text(day * 86_400_000, "timestamp_millis")
        assert days_of(text) == day
        if -719_162 <= day <= 2_932_896:
            assert text.startswith((date(1970, 1, 1) + timedelta(day)).isoformat())
