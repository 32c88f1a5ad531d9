"""Reads a small part's objects for the driver: in it where they are few, else in a Spark task each."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import ObjectError
from sluice.changes.log_restart import SeenObject
from sluice.errors import ExpansionLimit, SluiceError
from sluice_aws.s3.objects import Objects
from sluice_formats.decode import Decoded, decode
from sluice_formats.errors import TooManyBadRows
from sluice_formats.records import ReaderPlan
from sluice_spark.merge.by_arrow.rewrite import FileWork
from sluice_spark.merge.context import PartContext
from sluice_spark.merge.driver_limits import MOST_DECODED_BYTES, for_driver
from sluice_spark.merge.read import bodies
from sluice_spark.merge.rows import LeftToSpark

PUTS_AT_ONCE = 8  # of one table's part; two tables at a time share the driver's 32 connections


@dataclass(frozen=True)
class DecodedObjects:
    """A part's objects: those that were read in order of admission, and why the others can't be.

    Nothing of what is to be set aside is in S3 yet: neither `errors` nor the rows of objects that can't be merged.
    """

    objects: Sequence[Decoded] = ()
    errors: Sequence[ObjectError] = ()

    @property
    def batches(self) -> list[pa.RecordBatch]:
        """The changes that can be merged."""
        return [batch for decoded in self.objects for batch in decoded.batches]

    @property
    def seen(self) -> list[SeenObject]:
        """What was seen of each object that was read."""
        return [decoded.seen for decoded in self.objects]


def decoded_objects(reading: FileWork, shares: Sequence[Sequence[ManifestObject]], plan: ReaderPlan) -> DecodedObjects:
    """Read and decode the objects. Raises LeftToSpark for too much, and for what S3 may give when it is asked again."""
    most_bytes = MOST_DECODED_BYTES // len(shares)
    shares_read = reading.each(partial(_read, plan=plan, most_bytes=most_bytes, in_tasks=reading.in_tasks), shares)
    for read in shares_read:
        if read.left:
            raise LeftToSpark(*read.left)
    # In order of admission, whichever share an object is in.
    places = {item.id.hash: (item.admitted_at, item.id) for share in shares for item in share}
    return DecodedObjects(
        sorted(
            (decoded for read in shares_read for decoded in read.decoded),
            key=lambda decoded: places[decoded.seen.object],
        ),
        [error for read in shares_read for error in read.errors],
    )


@dataclass(frozen=True)
class _Read:
    """The objects of a share that were read and the errors of the others, or the arguments of LeftToSpark."""

    decoded: Sequence[Decoded] = ()
    errors: Sequence[ObjectError] = ()
    left: tuple[str, ...] = ()


def _read(
    objects: Objects,
    token: str,
    number: int,
    items: Sequence[ManifestObject],
    *,
    plan: ReaderPlan,
    most_bytes: int,
    in_tasks: bool,
) -> _Read:
    """Read and decode objects, up to `most_bytes` as Arrow holds them. A failed task would be tried again."""
    decoded: list[Decoded] = []
    errors: list[ObjectError] = []
    size = 0
    for item, body in bodies(objects, items, plan.config.limits.object_bytes):
        try:
            limits = for_driver(plan.config.limits, format=item.format, objects=len(items), in_tasks=in_tasks)
            decoded.append(decode(body(), item, replace(plan, config=replace(plan.config, limits=limits))))
        except SluiceError as error:
            if error.retriable or isinstance(error, (ExpansionLimit, TooManyBadRows)):  # the table's limits are wider
                return _Read(left=("object", error.code))
            errors.append(ObjectError.of(item.id.hash, error))
            continue
        size += sum(batch.get_total_buffer_size() for batch in decoded[-1].batches) + sum(
            len(row.content) for row in decoded[-1].rows
        )
        if size > most_bytes:
            return _Read(left=("size", "decoded"))
    return _Read(decoded, errors)


def leave_unmerged(part: PartContext, read: DecodedObjects) -> None:
    """Put the objects that can't be read, and the rows that can't be merged, as read tasks do. Several at a time."""
    aside = part.aside
    with ThreadPoolExecutor(PUTS_AT_ONCE, thread_name_prefix="set-aside") as pool:
        puts = [pool.submit(aside.refuse, error) for error in read.errors]
        puts += [pool.submit(aside.keep_rows, one.seen.object, one.rows) for one in read.objects if one.rows]
        for put in puts:
            put.result()
