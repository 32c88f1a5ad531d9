"""Reads the records of an Avro object container, without the meaning of logical types.

Blocks are decompressed one at a time and never beyond a limit: a block of some kilobytes can claim a terabyte.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Callable

import cramjam

from sluice.config.limits import Limits
from sluice.errors import ExpansionLimit, SluiceError
from sluice.schema.avro import WriterForm, WriterSchema, read_writer_schema
from sluice.schema.limits import parse_schema, weight_of
from sluice_formats.avro_header import SYNC_BYTES, AvroHeader, Cut, Head, long_at, parse_header
from sluice_formats.avro_values import Decoder, decoder_of
from sluice_formats.errors import CorruptObject
from sluice_formats.records import CHUNK_BYTES, Records, chunked, most_rows, rebased
from sluice_formats.zstd import decompress_zstd

HEADER_BYTES = 1024**2  # of a container that is divided
_MOST_HEAD_BYTES = 20  # before a block's data: two numbers of 64 bits
_MOST_BLOCKS = 1_000_000  # of a container that is divided
_CHECKSUM_BYTES = 4  # after a snappy block: CRC32 of the decompressed bytes
_XZ_MEMORY = 256 * 1024**2  # the highest preset needs 65 MiB


@dataclass(frozen=True)
class Block:
    """One block: its number of records by its header, its stored bytes, and where it ends in the container."""

    records: int
    data: bytes
    end: int


def blocks_of(body: bytes, start: int, sync: bytes) -> Iterator[Block]:
    """The blocks of a container whose header ends at `start`. Raises what `_walked` does."""
    stream = _Stream([body])
    stream.skip(start)
    for records, begin, end in _walked(stream, sync):
        yield Block(records, body[begin : end - SYNC_BYTES], end)


def _walked(stream: _Stream, sync: bytes) -> Iterator[tuple[int, int, int]]:
    """The blocks that follow, to the end: the number of records, and where the data begins and the block ends.

    Raises CorruptObject for a block that is cut, or that doesn't end with the sync marker.
    """
    while head := stream.peek(_MOST_HEAD_BYTES):
        at = stream.at
        try:
            records, size_at = long_at(head, 0)
            size, data_at = long_at(head, size_at)
            if records < 0 or size < 0:
                raise CorruptObject("A block of the Avro container has a negative size", at=at)
            stream.skip(data_at + size)
            marker = stream.peek(SYNC_BYTES)
            stream.skip(SYNC_BYTES)
        except Cut as error:
            raise CorruptObject("The Avro container ends inside a block", at=at) from error
        if marker != sync:
            raise CorruptObject("A block of the Avro container doesn't end with the container's sync marker", at=at)
        yield records, at + data_at, stream.at


@dataclass(frozen=True)
class BlockRun:
    """Consecutive whole blocks: their number of records, and where they begin and end in the container."""

    records: int
    start: int
    end: int


def block_runs(chunks: Iterable[bytes], limits: Limits, run_bytes: int) -> tuple[AvroHeader, bytes, list[BlockRun]]:
    """The header, its bytes, and all blocks in runs of at least `run_bytes` each but the last. Holds a chunk at a time.

    There are no runs of a container of more than _MOST_BLOCKS. Raises what `parse_header` and `blocks_of` do, HeaderCut
    for a header of more than HEADER_BYTES, and ExpansionLimit for too many records.
    """
    stream = _Stream(chunks)
    first = stream.peek(HEADER_BYTES)
    header = parse_header(Head(first, len(first) < HEADER_BYTES), limits)
    stream.skip(header.end)
    runs: list[BlockRun] = []
    blocks = records = total = 0
    start = stream.at
    for count, _, end in _walked(stream, header.sync):
        blocks, records, total = blocks + 1, records + count, total + count
        limits.check_rows(total)
        if blocks > _MOST_BLOCKS:
            return header, b"", []
        if end - start >= run_bytes:
            runs.append(BlockRun(records, start, end))
            records, start = 0, end
    last = [BlockRun(records, start, stream.at)] if stream.at > start else []
    return header, first[: header.end], runs + last


class _Stream:
    """Bytes that come in chunks, read once. `at` is the place of the next byte."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._held, self._place = b"", 0
        self.at = 0

    def peek(self, most: int) -> bytes:
        """The next bytes, fewer at the end."""
        while len(self._held) - self._place < most:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            self._held, self._place = self._held[self._place :] + chunk, 0
        return self._held[self._place : self._place + most]

    def skip(self, count: int) -> None:
        """Pass so many bytes. Raises Cut at the end."""
        self.at += count
        while count > len(self._held) - self._place:
            count -= len(self._held) - self._place
            self._held, self._place = next(self._chunks, b""), 0
            if not self._held:
                raise Cut
        self._place += count


