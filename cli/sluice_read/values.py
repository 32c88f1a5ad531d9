"""Arrow values as JSON values: ISO 8601 for time, text for decimals, base64 for bytes, nothing rounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.schema.meaning import base64_text, json_float
from sluice.schema.temporal import date_text, moment_text

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}  # of a second's fraction
_DAY_S = 86_400
_YEAR_1_S, _YEAR_10000_S = -62_135_596_800, 253_402_300_800


def column_names(names: Sequence[str]) -> tuple[str, ...]:
    """Make names unique: `id, id` (from a join) becomes `id, id_1`."""
    taken: set[str] = set()
    unique = []
    for name in names:
        candidate, number = name, 0
        while candidate in taken:
            number += 1
            candidate = f"{name}_{number}"
        taken.add(candidate)
        unique.append(candidate)
    return tuple(unique)


def rows_of(batch: pa.RecordBatch, *, whole_numbers: frozenset[int] = frozenset()) -> Iterator[tuple[Any, ...]]:
    """The rows of a batch as JSON values, in its order.

    `whole_numbers` are the columns whose decimals are integers too long for 64 bits, written as JSON numbers.
    """
    columns = [_column(batch.column(number), number in whole_numbers) for number in range(batch.num_columns)]
    return zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)


def _column(array: pa.Array, whole: bool) -> list[Any]:
    kind = array.type
    if pa.types.is_timestamp(kind):
        return _timestamps(array)
    if pa.types.is_date(kind):
        return _dates(array)
    if pa.types.is_decimal(kind) and whole:
        return [None if value is None else int(value) for value in array.to_pylist()]
    if (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    ):
        return array.to_pylist()
    if pa.types.is_float32(kind):
        # The shortest text of the same 32 bits: 3.4028, and not 3.4028000831604004, their value in 64 bits.
        return [None if text is None else json_value(float(text)) for text in array.cast(pa.string()).to_pylist()]
    convert = _converter(kind)
    return [None if value is None else convert(value) for value in _plain(array).to_pylist()]


def _timestamps(array: pa.Array) -> list[str | None]:
    unit, suffix = array.type.unit, "Z" if array.type.tz else ""
    if _is_near(array.cast(pa.int64()), 10 ** _DIGITS[unit]):
        return [None if text is None else _iso_utc(text) for text in array.cast(pa.string()).to_pylist()]
    return [
        None if count is None else moment_text(count, _DIGITS[unit]) + suffix
        for count in array.cast(pa.int64()).to_pylist()
    ]


def _dates(array: pa.Array) -> list[str | None]:
    days = array.cast(pa.date32()).cast(pa.int32())
    if _is_near(days.cast(pa.int64()), 1 / _DAY_S):
        return array.cast(pa.string()).to_pylist()
    return [None if count is None else date_text(count) for count in days.to_pylist()]


def _is_near(counts: pa.Array, per_second: float) -> bool:
    """Says whether all values lie in the years 1 to 9999. Outside them Arrow's conversion is silently wrong."""
    limits = pc.min_max(counts).as_py()
    return limits["min"] is None or (
        _YEAR_1_S * per_second <= limits["min"] and limits["max"] < _YEAR_10000_S * per_second
    )


def _plain(array: pa.Array) -> pa.Array:
    return pc.cast(array, array.type.value_type) if pa.types.is_dictionary(array.type) else array


def _converter(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_map(kind):
        return lambda pairs: {str(json_value(key)): json_value(value) for key, value in pairs}
    return json_value


def json_value(value: Any) -> Any:
    """The JSON value of one Python value."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return json_float(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (datetime, date, time)):
        return _iso_utc(value.isoformat())
    if isinstance(value, timedelta):
        return f"PT{format(Decimal(value // timedelta(microseconds=1)) / 1_000_000, 'f')}S"
    if isinstance(value, bytes):
        return base64_text(value)
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, pa.MonthDayNano):
        return f"P{value.months}M{value.days}DT{format(Decimal(value.nanoseconds) / 1_000_000_000, 'f')}S"
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    return str(value)


def _iso_utc(text: str) -> str:
    return text.replace(" ", "T", 1).replace("+00:00", "Z")
