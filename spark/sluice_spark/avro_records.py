"""Reads the records of an Avro object container, logical types left undone."""

from __future__ import annotations

import io
import json
from functools import lru_cache
from itertools import islice
from typing import Any, Dict, Iterator, List, Tuple

import fastavro

from sluice.avro_schema import WriterSchema, read_writer_schema
from sluice.decoded_weight import weight_of
from sluice.errors import ExpansionLimit, SluiceError
from sluice.limits import Limits
from sluice_aws.avro_heads import HEADER_SCHEMA, MAGIC, AvroHeader, CorruptObject, parse_header
from sluice_aws.objects import Head
from sluice_aws.avro_blocks import PlainContainer, blocks_of, decompressed
from sluice_spark.records import CHUNK_BYTES, Records, chunked, most_rows

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


def _blocks(body: bytes, header: AvroHeader, limits: Limits, most: int) -> Iterator[List[Dict[str, Any]]]:
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
) -> Iterator[Tuple[int, bytes]]:
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


def _header_end(body: bytes) -> Tuple[int, bytes]:
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
