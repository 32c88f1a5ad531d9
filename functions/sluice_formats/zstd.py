"""Unpacks zstd within limits: blocks of Avro, and whole objects of JSON."""

from __future__ import annotations

import cramjam

from sluice_formats.errors import DamagedZstd
from sluice_formats.gzip import ZSTD_MAGIC, beyond, unpacked

_FIRST_ROOM = 16  # times its size: the first buffer of a frame


def decompress_zstd(data: bytes, limit: int) -> bytes | None:
    """At most `limit` bytes, None for more. Raises cramjam.DecompressionError.

    Decompressed into buffers of growing size: a frame may leave out its content's size, or state a wrong one.
    """
    room = min(limit, _FIRST_ROOM * len(data) + 1024)
    while True:
        into = bytearray(room)
        try:
            length = cramjam.zstd.decompress_into(data, into)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
            if room >= limit:
                return None
            room = min(limit, 4 * room)
        else:
            return bytes(memoryview(into)[:length])


def unpacked_text(data: bytes, limit: int) -> bytes:
    """The content of zstd frames or gzip members; other data unchanged.

    Raises DamagedZstd, DamagedGzip and ExpansionLimit.
    """
    if not data.startswith(ZSTD_MAGIC):
        return unpacked(data, limit)
    try:
        plain = decompress_zstd(data, limit)
    except cramjam.DecompressionError as error:
        raise DamagedZstd("The object's zstd can't be unpacked", bytes=len(data), cause=str(error)[:200]) from error
    if plain is None:
        raise beyond(limit)
    return plain
