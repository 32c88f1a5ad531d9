"""Exact text of decoded values: numbers of any length, times of day, and records and maps as JSON.

`stored_text` is the text that a table stores for a value of a text kind. `json_float` and `base64_text` are the forms
that every JSON of Sluice uses for what JSON doesn't have.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any, Callable

from sluice.schema import columns as kinds
from sluice.schema.columns import Column
from sluice.schema.temporal import NANOS, date_text, time_text

# PostgreSQL's numeric has up to 131,072 digits before and 16,383 after its point; Oracle's scale is -84 to 127.
# https://www.postgresql.org/docs/15/datatype-numeric.html
MAX_SCALE = 131_072
# Beyond so many places a number in JSON text has an exponent: as exact, and some bytes can't become many times as many.
MAX_PLACES_IN_JSON = 64
_EXACT = Context(prec=2 * MAX_SCALE, Emax=MAX_EMAX, Emin=MIN_EMIN)
_EPOCH = datetime(1970, 1, 1)
_YEAR_1_DAY, _YEAR_9999_DAY = -719_162, 2_932_896  # the first day and the last that ISO 8601 writes without a sign


class Unrepresentable(ValueError):
    """A value that has no text: a number with an absurd scale. The caller adds the column."""


def decimal_text(unscaled: bytes, scale: int) -> str:
    """A decimal number in full, without an exponent. `unscaled` is a two's complement big-endian integer.

    Raises Unrepresentable.
    """
    return format(_decimal_of(unscaled, scale), "f")


def variable_decimal_text(value: Mapping[str, Any]) -> str:
    """Text of Debezium's VariableScaleDecimal. Raises Unrepresentable."""
    return decimal_text(value["value"], value["scale"])


def number_key(text: str) -> str:
    """The text by which a number identifies a row: `7` for 7.0 and 07, `100` for 1E2. Other text stays as it is."""
    try:
        number = Decimal(text)
    except ArithmeticError:
        return text
    if not number.is_finite() or abs(number.adjusted()) > MAX_SCALE:
        return text
    plain = format(number, "f")
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    return "0" if not number else plain


def stored_text(value: Any, column: Column) -> str:
    """The text that a table stores for a value of a text kind (`columns.TEXT_KINDS`). Raises Unrepresentable."""
    if column.kind == kinds.VARIABLE_DECIMAL:
        return variable_decimal_text(value)
    if column.kind == kinds.DECIMAL_TEXT:
        return decimal_text(value, column.scale or 0)
    if column.kind == kinds.JSON:
        return json_text(value, column)
    if column.kind in kinds.TIME_KINDS:
        return time_text(value, column.kind)
    return str(value)


def json_text(value: Any, column: Column) -> str:
    """A value as compact JSON: exact numbers, bytes in base64, dates and times in ISO 8601. Raises Unrepresentable.

    NaN and the infinities are text; dates and timestamps beyond the years 1 to 9999 are their counts.
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
        return "{{{}}}".format(",".join(f"{_dumped(name)}:{json_text(item, of)}" for name, item, of in parts))
    return _JSON_TEXT.get(column.kind, _json_scalar)(value, column)


def json_float(value: float) -> float | str:
    """A float as JSON has it; `NaN`, `Infinity` and `-Infinity` as text, as Jackson writes them."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def base64_text(value: bytes) -> str:
    """Bytes as text, as `binary.handling.mode=base64` has them."""
    return base64.b64encode(value).decode("ascii")


def _decimal_of(unscaled: bytes, scale: int) -> Decimal:
    if not -MAX_SCALE <= scale <= MAX_SCALE or len(unscaled) > MAX_SCALE:
        raise Unrepresentable(f"a number of {len(unscaled)} bytes with scale {scale}")
    # Not str(int): Python refuses to print integers of more than 4,300 digits.
    return Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale, _EXACT)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _json_scalar(value: Any, column: Column) -> str:
    return _dumped(json_float(value) if isinstance(value, float) else value)


def _json_number(unscaled: bytes, scale: int) -> str:
    number = _decimal_of(unscaled, scale)
    return format(number, "f") if abs(scale) <= MAX_PLACES_IN_JSON else str(number)


def _json_decimal(value: Any, column: Column) -> str:
    return _json_number(value, column.scale or 0) if isinstance(value, bytes) else format(value, "f")


def _json_date(value: int, column: Column) -> str:
    return _dumped(date_text(value)) if _YEAR_1_DAY <= value <= _YEAR_9999_DAY else str(value)


def _json_timestamp(value: int, column: Column) -> str:
    try:
        moment = _EPOCH + timedelta(microseconds=value * NANOS[column.kind] // 1_000)
    except OverflowError:
        return str(value)
    return _dumped(moment.isoformat() + "Z")


def _json_time(value: int, column: Column) -> str:
    return _dumped(time_text(value, column.kind))


_JSON_TEXT: dict[str, Callable[[Any, Column], str]] = {
    kinds.DECIMAL: _json_decimal,
    kinds.DECIMAL_TEXT: _json_decimal,
    kinds.VARIABLE_DECIMAL: lambda value, column: _json_number(value["value"], value["scale"]),
    kinds.BYTES: lambda value, column: _dumped(base64_text(value)),
    kinds.DATE: _json_date,
    **dict.fromkeys(kinds.TIME_KINDS, _json_time),
    **dict.fromkeys(kinds.TIMESTAMP_KINDS, _json_timestamp),
}
