"""Decodes one Avro object's bytes into Arrow batches of raw and hidden columns: the whole object, or an error that says why not."""
from __future__ import annotations

import io
import json
from functools import lru_cache
from itertools import chain
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import fastavro
import pyarrow as pa

from sluice import hidden_columns as hidden
from sluice.avro_schema import ENVELOPE, WriterSchema, read_writer_schema
from sluice.errors import SluiceError
from sluice.manifest import ManifestObject
from sluice.position import encode
from sluice_aws.heads import CorruptObject, parse_header
from sluice_aws.objects import Head
from sluice_spark.raw_columns import arrow_type, nulls, raw_array, spark_type
from sluice_spark.reader_plan import ReaderPlan

CHUNK_ROWS = 20_000  # decoded records held as Python objects at a time; what is done is kept as Arrow

_HIDDEN_ARROW: Dict[str, pa.DataType] = {"string": pa.string(), "boolean": pa.bool_(), "bigint": pa.int64()}
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


class NullRecordKey(SluiceError):
    """A record without a value in its key; facts: `column`, `record`."""

    code = "null_record_key"
    next_step = "Give the table a record_key that every row has"


class UnsupportedOperation(SluiceError):
    """A change that is neither create, update, delete nor snapshot read; facts: `op`, `record`."""

    code = "unsupported_operation"
    next_step = "Let the connector skip this operation (skipped.operations)"


class UnsupportedFormat(SluiceError):
    """An object in a format that this release doesn't read."""

    code = "unsupported_format"
    next_step = "Let the connector write Avro"


def batch_schema(plan: ReaderPlan) -> pa.Schema:
    """What `decode` gives: the plan's columns in raw form, then the hidden ones."""
    data = [pa.field(column.name, arrow_type(column)) for column in plan.columns]
    return pa.schema(data + [pa.field(column.name, _HIDDEN_ARROW[column.spark_type]) for column in hidden.HIDDEN])


def decode(body: bytes, item: ManifestObject, plan: ReaderPlan) -> List[pa.RecordBatch]:
    """Every record of the object, in order. Raises a SluiceError, the same at every attempt, if any can't be had."""
    if item.format != "avro":
        raise UnsupportedFormat(f"The object is {item.format}", format=item.format)
    header = parse_header(Head(body, True))
    writer = _understood(json.dumps(header.schema))
    batches: List[pa.RecordBatch] = []
    first = 0
    for records in _chunks(_records(body, header.schema)):
        batches.append(_batch(records, first, writer, item, plan))
        first += len(records)
    return batches


@lru_cache(maxsize=64)
def _understood(schema: str) -> WriterSchema:
    return read_writer_schema(json.loads(schema))


def _records(body: bytes, schema: Any) -> Iterator[List[Dict[str, Any]]]:
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
    try:
        for block in fastavro.block_reader(bare):
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


def _chunks(blocks: Iterator[List[Dict[str, Any]]]) -> Iterator[List[Dict[str, Any]]]:
    held: List[List[Dict[str, Any]]] = []
    rows = 0
    for block in blocks:
        held.append(block)
        rows += len(block)
        if rows >= CHUNK_ROWS:
            yield list(chain.from_iterable(held))
            held, rows = [], 0
    if rows:
        yield list(chain.from_iterable(held))


def _batch(records: Sequence[Dict[str, Any]], first: int, writer: WriterSchema, item: ManifestObject, plan: ReaderPlan) -> pa.RecordBatch:
    meta = writer.meta
    rows: Sequence[Any] = records
    source: Sequence[Any] = records
    if writer.shape == ENVELOPE:
        rows = [record["after"] if record.get("after") is not None else record.get("before") for record in records]
        source = [record["source"] for record in records]
    ops = _column(records, meta.op)
    _known_operations(ops, first)
    deleted = _deleted(records, ops, meta.deleted)
    arrays = _data(rows, first, writer, plan)
    offsets = range((item.offset or 0) + first, (item.offset or 0) + first + len(records))
    kind, names = meta.position.kind, meta.position.names
    components = list(zip(*(_column(source, name) for name in names))) if names else [()] * len(records)
    positions = [encode(plan.generation, kind, parts, offset) for parts, offset in zip(components, offsets)]
    own = {
        hidden.POSITION: positions,
        hidden.DELETED: deleted,
        hidden.OP: ops,
        hidden.SOURCE_TS_MS: _column(source, meta.source_ts_ms),
        hidden.OBJECT: [item.id.lineage] * len(records),
        hidden.OFFSET: offsets,
        hidden.OWED: None,
    }
    for column in hidden.HIDDEN:
        kind_of = _HIDDEN_ARROW[column.spark_type]
        values = own[column.name]
        arrays.append(pa.nulls(len(records), kind_of) if values is None else pa.array(values, type=kind_of))
    return pa.RecordBatch.from_arrays(arrays, schema=batch_schema(plan))


def _data(rows: Sequence[Any], first: int, writer: WriterSchema, plan: ReaderPlan) -> List[pa.Array]:
    if None in rows:
        raise NullRecordKey("A change has neither a row before nor one after", column=plan.record_key[0], record=first + rows.index(None))
    arrays: List[pa.Array] = []
    for wanted in plan.columns:
        written = writer.row.column(wanted.name)
        if written is None:
            arrays.append(nulls(wanted, len(rows)))
            continue
        name = wanted.name
        values = [row[name] for row in rows]
        if name in plan.record_key and None in values:
            raise NullRecordKey(f"The key column {name} is null", column=name, record=first + values.index(None))
        arrays.append(raw_array(values, written, wanted))
    return arrays


def _column(records: Sequence[Any], name: Optional[str]) -> Optional[List[Any]]:
    return None if name is None else [record[name] for record in records]


def _known_operations(ops: Optional[List[Any]], first: int) -> None:
    for op in set(ops or ()):
        if op is not None and op not in hidden.OPS:
            raise UnsupportedOperation(f"The operation {op[:20]!r} is not a row's change", op=op[:20], record=first + (ops or []).index(op))


def _deleted(records: Sequence[Any], ops: Optional[List[Any]], name: Optional[str]) -> List[bool]:
    """Deleted by its operation, or by the mark that Debezium's `rewrite` mode adds (text or boolean)."""
    marks: List[bool] = [False] * len(records)
    if name is not None:
        marks = [record[name] in ("true", True) for record in records]
    return marks if ops is None else [mark or op == "d" for mark, op in zip(marks, ops)]


def spark_fields(plan: ReaderPlan) -> Tuple[Tuple[str, str], ...]:
    """Name and Spark type of every column that `decode` gives, in order."""
    data = tuple((column.name, spark_type(column)) for column in plan.columns)
    return data + tuple((column.name, column.spark_type) for column in hidden.HIDDEN)
