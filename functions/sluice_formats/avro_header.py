"""Reads the writer schema from the first bytes of an Avro container; distinguishes a damaged header from a cut one."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fastavro

from sluice.config.limits import DEFAULTS, Limits
from sluice.errors import EmptyObject
from sluice.schema.limits import check_schema
from sluice_formats.errors import CorruptObject, HeaderCut, NotAvro

MAGIC = b"Obj\x01"
CODECS = ("null", "deflate", "snappy", "bzip2", "xz", "zstandard")
# "Object Container Files" of the Avro specification 1.11. fastavro doesn't export its own copy.
HEADER_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "org.apache.avro.file.Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": 16}},
    ],
}


@dataclass(frozen=True)
class Head:
    """The first bytes of an object, or the last; `whole` when they are all of it."""

    data: bytes
    whole: bool


@dataclass(frozen=True)
class AvroHeader:
    """The header of a container: the writer schema as it was written, and the codec of the blocks."""

    schema: Any
    codec: str


def parse_header(head: Head, limits: Limits = DEFAULTS) -> AvroHeader:
    """Read the header.

    Raises EmptyObject, NotAvro, CorruptObject, SchemaTooComplex, and HeaderCut when more bytes may help.
    """
    data = head.data
    if head.whole and not data:
        raise EmptyObject("The object has no bytes")
    if not MAGIC.startswith(data[:4]) or (head.whole and len(data) < 4):
        raise NotAvro("The object is not an Avro container file", begins=data[:16].hex())
    try:
        header: Any = fastavro.schemaless_reader(io.BytesIO(data), HEADER_SCHEMA, None)
    except (EOFError, IndexError) as error:  # the header goes on after these bytes, or a length in it is damaged
        if head.whole:
            raise CorruptObject("The Avro header ends early", bytes=len(data)) from error
        raise HeaderCut("The Avro header is longer than the bytes that were read", bytes=len(data)) from error
    except (ValueError, OverflowError, MemoryError) as error:  # UnicodeDecodeError is a ValueError
        raise CorruptObject("The Avro header is damaged", cause=str(error)[:200]) from error
    return _header_of(header["meta"], limits)


def _header_of(meta: dict[str, bytes], limits: Limits) -> AvroHeader:
    if "avro.schema" not in meta:
        raise CorruptObject("The Avro header has no schema")
    try:
        schema = json.loads(meta["avro.schema"])
        _check_once(meta["avro.schema"], limits)
        codec = meta.get("avro.codec", b"null").decode("ascii")
    except (ValueError, RecursionError) as error:
        raise CorruptObject("The Avro header's schema is not JSON", cause=str(error)[:200]) from error
    if codec not in CODECS:
        raise CorruptObject("The object's blocks are compressed by a codec that Avro doesn't have", codec=codec[:40])
    return AvroHeader(schema, codec)


@lru_cache(maxsize=256)
def _check_once(schema: bytes, limits: Limits) -> None:
    """Check a schema once: the objects of a topic repeat it."""
    check_schema(json.loads(schema), limits)
