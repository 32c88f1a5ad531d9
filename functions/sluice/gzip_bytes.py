"""Unpacks gzip within bounds: whole members of an object, or as much as the first bytes of one hold."""
from __future__ import annotations

import zlib
from typing import List

from sluice.errors import ExpansionLimit, SluiceError

MAGIC = b"\x1f\x8b"  # RFC 1952, 2.3.1
_WINDOW = 31  # zlib: a gzip wrapper and the largest window


class DamagedGzip(SluiceError):
    """Bytes that begin as gzip and don't go on or end as gzip; facts: `bytes`."""

    code = "damaged_gzip"
    next_step = "Have the writer put the object again"


def unpacked(data: bytes, limit: int) -> bytes:
    """The content of all members, or the data themselves when they aren't gzip. Raises DamagedGzip and ExpansionLimit."""
    if not data.startswith(MAGIC):
        return data
    parts: List[bytes] = []
    room = limit
    while data:
        member = zlib.decompressobj(_WINDOW)
        try:
            part = member.decompress(data, room + 1)
        except zlib.error as error:
            raise DamagedGzip("The object's gzip can't be unpacked", bytes=len(data), cause=str(error)[:200]) from error
        room -= len(part)
        if room < 0:
            raise ExpansionLimit(f"The object unpacks to more than {limit:,} bytes", limit=limit, unit="bytes")
        parts.append(part)
        if not member.eof:
            raise DamagedGzip("The object's gzip ends early", bytes=len(data))
        data = member.unused_data.lstrip(b"\x00")  # gzip files may be padded with zeros
    return b"".join(parts)


def unpacked_head(data: bytes, limit: int) -> bytes:
    """At most `limit` bytes of what the first bytes of an object hold, unpacked when they are gzip. Raises DamagedGzip."""
    if not data.startswith(MAGIC):
        return data[:limit]
    try:
        return zlib.decompressobj(_WINDOW).decompress(data, limit)
    except zlib.error as error:
        raise DamagedGzip("The object's gzip can't be unpacked", bytes=len(data), cause=str(error)[:200]) from error
