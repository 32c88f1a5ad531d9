"""Dates, times of day and timestamps: counts since 1970, and ISO 8601 text.

Values arrive as counts (days, or units of a kind since 1970-01-01 UTC), as ISO 8601 text, or as records of calendar
and clock components. Years have any length here: Python's own dates end with year 9999.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sluice.schema import columns as kinds

# Infinite counts as timestamps in text (`isostring`), which name an instant of the year 294247 or 290308 before Christ,
# or one of a year of more than six digits. The groups are the sign of a negative one.
INFINITE_MOMENT = (
    r"^(?:\+294247-01-10T04:00:(?:25\.2|54\.775807)0*Z|(-)290308-12-21T19:59:(?:27\.6|05\.224192)0*Z"
    r"|(?:\+|(-))\d{7,9}-[0-9T:.-]+Z)$"
)

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
BELOW_A_MICROSECOND = r"\.\d{6}\d*[1-9]"  # in the text of a timestamp: digits that no table stores
_INFINITIES = {"POSITIVE_INFINITY": "infinity", "NEGATIVE_INFINITY": "-infinity"}

_DATE_TEXT = re.compile(
    r"([+-]?\d{4,6})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?)?(?:Z|[+-]\d\d:\d\d)?"
)
_MOMENT_TEXT = re.compile(
    r"([+-]?\d{4,6})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_FURTHEST_ZONE_MIN = 18 * 60  # of java.time.ZoneOffset
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


def moment_text(count: int, digits: int, *, plus: bool = False) -> str:
    """ISO 8601 text of a count since 1970, for any year: `-290308-12-21T19:59:27.600000`.

    `digits` of a second's fraction are counted: 6 for microseconds. `plus` is that of `date_text`.
    """
    days, rest = divmod(count, _DAY_S * 10**digits)
    seconds, fraction = divmod(rest, 10**digits)
    return f"{date_text(days, plus=plus)}T{clock_text(seconds, f'{fraction:0{digits}d}' if digits else '')}"


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


def day_of(text: str) -> int | None:
    """Days since 1970-01-01 of the text of a date; None for an infinity, and for a day that no month has."""
    try:
        days = days_of(text)
    except NoTime:
        return None
    return None if days in _INFINITE_DAYS else days


def micros_of(text: str) -> int | None:
    """Microseconds since 1970 of a timestamp with a zone, cut below; None for an infinity, and for what 64 bits or a
    calendar and clock don't hold.
    """
    matched = _MOMENT_TEXT.fullmatch(text)
    if matched is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in matched.groups()[:6])
    fraction, zone = matched[7] or "", matched[8]
    try:
        days = days_of_civil(year, month, day)
    except NoTime:
        return None
    ahead = 0 if zone == "Z" else int(zone[1:3]) * 60 + int(zone[4:6])
    if ahead > _FURTHEST_ZONE_MIN or hour > 23 or minute > 59 or second > 59:
        return None
    ahead = -ahead if zone[0] == "-" else ahead
    seconds = days * _DAY_S + hour * 3_600 + (minute - ahead) * 60 + second
    micros = seconds * 1_000_000 + int(fraction[:6].ljust(6, "0"))
    return micros if -(2**63) <= micros < 2**63 else None


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
        clock = ""
        if "hour" in value:
            micros, below = divmod(value.get("nanos") or 0, 1_000)
            fraction = f"{micros:06d}{below:03d}" if below else f"{micros:06d}"
            clock = f"{value['hour']:02d}:{value['minute']:02d}:{value['second']:02d}.{fraction}"
        zone = _zone(value.get("offsetSeconds") or 0) if day or "offsetSeconds" in value else ""
        return f"{day}{'T' if day and clock else ''}{clock}{zone}"
    except (KeyError, TypeError, ValueError) as error:
        raise NoTime(f"the components {str(dict(value))[:200]}") from error


def _date_text(year: int, month: int, day: int, *, plus: bool) -> str:
    sign = "-" if year < 0 else "+" if plus and year > 9_999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _zone(seconds: int) -> str:
    minutes, rest = divmod(abs(seconds), 60)
    if rest:
        raise ValueError("not whole minutes")
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}" if minutes else "Z"
