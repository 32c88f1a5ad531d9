"""Dates and timestamps as ISO 8601 text, which some connectors write instead of a count: the days of one, and the text of the other."""

from __future__ import annotations

import re
from typing import Tuple

from sluice import column_types as kinds
from sluice.temporal_bounds import REAL

_TEXT = re.compile(r"([+-]?\d{4,6})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?)?(?:Z|[+-]\d\d:\d\d)?")
_NANOS = {kinds.TIMESTAMP_MILLIS: 10**6, kinds.TIMESTAMP_MICROS: 10**3, kinds.TIMESTAMP_NANOS: 1}  # in one step
_INFINITE_DAYS = (-(2**31), 2**31 - 1)  # days have 32 bits
_EPOCH = 719_468  # days from year 0's March 1 to 1970


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
    return 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + month_days + day - 1 - _EPOCH


def _civil(days: int) -> Tuple[int, int, int]:
    """Year, month and day: the way back from `_days`, by the cycle of 400 years."""
    cycle, day_of_cycle = divmod(days + _EPOCH, 146_097)
    year = (day_of_cycle - day_of_cycle // 1_460 + day_of_cycle // 36_524 - day_of_cycle // 146_096) // 365
    day = day_of_cycle - (365 * year + year // 4 - year // 100)
    shifted = (5 * day + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + 400 * cycle + (month <= 2), month, day - (153 * shifted + 2) // 5 + 1
