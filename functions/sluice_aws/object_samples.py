"""Reads a few records of an object version within bounds: its first bytes only, and whole blocks or lines of those."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

import fastavro

from sluice.errors import SluiceError
from sluice.gzip_bytes import unpacked_head
from sluice.identity import ObjectId
from sluice.json_lines import records as json_records
from sluice.limits import DEFAULTS
from sluice.routing import AVRO, JSON
from sluice_aws.avro_blocks import blocks_of, decompressed
from sluice_aws.avro_heads import HEADER_SCHEMA, CorruptObject, parse_header
from sluice_aws.heads import read_head
from sluice_aws.objects import Head, Objects

READ_BYTES = 1024 * 1024
BLOCK_BYTES = 16 * 1024**2  # of a block once decompressed
KEY_BYTES = 256 * 1024


@dataclass(frozen=True)
class ObjectSample:
    """What the first bytes of an object hold: the writer schema in Avro form (None where records carry none), and records as plain values.

    `problem` says why no more was read, where something was wrong.
    """

    schema: Optional[Mapping[str, Any]]
    records: Tuple[Dict[str, Any], ...]
    problem: Optional[str] = None


def sample_object(objects: Objects, id: ObjectId, format: str, rows: int) -> ObjectSample:
    """Up to `rows` records of the first MiB of one version. Of Parquet the schema alone, which its end tells.

    Raises SluiceErrors as reading a head does; what is damaged behind the head is the sample's `problem`.
    """
    if format == JSON:
        return _json(objects.head_bytes(id, READ_BYTES), rows)
    if format == AVRO:
        return sample_avro(objects.head_bytes(id, READ_BYTES), rows)
    return ObjectSample(
        read_head(objects, id, format).schema, (), "rows of Parquet objects aren't sampled: only their schema is known"
    )


def sample_avro(head: Head, rows: int) -> ObjectSample:
    """Records of the blocks that are whole in `head`."""
    header = parse_header(head)
    source = io.BytesIO(head.data)
    meta: Any = fastavro.schemaless_reader(source, HEADER_SCHEMA, None)
    schema = fastavro.parse_schema(_bare(header.schema))
    found: List[Dict[str, Any]] = []
    problem = None
    try:
        for block in blocks_of(head.data, source.tell(), meta["sync"]):
            plain = io.BytesIO(decompressed(block, header.codec, BLOCK_BYTES))
            for _ in range(min(block.records, rows - len(found))):
                record: Any = fastavro.schemaless_reader(plain, schema, None, handle_unicode_errors="replace")
                found.append(record)
            if len(found) >= rows:
                break
    except CorruptObject as error:
        if head.whole:  # else the head simply ends inside a block
            problem = str(error)
    except SluiceError as error:
        problem = str(error)
    except (
        EOFError,
        IndexError,
        ValueError,
        OverflowError,
        TypeError,
    ) as error:  # what a decoder makes of damaged bytes
        problem = f"a record can't be decoded: {error!r}"[:200]
    return ObjectSample(header.schema, tuple(found), problem)


def _json(head: Head, rows: int) -> ObjectSample:
    text = unpacked_head(head.data, READ_BYTES)
    if not head.whole or len(text) >= READ_BYTES:
        text = text[: text.rfind(b"\n") + 1]
    schema: Optional[Mapping[str, Any]] = None
    found: List[Dict[str, Any]] = []
    problem = None
    for line in json_records(text):
        if isinstance(line.value, SluiceError):
            problem = str(line.value)
            continue
        schema = line.schema if line.schema is not None else schema
        found.append(line.value)
        if len(found) >= rows:
            break
    return ObjectSample(schema, tuple(found), problem)


def key_fields(objects: Objects, id: ObjectId, format: str) -> Optional[Tuple[str, ...]]:
    """The fields of the Kafka keys that an object of keys holds; None when they are no records, or can't be read.

    `format` is the values' one, which the sink's keys may share.
    """
    head = objects.head_bytes(id, KEY_BYTES)
    try:
        if format == AVRO:
            schema = parse_header(head, DEFAULTS).schema
            fields = schema.get("fields") if isinstance(schema, dict) else None
            return tuple(str(field["name"]) for field in fields) if fields else None
        line = unpacked_head(head.data, KEY_BYTES).lstrip().partition(b"\n")[0]
        value = json.loads(line)
    except (SluiceError, ValueError, KeyError, TypeError, RecursionError):
        return None
    value = value.get("payload", value) if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value
    return tuple(map(str, value)) if isinstance(value, dict) and value else None


def _bare(node: Any) -> Any:
    """A schema without logical types: years beyond 9999 and decimals are no values of Python's then, and needn't be."""
    if isinstance(node, list):
        return [_bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: _bare(value) for key, value in node.items() if key not in ("logicalType", "default")}
