"""Positions of rows that a query captured, by columns that grow with every change (`position: last_update`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from sluice.errors import Incompatible, Unordered
from sluice.schema import columns as kinds
from sluice.schema.columns import Column
from sluice.schema.meaning import NANOS
from sluice.schema.temporal import days_of, days_of_civil

# What one step of each kind counts for: nanoseconds for time, one for numbers.
_STEPS: dict[str, int] = {
    **{kind: NANOS[kind] for kind in (kinds.DATE, *kinds.TIMESTAMP_KINDS)},
    kinds.INT: 1,
    kinds.LONG: 1,
}
_TEXTS = (kinds.STRING, kinds.ZONED_TIMESTAMP, kinds.BYTES)  # bytes: text of Parquet that isn't said to be text
_PLAIN_TEXTS = (kinds.STRING, kinds.BYTES)
_BIAS = 10**26  # above every count of 64 bits in nanoseconds: stored counts are unsigned and of one width
_BEFORE = "0" * 27  # a place before that of every count
_ISO = re.compile(
    r"(?!0000)(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?\s?(Z|UTC|[+-]\d\d(?::?\d\d)?)?"
)
# The change sequence of AWS DMS: a time to the hundredth of a second, and a number.
# https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Tasks.CustomizingTasks.TableMapping.SelectionTransformation.Expressions.html
_SEQUENCE_DIGITS = 35
_LONG_NUMBER = re.compile(r"[0-9]{27,40}")  # such sequences, and those of other captures (HVR's hvr_seq has 36 digits)
_HYBRID_CLOCK = re.compile(r"([0-9]{16,19})\.([0-9]{10})")  # CockroachDB's: nanoseconds, and a counter
_WHOLE = re.compile(r"[+-]?[0-9]{1,26}")  # longer numbers are beyond what a place holds
_LSN_BYTES = 10  # of SQL Server's places in its log (__$start_lsn), which begin with 0; else hexadecimal text
_LSN = re.compile(r"0[xX]([0-9A-Fa-f]{1,20})")
_NEXT_STEP = "Name a column in `position` that holds whole numbers, dates or timestamps"


def check_position_column(column: Column) -> None:
    """Raises Incompatible for a column that can't order rows: neither a whole number nor a point in time."""
    if column.kind not in _STEPS and column.kind not in _TEXTS and not _is_whole(column):
        raise Incompatible(
            f"The position column {column.name} is {column.source_type or column.spark_type}",
            column=column.name,
            types=[column.spark_type, "a number or time"],
            next_step=_NEXT_STEP,
        )


def _is_whole(column: Column) -> bool:
    """Whether a column holds decimals of no fraction: Oracle's numbers, and unsigned ones of 64 bits."""
    return column.kind == kinds.DECIMAL and column.scale == 0


def is_change_sequence(text: str) -> bool:
    """Whether a text is a sequence number as captures write it, beyond what a whole number holds."""
    return _sequence(text) is not None


def _sequence(text: str) -> str | None:
    """The digits of a sequence number in 40 places, or as they are in AWS DMS's; None for any other text."""
    parts = _HYBRID_CLOCK.fullmatch(text)
    digits = parts[1] + parts[2] if parts else text
    if parts is None and not _LONG_NUMBER.fullmatch(digits):
        return None
    return digits if len(digits) == _SEQUENCE_DIGITS else digits.zfill(40)


def encode_capture_order(
    generation: int, columns: Sequence[Column], values: Sequence[Any], offset: int, *, before: bool = False
) -> str:
    """The stored position of a row: the raw values of its position columns in their units, then the Kafka offset.

    `before` is for a before-image, which precedes every other change at its place, whatever objects bring them.

    Text of 27 to 40 digits is a sequence number and sorts by them, 35 as they are (AWS DMS). Raises Unordered for a
    null, and for text that is neither a whole number, SQL Server's place in its log, nor a point in time in ISO 8601
    (in UTC where it names no zone).
    """
    places = ".".join(map(_place, columns, values))
    return f"{generation:04d}.{places}.{'-' if before else ''}{offset:020d}"  # - sorts before every digit


def _place(column: Column, value: Any) -> str:
    """The place that one column gives a row: text of a width that all values of the column have."""
    if value is None:
        raise Unordered(
            f"The position column {column.name} is null",
            field=column.name,
            value="null",
            next_step="Let the query leave out rows without it, or name another column in `position`",
        )
    if _is_whole(column):
        value = int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else int(value)
    elif isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
        value = f"0x{value.hex()}" if len(value) == _LSN_BYTES and not value[0] else text
    if column.kind in _PLAIN_TEXTS and (digits := _sequence(value)) is not None:
        return digits
    count = _count(column, value) if column.kind in _TEXTS else value * _STEPS.get(column.kind, 1)
    if not -_BIAS < count < _BIAS:
        raise Unordered(f"The position column {column.name} is out of range", field=column.name, value=str(value)[:100])
    return f"{count + _BIAS:027d}"


