"""Reads the records of an Avro object container, logical types left undone."""
from __future__ import annotations

import io
import json
from functools import lru_cache
from typing import Any, Dict, Iterator, List

import fastavro

from sluice.avro_schema import WriterSchema, read_writer_schema
from sluice_aws.heads import CorruptObject, parse_header
from sluice_aws.objects import Head
from sluice_spark.records import Records, chunked

# The container's header, "Object Container Files" of the Avro specification 1.11.
_HEADER: Dict[str, Any] = {
    "type": "record",
    "name": "org.apache.avro.file.Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": 16}},
    ],
}
_KEPT = ("type", "name", "namespace", "fields", "items", "values", "symbols", "size", "aliases")


def avro_records(body: bytes) -> Records:
    """The container's records. Raises CorruptObject and NotAvro, here or while they are gone through."""
    header = parse_header(Head(body, True))
    return Records(_understood(json.dumps(header.schema)), lambda: _count(body), chunked(_blocks(body, header.schema)))


@lru_cache(maxsize=64)
def _understood(schema: str) -> WriterSchema:
    return read_writer_schema(json.loads(schema))


def _blocks(body: bytes, schema: Any) -> Iterator[List[Dict[str, Any]]]:
    """The blocks' records, with logical types left undone: Spark does those, and dates have no year 9999 there."""
    source = io.BytesIO(body)
    header: Any = fastavro.schemaless_reader(source, _HEADER, None)
    blocks = body[source.tell():]
    header["meta"]["avro.schema"] = json.dumps(_bare(schema)).encode("utf-8")
    bare = io.BytesIO()
    fastavro.schemaless_writer(bare, _HEADER, header)
    bare.write(blocks)
    length = bare.tell()
    bare.seek(0)
    end = length - len(blocks)
    # Text that isn't UTF-8 keeps its bytes and is refused with its own row, when the row becomes a column's value.
    try:
        for block in fastavro.block_reader(bare, handle_unicode_errors="surrogateescape"):
            yield list(block)
            end = block.offset + block.size
    except (MemoryError, ImportError):
        raise  # the worker's trouble, not the object's
    except Exception as error:  # whatever a decoder makes of damaged bytes: they are the same at every attempt
        raise CorruptObject("A block of the Avro container can't be decoded", cause=repr(error)[:200], at=end) from error
    if end != length:
        raise CorruptObject("The Avro container ends inside a block", at=end, bytes=length)


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
    """The records of all blocks by what the blocks say of themselves: each begins with its count and its length."""
    source = io.BytesIO(body)
    fastavro.schemaless_reader(source, _HEADER, None)
    count = 0
    try:
        while source.tell() < len(body):
            records, length = fastavro.schemaless_reader(source, "long", None), fastavro.schemaless_reader(source, "long", None)
            if records < 0 or length < 0:
                raise CorruptObject("A block of the Avro container has a negative size", at=source.tell())
            count += records
            source.seek(length + _SYNC_BYTES, io.SEEK_CUR)
    except (EOFError, IndexError) as error:
        raise CorruptObject("The Avro container ends inside a block", at=source.tell(), bytes=len(body)) from error
    return count


_SYNC_BYTES = 16
