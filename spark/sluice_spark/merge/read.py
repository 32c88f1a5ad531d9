"""Reads change objects by exact version in Spark tasks: each as a whole, or not at all with its reason in S3.

An accumulator brings back to the driver what tasks saw of each object's place in Kafka and in the source's log.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Callable

import pyarrow as pa
from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import ObjectError
from sluice.changes.log_restart import SeenObject, joined
from sluice.errors import SluiceError
from sluice_aws.s3.objects import READ_AHEAD_OBJECTS, Objects, ObjectSource
from sluice_formats.decode import decode_each
from sluice_formats.records import ReaderPlan
from sluice_spark.engine.tasks import task_objects
from sluice_spark.merge.set_aside import Aside

# A task reads ahead while it decodes: small objects would otherwise wait one round trip each.
READ_AHEAD_BYTES = 64 * 1024**2
TASK_BYTES, TASK_OBJECTS, TASKS_PER_CORE = 4 * 1024**2, 25, 4


def share_reader(
    plan: ReaderPlan, source: ObjectSource, seen: SeenObjects
) -> Callable[[Sequence[ManifestObject]], Iterator[pa.RecordBatch]]:
    """A function for tasks that reads the changes in a share of the objects, in raw form and with hidden columns.

    An object that can't be decoded gives no row, nor does a record that can't be merged; the task puts the reason in S3
    beside the batch before it yields a row. Transient errors of S3 are raised, and Spark runs the task again.
    """

    def read(share: Sequence[ManifestObject]) -> Iterator[pa.RecordBatch]:
        return _read_share(task_objects(source), share, plan, source.silver_bucket, seen)

    return read


def shared_out(objects: Sequence[ManifestObject], cores: int) -> list[tuple[ManifestObject, ...]]:
    """The objects in shares, one per read task."""
    return balanced(objects, task_count(objects, cores))


def task_count(objects: Sequence[ManifestObject], cores: int) -> int:
    """The number of read tasks, by bytes and by number of objects, since a small object takes a request too."""
    wanted = max(-(-sum(item.size for item in objects) // TASK_BYTES), -(-len(objects) // TASK_OBJECTS))
    return max(1, min(wanted, TASKS_PER_CORE * cores, len(objects)))


def balanced(objects: Sequence[ManifestObject], tasks: int) -> list[tuple[ManifestObject, ...]]:
    """Share objects out so that no task gets far more bytes than another: largest first, to the least loaded."""
    shares: list[list[ManifestObject]] = [[] for _ in range(tasks)]
    loads = [(0, 0, number) for number in range(tasks)]
    for item in sorted(objects, key=lambda item: (-item.size, item.id)):
        size, count, number = heapq.heappop(loads)
        shares[number].append(item)
        heapq.heappush(loads, (size + item.size, count + 1, number))
    return [tuple(share) for share in shares]


def _read_share(
    s3: Objects, share: Sequence[ManifestObject], plan: ReaderPlan, silver_bucket: str, seen: SeenObjects
) -> Iterator[pa.RecordBatch]:
    aside = Aside(s3, silver_bucket, plan.batch, plan.config.table, plan.attempt)
    for item, decoded in decode_each(bodies(s3, share, plan.config.limits.object_bytes), plan):
        if isinstance(decoded, SluiceError):
            aside.refuse(ObjectError.of(item.id.hash, decoded))
            continue
        if decoded.rows:  # before the object's first row is yielded, so that every counted row can be found in S3
            aside.keep_rows(item.id.hash, decoded.rows)
        seen.add(decoded.seen)
        yield from decoded.batches


def bodies(
    s3: Objects, share: Sequence[ManifestObject], limit: int
) -> Iterator[tuple[ManifestObject, Callable[[], bytes]]]:
    """Every object in order, with a function that waits for its bytes; up to READ_AHEAD_BYTES are read ahead.

    `limit` is the most bytes that an object may have.
    """
    waiting: deque[tuple[ManifestObject, Future[bytes]]] = deque()
    ahead = 0
    with ThreadPoolExecutor(READ_AHEAD_OBJECTS) as pool:
        for item in share:
            while waiting and (len(waiting) >= READ_AHEAD_OBJECTS or ahead + item.size > READ_AHEAD_BYTES):
                first, body = waiting.popleft()
                ahead -= first.size
                yield first, body.result
            waiting.append((item, pool.submit(s3.whole, item.id, limit)))
            ahead += item.size
        while waiting:
            first, body = waiting.popleft()
            yield first, body.result


Seen = dict[tuple[str, int], SeenObject]


class _ByObject(AccumulatorParam[Seen]):
    """Keyed by object and piece, so that a task that runs twice adds nothing twice."""

    def zero(self, value: Seen) -> Seen:
        return {}

    def addInPlace(self, value1: Seen, value2: Seen) -> Seen:
        value1.update(value2)
        return value1


class SeenObjects:
    """What the tasks of one reading saw of their objects. Complete after the first action on its rows."""

    def __init__(self, context: SparkContext) -> None:
        self._seen: Accumulator[Seen] = context.accumulator({}, _ByObject())

    def add(self, seen: SeenObject, *, piece: int = 0) -> None:
        """Add what a task saw of one object, or of the piece of it that begins with the record of this number."""
        self._seen.add({(seen.object, piece): seen})

    def take(self, objects: Sequence[ManifestObject]) -> list[SeenObject]:
        """What was seen of these objects, in the order of their admission.

        Empties the accumulator, which Spark itself never frees.
        """
        pieces: defaultdict[str, list[SeenObject]] = defaultdict(list)
        for (own, _), seen in sorted(self._seen.value.items(), key=lambda pair: pair[0]):
            pieces[own].append(seen)
        self._seen.value.clear()
        return [
            joined(pieces[item.id.hash])
            for item in sorted(objects, key=lambda item: (item.admitted_at, item.id))
            if item.id.hash in pieces
        ]
