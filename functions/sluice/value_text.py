"""Exact text of decoded values: numbers of any length, times of day, and JSON of records and maps."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime, timedelta
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any, Callable, Dict, Mapping

from sluice import column_types as kinds
from sluice.column_types import Column

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
        return "{%s}" % ",".join(f"{_quoted(name)}:{json_text(item, of)}" for name, item, of in parts)
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


_SIMPLE: Dict[str, Callable[[Any, Column], str]] = {
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
