"""Decodes one object's bytes, of any format, into Arrow batches: the whole object, or an error that says why not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, TypeVar

import pyarrow as pa

from sluice.avro_schema import WriterSchema
from sluice.errors import ExpansionLimit, SluiceError
from sluice.limits import Limits
from sluice.log_restart import SeenObject
from sluice.manifest import ManifestObject
from sluice.routing import AVRO, JSON, LAST, PARQUET, classify, first_offset
from sluice.row_errors import RowError, row_error
from sluice_spark.avro_records import avro_records
from sluice_spark.json_records import json_records
from sluice_spark.object_view import ObjectView
from sluice_spark.parquet_records import parquet_records
from sluice_spark.record_batches import position_of, record_batch
from sluice_spark.records import Records
from sluice_spark.row_quarantine import BadRow, sound_batch
from sluice_spark.task_plan import ReaderPlan

_READERS: Dict[str, Callable[[bytes, ManifestObject, ReaderPlan], Records]] = {
    AVRO: lambda body, item, plan: avro_records(body, plan.limits),
    PARQUET: lambda body, item, plan: parquet_records(body, plan.limits),
    JSON: lambda body, item, plan: json_records(body, plan.inferred.get(item.id.hash), plan.limits),
}


class UnsupportedFormat(SluiceError):
    """An object in a format that this release doesn't read."""

    code = "unsupported_format"
    next_step = "Let the connector write Avro, JSON or Parquet"


class UnreadableObject(SluiceError):
    """An object that a reader stumbles over in a way that nobody has thought of; facts: `cause`."""

    code = "unreadable_object"
    next_step = "Have the writer put the object again, or `sluice quarantine retry` with a release that reads it; tell its maintainers the cause"


T = TypeVar("T")
# What is the worker's or the store's trouble, and may be another the next time.
_NOT_THE_OBJECTS = (SluiceError, MemoryError, ImportError, OSError)


def read_or_refused(read: Callable[[], T]) -> T:
    """What `read` makes of an object's bytes. Raises a SluiceError whatever goes wrong in it: the same bytes would fail a task each time,
    and with it all that came with them."""
    try:
        return read()
    except _NOT_THE_OBJECTS:
        raise
    except Exception as error:
        raise UnreadableObject("The object can't be read", cause=repr(error)[:500]) from error


@dataclass(frozen=True)
class Decoded:
    """One object's records in order: those that can be merged as Arrow batches, and the others with their reasons.

    `seen` is the object's place in Kafka and in its source's log.
    """

    batches: List[pa.RecordBatch]
    rows: List[RowError]
    seen: SeenObject


def decode(body: bytes, item: ManifestObject, plan: ReaderPlan) -> Decoded:
    """Every record of the object. Raises a SluiceError, the same at every attempt, if the object can't be read to its end.

    A record that can't be merged costs itself, up to the plan's limit of such rows.
    """
    return read_or_refused(lambda: _decoded(body, item, plan))


def _decoded(body: bytes, item: ManifestObject, plan: ReaderPlan) -> Decoded:
    reader = _READERS.get(item.format)
    if reader is None:
        raise UnsupportedFormat(f"The object is {item.format}", format=item.format)
    records = reader(body, item, plan)
    named = _first_offset(item, records)
    offset = named or 0
    view = ObjectView(item, named)
    batches: List[pa.RecordBatch] = []
    rows: List[RowError] = []
    first = decoded_bytes = 0
    for chunk in records.chunks:
        make = partial(_made, writer=chunk.writer, first_offset=offset, item=item, plan=plan)
        batch, bad = sound_batch(
            chunk.records,
            range(first, first + len(chunk.records)),
            make,
            limit=plan.limits.quarantined_rows,
            before=len(rows),
        )
        rows += [_row_error(row, offset, chunk.writer, plan) for row in bad]
        first += len(chunk.records)
        view.take(chunk.records, chunk.writer, batch)
        if batch is not None:
            batches.append(batch)
            decoded_bytes += batch.nbytes
        _within_limits(first, decoded_bytes, plan.limits)
    return Decoded(batches, rows, view.seen(first))


def _made(
    records: Sequence[Dict[str, Any]],
    numbers: Sequence[int],
    *,
    writer: WriterSchema,
    first_offset: int,
    item: ManifestObject,
    plan: ReaderPlan,
) -> pa.RecordBatch:
    return record_batch(records, numbers=numbers, first_offset=first_offset, writer=writer, item=item, plan=plan)


def _row_error(row: BadRow, offset: int, writer: WriterSchema, plan: ReaderPlan) -> RowError:
    position = (
        None
        if isinstance(row.value, bytes)
        else position_of(row.value, offset=offset + row.record, writer=writer, plan=plan)
    )
    return row_error(row.record, row.error, row.value, offset=offset + row.record, position=position)


def _within_limits(rows: int, decoded_bytes: int, limits: Limits) -> None:
    if rows > limits.object_rows:
        raise ExpansionLimit(
            f"The object holds more than {limits.object_rows:,} records", limit=limits.object_rows, unit="records"
        )
    if decoded_bytes > limits.decoded_bytes:
        raise ExpansionLimit(
            f"The object's rows take more than {limits.decoded_bytes:,} bytes", limit=limits.decoded_bytes, unit="bytes"
        )


def _first_offset(item: ManifestObject, records: Records) -> Optional[int]:
    """The offset of the first record, None where the name tells none. A name that tells the last one is counted back from, so the records are counted first."""
    route = classify(item.key, item.size)
    if route.offset_is == LAST:
        return first_offset(route, records.count())
    return item.offset
