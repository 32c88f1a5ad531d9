"""Takes an Avro container apart into its blocks and decompresses each, never to more than a budget.

Reads the records of an Avro object container, logical types left undone.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Callable

import cramjam
import fastavro

from sluice.config.limits import Limits
from sluice.errors import ExpansionLimit, SluiceError
from sluice.schema.avro import WriterSchema, read_writer_schema
from sluice.schema.limits import weight_of
from sluice_formats.avro_header import HEADER_SCHEMA, MAGIC, AvroHeader, Head, parse_header
from sluice_formats.errors import CorruptObject
from sluice_formats.records import CHUNK_BYTES, Records, chunked, most_rows

SYNC_BYTES = 16
_CHECKSUM_BYTES = 4  # behind a snappy block: CRC32 of what it decompresses to
_XZ_MEMORY = 256 * 1024**2  # what the highest preset needs is 65 MiB
_FIRST_ROOM = 16  # times its size is what a zstandard block is first given room for


@dataclass(frozen=True)
class Block:
    """One block: how many records it says it has, its bytes as they are stored, and where it ends in the container."""

    records: int
    data: bytes
    end: int


def blocks_of(body: bytes, start: int, sync: bytes) -> Iterator[Block]:
    """The blocks of a container whose header ends at `start`. Raises CorruptObject where one is cut or its mark is another."""
    at = start
    while at < len(body):
        records, at_size = _long(body, at)
        size, at_data = _long(body, at_size)
        end = at_data + size + SYNC_BYTES
        if records < 0 or size < 0:
            raise CorruptObject("A block of the Avro container has a negative size", at=at)
        if end > len(body):
            raise CorruptObject("The Avro container ends inside a block", at=at, bytes=len(body))
        if body[end - SYNC_BYTES : end] != sync:
            raise CorruptObject("A block of the Avro container doesn't end with the container's mark", at=at)
        yield Block(records, body[at_data : at_data + size], end)
        at = end


def decompressed(block: Block, codec: str, limit: int) -> bytes:
    """A block's records, at most `limit` bytes. Raises ExpansionLimit beyond it, CorruptObject for what the codec can't read.

    No more than the limit is ever made: a block of some kilobytes can say a terabyte.
    """
    try:
        plain = _CODECS[codec](block.data, limit)
    except ExpansionLimit:
        raise
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, cramjam.DecompressionError) as error:
        raise CorruptObject(
            f"A block of the Avro container is no {codec}", cause=repr(error)[:200], at=block.end
        ) from error
    if len(plain) > limit:
        raise _too_much(limit)
    return plain


def _null(data: bytes, limit: int) -> bytes:
    return data


def _deflate(data: bytes, limit: int) -> bytes:
    return _to_its_end(zlib.decompressobj(-15), data, limit)  # negative: without zlib's header, as Avro has it


def _bzip2(data: bytes, limit: int) -> bytes:
    return _to_its_end(bz2.BZ2Decompressor(), data, limit)


def _xz(data: bytes, limit: int) -> bytes:
    return _to_its_end(lzma.LZMADecompressor(memlimit=_XZ_MEMORY), data, limit)


def _to_its_end(decompressor: Any, data: bytes, limit: int) -> bytes:
    """One more than the limit at most, which says that there is more; else the stream must have come to its end."""
    plain: bytes = decompressor.decompress(data, limit + 1)
    if len(plain) <= limit and not decompressor.eof:
        raise EOFError("the compressed data is cut")
    return plain


def _snappy(data: bytes, limit: int) -> bytes:
    packed, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if cramjam.snappy.decompress_raw_len(packed) > limit:
        raise _too_much(limit)
    plain = bytes(cramjam.snappy.decompress_raw(packed))
    if zlib.crc32(plain).to_bytes(_CHECKSUM_BYTES, "big") != checksum:
        raise ValueError("the checksum is another")
    return plain


def _zstandard(data: bytes, limit: int) -> bytes:
    """Into rooms of growing size: a frame need not say how much it becomes, and may lie."""
    room = min(limit, _FIRST_ROOM * len(data) + 1024)
    while True:
        into = bytearray(room)
        try:
            length = cramjam.zstd.decompress_into(data, into)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
            if room >= limit:
                raise _too_much(limit) from error
            room = min(limit, 4 * room)
        else:
            return bytes(memoryview(into)[:length])


_CODECS: dict[str, Callable[[bytes, int], bytes]] = {
    "null": _null,
    "deflate": _deflate,
    "snappy": _snappy,
    "bzip2": _bzip2,
    "xz": _xz,
    "zstandard": _zstandard,
}


def _too_much(limit: int) -> ExpansionLimit:
    return ExpansionLimit(
        f"A block of the Avro container is more than {limit:,} bytes once decompressed", limit=limit, unit="bytes"
    )


class PlainContainer:
    """A container without compression, made of another's blocks while it is read: the file that fastavro reads from.

    Records behind one block are in memory at a time. `read` gives what was asked for or what is left of a piece;
    pieces are the parts that a reader asks for.
    """

    def __init__(self, header: bytes, sync: bytes, blocks: Iterator[tuple[int, bytes]]) -> None:
        """`header` is the new container's, `blocks` are numbers of records with their bytes."""
        self._sync = sync
        self._blocks = blocks
        self._pieces: list[bytes] = [header]
        self._at = 0
        self._described = 0

    def read(self, size: int = -1) -> bytes:
        """`size` bytes, fewer at the end. A whole piece isn't copied."""
        taken: list[bytes] = []
        while size:
            if not self._pieces and not self._more():
                break
            piece = self._pieces[0]
            end = len(piece) if size < 0 else min(len(piece), self._at + size)
            part = piece if self._at == 0 and end == len(piece) else piece[self._at : end]
            taken.append(part)
            size = size - len(part) if size > 0 else size
            self._at = end
            if end == len(piece):
                self._pieces.pop(0)
                self._at = 0
        found = taken[0] if len(taken) == 1 else b"".join(taken)
        self._described += len(found)
        return found

    def tell(self) -> int:
        """How many bytes were read."""
        return self._described

    def _more(self) -> bool:
        for records, plain in self._blocks:
            self._pieces = (
                [encoded_long(records) + encoded_long(len(plain)), plain, self._sync]
                if plain
                else [encoded_long(records) + b"\x00", self._sync]
            )
            return True
        return False


