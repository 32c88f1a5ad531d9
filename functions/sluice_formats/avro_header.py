"""Reads the writer schema from the first bytes of an Avro container; distinguishes a damaged header from a cut one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sluice.config.limits import DEFAULTS, Limits
from sluice.errors import EmptyObject
from sluice.schema.limits import check_schema, parse_schema
from sluice.schema.writer_calendar import CALENDAR_KEYS, PROLEPTIC, WriterCalendar, writer_calendar
from sluice_formats.errors import CorruptObject, HeaderCut, NotAvro

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
CODECS = ("null", "deflate", "snappy", "bzip2", "xz", "zstandard")
MAX_ENTRIES = 1_000  # of a header: writers add a few of their own to the schema and the codec
_MAX_SHIFT = 63
_CHECKED_SCHEMAS = 1_024
_KEPT_TEXT_BYTES = 64 * 1024  # parsed, a schema takes thirty times its text


@dataclass(frozen=True)
class Head:
    """The first bytes of an object, or the last; `whole` when they are all of it."""

    data: bytes
    whole: bool


@dataclass(frozen=True)
class AvroHeader:
    """The header of a container: the writer schema as it was written, and the codec of the blocks.

    `text` is the schema's JSON. `schema` may be shared by objects of the same text, and must not be changed. `sync` is
    the marker that ends each block, `end` the place where the first block begins.
    """

    text: bytes
    schema: Any
    codec: str
    sync: bytes
    end: int
    calendar: WriterCalendar = PROLEPTIC


def parse_header(head: Head, limits: Limits = DEFAULTS) -> AvroHeader:
    """Read the header.

    Raises EmptyObject, NotAvro, CorruptObject, SchemaTooComplex, and HeaderCut when more bytes may help.
    """
    data = head.data
    if head.whole and not data:
        raise EmptyObject("The object has no bytes")
    if not MAGIC.startswith(data[:4]) or (head.whole and len(data) < 4):
        raise NotAvro.of(data)
    try:
        schema, codec, calendar, sync, end = _entries(data)
    except Cut as error:  # the header goes on after these bytes, or a length in it is damaged
        if head.whole:
            raise CorruptObject("The Avro header ends early", bytes=len(data)) from error
        raise HeaderCut("The Avro header is longer than the bytes that were read", bytes=len(data)) from error
    if schema is None:
        raise CorruptObject("The Avro header has no schema")
    # One object for equal texts, unless they are as large as only a hostile one is.
    parsed = _kept(schema, limits) if len(schema) <= _KEPT_TEXT_BYTES else _parsed(schema, limits)
    return AvroHeader(schema, parsed, _codec_of(codec), sync, end, calendar)


def _parsed(text: bytes, limits: Limits) -> Any:
    try:
        schema = parse_schema(text)
    except (ValueError, RecursionError) as error:
        raise CorruptObject("The Avro header's schema is not JSON", cause=str(error)[:200]) from error
    checked = (hashlib.sha256(text).digest(), limits)
    if checked not in _WITHIN_LIMITS:
        check_schema(schema, limits)
        if len(_WITHIN_LIMITS) >= _CHECKED_SCHEMAS:
            _WITHIN_LIMITS.clear()
        _WITHIN_LIMITS.add(checked)
    return schema


_kept = lru_cache(maxsize=8)(_parsed)
_WITHIN_LIMITS: set[tuple[bytes, Limits]] = set()  # schemas by hash: the objects of a topic repeat theirs


def _codec_of(written: bytes) -> str:
    codec = written.decode("ascii", "replace")
    if codec not in CODECS:
        raise CorruptObject(
            "The object's blocks are compressed by a codec that Avro doesn't have",
            next_step=f"Let the writer use one of {', '.join(CODECS)} and upload the object again, "
            "then `sluice quarantine discard` this version by its id",
            codec=codec[:40],
        )
    return codec


class Cut(Exception):
    """The bytes end before what is read: never leaves its package."""


# "Object Container Files" of the Avro specification 1.11: the magic, a map of bytes, the sync marker.
def _entries(data: bytes) -> tuple[bytes | None, bytes, WriterCalendar, bytes, int]:
    """The texts of schema and codec, the writer's calendar, the sync marker and the place behind it."""
    schema, codec, entries, at = None, b"null", 0, len(MAGIC)
    metadata: dict[bytes, bytes] = {}
    while True:
        count, at = long_at(data, at)
        if count < 0:  # the size of the map's block follows
            count, (_, at) = -count, long_at(data, at)
        if not count:
            break
        entries += count
        if entries > MAX_ENTRIES:
            raise CorruptObject(f"The Avro header has more than {MAX_ENTRIES:,} entries", entries=entries)
        for _ in range(count):
            key, at = _bytes(data, at)
            value, at = _bytes(data, at)
            if key == b"avro.schema":
                schema = value
            elif key == b"avro.codec":
                codec = value
            elif key in CALENDAR_KEYS:
                metadata[key] = value
    if at + SYNC_BYTES > len(data):
        raise Cut
    return schema, codec, writer_calendar(metadata), data[at : at + SYNC_BYTES], at + SYNC_BYTES


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = long_at(data, at)
    if size < 0:
        raise CorruptObject("The Avro header is damaged", at=at)
    if at + size > len(data):
        raise Cut
    return data[at : at + size], at + size


def long_at(data: bytes, at: int) -> tuple[int, int]:
    """A variable-length zig-zag number, and the place where it ends. Raises Cut and CorruptObject."""
    number = shift = 0
    while shift <= _MAX_SHIFT:
        if at >= len(data):
            raise Cut
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at
        shift += 7
    raise CorruptObject("The Avro container has a number of more than 64 bits", at=at)
