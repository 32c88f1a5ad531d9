"""Counts of time from the ISO 8601 text that some connectors write instead."""
from __future__ import annotations

import re

from sluice import column_types as kinds
from sluice.temporal_bounds import INFINITE_COUNTS

_TEXT = re.compile(r"([+-]?\d{4,6})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(?:Z|([+-])(\d\d):(\d\d))?")
_UNITS = {kinds.TIMESTAMP_MILLIS: 10**6, kinds.TIMESTAMP_MICROS: 10**3, kinds.TIMESTAMP_NANOS: 1}
_INFINITE_DAYS = (-(2**31), 2**31 - 1)  # days have 32 bits
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class NoTime(ValueError):
    """Text that is no date or timestamp. The caller knows its column."""


def count_of(text: str, kind: str) -> int:
    """Days, or units of a timestamp kind, since 1970-01-01 UTC; what is below the unit is cut.

    An infinity is the greatest or the least count of 64 bits, of days of 32. Raises NoTime.
    """
    matched = _TEXT.fullmatch(text)
    if matched is None:
        if re.fullmatch(r"-?infinity|[+-]\d{7,9}-.*", text):
            counts = _INFINITE_DAYS if kind == kinds.DATE else INFINITE_COUNTS
            return min(counts) if text.startswith("-") else max(counts)
        raise NoTime(f"{text[:40]!r} is no date or timestamp")
    year, month, day, hour, minute, second = (int(part or 0) for part in matched.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= _MONTH_DAYS[month - 1] and hour < 24 and minute < 60 and second < 60):
        raise NoTime(f"{text[:40]!r} is no date or timestamp")
    days = _days(year, month, day)
    if kind == kinds.DATE:
        return days
    zone = (int(matched[9]) * 60 + int(matched[10])) * (-1 if matched[8] == "-" else 1) if matched[8] else 0
    seconds = days * 86_400 + hour * 3600 + (minute - zone) * 60 + second
    return (seconds * 10**9 + int((matched[7] or "").ljust(9, "0"))) // _UNITS[kind]


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a day of the proleptic Gregorian calendar, of any year.

    In years that begin in March, so that the leap day is a year's last.
    """
    shifted = year - (month <= 2)
    month_days = (153 * ((month + 9) % 12) + 2) // 5
    return 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + month_days + day - 1 - 719_468