def decompressed(block: Block, codec: str, limit: int) -> bytes:
    """The decompressed bytes of a block. Raises ExpansionLimit above `limit` bytes, and CorruptObject."""
    try:
        plain = _CODECS[codec](block.data, limit)
    except ExpansionLimit:
        raise
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, cramjam.DecompressionError) as error:
        raise CorruptObject(
            f"A block of the Avro container is not valid {codec}", cause=repr(error)[:200], at=block.end
        ) from error
    if len(plain) > limit:
        raise _too_much(limit)
    return plain


def _decompress_all(decompressor: Any, data: bytes, limit: int) -> bytes:
    """At most `limit` + 1 bytes: one more shows that there is more. Raises EOFError for a stream that is cut."""
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
        raise ValueError("the checksum doesn't match")
    return plain


def _zstandard(data: bytes, limit: int) -> bytes:
    plain = decompress_zstd(data, limit)
    if plain is None:
        raise _too_much(limit)
    return plain


_CODECS: dict[str, Callable[[bytes, int], bytes]] = {
    "null": lambda data, limit: data,
    "deflate": lambda data, limit: _decompress_all(zlib.decompressobj(-15), data, limit),  # Avro has no zlib header
    "snappy": _snappy,
    "bzip2": lambda data, limit: _decompress_all(bz2.BZ2Decompressor(), data, limit),
    "xz": lambda data, limit: _decompress_all(lzma.LZMADecompressor(memlimit=_XZ_MEMORY), data, limit),
    "zstandard": _zstandard,
}


def _too_much(limit: int) -> ExpansionLimit:
    message = f"A block of the Avro container is more than {limit:,} bytes once decompressed"
    return ExpansionLimit.beyond("block_bytes", message, limit)


def avro_records(body: bytes, limits: Limits, shape: WriterForm = None) -> Records:
    """The container's records.

    Raises EmptyObject, NotAvro, SchemaTooComplex, CorruptObject and ExpansionLimit, here or during iteration.
    """
    header = parse_header(Head(body, True), limits)
    understood = _understood(header.text, shape)
    chunks = chunked(understood.writer, _blocks(body, header, limits, understood))
    return Records(lambda: _count(body, header), rebased(chunks, header.calendar) if header.calendar else chunks)


@dataclass(frozen=True)
class _Understood:
    """What follows from a writer schema alone: the objects of a topic repeat theirs."""

    writer: WriterSchema
    weight: int
    schema: Any

    @cached_property
    def decode(self) -> Decoder:
        """Decodes records of a block."""
        return decoder_of(self.schema)


@lru_cache(maxsize=8)  # with its text a schema takes megabytes
def _understood(text: bytes, shape: WriterForm) -> _Understood:
    schema = parse_schema(text)
    return _Understood(read_writer_schema(schema, shape), weight_of(schema), schema)


def _blocks(body: bytes, header: AvroHeader, limits: Limits, understood: _Understood) -> Iterator[list[dict[str, Any]]]:
    """The blocks' records in lists of at most `most_rows`. An empty list follows each CHUNK_BYTES of records."""
    most = most_rows(len(understood.writer.row.columns))
    gathered = 0
    for at, (count, plain) in enumerate(_plain_blocks(body, header, limits, understood.weight)):
        place = 0
        while count:
            records, place = decoded(understood.decode, plain, place, min(count, most), block=at)
            count -= len(records)
            yield records
        if place < len(plain):
            raise CorruptObject("A block of the Avro container holds more than its records", block=at)
        gathered += len(plain)
        if gathered >= CHUNK_BYTES:
            yield []
            gathered = 0


def decoded(decode: Decoder, plain: bytes, place: int, count: int, *, block: int) -> tuple[list[Any], int]:
    """So many records of the decompressed `block`, and the place behind them.

    Raises CorruptObject for damaged bytes, the same at every attempt.
    """
    try:
        return decode(plain, place, count)
    except (MemoryError, SluiceError):
        raise  # not the object's fault, or an error that names it already
    except Exception as error:  # a decoder raises anything for damaged bytes
        raise CorruptObject(
            "A block of the Avro container can't be decoded", cause=repr(error)[:200], block=block
        ) from error


def _plain_blocks(body: bytes, header: AvroHeader, limits: Limits, weight: int) -> Iterator[tuple[int, bytes]]:
    """The decompressed blocks, each and all of them within their limits."""
    left, rows, most = limits.decoded_bytes, 0, limits.block_bytes // weight
    for block in blocks_of(body, header.end, header.sync):
        rows += block.records
        limits.check_rows(rows)
        try:
            plain = decompressed(block, header.codec, min(most, left))
        except ExpansionLimit as error:
            if left >= most:
                raise
            whole = limits.decoded_bytes
            message = f"The object's blocks are more than {whole:,} bytes once decompressed"
            raise ExpansionLimit.beyond("decoded_bytes", message, whole) from error
        left -= len(plain)
        yield block.records, plain


def _count(body: bytes, header: AvroHeader) -> int:
    """The number of records, by the headers of the blocks."""
    return sum(block.records for block in blocks_of(body, header.end, header.sync))
