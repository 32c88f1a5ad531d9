"""Unpacks gzip within bounds: whole members of an object, or as much as the first bytes of one hold."""

from __future__ import annotations

import zlib
from typing import Any, List

from sluice.errors import ExpansionLimit, SluiceError

MAGIC = b"\x1f\x8b"  # RFC 1952, 2.3.1
_PIECE = 8 * 1024
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
    at = 0
    member: Any = None
    while at < len(data):
        piece = data[
            at : at + _PIECE
        ]  # what lies behind a member's end is copied: a little of it, however many members there are
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
            raise ExpansionLimit(f"The object unpacks to more than {limit:,} bytes", limit=limit, unit="bytes")
        parts.append(part)
        at += len(piece) - len(member.unused_data)
        if member.eof:
            member = None
    if member is not None:
        raise DamagedGzip("The object's gzip ends early", bytes=len(data))
    return b"".join(parts)


def unpacked_head(data: bytes, limit: int) -> bytes:
    """At most `limit` bytes of what the first bytes of an object hold, unpacked when they are gzip. Raises DamagedGzip."""
    if not data.startswith(MAGIC):
        return data[:limit]
    try:
        while True:
            member = zlib.decompressobj(_WINDOW)
            head = member.decompress(data, limit)
            data = member.unused_data
            if head or not data.startswith(
                MAGIC
            ):  # what a writer has flushed before it wrote anything is a member without content
                return head
    except zlib.error as error:
        raise DamagedGzip("The object's gzip can't be unpacked", bytes=len(data), cause=str(error)[:200]) from error
