"""Divides large Avro objects into pieces of whole blocks, which tasks read beside each other.

An object is merged as a whole or not at all: where a piece has a defect, one task reads the object and says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Callable, Union

import pyarrow as pa
from pyspark import SparkContext

from sluice.admission.routing import AVRO
from sluice.batch.manifest import ManifestObject
from sluice.changes.dialects.registry import text_field
from sluice.errors import SluiceError
from sluice.objects import ObjectId
from sluice_aws.s3.objects import Objects, ObjectSource
from sluice_formats.avro import MOST_HEAD_BYTES, BlockRun, block_run
from sluice_formats.avro_header import SYNC_BYTES, AvroHeader, parse_header
from sluice_formats.decode import decode
from sluice_formats.records import ReaderPlan
from sluice_spark.engine.tasks import task_objects
from sluice_spark.merge import read
from sluice_spark.merge.by_arrow.rows import LeftToSpark
from sluice_spark.merge.read import SeenObjects

PIECE_BYTES = 32 * 1024**2  # as stored; a task holds a piece and its rows. Objects of more than two are divided
HEADER_BYTES = 1024**2  # a container whose header is longer is read by one task
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


@dataclass(frozen=True)
class _Range:
    """A range of an object in which blocks begin."""

    id: ObjectId
    sync: bytes
    start: int
    end: int
    first: bool


def divided_objects(
    context: SparkContext,
    objects: Sequence[ManifestObject],
    plan: ReaderPlan,
    *,
    s3: Objects,
    source: ObjectSource,
    piece_bytes: int | None = None,
) -> tuple[list[ObjectPiece], list[ManifestObject]]:
    """The pieces of large objects, and the objects that are read whole. One task for each piece counts its records."""
    size = piece_bytes or PIECE_BYTES
    heads = {item: head for item in objects if _is_divisible(item, plan, size) and (head := _head(s3, item, plan))}
    ranges = [
        _Range(item.id, header.sync, start, min(start + size, item.size), start == header.end)
        for item, (_, header) in heads.items()
        for start in range(header.end, item.size, size)
    ]
    if not ranges:
        return [], list(objects)
    runs = context.parallelize(ranges, len(ranges)).map(partial(_run, source=source)).collect()
    runs_by_object = {id: [run for _, run in own] for id, own in groupby(zip(ranges, runs), lambda pair: pair[0].id)}
    pieces: list[ObjectPiece] = []
    whole = [item for item in objects if item not in heads]
    for item, (data, header) in heads.items():
        own = _pieces(item, data, header, runs_by_object[item.id])
        if own and own[-1].first <= plan.limits.object_rows:
            pieces += own
        else:
            whole.append(item)
    return pieces, whole


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
    """Whether the object's records can be numbered by counting those before them."""
    is_plain = plan.key_pattern is None and item.replaces is None and text_field(plan.form, AVRO) is None
    return item.format == AVRO and is_plain and 2 * size < item.size <= plan.limits.object_bytes


def _head(s3: Objects, item: ManifestObject, plan: ReaderPlan) -> tuple[bytes, AvroHeader] | None:
    """The bytes of an object's header, and what they say; None for an object that one task is to read, or to refuse."""
    try:
        head = s3.head_bytes(item.id, HEADER_BYTES)
        header = parse_header(head, plan.limits)
    except SluiceError as error:
        if error.retriable:
            raise
        return None
    return head.data[: header.end], header


def _run(part: _Range, *, source: ObjectSource) -> BlockRun | None | str:
    """The blocks that begin in a range; the code of an error."""
    begin = part.start if part.first else part.start - SYNC_BYTES
    try:
        data = task_objects(source).range_bytes(part.id, begin, part.end + MOST_HEAD_BYTES - begin)
        return block_run(data, begin, part.end, part.sync, first=part.first)
    except SluiceError as error:
        if error.retriable:
            raise
        return error.code


def _pieces(
    item: ManifestObject, data: bytes, header: AvroHeader, runs: Sequence[BlockRun | None | str]
) -> list[ObjectPiece]:
    """The pieces of an object; none where its ranges' blocks aren't, one behind the other, all of it."""
    pieces: list[ObjectPiece] = []
    at, first = header.end, 0
    for run in runs:
        if isinstance(run, str) or run is not None and run.start != at:
            return []
        if run is not None:
            pieces.append(ObjectPiece(item, data, run.start, run.end, first))
            at, first = run.end, first + run.records
    return pieces if at == item.size else []
