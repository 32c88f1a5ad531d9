"""Parses JSON without losing a digit, and writes what was parsed as text again."""

from __future__ import annotations

import json
import re
from typing import Any, List, Tuple

from sluice.errors import SluiceError

MAX_DEPTH = 100  # objects in arrays in objects: far more than a row has, and far less than the interpreter's stack
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class DamagedJson(SluiceError):
    """Text that is not JSON, or JSON that can't be kept: too deep, or with half of a surrogate pair."""

    code = "damaged_json"
    next_step = "Have the writer put the object again"


class NumberText(str):
    """A number with a fraction or an exponent (or NaN, Infinity), as it was written: no binary float holds them all."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_float=NumberText, parse_constant=NumberText)


def parse(text: str) -> Any:
    """The value of a JSON text; numbers with a fraction are NumberText. Raises DamagedJson."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise DamagedJson("The text is not JSON", cause=str(error)[:200]) from error
    if _SURROGATE.search(text):
        _encodable(value)
    return value


def parse_prefix(text: str, at: int) -> Tuple[Any, int]:
    """The value that begins at a place of the text, and where it ends. Raises DamagedJson, also for a value that is cut."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        raise DamagedJson("The text is not JSON", cause=str(error)[:200]) from error
    if _SURROGATE.search(text, at):
        _encodable(value)
    return value, end


def to_text(value: Any) -> str:
    """Compact JSON of a parsed value, its numbers as they were written. Raises DamagedJson for what is too deep."""
    parts: List[str] = []
    _write(value, parts, 0)
    return "".join(parts)


def _write(value: Any, parts: List[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise DamagedJson(f"A value nests more than {MAX_DEPTH} deep")
    if isinstance(value, NumberText):
        # JSON has no literal for these; as text they are what Jackson writes.
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
    """Half a surrogate pair is no character: no column of text can hold it."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (UnicodeEncodeError, RecursionError) as error:
        raise DamagedJson("A text holds half of a surrogate pair") from error
