"""Exact text of decoded values: numbers of any length, times of day, and JSON of records and maps.

Dates and timestamps as ISO 8601 text, which some connectors write instead of a count: the days of one, and the text of the other.

Which dates and timestamps are real: what a database's infinity arrives as is not.

Dates and times that come as records of their calendar and clock components, as the ISO 8601 text of the same.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any, Callable

from sluice.schema import columns as kinds
from sluice.schema.columns import Column

# PostgreSQL's numeric has up to 131,072 digits before and 16,383 after its point; Oracle's scale is -84 to 127.
# https://www.postgresql.org/docs/15/datatype-numeric.html
MAX_SCALE = 131_072
# Within JSON text a number of more places than this has an exponent: it is no less exact, and some bytes can't become many times as many.
MAX_PLACES_IN_JSON = 64
_EXACT = Context(prec=2 * MAX_SCALE, Emax=MAX_EMAX, Emin=MIN_EMIN)
_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROS = {kinds.TIMESTAMP_MILLIS: (1000, 1), kinds.TIMESTAMP_MICROS: (1, 1), kinds.TIMESTAMP_NANOS: (1, 1000)}
_NANOS_OF = {kinds.TIME_MILLIS: 10**6, kinds.TIME_MICROS: 10**3, kinds.TIME_NANOS: 1}


class Unrepresentable(ValueError):
    """A value that has no text: a number with an absurd scale. The caller knows its column."""


def decimal_text(unscaled: bytes, scale: int) -> str:
    """The number of a two's complement big-endian integer and its scale, in full, without an exponent."""
    if not -MAX_SCALE <= scale <= MAX_SCALE or len(unscaled) > MAX_SCALE:
        raise Unrepresentable(f"a number of {len(unscaled)} bytes with scale {scale}")
    # By Decimal and not by str(int): Python refuses to print integers of more than 4,300 digits.
    return format(Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale, _EXACT), "f")


def _json_number(unscaled: bytes, scale: int) -> str:
    """The same as JSON has it, with an exponent where that is far shorter."""
    if abs(scale) <= MAX_PLACES_IN_JSON:
        return decimal_text(unscaled, scale)
    if abs(scale) > MAX_SCALE or len(unscaled) > MAX_SCALE:
        raise Unrepresentable(f"a number of {len(unscaled)} bytes with scale {scale}")
    return str(Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale, _EXACT))


def variable_decimal_text(value: Mapping[str, Any]) -> str:
    """The text of Debezium's VariableScaleDecimal."""
    return decimal_text(value["value"], value["scale"])


def time_text(count: int, kind: str) -> str:
    """A time of day, or MySQL's TIME below 0 or above 24 h, as [-]hh:mm:ss and six digits (nine for nanoseconds)."""
    nanos = count * _NANOS_OF[kind]
    seconds, fraction = divmod(abs(nanos), 10**9)
    digits = f"{fraction:09d}" if kind == kinds.TIME_NANOS else f"{fraction // 1000:06d}"
    return f"{'-' if nanos < 0 else ''}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{digits}"


def stored_text(value: Any, column: Column) -> str:
    """What a value of a text kind (`column_types.TEXT_KINDS`) is stored as. Raises Unrepresentable."""
    if column.kind == kinds.VARIABLE_DECIMAL:
        return variable_decimal_text(value)
    if column.kind == kinds.DECIMAL_TEXT:
        return decimal_text(value, column.scale or 0)
    if column.kind == kinds.JSON:
        return json_text(value, column)
    if column.kind in _NANOS_OF:
        return time_text(value, column.kind)
    return str(value)


def json_text(value: Any, column: Column) -> str:
    """A value as compact JSON: numbers exact, bytes in base64, dates and times in ISO 8601. Raises Unrepresentable.

    What JSON or ISO 8601 doesn't have is text or the number as it came: NaN, infinities, dates beyond year 9999.
    """
    if value is None:
        return "null"
    if column.kind == kinds.ARRAY and column.element is not None:
        element = column.element
        return f"[{','.join(json_text(item, element) for item in value)}]"
    if column.kind == kinds.JSON:
        if column.element is not None:
            parts = [(str(name), item, column.element) for name, item in value.items()]
        else:
            parts = [(field.name, value[field.name], field) for field in column.fields]
        return "{{{}}}".format(",".join(f"{_quoted(name)}:{json_text(item, of)}" for name, item, of in parts))
    return _SIMPLE.get(column.kind, _as_it_is)(value, column)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _as_it_is(value: Any, column: Column) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    return json.dumps(value, ensure_ascii=False)


