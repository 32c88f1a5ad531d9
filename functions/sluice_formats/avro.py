"""Reads the records of an Avro object container, without the meaning of logical types.

Blocks are decompressed one at a time and never beyond a limit: a block of some kilobytes can claim a terabyte.
fastavro then decodes them from a container without compression.
"""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import lzma
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, Callable

import cramjam
import fastavro

from sluice.config.limits import Limits
from sluice.errors import ExpansionLimit, SluiceError
from sluice.schema.avro import WriterForm, WriterSchema, read_writer_schema
from sluice.schema.limits import parse_schema, weight_of
from sluice_formats.avro_header import MAGIC, SYNC_BYTES, AvroHeader, Cut, Head, long_at, parse_header
from sluice_formats.errors import CorruptObject
from sluice_formats.records import CHUNK_BYTES, SMALL_BYTES, SMALL_ROWS, Records, chunked, most_rows, rebased
from sluice_formats.zstd import decompress_zstd

_CHECKSUM_BYTES = 4  # after a snappy block: CRC32 of the decompressed bytes
_XZ_MEMORY = 256 * 1024**2  # the highest preset needs 65 MiB


@dataclass(frozen=True)
class Block:
    """One block: its number of records by its header, its stored bytes, and where it ends in the container."""

    records: int
    data: bytes
    end: int


def blocks_of(body: bytes, start: int, sync: bytes) -> Iterator[Block]:
    """The blocks of a container whose header ends at `start`.

    Raises CorruptObject for a block that is cut, or that doesn't end with the sync marker.
    """
    at = start
    while at < len(body):
        try:
            records, at_size = long_at(body, at)
            size, at_data = long_at(body, at_size)
        except Cut as error:
            raise CorruptObject("The Avro container ends inside a block", at=at, bytes=len(body)) from error
        end = at_data + size + SYNC_BYTES
        if records < 0 or size < 0:
            raise CorruptObject("A block of the Avro container has a negative size", at=at)
        if end > len(body):
            raise CorruptObject("The Avro container ends inside a block", at=at, bytes=len(body))
        if body[end - SYNC_BYTES : end] != sync:
            raise CorruptObject("A block of the Avro container doesn't end with the container's sync marker", at=at)
        yield Block(records, body[at_data : at_data + size], end)
        at = end


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


def _null(data: bytes, limit: int) -> bytes:
    return data


def _deflate(data: bytes, limit: int) -> bytes:
    return _decompress_all(zlib.decompressobj(-15), data, limit)  # negative: Avro has no zlib header


def _bzip2(data: bytes, limit: int) -> bytes:
    return _decompress_all(bz2.BZ2Decompressor(), data, limit)


def _xz(data: bytes, limit: int) -> bytes:
    return _decompress_all(lzma.LZMADecompressor(memlimit=_XZ_MEMORY), data, limit)


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
    "null": _null,
    "deflate": _deflate,
    "snappy": _snappy,
    "bzip2": _bzip2,
    "xz": _xz,
    "zstandard": _zstandard,
}


def _too_much(limit: int) -> ExpansionLimit:
    return ExpansionLimit.beyond(
        "block_bytes",
        f"A block of the Avro container is more than {limit:,} bytes once decompressed",
        limit=limit,
        unit="bytes",
    )


class PlainContainer:
    """A container without compression, made from another's blocks while fastavro reads it. Holds one block."""

    def __init__(self, header: bytes, sync: bytes, blocks: Iterator[tuple[int, bytes]]) -> None:
        """`header` is the new container's. `blocks` yields pairs of a number of records and their bytes."""
        self._sync = sync
        self._blocks = blocks
        self._pieces: list[bytes] = [header]
        self._at = 0
        self._position = 0

    def read(self, size: int = -1) -> bytes:
        """`size` bytes, fewer at the end. A piece that is read as a whole isn't copied."""
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
        content = taken[0] if len(taken) == 1 else b"".join(taken)
        self._position += len(content)
        return content

    def tell(self) -> int:
        """Number of bytes read so far."""
        return self._position

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
    """Avro's variable-length zig-zag form of a number from 0."""
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_SYMBOL = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_KEPT = ("type", "name", "namespace", "fields", "items", "values", "symbols", "size", "aliases")


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
    """What follows from a writer schema alone: the objects of a topic repeat theirs.

    `plain` begins the header of a container of the same records without compression; the sync marker is left to add.
    """

    writer: WriterSchema
    weight: int
    plain: bytes
    symbols: Mapping[str, str]  # of enums, by what stands for them in `plain`
    bare: Any

    @cached_property
    def _parsed(self) -> Any:
        return fastavro.parse_schema(self.bare)

    def records(self, plain: bytes, count: int) -> list[Any]:
        """The only records of a block. A container's header takes fastavro longer than a record."""
        source = io.BytesIO(plain)
        records = [
            fastavro.schemaless_reader(source, self._parsed, handle_unicode_errors="surrogateescape")
            for _ in range(count)
        ]
        if source.tell() < len(plain):
            raise CorruptObject("A block of the Avro container holds more than its records", block=0)
        return records


