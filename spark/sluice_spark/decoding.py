"""Decodes one object's bytes, of any format, into Arrow batches: the whole object, or an error that says why not."""
from __future__ import annotations

from typing import Callable, Dict, List

import pyarrow as pa

from sluice.errors import SluiceError
from sluice.manifest import ManifestObject
from sluice.routing import LAST, classify, first_offset
from sluice_spark.avro_records import avro_records
from sluice_spark.reader_plan import ReaderPlan
from sluice_spark.record_batches import record_batch
from sluice_spark.records import Records

_READERS: Dict[str, Callable[[bytes], Records]] = {"avro": avro_records}


class UnsupportedFormat(SluiceError):
    """An object in a format that this release doesn't read."""

    code = "unsupported_format"
    next_step = "Let the connector write Avro"


def decode(body: bytes, item: ManifestObject, plan: ReaderPlan) -> List[pa.RecordBatch]:
    """Every record of the object, in order. Raises a SluiceError, the same at every attempt, if any can't be had."""
    reader = _READERS.get(item.format)
    if reader is None:
        raise UnsupportedFormat(f"The object is {item.format}", format=item.format)
    records = reader(body)
    offset = _first_offset(item, records)
    batches: List[pa.RecordBatch] = []
    first = 0
    for chunk in records.chunks:
        batches.append(record_batch(chunk, first=first, first_offset=offset, writer=records.writer, item=item, plan=plan))
        first += len(chunk)
    return batches


def _first_offset(item: ManifestObject, records: Records) -> int:
    """The offset of the first record. A name that tells the last one is counted back from, so the records are counted first."""
    route = classify(item.key, item.size)
    if route.offset_is == LAST:
        return first_offset(route, records.count()) or 0
    return item.offset or 0
