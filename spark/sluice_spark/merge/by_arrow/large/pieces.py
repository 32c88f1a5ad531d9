"""Divides large Avro objects into pieces of whole blocks, which tasks read beside each other.

An object is merged as a whole or not at all: where a piece has a defect, one task reads the object and says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import Callable, Union

import pyarrow as pa

from sluice.admission.routing import AVRO, LAST, classify
from sluice.batch.manifest import ManifestObject
from sluice.changes.dialects.registry import text_field
from sluice.errors import SluiceError
from sluice.schema.avro import read_writer_schema
from sluice_aws.s3.objects import Objects, ObjectSource
from sluice_formats.avro import block_runs
from sluice_formats.decode import decode
from sluice_formats.records import ReaderPlan
from sluice_spark.engine.tasks import task_objects
from sluice_spark.merge import read
from sluice_spark.merge.read import SeenObjects
from sluice_spark.merge.rows import LeftToSpark

PIECE_BYTES = 32 * 1024**2  # as stored; a task holds a piece and its rows. Objects of more than two are divided
READS_AT_ONCE = 4
PIECES = "pieces"  # why pieces are not merged


@dataclass(frozen=True)
class ObjectPiece:
    """Whole blocks of an object. `header` is the container's own, `first` the number of the first record."""

    item: ManifestObject
    header: bytes
    start: int
    end: int
    first: int


Share = Sequence[Union[ManifestObject, ObjectPiece]]
# Reads a share in a task. Objects and records that can't be read are left in S3 (`merge.read`).
ReadShare = Callable[[Share], Iterator[pa.RecordBatch]]


def divided_objects(
    objects: Sequence[ManifestObject], plan: ReaderPlan, s3: Objects, *, piece_bytes: int | None = None
) -> tuple[list[ObjectPiece], list[ManifestObject]]:
    """The pieces of large objects, which are read once to find their blocks, and the objects that one task reads."""
    size = piece_bytes or PIECE_BYTES
    large = [item for item in objects if _is_divisible(item, plan, size)]
    if not large:
        return [], list(objects)
    with ThreadPoolExecutor(min(READS_AT_ONCE, len(large)), thread_name_prefix="blocks") as pool:
        pieces = dict(zip(large, pool.map(lambda item: _pieces(s3, item, plan, size), large)))
    return [piece for own in pieces.values() for piece in own], [item for item in objects if not pieces.get(item)]


def share_reader(plan: ReaderPlan, source: ObjectSource, seen: SeenObjects) -> ReadShare:
    """A function for tasks that reads a share: raises LeftToSpark where a piece has a defect."""
    read_whole = read.share_reader(plan, source, seen)

    def read_share(share: Share) -> Iterator[pa.RecordBatch]:
        yield from read_whole([item for item in share if isinstance(item, ManifestObject)])
        for piece in share:
            if isinstance(piece, ObjectPiece):
                yield from _read_piece(task_objects(source), piece, plan, seen)

    return read_share


def _read_piece(s3: Objects, piece: ObjectPiece, plan: ReaderPlan, seen: SeenObjects) -> Iterator[pa.RecordBatch]:
    try:
        body = piece.header + s3.range_bytes(piece.item.id, piece.start, piece.end - piece.start)
        decoded = decode(body, piece.item, plan, first=piece.first)
    except SluiceError as error:
        if error.retriable:
            raise
        raise LeftToSpark(PIECES, error.code) from error
    if decoded.rows or not decoded.numbered_as_read:
        raise LeftToSpark(PIECES)
    seen.add(decoded.seen, piece=piece.first)
    yield from decoded.batches


def _is_divisible(item: ManifestObject, plan: ReaderPlan, size: int) -> bool:
    """Whether the object's records can be numbered by counting those before them, as far as its name and size tell."""
    by_name = plan.config.key_pattern is not None or classify(item.key, item.size).offset_is == LAST
    is_plain = not by_name and item.replaces is None and text_field(plan.config.form, AVRO) is None
    return item.format == AVRO and is_plain and 2 * size < item.size <= plan.config.limits.object_bytes


def _pieces(s3: Objects, item: ManifestObject, plan: ReaderPlan, size: int) -> list[ObjectPiece]:
    """The pieces of an object; none of one that a task is to read, or to refuse."""
    try:
        if not s3.has_ranges(item.id):
            return []
        header, data, runs = block_runs(s3.chunks(item.id), plan.config.limits, size)
        writer = read_writer_schema(header.schema, plan.config.form)
    except SluiceError:  # whoever reads the object says why
        return []
    if not writer.of_changes and plan.config.marks_of_rows.on and not plan.config.append_only:
        return []  # whether a column marks deletions follows from all of its values (`UnmarkedDeletions`)
    firsts = accumulate((run.records for run in runs), initial=0)
    return [ObjectPiece(item, data, run.start, run.end, first) for run, first in zip(runs, firsts)]
