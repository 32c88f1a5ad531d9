"""Reads a small part's objects for the driver: in it where they are few, else in a Spark task each."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from sluice.batch.manifest import ManifestObject
from sluice.errors import SluiceError
from sluice_aws.s3.objects import Objects
from sluice_formats.decode import Decoded, decode
from sluice_formats.records import ReaderPlan
from sluice_spark.arrow.covers import MOST_CHANGES, MOST_DECODED_BYTES, OBJECT_BYTES_IN_DRIVER, OBJECTS_IN_DRIVER
from sluice_spark.arrow.rewrite import FileWork
from sluice_spark.arrow.rows import LeftToSpark

READS_AT_ONCE = 8


def are_few(objects: Sequence[ManifestObject]) -> bool:
    """Whether the driver itself reads the objects."""
    return len(objects) <= OBJECTS_IN_DRIVER and sum(item.size for item in objects) <= OBJECT_BYTES_IN_DRIVER


def decoded_objects(reading: FileWork, shares: Sequence[Sequence[ManifestObject]], plan: ReaderPlan) -> list[Decoded]:
    """The decoded objects in order of admission. Raises LeftToSpark for one that can't be read, and for too much."""
    limits = replace(
        plan.limits,
        object_rows=min(MOST_CHANGES, plan.limits.object_rows),
        decoded_bytes=min(MOST_DECODED_BYTES, plan.limits.decoded_bytes),
    )
    most_bytes = MOST_DECODED_BYTES // len(shares)
    found = reading.each(partial(_read, plan=replace(plan, limits=limits), most_bytes=most_bytes), shares)
    for read in found:
        if read.left:
            raise LeftToSpark(*read.left)
    # In order of admission, whichever share an object is in.
    places = {item.id.hash: (item.admitted_at, item.id) for share in shares for item in share}
    return sorted((each for read in found for each in read.decoded), key=lambda each: places[each.seen.object])


@dataclass(frozen=True)
class _Read:
    """The objects of a share, decoded, or why they are left to Spark: the arguments of LeftToSpark."""

    decoded: Sequence[Decoded] = ()
    left: tuple[str, ...] = ()


def _read(
    objects: Objects,
    token: str,
    number: int,
    items: Sequence[ManifestObject],
    *,
    plan: ReaderPlan,
    most_bytes: int,
) -> _Read:
    """Read and decode objects, up to `most_bytes` as Arrow holds them. A failed task would be tried again."""
    decoded: list[Decoded] = []
    size = 0
    try:
        for item, body in zip(items, _bodies(objects, items, plan.limits.object_bytes)):
            decoded.append(decode(body, item, plan))
            size += sum(batch.nbytes for batch in decoded[-1].batches)
            if decoded[-1].rows:
                return _Read(left=("rows_aside",))
            if size > most_bytes:
                return _Read(left=("size", "decoded"))
    except SluiceError as error:  # a task of Spark's way puts the reason in S3, and asks S3 again
        return _Read(left=("object", error.code))
    return _Read(decoded)


def _bodies(objects: Objects, items: Sequence[ManifestObject], limit: int) -> list[bytes]:
    if len(items) == 1:
        return [objects.whole(items[0].id, limit)]
    with ThreadPoolExecutor(min(READS_AT_ONCE, len(items)), thread_name_prefix="read") as pool:
        return list(pool.map(lambda item: objects.whole(item.id, limit), items))
