"""The kinds of values in tables.yaml: durations, sizes, numbers, choices, columns, and those of a single setting.

Each `parse` raises ValueError with what the value must be, as the second half of a sentence: "is a whole number".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from sluice.changes.capture_marks import mark_text
from sluice.changes.hidden_columns import LINEAGE_WORDS, colliding
from sluice.config.hudi_overrides import refusal, unfit_value
from sluice.config.json_types import JSON_TYPE_PATTERN, UnknownType, declared_type
from sluice.config.placeholders import placeholders
from sluice.config.rules.partition_fields import partition_field
from sluice.config.setting import Value, only
from sluice.names import COLUMN, LANE, NAME, not_a_column

MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
MIB, GIB = 1024**2, 1024**3
POSITION_JOINT = ","  # joins the columns of a position, whose names hold none, in the stored form
RAW_ALL = "*"  # in a table's `raw`: every column
PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_]+)\}")  # a part of the topic, in a template

_UNITS = {"s": 1, "m": MINUTE_S, "h": HOUR_S, "d": DAY_S}
_DURATION = r"^(0[smhd]?|[1-9][0-9]{0,6}[smhd])$"
_TYPE_SHOWN = 60  # characters of a wrong type
_SIZES = {"MiB": MIB, "GiB": GIB}
_SIZE = r"^[1-9][0-9]{0,5}(MiB|GiB)$"


def _seconds(written: Any) -> int:
    text = str(written) if isinstance(written, (str, int)) and not isinstance(written, bool) else ""
    if not re.fullmatch(_DURATION, text):
        raise ValueError("is a number with its unit: 0, 30s, 15m, 24h or 7d")
    return 0 if text.startswith("0") else int(text[:-1]) * _UNITS[text[-1]]


def _duration_text(seconds: int) -> str:
    """Write a duration as people do: 60s, 10m, 1h, 24h, 7d."""
    for unit, least in (("d", 2), ("h", 1), ("m", 2)):
        count, rest = divmod(seconds, _UNITS[unit])
        if count >= least and not rest:
            return f"{count}{unit}"
    return f"{seconds}s" if seconds else "0"


def duration(least_s: int = 0, most_s: int | None = None, why: str = "") -> Value:
    """Durations in seconds within bounds; `why` is added to the message."""
    if most_s is not None:
        bounds = f"is between {_duration_text(least_s)} and {_duration_text(most_s)}{why}"
    else:
        bounds = f"is at least {_duration_text(least_s)}{why}"

    def parse(written: Any) -> int:
        seconds = _seconds(written)
        if seconds < least_s or most_s is not None and seconds > most_s:
            raise ValueError(bounds)
        return seconds

    schema = {"anyOf": [{"type": "string", "pattern": _DURATION}, {"const": 0}]}
    return Value(parse, schema, _duration_text)


def _whole_hours(written: Any) -> int:
    hours, rest = divmod(_seconds(written), HOUR_S)
    if rest or not hours:
        raise ValueError("is at least one hour, and whole hours, such as 24h or 7d")
    return hours


def _bytes(written: Any) -> int:
    if not isinstance(written, str) or not re.fullmatch(_SIZE, written):
        raise ValueError("is a size such as 512MiB or 4GiB")
    return int(written[:-3]) * _SIZES[written[-3:]]


DURATION = duration()
HOURS = Value(
    _whole_hours, {"type": "string", "pattern": "^[1-9][0-9]{0,6}[mhds]$"}, lambda hours: _duration_text(hours * HOUR_S)
)
SIZE = Value(
    _bytes,
    {"type": "string", "pattern": _SIZE},
    lambda size: f"{size // GIB}GiB" if size % GIB == 0 else f"{size // MIB}MiB",
)


def whole(least: int, most: int) -> Value:
    """Whole numbers from `least` to `most`."""
    parse = only(
        lambda written: isinstance(written, int) and not isinstance(written, bool) and least <= written <= most,
        f"is a whole number from {least:,} to {most:,}",
    )
    return Value(parse, {"type": "integer", "minimum": least, "maximum": most})


def choice(*words: str | int) -> Value:
    """One of a few words or numbers."""
    parse = only(
        lambda written: any(written == word and type(written) is type(word) for word in words),
        f"is one of {', '.join(map(str, words))}",
    )
    kind = "integer" if all(isinstance(word, int) for word in words) else "string"
    return Value(parse, {"type": kind, "enum": list(words)})


def text(most: int | None = None) -> Value:
    """Any text, of at most so many characters."""

    def parse(written: Any) -> str:
        if not isinstance(written, str):
            raise ValueError("is text")
        if most is not None and len(written) > most:
            raise ValueError(f"is text of at most {most:,} characters")
        return written

    return Value(parse, {"type": "string", **({} if most is None else {"maxLength": most})})


SWITCH = Value(only(lambda written: isinstance(written, bool), "is true or false"), {"type": "boolean"})


def _history(written: Any) -> bool | str:
    if isinstance(written, bool):
        return written
    if not isinstance(written, str) or not NAME.fullmatch(PLACEHOLDER.sub("a", written)):
        raise ValueError(
            "is true or a name without a database: a lower-case letter, then lower-case letters, digits or _"
        )
    return written


HISTORY_TABLE = Value(_history, {"anyOf": [{"type": "boolean"}, {"type": "string", "minLength": 1, "maxLength": 128}]})


def _checked(names: Iterable[str], *, reserved: bool = True) -> None:
    """Raise ValueError for what is no column of a source."""
    listed = tuple(names)
    wrong = [not_a_column(name) for name in listed if not COLUMN.fullmatch(PLACEHOLDER.sub("a", name))]
    if reserved:
        wrong += [f"{name} is a column that Sluice or Hudi keeps itself" for name in colliding(listed)]
    if wrong:
        raise ValueError("; ".join(wrong))


def _listed(written: Any) -> tuple[str, ...]:
    listed = [written] if isinstance(written, str) else written
    if not isinstance(listed, list) or not all(isinstance(item, str) and item for item in listed):
        raise ValueError("is a column name or a list of column names")
    if len(set(listed)) < len(listed):
        raise ValueError("names a column twice")
    return tuple(listed)


def _columns(written: Any, *, reserved: bool = True) -> tuple[str, ...]:
    columns = _listed(written)
    _checked(columns, reserved=reserved)
    return columns


def _partition_fields(written: Any) -> tuple[str, ...]:
    fields = tuple(map(partition_field, _listed(written)))
    _checked(name for field in fields for name in (field.source, field.column) if name is not None)
    if len({field.column.lower() for field in fields}) < len(fields):
        raise ValueError("names a column twice")
    return tuple("".join(field.split()) for field in _listed(written))


def _column(written: Any) -> str:
    if not isinstance(written, str) or not 1 <= len(written) <= 255:
        raise ValueError("is a column name of 1 to 255 characters")
    _checked((written,))
    return written


def _mark_place(written: Any) -> str:
    is_path = isinstance(written, str) and "." in written and all(written.split(".")) and len(written) <= 255
    return str(written) if is_path else _column(written)


def _position(written: Any) -> str:
    columns = _columns(written)
    if not columns:
        raise ValueError("names no column")
    return POSITION_JOINT.join(columns)


def position_columns(position: str | None) -> tuple[str, ...]:
    """The columns of a table's `position`, in the order in which they count."""
    return tuple(position.split(POSITION_JOINT)) if position else ()


