"""Decodes one object's bytes, of any format, into Arrow batches: the whole object, or an error that says why not."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Sequence

import pyarrow as pa

from sluice.errors import ExpansionLimit, SluiceError
from sluice.limits import Limits
from sluice.manifest import ManifestObject
from sluice.routing import LAST, classify, first_offset
from sluice.row_errors import RowError, row_error
from sluice_spark.avro_records import avro_records
from sluice_spark.reader_plan import ReaderPlan
from sluice_spark.record_batches import position_of, record_batch
from sluice_spark.records import Records
from sluice_spark.row_quarantine import BadRow, sound_batch

_READERS: Dict[str, Callable[[bytes, Limits], Records]] = {"avro": avro_records}


class UnsupportedFormat(SluiceError):
    """An object in a format that this release doesn't read."""

    code = "unsupported_format"
    next_step = "Let the connector write Avro"


@dataclass(frozen=True)
class Decoded:
    """One object's records in order: those that can be merged as Arrow batches, and the others with their reasons."""

    batches: List[pa.RecordBatch]
    rows: List[RowError]


def decode(body: bytes, item: ManifestObject, plan: ReaderPlan) -> Decoded:
    """Every record of the object. Raises a SluiceError, the same at every attempt, if the object can't be read to its end.

    A record that can't be merged costs itself, up to the plan's limit of such rows.
    """
    reader = _READERS.get(item.format)
    if reader is None:
        raise UnsupportedFormat(f"The object is {item.format}", format=item.format)
    records = reader(body, plan.limits)
    offset = _first_offset(item, records)
    batches: List[pa.RecordBatch] = []
    rows: List[RowError] = []
    first = decoded_bytes = 0

    def make(taken: Sequence[Dict[str, Any]], numbers: Sequence[int]) -> pa.RecordBatch:
        return record_batch(taken, numbers=numbers, first_offset=offset, writer=records.writer, item=item, plan=plan)

    for chunk in records.chunks:
        batch, bad = sound_batch(chunk, range(first, first + len(chunk)), make, limit=plan.limits.quarantined_rows, before=len(rows))
        rows += [_row_error(row, offset, records, plan) for row in bad]
        first += len(chunk)
        if batch is not None:
            batches.append(batch)
            decoded_bytes += batch.nbytes
        _within_limits(first, decoded_bytes, plan.limits)
    return Decoded(batches, rows)


def _row_error(row: BadRow, offset: int, records: Records, plan: ReaderPlan) -> RowError:
    position = None if isinstance(row.value, bytes) else position_of(row.value, offset=offset + row.record, writer=records.writer, plan=plan)
    return row_error(row.record, row.error, row.value, offset=offset + row.record, position=position)


def _within_limits(rows: int, decoded_bytes: int, limits: Limits) -> None:
    if rows > limits.object_rows:
        raise ExpansionLimit(f"The object holds more than {limits.object_rows:,} records", limit=limits.object_rows, unit="records")
    if decoded_bytes > limits.decoded_bytes:
        raise ExpansionLimit(f"The object's rows take more than {limits.decoded_bytes:,} bytes", limit=limits.decoded_bytes, unit="bytes")


def _first_offset(item: ManifestObject, records: Records) -> int:
    """The offset of the first record. A name that tells the last one is counted back from, so the records are counted first."""
    route = classify(item.key, item.size)
    if route.offset_is == LAST:
        return first_offset(route, records.count()) or 0
    return item.offset or 0
