"""Unpacks gzip within limits; bytes that are no gzip stay as they are."""

from __future__ import annotations

import zlib
from io import BytesIO
from typing import Any

from sluice.config.limits import Limits
from sluice.errors import ExpansionLimit
from sluice_formats.errors import DamagedGzip

MAGIC = b"\x1f\x8b"  # RFC 1952, 2.3.1
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"  # RFC 8878, 3.1.1
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
            raise beyond(limit)
        content.write(part)
        at += len(piece) - len(member.unused_data)
        if member.eof:
            member = None
    if member is not None:
        raise DamagedGzip("The object's gzip ends early", bytes=len(data))
    return content.getvalue()


def beyond(limit: int) -> ExpansionLimit:
    """The error of an object that unpacks to more than `limit` bytes."""
    return ExpansionLimit.beyond("decoded_bytes", f"The object unpacks to more than {limit:,} bytes", limit)


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
