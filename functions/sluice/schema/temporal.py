"""Dates, times of day and timestamps: counts since 1970, the ranges that are real, and ISO 8601 text.

Values arrive as counts (days, or units of a kind since 1970-01-01 UTC), as ISO 8601 text, or as records of calendar
and clock components. Years have any length here: Python's own dates end with year 9999.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sluice.schema import columns as kinds

# Nanoseconds in one step of a count.
NANOS: dict[str, int] = {
    kinds.DATE: 86_400 * 10**9,
    kinds.TIME_MILLIS: 10**6,
    kinds.TIME_MICROS: 10**3,
    kinds.TIME_NANOS: 1,
    kinds.TIMESTAMP_MILLIS: 10**6,
    kinds.TIMESTAMP_MICROS: 10**3,
    kinds.TIMESTAMP_NANOS: 1,
}

# PostgreSQL's driver counts an infinity in milliseconds; Debezium takes the same numbers for microseconds, for the
# milliseconds of a shorter timestamp, or wraps their days into 32 bits (-622191234 was seen for `infinity`, later
# releases send -2147472692). https://jdbc.postgresql.org/documentation/publicapi/org/postgresql/PGStatement.html
_POSITIVE, _NEGATIVE = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000
INFINITE_COUNTS = frozenset((_POSITIVE, _NEGATIVE, 2**63 - 1, -(2**63)))

# The same counts as timestamps in text (`isostring`), which name an instant of the year 294247 or 290308 before Christ,
# or one of a year of more than six digits. The groups are the sign of a negative one.
INFINITE_MOMENT = (
    r"^(?:\+294247-01-10T04:00:(?:25\.2|54\.775807)0*Z|(-)290308-12-21T19:59:(?:27\.6|05\.224192)0*Z"
    r"|(?:\+|(-))\d{7,9}-[0-9T:.-]+Z)$"
)

# The earliest day of any supported database is 4714-11-24 BC (PostgreSQL, Oracle), the latest 5874898-06-03
# (PostgreSQL). https://www.postgresql.org/docs/15/datatype-datetime.html
_FIRST_DAY, _LAST_DAY = -2_440_588, 2_145_100_000
_FIRST_MILLIS = _FIRST_DAY * 86_400_000

# Lowest and highest count of each kind that is a real date or timestamp. Counts outside stand for an infinity.
REAL_RANGES: dict[str, tuple[int, int]] = {
    kinds.DATE: (_FIRST_DAY, _LAST_DAY),
    kinds.TIMESTAMP_MILLIS: (_FIRST_MILLIS, _POSITIVE // 1000 - 1),
    kinds.TIMESTAMP_MICROS: (_FIRST_MILLIS * 1000, _POSITIVE - 1),
    kinds.TIMESTAMP_NANOS: (_NEGATIVE + 1, _POSITIVE - 1),
}

# Records of `time.precision.mode=structured` (Debezium 3.7 and later): the kind of each, by its semantic name.
# A StructuredDuration stays a record.
# https://github.com/debezium/debezium, io/debezium/time/StructuredTemporal.java and the classes beside it
STRUCTURED: dict[str, str] = {
    "io.debezium.time.StructuredDate": kinds.ISO_DATE,
    "io.debezium.time.StructuredTimestamp": kinds.ZONED_TIMESTAMP,
    "io.debezium.time.StructuredZonedTimestamp": kinds.ZONED_TIMESTAMP,
    "io.debezium.time.StructuredTime": kinds.STRING,
    "io.debezium.time.StructuredZonedTime": kinds.STRING,
}
_INFINITIES = {"POSITIVE_INFINITY": "infinity", "NEGATIVE_INFINITY": "-infinity"}

_DATE_TEXT = re.compile(
    r"([+-]?\d{4,6})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?)?(?:Z|[+-]\d\d:\d\d)?"
)
_INFINITE_TEXT = re.compile(r"-?infinity|[+-]\d{7,9}-.*")
_INFINITE_DAYS = (-(2**31), 2**31 - 1)  # days have 32 bits
_EPOCH_FROM_YEAR_0 = 719_468  # days from March 1 of year 0 to 1970-01-01
_DAY_S = 86_400


class NoTime(ValueError):
    """Text or components that are no date. The caller adds the column."""


def date_text(days: int, *, plus: bool = False) -> str:
    """ISO 8601 date of a count of days since 1970-01-01. `plus` puts a plus sign before years beyond 9999."""
    return _date_text(*civil_of(days), plus=plus)


def clock_text(seconds: int, fraction: str = "") -> str:
    """`hh:mm:ss` of seconds since midnight, and the digits of a fraction. Hours may have more than two digits."""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{'.' if fraction else ''}{fraction}"


def time_text(count: int, kind: str) -> str:
    """Text of a time of day: `[-]hh:mm:ss` and six digits, nine for nanoseconds.

    MySQL's TIME may be below 0 or above 24 h.
    """
    nanos = count * NANOS[kind]
    seconds, fraction = divmod(abs(nanos), 10**9)
    digits = f"{fraction:09d}" if kind == kinds.TIME_NANOS else f"{fraction // 1000:06d}"
    return f"{'-' if nanos < 0 else ''}{clock_text(seconds, digits)}"


def timestamp_text(count: int, kind: str) -> str:
    """Text of a timestamp in UTC, with every digit; `infinity` or `-infinity` outside the real range."""
    low, high = REAL_RANGES[kind]
    if not low <= count <= high:
        return "infinity" if count > 0 else "-infinity"
    seconds, nanos = divmod(count * NANOS[kind], 10**9)
    days, second = divmod(seconds, _DAY_S)
    return f"{date_text(days, plus=True)}T{clock_text(second, _fraction(nanos))}Z"


def days_of(text: str) -> int:
    """Days since 1970-01-01 of the text of a date, or of a timestamp at the place where it was written.

    An infinity is the highest or the lowest count of 32 bits. Raises NoTime.
    """
    matched = _DATE_TEXT.fullmatch(text)
    if matched is None:
        if _INFINITE_TEXT.fullmatch(text):
            return min(_INFINITE_DAYS) if text.startswith("-") else max(_INFINITE_DAYS)
        raise NoTime(f"{text[:40]!r} is not a date")
    year, month, day, hour, minute, second = (int(part or 0) for part in matched.groups())
    if hour > 23 or minute > 59 or second > 59:
        raise NoTime(f"{text[:40]!r} is not a date")
    return days_of_civil(year, month, day)


def days_of_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a day of the proleptic Gregorian calendar. Raises NoTime for no such day."""
    # Years begin in March here, so that a leap day is the last day of its year.
    shifted = year - (month <= 2)
    month_days = (153 * ((month + 9) % 12) + 2) // 5
    leap_days = shifted // 4 - shifted // 100 + shifted // 400
    days = 365 * shifted + leap_days + month_days + day - 1 - _EPOCH_FROM_YEAR_0
    if civil_of(days) != (year, month, day):
        raise NoTime(f"{year}-{month}-{day} is not a day")
    return days