@lru_cache(maxsize=8)  # with its text a schema takes megabytes
def _understood(text: bytes, shape: WriterForm) -> _Understood:
    schema = parse_schema(text)
    bare = _bare(schema)
    symbols = replaced_symbols(bare, text)
    return _Understood(read_writer_schema(schema, shape), weight_of(schema), _plain_header(bare), symbols, bare)


def _blocks(body: bytes, header: AvroHeader, limits: Limits, understood: _Understood) -> Iterator[list[dict[str, Any]]]:
    """The blocks' records in lists of at most `most_rows`. An empty list follows each CHUNK_BYTES of records."""
    most = most_rows(len(understood.writer.row.columns))
    container: Any = PlainContainer(
        understood.plain + header.sync, header.sync, _plain_blocks(body, header, limits, understood.weight)
    )
    at = gathered = 0
    try:
        if len(body) <= SMALL_BYTES and (few := _few_records(body, header)) is not None:
            for _, plain in _plain_blocks(body, header, limits, understood.weight):
                yield [with_symbols(record, understood.symbols) for record in understood.records(plain, few)]
            return
        # Text that isn't UTF-8 keeps its bytes, and is refused with its row when the row is turned into Arrow.
        blocks: Iterator[Any] = fastavro.block_reader(container, handle_unicode_errors="surrogateescape")
        for block in blocks:
            records = iter(block)
            while True:
                part = list(islice(records, most))
                part = [with_symbols(record, understood.symbols) for record in part] if understood.symbols else part
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
        raise  # not the object's fault, or an error that names it already
    except Exception as error:  # a decoder raises anything for damaged bytes, and the same at every attempt
        raise CorruptObject(
            "A block of the Avro container can't be decoded", cause=repr(error)[:200], block=at
        ) from error


def _few_records(body: bytes, header: AvroHeader) -> int | None:
    """The number of records of a container with one block of a few; None for another."""
    blocks = blocks_of(body, header.end, header.sync)
    block = next(blocks, None)
    return None if block is None or block.records > SMALL_ROWS or block.end < len(body) else block.records


def _plain_header(bare: Any) -> bytes:
    """The header of a container without compression, up to its sync marker."""
    parts = (b"avro.schema", json.dumps(bare).encode("utf-8"), b"avro.codec", b"null")
    meta = b"".join(encoded_long(len(part)) + part for part in parts)
    return MAGIC + encoded_long(len(parts) // 2) + meta + encoded_long(0)


def _plain_blocks(body: bytes, header: AvroHeader, limits: Limits, weight: int) -> Iterator[tuple[int, bytes]]:
    """The decompressed blocks, each and all of them within their limits."""
    left, rows, most = limits.decoded_bytes, 0, limits.block_bytes // weight
    for block in blocks_of(body, header.end, header.sync):
        rows += block.records
        if rows > limits.object_rows:
            raise ExpansionLimit.beyond(
                "object_rows",
                f"The object holds more than {limits.object_rows:,} records",
                limit=limits.object_rows,
                unit="records",
            )
        try:
            plain = decompressed(block, header.codec, min(most, left))
        except ExpansionLimit as error:
            if left >= most:
                raise
            whole = limits.decoded_bytes
            raise ExpansionLimit.beyond(
                "decoded_bytes",
                f"The object's blocks are more than {whole:,} bytes once decompressed",
                limit=whole,
                unit="bytes",
            ) from error
        left -= len(plain)
        yield block.records, plain


def _bare(node: Any) -> Any:
    """A schema without logical types, defaults and documentation."""
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


def replaced_symbols(schema: Any, text: bytes) -> dict[str, str]:
    """Replace symbols of enums in `schema`; the result has each by the text that stands for it.

    fastavro refuses symbols that the specification doesn't allow and other writers write (`in progress`). What stands
    for them has a hash of the schema's `text`, so that no value has it by chance.
    """
    symbols: dict[str, str] = {}
    _stand_in(schema, symbols, hashlib.sha256(text).hexdigest())
    return symbols


def _stand_in(node: Any, symbols: dict[str, str], mark: str) -> None:
    if isinstance(node, list):
        for item in node:
            _stand_in(item, symbols, mark)
    elif isinstance(node, dict):
        own = node.get("symbols")
        if node.get("type") == "enum" and isinstance(own, list) and not all(map(_is_symbol, own)):
            node["symbols"] = [f"sluice_{mark}_{len(symbols) + at}" for at in range(len(own))]
            symbols.update(zip(node["symbols"], own))
        for key in ("type", "items", "values", "fields"):
            _stand_in(node.get(key), symbols, mark)


def _is_symbol(text: Any) -> bool:
    return not isinstance(text, str) or _SYMBOL.fullmatch(text) is not None


def with_symbols(value: Any, symbols: Mapping[str, str]) -> Any:
    """A decoded value with the symbols that `replaced_symbols` replaced."""
    if isinstance(value, str):
        return symbols.get(value, value)
    if isinstance(value, dict):
        return {name: with_symbols(member, symbols) for name, member in value.items()}
    return [with_symbols(item, symbols) for item in value] if isinstance(value, list) else value


def _count(body: bytes, header: AvroHeader) -> int:
    """The number of records, by the headers of the blocks."""
    return sum(block.records for block in blocks_of(body, header.end, header.sync))