def encoded_long(number: int) -> bytes:
    """Avro's variable-length zig-zag form of a number that isn't negative."""
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _long(body: bytes, at: int) -> tuple[int, int]:
    """A variable-length zig-zag number and where it ends."""
    number = shift = 0
    while shift < 70:
        if at >= len(body):
            raise CorruptObject("The Avro container ends inside a block", at=at, bytes=len(body))
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at
        shift += 7
    raise CorruptObject("A block of the Avro container has no length", at=at)


_KEPT = ("type", "name", "namespace", "fields", "items", "values", "symbols", "size", "aliases")


def avro_records(body: bytes, limits: Limits) -> Records:
    """The container's records.

    Raises EmptyObject, NotAvro, SchemaTooComplex, CorruptObject and ExpansionLimit, here or while they are gone through.
    """
    header = parse_header(Head(body, True), limits)
    writer = _understood(json.dumps(header.schema))
    return Records(
        lambda: _count(body), chunked(writer, _blocks(body, header, limits, most_rows(len(writer.row.columns))))
    )


@lru_cache(maxsize=64)
def _understood(schema: str) -> WriterSchema:
    return read_writer_schema(json.loads(schema))


def _blocks(body: bytes, header: AvroHeader, limits: Limits, most: int) -> Iterator[list[dict[str, Any]]]:
    """The blocks' records, with logical types left undone: Spark does those, and dates have no year 9999 there.

    No list is longer than `most`, whatever a block says of itself; an empty one stands where records
    of so many bytes have gathered that they are to be dealt with.
    """
    start, sync = _header_end(body)
    bare = io.BytesIO()
    meta = {"avro.schema": json.dumps(_bare(header.schema)).encode("utf-8"), "avro.codec": b"null"}
    fastavro.schemaless_writer(bare, HEADER_SCHEMA, {"magic": MAGIC, "meta": meta, "sync": sync})
    container = PlainContainer(
        bare.getvalue(), sync, _plain_blocks(body, start, sync, header.codec, limits, weight_of(header.schema))
    )
    at = gathered = 0
    try:
        # Text that isn't UTF-8 keeps its bytes and is refused with its own row, when the row becomes a column's value.
        for block in fastavro.block_reader(container, handle_unicode_errors="surrogateescape"):
            records = iter(block)
            while True:
                part = list(islice(records, most))
                yield part
                if len(part) < most:
                    break
            if block.bytes_.read(1):
                raise CorruptObject("A block of the Avro container holds more than its records", block=at)
            at += 1
            gathered += block.size
            if gathered >= CHUNK_BYTES:
                yield []
                gathered = 0
    except (MemoryError, ImportError, SluiceError):
        raise  # the worker's trouble and not the object's, or named already
    except Exception as error:  # whatever a decoder makes of damaged bytes: they are the same at every attempt
        raise CorruptObject(
            "A block of the Avro container can't be decoded", cause=repr(error)[:200], block=at
        ) from error


def _plain_blocks(
    body: bytes, start: int, sync: bytes, codec: str, limits: Limits, weight: int
) -> Iterator[tuple[int, bytes]]:
    """The blocks decompressed, one at a time, within what one of them and all of them may come to."""
    left, rows, most = limits.decoded_bytes, 0, limits.block_bytes // weight
    for block in blocks_of(body, start, sync):
        rows += block.records
        if rows > limits.object_rows:
            raise ExpansionLimit(
                f"The object holds more than {limits.object_rows:,} records", limit=limits.object_rows, unit="records"
            )
        plain = decompressed(block, codec, min(most, left))
        left -= len(plain)
        yield block.records, plain


def _header_end(body: bytes) -> tuple[int, bytes]:
    """Where the container's blocks begin, and the mark between them."""
    source = io.BytesIO(body)
    header: Any = fastavro.schemaless_reader(source, HEADER_SCHEMA, None)
    return source.tell(), header["sync"]


def _bare(node: Any) -> Any:
    """A schema with structure only."""
    if isinstance(node, list):
        return [_bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    bare = {key: node[key] for key in _KEPT if key in node}
    if "fields" in bare:
        bare["fields"] = [{"name": field["name"], "type": _bare(field["type"])} for field in bare["fields"]]
    for key in ("type", "items", "values"):
        if key in bare:
            bare[key] = _bare(bare[key])
    return bare


def _count(body: bytes) -> int:
    """The records of all blocks by what the blocks say of themselves."""
    return sum(block.records for block in blocks_of(body, *_header_end(body)))