# The counts of these units that are points in time from 2000 to 2100: no two units share one, nor do times in digits.
_UNIT_NANOS = {"seconds": 10**9, "milliseconds": 10**6, "microseconds": 10**3, "nanoseconds": 1}
_FROM, _TO = 946_684_800 * 10**9, 4_102_444_800 * 10**9
_BANDS = {
    "yyyyMMddHHmmss": (f"{20000101 * 10**6 + _BIAS:027d}", f"{21000101 * 10**6 + _BIAS:027d}"),
    **{unit: (f"{_FROM // nanos + _BIAS:027d}", f"{_TO // nanos + _BIAS:027d}") for unit, nanos in _UNIT_NANOS.items()},
}
BETWEEN = _BANDS["seconds"][1], _BANDS["nanoseconds"][0]
_SECONDS_OF_1970 = "0" * 9
_SECONDS_OF_YEAR = 31_556_952
NO_UNIT = "a number"
UNITS_OF_NUMBERS = _BANDS.keys() - {"nanoseconds"}  # also of counters as large as these


def place_form(place: str) -> str | None:
    """The form in which a place of a position (`position_places`) was written, in words.

    It is a unit of time, the digits of a long number, or NO_UNIT for a number between those of two units. Text of a
    point in time counts nanoseconds. None for what tells none: small numbers, times that stand for none or no end.
    """
    if len(place) != len(_BEFORE):
        return f"numbers of {len(place)} digits"
    unit = _unit(place)
    if unit == "nanoseconds":
        return "nanoseconds or times as text"
    if place.endswith(_SECONDS_OF_1970):  # 1970-01-01 00:00:01 is MySQL's first timestamp
        return None
    return unit or (NO_UNIT if BETWEEN[0] <= place < BETWEEN[1] else None)


def _unit(place: str) -> str | None:
    return next((unit for unit, (first, last) in _BANDS.items() if first <= place < last), None)


def years_between(one: str, other: str) -> float:
    """The years between two places, read as times of their forms; 0 where a form tells no time."""
    years = [_year(place) for place in (one, other)]
    return abs(years[0] - years[1]) if all(years) else 0.0


def _year(place: str) -> float:
    unit = _unit(place)
    if unit is None or len(place) != len(_BEFORE):
        return 0.0
    count = int(place) - _BIAS
    return count / 10**10 if unit not in _UNIT_NANOS else 1970 + count * _UNIT_NANOS[unit] / (_SECONDS_OF_YEAR * 10**9)


def says_no_unit(column: Column) -> bool:
    """Whether a position column holds numbers or text, whose unit or form a writer may change."""
    return column.kind in (kinds.INT, kinds.LONG, *_PLAIN_TEXTS) or _is_whole(column)


def is_lsn(value: Any) -> bool:
    """Whether a raw value is SQL Server's place in its log: a number of 80 bits, which counts no time."""
    if isinstance(value, bytes):
        return len(value) == _LSN_BYTES and not value[0] or _LSN.fullmatch(value.decode("utf-8", "replace")) is not None
    return isinstance(value, str) and _LSN.fullmatch(value) is not None


def position_places(position: str, columns: int) -> list[str]:
    """The places that the position columns, so many, gave a row; those of rows that came before every change are ""."""
    return ["" if place == _BEFORE else place for place in position.split(".")[1 : columns + 1]]


def places_of_number(position: str, paths: int) -> list[str]:
    """The places that the paths of a change's order, so many, gave its row; "" for a row before every change."""
    numbers = [int(digits) for digits in position.split(".")[1 : paths + 1]]
    return [
        (f"{number + _BIAS:027d}" if number < _BIAS else _sequence(str(number)) or "") if number else ""
        for number in numbers
    ]


def highest_by_form(places: Iterable[str]) -> tuple[str, ...]:
    """The highest place of each form among those that one column gives rows."""
    highest: dict[str, str] = {}
    for place in filter(None, places):
        form = place_form(place)
        if form is not None and place > highest.get(form, ""):
            highest[form] = place
    return tuple(sorted(highest.values()))


def before_capture(generation: int, columns: int, offset: int) -> str:
    """The stored position of a row that was there before capture began: lower than that of every captured change.

    `columns` is the number of position columns.
    """
    return ".".join([f"{generation:04d}", *[_BEFORE] * columns, f"{offset:020d}"])


