"""What the values of each kind of column mean: raw value -> stored value -> text, declared once in `MEANINGS`.

A raw value is what a record decodes to, without the meaning of its type: a timestamp is a count, or text. The table is
read value by value here, and for whole columns by `sluice_spark.merge.rows`. Numbers of any length keep every digit.
`json_float` and `base64_text` are the forms that every JSON of Sluice uses for what JSON doesn't have.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any, Callable

from sluice.config.json_types import JSON_TEXT
from sluice.schema import columns as kinds
from sluice.schema.columns import Column
from sluice.schema.temporal import clock_text, date_text, day_of, micros_of, moment_text, structured_text

# Forms of a stored value that isn't the raw one: days since 1970-01-01, microseconds since 1970 in UTC, and the text
# of a time of day.
DAY, MOMENT, CLOCK = "day", "moment", "clock"

NUMBER_TEXT = "sluice.json.Number"  # a number as text, where no binary type holds it exactly

# PostgreSQL's driver counts an infinity in milliseconds; Debezium takes the same numbers for microseconds, for the
# milliseconds of a shorter timestamp, or wraps their days into 32 bits (-622191234 was seen for `infinity`, later
# releases send -2147472692). https://jdbc.postgresql.org/documentation/publicapi/org/postgresql/PGStatement.html
_POSITIVE, _NEGATIVE = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000
INFINITE_COUNTS = frozenset((_POSITIVE, _NEGATIVE, 2**63 - 1, -(2**63)))

# The earliest day of any supported database is 4714-11-24 BC (PostgreSQL, Oracle), the latest 5874898-06-03
# (PostgreSQL). https://www.postgresql.org/docs/15/datatype-datetime.html
_FIRST_DAY, _LAST_DAY = -2_440_588, 2_145_100_000
_FIRST_MILLIS = _FIRST_DAY * 86_400_000

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


@dataclass(frozen=True)
class Meaning:
    """What the raw values of one kind of column stand for.

    `text` is a value's text, which doesn't depend on the width, scale or unit that the writer chose for it: tables
    store it for `columns.TEXT_KINDS`, and hashes and masks are made of it. `json` is the value as JSON. `form` is what
    a table stores in place of the raw value: DAY, MOMENT or CLOCK. `nanos` is the length of one step of a count since
    1970-01-01 UTC or since midnight, in nanoseconds; None for text. `real` are the lowest and the highest count that
    are real: those outside stand for an infinity, which is stored as null.
    """

    text: Callable[[Any, Column], str]
    json: Callable[[Any, Column], str]
    form: str | None = None
    nanos: int | None = None
    real: tuple[int, int] | None = None

    @property
    def is_parsed(self) -> bool:
        """Whether the stored value is read from text, which may have none: an infinity, a day that no month has."""
        return self.form is not None and self.nanos is None

    @property
    def is_cut(self) -> bool:
        """Whether counts are stored without their digits below a microsecond."""
        return self.form == MOMENT and self.nanos == 1


def stored_value(raw: Any, column: Column) -> Any:
    """The value that a table stores for a raw one, with dates as days and timestamps as microseconds since 1970.

    None for an infinity and for text that no date or timestamp stands for. Digits below a microsecond are cut.
    """
    if raw is None:
        return None
    if column.kind == kinds.ARRAY and column.element is not None:
        return [stored_value(item, column.element) for item in raw]
    meaning = MEANINGS[column.kind]
    if meaning.real is not None and not meaning.real[0] <= raw <= meaning.real[1]:
        return None
    if meaning.form == DAY:
        return raw if meaning.nanos else day_of(raw)
    if meaning.form == MOMENT:
        return raw * meaning.nanos // 1_000 if meaning.nanos else micros_of(raw)
    return time_text(raw, column.kind) if meaning.form == CLOCK else raw


def stored_json(raw: Any, column: Column) -> Any:
    """The value that a table stores for a raw one, in the JSON form of `sluice query --json`."""
    if raw is not None and column.kind == kinds.ARRAY and column.element is not None:
        return [stored_json(item, column.element) for item in raw]
    value = stored_value(raw, column)
    form = None if value is None else MEANINGS[column.kind].form
    if form is not None and form != CLOCK:
        return date_text(value) if form == DAY else f"{moment_text(value, 6)}Z"
    return base64_text(value) if isinstance(value, bytes) else value


def value_text(value: Any, column: Column) -> str:
    """The text of a decoded value (`Meaning.text`). Raises ValueError or TypeError for a value of another type."""
    if column.fields and column.kind != kinds.JSON:
        return structured_text(value)
    return MEANINGS[column.kind].text(value, column)


def json_text(value: Any, column: Column) -> str:
    """A value as compact JSON: exact numbers, bytes in base64, dates and times in ISO 8601. Raises Unrepresentable.

    NaN and the infinities are text; dates and timestamps beyond the years 1 to 9999 are their counts.
    """
    return "null" if value is None else MEANINGS[column.kind].json(value, column)


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
    low, high = MEANINGS[kind].real or (count, count)
    if not low <= count <= high:
        return "infinity" if count > 0 else "-infinity"
    nanos = count * NANOS[kind]
    return f"{moment_text(nanos, 9, plus=True) if nanos % 1_000 else moment_text(nanos // 1_000, 6, plus=True)}Z"


_COUNTED = frozenset((kinds.INT, kinds.LONG, *kinds.DURATION_KINDS))
AS_NUMBER, AS_JSON, AS_TEXT = "a number as text", "JSON", "text"
WITHOUT_UNIT = (
    _COUNTED | kinds.TEXT_KINDS | {kinds.ARRAY, kinds.FLOAT, kinds.DOUBLE}
)  # the kinds of stored columns that may have a unit
_FORMS = {
    kinds.BYTES: "bytes",
    **dict.fromkeys(kinds.TIME_KINDS, "a time of six digits"),
    kinds.TIME_NANOS: "a time of nine digits",
}


def stored_unit(written: Column, stored: Column, *, of_key: bool) -> str | None:
    """What the stored values of a column count, in words, where the type that stores them doesn't say it.

    `written` is the writer's column. In a key (`of_key`) also the form of its text, in which values identify rows. None
    where the type says all, or nothing does: a plain number.
    """
    if written.element is not None and stored.kind == kinds.ARRAY == written.kind and stored.element is not None:
        return stored_unit(written.element, stored.element, of_key=False)
    if stored.kind in _COUNTED:
        kind = kinds.TIMESTAMP_NANOS if written.source_type.endswith(kinds.INT96) else written.kind
        return kind.replace("_", " in ", 1) if kind in NANOS or kind in kinds.DURATION_KINDS else None
    if of_key and stored.kind in (kinds.FLOAT, kinds.DOUBLE):
        return written.kind  # 0.1 as a float isn't 0.1 as a double
    if stored.kind not in kinds.TEXT_KINDS:
        return None
    if written.kind == kinds.JSON or written.source_type.endswith(JSON_TEXT):
        return f"{AS_JSON} of {_members(written)}"[:200] if of_key and written.fields else AS_JSON
    if is_number_text(written) or written.kind == kinds.DECIMAL_TEXT and not written.scale:
        return AS_NUMBER
    if not of_key:
        return AS_NUMBER if written.kind == kinds.DECIMAL_TEXT else None
    return (
        f"a number of {written.scale} places"
        if written.kind == kinds.DECIMAL_TEXT
        else _FORMS.get(written.kind, AS_TEXT)
    )


def _members(column: Column) -> str:
    """The members of a record in their order, in which its text has them."""
    return ", ".join(f"{field.name} ({_members(field)})" if field.fields else field.name for field in column.fields)


def is_number_text(column: Column) -> bool:
    """Whether a column's texts are numbers with a scale of their own, so that one number may have several forms."""
    return column.kind == kinds.VARIABLE_DECIMAL or column.source_type.endswith(NUMBER_TEXT)


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


