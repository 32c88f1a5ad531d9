"""Avro containers put together by hand, for what a well-behaved writer never writes."""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from typing import Any

import cramjam

from support.builders import avro_record

SCHEMA: dict[str, Any] = avro_record({"id": "int", "s": "string"}, name="V")
SYNC = bytes(16)


def encoded_varint(number: int) -> bytes:
    """A number from 0 in groups of seven bits, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def encoded_long(number: int) -> bytes:
    """Avro's variable-length zig-zag form of a number from 0."""
    return encoded_varint(number << 1)


def header(*entries: tuple[bytes, bytes]) -> bytes:
    """The header of a container with these entries in its map."""
    parts = b"".join(encoded_long(len(part)) + part for entry in entries for part in entry)
    return b"Obj\x01" + encoded_long(len(entries)) + parts + b"\x00" + SYNC


def deflated(plain: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    return packer.compress(plain) + packer.flush()


def snappied(plain: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(plain)) + zlib.crc32(plain).to_bytes(4, "big")


PACK = {
    "deflate": deflated,
    "snappy": snappied,
    "bzip2": bz2.compress,
    "xz": lambda plain: lzma.compress(plain, preset=0),
    "zstandard": lambda plain: bytes(cramjam.zstd.compress(plain)),
    "null": bytes,
}


def container(codec: str, *blocks: tuple[int, bytes], schema: Any = SCHEMA) -> bytes:
    """A container of blocks as they are given: a number of records and their packed bytes."""
    head = header((b"avro.schema", json.dumps(schema).encode()), (b"avro.codec", codec.encode()))
    return head + b"".join(encoded_long(records) + encoded_long(len(data)) + data + SYNC for records, data in blocks)


def record(id: int, text: bytes) -> bytes:
    return encoded_long(id) + encoded_long(len(text)) + text