def civil_of(days: int) -> tuple[int, int, int]:
    """Year, month and day of a count of days since 1970-01-01, by the calendar's cycle of 400 years."""
    cycle, day_of_cycle = divmod(days + _EPOCH_FROM_YEAR_0, 146_097)
    year = (day_of_cycle - day_of_cycle // 1_460 + day_of_cycle // 36_524 - day_of_cycle // 146_096) // 365
    day = day_of_cycle - (365 * year + year // 4 - year // 100)
    shifted = (5 * day + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + 400 * cycle + (month <= 2), month, day - (153 * shifted + 2) // 5 + 1


def structured_text(value: Mapping[str, Any]) -> str:
    """ISO 8601 text of a record of components: a date, a time of day, or both. UTC where it names no zone.

    Raises NoTime for a record that lacks a component, and for a zone that isn't whole minutes from UTC.
    """
    special = value.get("specialValue")
    try:
        if special is not None:
            return _INFINITIES[special]
        day = _date_text(value["year"], value["month"], value["day"], plus=True) if "year" in value else ""
        clock = _structured_clock(value) if "hour" in value else ""
        zone = _zone(value.get("offsetSeconds") or 0) if day or "offsetSeconds" in value else ""
        return f"{day}{'T' if day and clock else ''}{clock}{zone}"
    except (KeyError, TypeError, ValueError) as error:
        raise NoTime(f"the components {str(dict(value))[:200]}") from error


def _structured_clock(value: Mapping[str, Any]) -> str:
    fraction = _fraction(value.get("nanos") or 0)
    return f"{value['hour']:02d}:{value['minute']:02d}:{value['second']:02d}.{fraction}"


def _date_text(year: int, month: int, day: int, *, plus: bool) -> str:
    sign = "-" if year < 0 else "+" if plus and year > 9_999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _fraction(nanos: int) -> str:
    """Six digits, nine where there is something below a microsecond."""
    micros, below = divmod(nanos, 1_000)
    return f"{micros:06d}{below:03d}" if below else f"{micros:06d}"


def _zone(seconds: int) -> str:
    minutes, rest = divmod(abs(seconds), 60)
    if rest:
        raise ValueError("not whole minutes")
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}" if minutes else "Z"