def _text_of(types: tuple[type, ...], text: Callable[[Any], str] = str) -> Callable[[Any, Column], str]:
    """The text of values of these types alone. Raises TypeError for others: true is no number."""

    def made(value: Any, column: Column) -> str:
        if type(value) not in types:
            raise TypeError(f"a {type(value).__name__}")
        return text(value)

    return made


def _decimal(value: Any, column: Column) -> str:
    text = format(value, "f") if isinstance(value, Decimal) else decimal_text(value, column.scale or 0)
    return text.rstrip("0").rstrip(".") if "." in text else text


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


def _json_array(value: Any, column: Column) -> str:
    assert column.element is not None
    return f"[{','.join(json_text(item, column.element) for item in value)}]"


def _json_record(value: Any, column: Column) -> str:
    if column.element is not None:
        parts = [(str(name), item, column.element) for name, item in value.items()]
    else:
        parts = [(field.name, value[field.name], field) for field in column.fields]
    return "{{{}}}".format(",".join(f"{_dumped(name)}:{json_text(item, of)}" for name, item, of in parts))


def _time(nanos: int) -> Meaning:
    return Meaning(
        lambda value, column: time_text(value, column.kind),
        lambda value, column: _dumped(time_text(value, column.kind)),
        CLOCK,
        nanos,
    )