def _decimal(value: Any, column: Column) -> str:
    return _json_number(value, column.scale or 0) if isinstance(value, bytes) else format(value, "f")


def _day(value: int, column: Column) -> str:
    return (
        _quoted(date.fromordinal(value + _EPOCH_DAY).isoformat())
        if 1 <= value + _EPOCH_DAY <= date.max.toordinal()
        else str(value)
    )


def _moment(value: int, column: Column) -> str:
    times, parts = _MICROS[column.kind]
    try:
        return _quoted((_EPOCH + timedelta(microseconds=value * times // parts)).isoformat() + "Z")
    except OverflowError:
        return str(value)


_SIMPLE: dict[str, Callable[[Any, Column], str]] = {
    kinds.DECIMAL: _decimal,
    kinds.DECIMAL_TEXT: _decimal,
    kinds.VARIABLE_DECIMAL: lambda value, column: _json_number(value["value"], value["scale"]),
    kinds.BYTES: lambda value, column: _quoted(base64.b64encode(value).decode("ascii")),
    kinds.DATE: _day,
    kinds.TIME_MILLIS: lambda value, column: _quoted(time_text(value, column.kind)),
    kinds.TIME_MICROS: lambda value, column: _quoted(time_text(value, column.kind)),
    kinds.TIME_NANOS: lambda value, column: _quoted(time_text(value, column.kind)),
    kinds.TIMESTAMP_MILLIS: _moment,
    kinds.TIMESTAMP_MICROS: _moment,
    kinds.TIMESTAMP_NANOS: _moment,
}


_TEXT = re.compile(r"([+-]?\d{4,6})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?)?(?:Z|[+-]\d\d:\d\d)?")
_NANOS = {kinds.TIMESTAMP_MILLIS: 10**6, kinds.TIMESTAMP_MICROS: 10**3, kinds.TIMESTAMP_NANOS: 1}  # in one step
_INFINITE_DAYS = (-(2**31), 2**31 - 1)  # days have 32 bits
_EPOCH_FROM_YEAR_0 = 719_468  # days from year 0's March 1 to 1970


class NoTime(ValueError):
    """Text that is no date. The caller knows its column."""


def days_of(text: str) -> int:
    """Days since 1970-01-01 of a date's text, or of a timestamp's where it was written. An infinity is the greatest or the least count of 32 bits. Raises NoTime."""
    matched = _TEXT.fullmatch(text)
    if matched is None:
        if re.fullmatch(r"-?infinity|[+-]\d{7,9}-.*", text):
            return min(_INFINITE_DAYS) if text.startswith("-") else max(_INFINITE_DAYS)
        raise NoTime(f"{text[:40]!r} is no date")
    year, month, day, hour, minute, second = (int(part or 0) for part in matched.groups())
    days = _days(year, month, day)
    if _civil(days) != (year, month, day) or hour > 23 or minute > 59 or second > 59:
        raise NoTime(f"{text[:40]!r} is no date")
    return days


def timestamp_text(count: int, kind: str) -> str:
    """The text, in UTC and with every digit, of a count of a timestamp kind since 1970-01-01 UTC; `infinity` or `-infinity` for what no timestamp is."""
    low, high = REAL[kind]
    if not low <= count <= high:
        return "infinity" if count > 0 else "-infinity"
    seconds, nanos = divmod(count * _NANOS[kind], 10**9)
    days, second = divmod(seconds, 86_400)
    year, month, day = _civil(days)
    sign = "-" if year < 0 else "+" if year > 9_999 else ""
    micros, below = divmod(nanos, 1_000)
    fraction = f"{micros:06d}{below:03d}" if below else f"{micros:06d}"
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{fraction}Z"


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a day of the proleptic Gregorian calendar, of any year.

    In years that begin in March, so that the leap day is a year's last.
    """
    shifted = year - (month <= 2)
    month_days = (153 * ((month + 9) % 12) + 2) // 5
    return 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + month_days + day - 1 - _EPOCH_FROM_YEAR_0


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day: the way back from `_days`, by the cycle of 400 years."""
    cycle, day_of_cycle = divmod(days + _EPOCH_FROM_YEAR_0, 146_097)
    year = (day_of_cycle - day_of_cycle // 1_460 + day_of_cycle // 36_524 - day_of_cycle // 146_096) // 365
    day = day_of_cycle - (365 * year + year // 4 - year // 100)
    shifted = (5 * day + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + 400 * cycle + (month <= 2), month, day - (153 * shifted + 2) // 5 + 1


# PostgreSQL's driver counts an infinity in milliseconds; Debezium takes the same numbers for microseconds, for the
# milliseconds of a shorter timestamp, or wraps their days into 32 bits (-622191234 was seen for `infinity`, later
# releases send -2147472692). https://jdbc.postgresql.org/documentation/publicapi/org/postgresql/PGStatement.html
_POSITIVE, _NEGATIVE = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000
INFINITE_COUNTS = frozenset((_POSITIVE, _NEGATIVE, 2**63 - 1, -(2**63)))

# No database here has an earlier day than 4714-11-24 BC (PostgreSQL, Oracle), or a later one than 5874898-06-03 (PostgreSQL).
# https://www.postgresql.org/docs/15/datatype-datetime.html
_FIRST_DAY, _LAST_DAY = -2_440_588, 2_145_100_000
_FIRST_MILLIS = _FIRST_DAY * 86_400_000

# Kind -> the lowest and highest count that is a real date or timestamp.
REAL: dict[str, tuple[int, int]] = {
    kinds.DATE: (_FIRST_DAY, _LAST_DAY),
    kinds.TIMESTAMP_MILLIS: (_FIRST_MILLIS, _POSITIVE // 1000 - 1),
    kinds.TIMESTAMP_MICROS: (_FIRST_MILLIS * 1000, _POSITIVE - 1),
    kinds.TIMESTAMP_NANOS: (_NEGATIVE + 1, _POSITIVE - 1),
}


# Debezium's `time.precision.mode=structured`, from 3.7 on: what each record is, by its semantic name. A StructuredDuration stays a record.
# https://github.com/debezium/debezium, io/debezium/time/StructuredTemporal.java and those beside it
STRUCTURED: dict[str, str] = {
    "io.debezium.time.StructuredDate": kinds.ISO_DATE,
    "io.debezium.time.StructuredTimestamp": kinds.ZONED_TIMESTAMP,
    "io.debezium.time.StructuredZonedTimestamp": kinds.ZONED_TIMESTAMP,
    "io.debezium.time.StructuredTime": kinds.STRING,
    "io.debezium.time.StructuredZonedTime": kinds.STRING,
}
_INFINITIES = {"POSITIVE_INFINITY": "infinity", "NEGATIVE_INFINITY": "-infinity"}


def structured_text(value: Mapping[str, Any]) -> str:
    """A date, a time of day or both, by which components the record has; UTC where it names no zone.

    Raises Unrepresentable for a record that lacks a component, and for a zone that isn't whole minutes from UTC.
    """
    special = value.get("specialValue")
    try:
        if special is not None:
            return _INFINITIES[special]
        day = _structured_day(value) if "year" in value else ""
        clock = _clock(value) if "hour" in value else ""
        return f"{day}{'T' if day and clock else ''}{clock}{_zone(value.get('offsetSeconds') or 0) if day or 'offsetSeconds' in value else ''}"
    except (KeyError, TypeError, ValueError) as error:
        raise Unrepresentable(f"the components {str(dict(value))[:200]}") from error


def _structured_day(value: Mapping[str, Any]) -> str:
    year = value["year"]
    sign = "-" if year < 0 else "+" if year > 9_999 else ""
    return f"{sign}{abs(year):04d}-{value['month']:02d}-{value['day']:02d}"


def _clock(value: Mapping[str, Any]) -> str:
    micros, below = divmod(value.get("nanos") or 0, 1_000)
    return (
        f"{value['hour']:02d}:{value['minute']:02d}:{value['second']:02d}.{micros:06d}{f'{below:03d}' if below else ''}"
    )


def _zone(seconds: int) -> str:
    minutes, rest = divmod(abs(seconds), 60)
    if rest:
        raise ValueError("not whole minutes")
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}" if minutes else "Z"
