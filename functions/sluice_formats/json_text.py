"""Unpacks gzip within limits, parses JSON without losing a digit, and writes parsed values as JSON again."""

from __future__ import annotations

import json
import re
import zlib
from io import BytesIO
from typing import Any

from sluice.config.limits import Limits
from sluice.errors import ExpansionLimit
from sluice_formats.errors import DamagedGzip, DamagedJson

MAX_DEPTH = 100  # of a stored value: far more than a row nests, and far less than the interpreter's stack
_PARSED_DEPTH = MAX_DEPTH + 4  # with the record and an envelope around the value
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class NumberText(str):
    """A number with a fraction or an exponent (or NaN, Infinity) as it was written; a float may not hold it."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_float=NumberText, parse_constant=NumberText)


def parse(text: str) -> Any:
    """The value of a JSON text; numbers with a fraction are NumberText. Raises DamagedJson."""
    try:
        value = _DECODER.decode(text)
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise DamagedJson("The text is not JSON", cause=_place(error)[:200]) from error
    _check_depth(value, text, 0, len(text))
    if _SURROGATE.search(text):
        _encodable(value)
    return value


def parse_prefix(text: str, at: int) -> tuple[Any, int]:
    """The value that begins at a place in the text, and where it ends. Raises DamagedJson, also for a cut value."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise DamagedJson("The text is not JSON", cause=_place(error)[:200]) from error
    _check_depth(value, text, at, end)
    if _SURROGATE.search(text, at):
        _encodable(value)
    return value, end


def _place(error: ValueError) -> str:
    """What the parser met, and where. A text without line breaks is a line of a file, and always its own first one."""
    if isinstance(error, json.JSONDecodeError) and "\n" not in error.doc:
        return f"{error.msg}: column {error.colno}"
    # Python's parser refuses such a number with advice about itself.
    return "a number of too many digits" if "int_max_str_digits" in str(error) else str(error)


_UNSTORABLE = "Correct the value at the source, then `sluice quarantine discard` this version by its id"


def _check_depth(value: Any, text: str, at: int, end: int) -> None:
    """Raises DamagedJson beyond _PARSED_DEPTH, where the stack of the caller would decide whether a value is read."""
    if text.count("[", at, end) + text.count("{", at, end) <= _PARSED_DEPTH:
        return
    level = [value]
    for _ in range(_PARSED_DEPTH + 1):
        level = [
            member
            for each in level
            if isinstance(each, (dict, list))
            for member in (each.values() if isinstance(each, dict) else each)
            if isinstance(member, (dict, list))
        ]
        if not level:
            return
    raise _too_deep()


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


MAGIC = b"\x1f\x8b"  # RFC 1952, 2.3.1
_PIECE = 8 * 1024
_WINDOW = 31  # zlib: a gzip wrapper and the largest window


def most_text(limits: Limits) -> int:
    """The most bytes of an object's text, which is in memory together with its rows."""
    return limits.decoded_bytes // 2


def unpacked(data: bytes, limit: int) -> bytes:
    """The content of all gzip members; data that isn't gzip unchanged. Raises DamagedGzip and ExpansionLimit."""
    if not data.startswith(MAGIC):
        return data
    content = BytesIO()  # gives its bytes away without a copy, which joined parts would take
    room = limit
    at = 0
    member: Any = None
    while at < len(data):
        piece = data[at : at + _PIECE]  # small: the bytes after a member's end are copied for each member
        if member is None:
            padding = len(piece) - len(piece.lstrip(b"\x00"))  # gzip files may be padded with zeros
            if padding:
                at += padding
                continue
            member = zlib.decompressobj(_WINDOW)
        try:
            part = member.decompress(piece, room + 1)
        except zlib.error as error:
            raise DamagedGzip(
                "The object's gzip can't be unpacked", bytes=len(data) - at, cause=str(error)[:200]
            ) from error
        room -= len(part)
        if room < 0:
            raise ExpansionLimit.beyond(
                "decoded_bytes", f"The object unpacks to more than {limit:,} bytes", limit=limit, unit="bytes"
            )
        content.write(part)
        at += len(piece) - len(member.unused_data)
        if member.eof:
            member = None
    if member is not None:
        raise DamagedGzip("The object's gzip ends early", bytes=len(data))
    return content.getvalue()


def unpacked_head(data: bytes, limit: int) -> bytes:
    """At most `limit` bytes of content from an object's first bytes, unpacked from gzip. Raises DamagedGzip."""
    if not data.startswith(MAGIC):
        return data[:limit]
    try:
        while True:
            member = zlib.decompressobj(_WINDOW)
            head = member.decompress(data, limit)
            data = member.unused_data
            # A writer that flushes before it writes anything leaves a member without content.
            if head or not data.startswith(MAGIC):
                return head
    except zlib.error as error:
        raise DamagedGzip("The object's gzip can't be unpacked", bytes=len(data), cause=str(error)[:200]) from error