def encode_load_order(generation: int, columns: Sequence[Column], values: Sequence[Any], offset: int) -> str:
    """The stored position of a row of a full load that has values in its position columns: those of its load.

    It is lower than that of every captured change, and the later load of two counts. Raises as `encode_capture_order`.
    """
    return ".".join([f"{generation:04d}", *[_BEFORE] * len(columns), *map(_place, columns, values), f"{offset:020d}"])


def moment_nanos(text: str) -> int:
    """Nanoseconds since 1970 of a point in time in ISO 8601, in UTC where it names no zone. Raises ValueError."""
    match = _ISO.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a point in time in ISO 8601")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    days = days_of_civil(int(year), int(month), int(day))
    seconds = days * 86_400 + int(hour or 0) * 3_600 + int(minute or 0) * 60 + int(second or 0) - _east(zone)
    return seconds * 10**9 + int((fraction or "").ljust(9, "0"))


_COMPACT = re.compile(r"((?:19|20|21)\d\d)(\d\d)(\d\d)([01]\d|2[0-3])([0-5]\d)([0-5]\d)")  # yyyyMMddHHmmss
_COMPACT_DAY = re.compile(r"(?:19|20|21)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")  # yyyyMMdd


INFINITE_TEXTS = {"infinity": 2**63 - 1, "-infinity": -(2**63)}  # as PostgreSQL's COPY writes them
_OF_FINER_UNITS = {
    kind: [(_FROM // nanos, _TO // nanos) for nanos in _UNIT_NANOS.values() if nanos < NANOS[kind]]
    for kind in kinds.TIMESTAMP_KINDS
}


def moment_count(text: str, kind: str) -> int:
    """The count of a kind's units of a point in time: in ISO 8601, as a count, or as yyyyMMddHHmmss. Raises ValueError.

    Fourteen digits that read as a date and a time are no count: that would be a moment of 1970, or of the year 2500.
    Eight that read as a date are neither: as a count they would be a moment of the first day of 1970. Nor is a count of
    finer units from 2000 to 2100, which would be a moment from the year 31947 on.
    """
    if _COMPACT_DAY.fullmatch(text):
        raise ValueError(f"{text} is a date in digits, and no count of a timestamp")
    if text in INFINITE_TEXTS:
        return INFINITE_TEXTS[text]
    if not _WHOLE.fullmatch(text):
        return moment_nanos(text) // NANOS[kind]
    match = _COMPACT.fullmatch(text)
    if match is None:
        count = int(text)
        if any(first <= count < last for first, last in _OF_FINER_UNITS[kind]):
            raise ValueError(f"{text} counts finer units than the type says")
        return count
    try:
        return moment_nanos("{}-{}-{}T{}:{}:{}".format(*match.groups())) // NANOS[kind]
    except ValueError:  # no day of the calendar
        return int(text)


_LONGEST_CLOCK_NANOS = 839 * 3_600 * 10**9  # MySQL's TIME ends with 838:59:59


def clock_count(count: int, kind: str) -> int:
    """The count of a kind's units of a time of day. Raises ValueError for one that counts finer units."""
    if abs(count) * NANOS[kind] >= _LONGEST_CLOCK_NANOS:
        raise ValueError(f"{count} is no time of day")
    return count


def declared_days(text: str) -> int:
    """The days since 1970 of text that a rule alone calls a date: a time of day may follow a space. Raises NoTime."""
    return days_of(text.replace(" ", "T", 1))


def day_count(count: int) -> int:
    """The days since 1970 of a number that a rule alone calls a date. Raises ValueError for a date in digits, and for
    seconds: as days they would be dates of years that few databases have.
    """
    if _COMPACT_DAY.fullmatch(str(count)) or _FROM <= count * 10**9 < _TO:
        raise ValueError(f"{count} is no count of days")
    return count


def _count(column: Column, text: str) -> int:
    if column.kind in _PLAIN_TEXTS and _WHOLE.fullmatch(text):
        return int(text)
    if number := _LSN.fullmatch(text):
        return int(number[1], 16)
    try:
        return moment_nanos(text)
    except ValueError as error:
        raise Unordered(
            f"The position column {column.name} holds text that is neither a whole number nor a point in time",
            field=column.name,
            value=text[:100],
            next_step=_NEXT_STEP,
        ) from error


def _east(zone: Any) -> int:
    """Seconds that a zone is ahead of UTC."""
    if not zone or zone in ("Z", "UTC"):
        return 0
    seconds = int(zone[1:3]) * 3_600 + int(zone[-2:] if len(zone) > 3 else 0) * 60
    return -seconds if zone[0] == "-" else seconds