def _timestamp(nanos: int, real: tuple[int, int]) -> Meaning:
    return Meaning(lambda value, column: timestamp_text(value, column.kind), _json_timestamp, MOMENT, nanos, real)


MEANINGS: Mapping[str, Meaning] = {
    kinds.BOOLEAN: Meaning(_text_of((bool,), lambda value: "true" if value else "false"), _json_scalar),
    **dict.fromkeys((kinds.INT, kinds.LONG, *kinds.DURATION_KINDS), Meaning(_text_of((int,)), _json_scalar)),
    **dict.fromkeys(
        (kinds.FLOAT, kinds.DOUBLE),
        Meaning(_text_of((float, int), lambda value: str(json_float(float(value)))), _json_scalar),
    ),
    kinds.STRING: Meaning(_text_of((str,)), _json_scalar),
    kinds.BYTES: Meaning(lambda value, column: base64_text(value), lambda value, column: _dumped(base64_text(value))),
    kinds.DECIMAL: Meaning(_decimal, _json_decimal),
    kinds.DECIMAL_TEXT: Meaning(lambda value, column: decimal_text(value, column.scale or 0), _json_decimal),
    kinds.VARIABLE_DECIMAL: Meaning(
        lambda value, column: decimal_text(value["value"], value["scale"]),
        lambda value, column: _json_number(value["value"], value["scale"]),
    ),
    kinds.ARRAY: Meaning(_json_array, _json_array),
    kinds.JSON: Meaning(_json_record, _json_record),
    kinds.DATE: Meaning(
        lambda value, column: date_text(value), _json_date, DAY, 86_400 * 10**9, (_FIRST_DAY, _LAST_DAY)
    ),
    kinds.ISO_DATE: Meaning(lambda value, column: str(value), _json_scalar, DAY),
    kinds.TIME_MILLIS: _time(10**6),
    kinds.TIME_MICROS: _time(10**3),
    kinds.TIME_NANOS: _time(1),
    kinds.TIMESTAMP_MILLIS: _timestamp(10**6, (_FIRST_MILLIS, _POSITIVE // 1000 - 1)),
    kinds.TIMESTAMP_MICROS: _timestamp(10**3, (_FIRST_MILLIS * 1000, _POSITIVE - 1)),
    kinds.TIMESTAMP_NANOS: _timestamp(1, (_NEGATIVE + 1, _POSITIVE - 1)),
    kinds.ZONED_TIMESTAMP: Meaning(lambda value, column: str(value), _json_scalar, MOMENT),
}
NANOS: Mapping[str, int] = {kind: meaning.nanos for kind, meaning in MEANINGS.items() if meaning.nanos is not None}
