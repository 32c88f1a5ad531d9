"""Parses JSON without losing a digit, and writes parsed values as JSON again."""

from __future__ import annotations

import json
import re
from typing import Any

from sluice.schema.limits import nests_deeper
from sluice_formats.errors import DamagedJson

MAX_DEPTH = 100  # of a stored value: far more than a row nests, and far less than the interpreter's stack
_PARSED_DEPTH = MAX_DEPTH + 4  # with the record and an envelope around the value
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class NumberText(str):
    """A number with a fraction or an exponent (or NaN, Infinity) as it was written; a float may not hold it."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_float=NumberText, parse_constant=NumberText)


def parse(text: str) -> Any:
    """The value of a JSON text; numbers with a fraction are NumberText. Raises DamagedJson."""
    return parse_prefix(text, None)[0]


def parse_prefix(text: str, at: int | None) -> tuple[Any, int]:
    """The value that begins at a place in the text, and where it ends; None: the text is the value.

    Raises DamagedJson, also for a cut value.
    """
    try:
        value, end = (_DECODER.decode(text), len(text)) if at is None else _DECODER.raw_decode(text, at)
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise DamagedJson("The text is not JSON", cause=_place(error)[:200]) from error
    begin = at or 0
    if text.count("[", begin, end) + text.count("{", begin, end) > _PARSED_DEPTH and nests_deeper(value, _PARSED_DEPTH):
        raise _too_deep()  # where the stack of the caller would decide whether a value is read
    if _SURROGATE.search(text, begin):
        _encodable(value)
    return value, end


def _place(error: ValueError) -> str:
    """What the parser met, and where. A text without line breaks is a line of a file, and always its own first one."""
    if isinstance(error, json.JSONDecodeError) and "\n" not in error.doc:
        return f"{error.msg}: column {error.colno}"
    # Python's parser refuses such a number with advice about itself.
    return "a number of too many digits" if "int_max_str_digits" in str(error) else str(error)


_UNSTORABLE = "Correct the value at the source, then `sluice quarantine discard` this version by its id"


def _too_deep() -> DamagedJson:
    return DamagedJson(f"A value nests more than {MAX_DEPTH} deep", next_step=_UNSTORABLE)


def to_text(value: Any) -> str:
    """Compact JSON of a parsed value, its numbers as they were written. Raises DamagedJson beyond MAX_DEPTH."""
    parts: list[str] = []
    _write(value, parts, 0)
    return "".join(parts)


def _write(value: Any, parts: list[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _too_deep()
    if isinstance(value, NumberText):
        # JSON has no literal for NaN and infinities; Jackson writes them as text.
        parts.append(value if value[-1].isdigit() else f'"{value}"')
    elif isinstance(value, dict):
        between = "{"
        for name, member in value.items():
            parts.append(f"{between}{json.dumps(name, ensure_ascii=False)}:")
            _write(member, parts, depth + 1)
            between = ","
        parts.append("}" if value else "{}")
    elif isinstance(value, list):
        between = "["
        for member in value:
            parts.append(between)
            _write(member, parts, depth + 1)
            between = ","
        parts.append("]" if value else "[]")
    else:
        parts.append(json.dumps(value, ensure_ascii=False))


def _encodable(value: Any) -> None:
    """Raises DamagedJson for half of a surrogate pair, which no text column can hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (UnicodeEncodeError, RecursionError) as error:
        raise DamagedJson("A text holds half of a surrogate pair", next_step=_UNSTORABLE) from error
