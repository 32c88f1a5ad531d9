"""Reads the first records of an object version, and the fields of Kafka keys.

Reads are bounded: the first bytes of an object, and the whole blocks or lines in them; small Parquet objects whole.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import fastavro

from sluice.admission.routing import AVRO, CSV, JSON, PARQUET
from sluice.config.csv_form import CsvForm
from sluice.config.limits import DEFAULTS, Limits
from sluice.config.values import MIB
from sluice.errors import ExpansionLimit, ObjectTooLarge, SluiceError
from sluice.objects import ObjectId
from sluice_aws.admission.heads import read_head
from sluice_aws.s3.objects import Objects
from sluice_formats.avro import blocks_of, decompressed
from sluice_formats.avro_header import Head, parse_header
from sluice_formats.csv_text import csv_columns, without_mark
from sluice_formats.errors import CorruptObject
from sluice_formats.json_lines import records as json_records
from sluice_formats.json_text import unpacked_head
from sluice_formats.parquet_records import parquet_records

READ_BYTES = 1024 * 1024
BLOCK_BYTES = 16 * 1024**2  # of a block once decompressed
KEY_BYTES = 256 * 1024
PARQUET_LIMITS = Limits(object_bytes=8 * MIB, decoded_bytes=64 * MIB)  # of a Parquet object that is read whole


@dataclass(frozen=True)
class ObjectSample:
    """The writer schema in Avro form, if the records carry one, and the first records as plain values.

    `problem` says why reading stopped early.
    """

    schema: Mapping[str, Any] | None
    records: tuple[dict[str, Any], ...]
    problem: str | None = None


def sample_object(objects: Objects, id: ObjectId, format: str, rows: int) -> ObjectSample:
    """Read up to `rows` records of the first MiB of one version; of a large Parquet object only the schema.

    Raises a SluiceError if the head can't be read. Damage behind the head is the sample's `problem`.
    """
    if format == JSON:
        return _json(objects.head_bytes(id, READ_BYTES), rows)
    if format == CSV:
        return _csv(objects.head_bytes(id, READ_BYTES), rows)
    if format == AVRO:
        return sample_avro(objects.head_bytes(id, READ_BYTES), rows)
    return _parquet(objects, id, rows)


def _parquet(objects: Objects, id: ObjectId, rows: int) -> ObjectSample:
    schema = read_head(objects, id, PARQUET).schema
    try:
        chunk = next(parquet_records(objects.whole(id, PARQUET_LIMITS.object_bytes), PARQUET_LIMITS).chunks, None)
    except (ObjectTooLarge, ExpansionLimit):
        return ObjectSample(schema, (), "rows of large Parquet objects are not sampled: only the schema is known")
    records = chunk.records[:rows] if chunk is not None else ()
    return ObjectSample(schema, tuple(record for record in records if isinstance(record, dict)))


def sample_avro(head: Head, rows: int) -> ObjectSample:
    """Read the records of the blocks that are whole in `head`."""
    header = parse_header(head)
    schema = fastavro.parse_schema(_bare(header.schema))
    found: list[dict[str, Any]] = []
    problem = None
    try:
        for block in blocks_of(head.data, header.end, header.sync):
            plain = io.BytesIO(decompressed(block, header.codec, BLOCK_BYTES))
            for _ in range(min(block.records, rows - len(found))):
                record: Any = fastavro.schemaless_reader(plain, schema, None, handle_unicode_errors="replace")
                found.append(record)
            if len(found) >= rows:
                break
    except CorruptObject as error:
        if head.whole:  # otherwise the head ends inside a block
            problem = str(error)
    except SluiceError as error:
        problem = str(error)
    except (
        EOFError,
        IndexError,
        ValueError,
        OverflowError,
        TypeError,
    ) as error:  # from decoding damaged bytes
        problem = f"a record can't be decoded: {error!r}"[:200]
    return ObjectSample(header.schema, tuple(found), problem)


def _json(head: Head, rows: int) -> ObjectSample:
    text = unpacked_head(head.data, READ_BYTES)
    if not head.whole or len(text) >= READ_BYTES:
        text = text[: text.rfind(b"\n") + 1]
    schema: Mapping[str, Any] | None = None
    found: list[dict[str, Any]] = []
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


def _csv(head: Head, rows: int) -> ObjectSample:
    """The first rows as text, empty text as null: whether a value was quoted is not looked at here."""
    text = without_mark(unpacked_head(head.data, READ_BYTES))
    columns = csv_columns(text, CsvForm(), DEFAULTS)
    whole = head.whole and len(text) < READ_BYTES
    plain = (text if whole else text[: text.rfind(b"\n") + 1]).decode("utf-8", errors="replace")
    found: list[dict[str, Any]] = []
    problem = None
    reader = filter(None, csv.reader(io.StringIO(plain, newline="")))
    try:
        for row in islice(reader, 1, rows + 1):
            if len(row) != len(columns.names):
                problem = f"a row has {len(row)} values for {len(columns.names)} columns"
                break
            found.append({name: value or None for name, value in zip(columns.names, row, strict=True)})
    except csv.Error as error:
        problem = f"a row can't be read: {error}"
    fields = [{"name": name, "type": ["null", "string"]} for name in columns.names]
    return ObjectSample({"type": "record", "name": "sluice.csv.Row", "fields": fields}, tuple(found), problem)


def key_fields(objects: Objects, id: ObjectId, format: str) -> tuple[str, ...] | None:
    """Return the fields of the Kafka keys in an object of keys, or None if they are no records or can't be read."""
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
    """Return a schema without logical types, so that any year and decimal can be decoded."""
    if isinstance(node, list):
        return [_bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: _bare(value) for key, value in node.items() if key not in ("logicalType", "default")}