def _coordinates(written: Any) -> tuple[str, ...]:
    if not isinstance(written, list) or len(written) != 2:
        raise ValueError("is a list of two columns: the one with the Kafka partition, then the one with the offset")
    return _columns(written)


def _raw(written: Any) -> tuple[str, ...]:
    if isinstance(written, bool):
        return (RAW_ALL,) if written else ()
    if not isinstance(written, (str, list)):
        raise ValueError("is true, a column name or a list of column names")
    columns = _listed(written)
    _checked(name for name in columns if name != RAW_ALL)
    return columns


_NAME_SCHEMA = {"type": "string", "minLength": 1}
_NAMES_SCHEMA = {"type": "array", "items": _NAME_SCHEMA, "uniqueItems": True}

COLUMNS = Value(_columns, {"anyOf": [_NAME_SCHEMA, _NAMES_SCHEMA]}, list)
PARTITION_FIELDS = Value(_partition_fields, COLUMNS.schema, list)
ANY_COLUMNS = Value(partial(_columns, reserved=False), COLUMNS.schema, list)  # hidden columns too
MARK_PLACE = Value(_mark_place, {**_NAME_SCHEMA, "maxLength": 255})  # a column, or a path of `change`
POSITION = Value(
    _position,
    {"anyOf": [_NAME_SCHEMA, {**_NAMES_SCHEMA, "minItems": 1}]},
    lambda position: list(position_columns(position)) if POSITION_JOINT in position else position,
)
COORDINATES = Value(_coordinates, {**_NAMES_SCHEMA, "minItems": 2, "maxItems": 2}, list)
RAW_COLUMNS = Value(
    _raw,
    {"anyOf": [{"type": "boolean"}, _NAME_SCHEMA, _NAMES_SCHEMA]},
    lambda names: True if names == (RAW_ALL,) else list(names),
)


def _marks(written: Any) -> tuple[str, ...]:
    listed = [mark_text(value) for value in (written if isinstance(written, list) else [written])]
    marks = tuple(text for text in listed if text)
    if len(marks) < len(listed) or not 1 <= len(marks) <= 100 or any(len(text) > 100 for text in marks):
        raise ValueError(
            "is a value, or a list of up to 100: texts of 1 to 100 characters, whole numbers, true or false"
        )
    if len(set(marks)) < len(marks):
        raise ValueError("names a value twice")
    return marks


_MARK_SCHEMA = {"type": ["string", "integer", "boolean"]}
MARKS = Value(_marks, {"anyOf": [_MARK_SCHEMA, {"type": "array", "items": _MARK_SCHEMA, "uniqueItems": True}]}, list)


def _lineage(written: Any) -> tuple[str, ...]:
    if isinstance(written, bool) or written in ("on", "off"):  # on and off are true and false to YAML
        return LINEAGE_WORDS if written in ("on", True) else ()
    return _words(written, LINEAGE_WORDS, f"is on, off or a list of {', '.join(LINEAGE_WORDS)}")


def _words(written: Any, words: tuple[str, ...], needed: str) -> tuple[str, ...]:
    """Those of the words that are listed, in their own order."""
    listed = [written] if isinstance(written, str) else written
    if not isinstance(listed, list) or not set(map(str, listed)) <= set(words):
        raise ValueError(needed)
    return tuple(word for word in words if word in listed)


LINEAGE = Value(
    _lineage,
    {
        "anyOf": [
            {"type": "boolean"},
            {"enum": ["on", "off", *LINEAGE_WORDS]},
            {"type": "array", "items": {"enum": list(LINEAGE_WORDS)}, "uniqueItems": True},
        ]
    },
    lambda words: "on" if words == LINEAGE_WORDS else list(words) or "off",
)


SHAPES = ("envelope", "flattened", "plain")  # what a record is
SOURCE_WORDS = ("name", "db", "schema", "table")  # of Debezium's metadata: the connector's server, and where a row is


def source_column(word: str) -> str:
    """The table's column for a word of SOURCE_WORDS, whatever the records call it."""
    return f"__{word}"


_SOURCE_WORD: dict[str, Any] = {"enum": list(SOURCE_WORDS)}
SOURCE_COLUMNS = Value(
    lambda written: _words(written, SOURCE_WORDS, f"is one of {', '.join(SOURCE_WORDS)}, or a list of them"),
    {"anyOf": [_SOURCE_WORD, {"type": "array", "items": _SOURCE_WORD, "uniqueItems": True}]},
    list,
)


LANE_NAME = Value(
    only(
        lambda written: isinstance(written, str) and LANE.fullmatch(written) is not None,
        "is a lane's name: at most 32 of a-z, 0-9 and -",
    ),
    {"type": "string", "pattern": f"^{LANE.pattern}$"},
)


def _unavailable_value(written: Any) -> str:
    """Refuse short placeholders: they could be real values."""
    if not isinstance(written, str) or not 8 <= len(written) <= 1_000:
        raise ValueError("is text of 8 to 1,000 characters")
    try:
        placeholders(written)
    except ValueError as error:
        raise ValueError("begins with hex: but goes on with other than hexadecimal digits") from error
    return written


UNAVAILABLE_VALUE = Value(_unavailable_value, {"type": "string", "minLength": 8, "maxLength": 1_000})


def _hudi_options(written: Any) -> dict[str, str]:
    if not isinstance(written, Mapping):
        raise ValueError("is a mapping of Hudi options to values")
    options: dict[str, str] = {}
    wrong = []
    for option, value in written.items():
        why = refusal(str(option))
        if why is not None:
            wrong.append(f"{option} {why}")
        elif not isinstance(value, (str, int, float)):
            wrong.append(f"{option} needs one value")
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            kind = unfit_value(str(option), text)
            if kind is not None:
                wrong.append(f"{option} needs {kind}, and not {text[:_TYPE_SHOWN]!r}")
            options[str(option)] = text
    if wrong:
        raise ValueError("; ".join(wrong))
    return options


HUDI_OPTIONS = Value(
    _hudi_options, {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
)


def _json_types(written: Any) -> dict[str, str]:
    if not isinstance(written, Mapping):
        raise ValueError("is a mapping of columns to types")
    wrong: dict[str, list[str]] = {}  # the columns by what is wrong, which names all types
    for column, kind in written.items():
        try:
            declared_type(str(kind))
        except UnknownType as error:
            wrong.setdefault(str(error), []).append(f"{column}: {str(kind)[:_TYPE_SHOWN]!r}")
    if wrong:
        raise ValueError("; ".join(f"{', '.join(columns)} {why}" for why, columns in wrong.items()))
    return {str(column): str(kind) for column, kind in written.items()}


JSON_TYPES = Value(
    _json_types, {"type": "object", "additionalProperties": {"type": "string", "pattern": JSON_TYPE_PATTERN}}
)
