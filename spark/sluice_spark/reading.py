"""Reads change objects by exact version in Spark tasks: each whole, or not at all with its reason in S3."""
from __future__ import annotations

import heapq
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Sequence, Tuple

import boto3
import pyarrow as pa
from botocore.config import Config
from botocore.exceptions import ClientError
from pyspark.sql import DataFrame, SparkSession

from sluice.errors import SluiceError
from sluice.manifest import ManifestObject, ObjectError, error_key
from sluice_aws.objects import GONE, ObjectGone
from sluice_spark.decoding import decode, spark_fields
from sluice_spark.reader_plan import ReaderPlan

# A task reads ahead while it decodes: small objects would otherwise wait one round trip each.
READ_AHEAD_OBJECTS = 8
READ_AHEAD_BYTES = 64 * 1024**2
TASK_BYTES, TASK_OBJECTS, TASKS_PER_CORE = 4 * 1024**2, 25, 4


@dataclass(frozen=True)
class ObjectSource:
    """How a task reaches S3. Pickled into tasks: credentials come from the task's own surroundings.

    `endpoint_url` is an emulator's address, None on AWS. `silver_bucket` is where a task leaves the
    reasons for what it could not read.
    """

    region: str
    silver_bucket: str
    endpoint_url: Optional[str] = None


def read_changes(spark: SparkSession, *, objects: Sequence[ManifestObject], plan: ReaderPlan, source: ObjectSource) -> DataFrame:
    """The changes in the objects, columns raw (see raw_columns.py), hidden columns beside.

    An object that can't be decoded gives no row; its task writes an ObjectError to the batch's error
    key before it yields anything. S3's passing troubles raise, and Spark runs the task again.
    """
    fields = ", ".join(f"`{name}` {kind}" for name, kind in spark_fields(plan))
    shares = balanced(objects, task_count(objects, spark.sparkContext.defaultParallelism))
    return spark.range(0, len(shares), 1, len(shares)).mapInArrow(_task(shares, plan, source), fields)


def task_count(objects: Sequence[ManifestObject], cores: int) -> int:
    """Tasks for so many objects: by bytes and by number, since a small object costs a request too."""
    wanted = max(-(-sum(item.size for item in objects) // TASK_BYTES), -(-len(objects) // TASK_OBJECTS))
    return max(1, min(wanted, TASKS_PER_CORE * cores, len(objects)))


def balanced(objects: Sequence[ManifestObject], tasks: int) -> List[Tuple[ManifestObject, ...]]:
    """Share out objects so that no task gets far more bytes than another: largest first, to the least loaded."""
    shares: List[List[ManifestObject]] = [[] for _ in range(tasks)]
    loads = [(0, 0, number) for number in range(tasks)]
    for item in sorted(objects, key=lambda item: (-item.size, item.id)):
        size, count, number = heapq.heappop(loads)
        shares[number].append(item)
        heapq.heappush(loads, (size + item.size, count + 1, number))
    return [tuple(share) for share in shares]


def _task(
    shares: Sequence[Sequence[ManifestObject]], plan: ReaderPlan, source: ObjectSource
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        s3 = _client(source)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _read_share(s3, shares[number], plan, source.silver_bucket)

    return run


def _read_share(s3: Any, share: Sequence[ManifestObject], plan: ReaderPlan, silver_bucket: str) -> Iterator[pa.RecordBatch]:
    for item, body in _bodies(s3, share):
        try:
            decoded = decode(body(), item, plan)
        except SluiceError as error:
            if error.retriable:
                raise
            _leave_error(s3, silver_bucket, plan, item, error)
            continue
        yield from decoded


def _bodies(s3: Any, share: Sequence[ManifestObject]) -> Iterator[Tuple[ManifestObject, Callable[[], bytes]]]:
    """Every object with its bytes to come, in order, read ahead within bounds."""
    waiting: Deque[Tuple[ManifestObject, "Future[bytes]"]] = deque()
    ahead = 0
    with ThreadPoolExecutor(READ_AHEAD_OBJECTS) as pool:
        for item in share:
            while waiting and (len(waiting) >= READ_AHEAD_OBJECTS or ahead + item.size > READ_AHEAD_BYTES):
                first, body = waiting.popleft()
                ahead -= first.size
                yield first, body.result
            waiting.append((item, pool.submit(_get, s3, item)))
            ahead += item.size
        while waiting:
            first, body = waiting.popleft()
            yield first, body.result


def _get(s3: Any, item: ManifestObject) -> bytes:
    """The bytes of exactly this version. Raises ObjectGone, or botocore's own for what may pass."""
    id = item.id
    which: Dict[str, str] = {"VersionId": id.version_id} if id.version_id else {"IfMatch": f'"{id.etag}"'}
    try:
        return bytes(s3.get_object(Bucket=id.bucket, Key=id.key, **which)["Body"].read())
    except ClientError as error:
        if str(error.response.get("Error", {}).get("Code", "")) in GONE:
            raise ObjectGone("The object was gone before it could be read", bucket=id.bucket, key=id.key, version=id.version) from error
        raise


def _leave_error(s3: Any, silver_bucket: str, plan: ReaderPlan, item: ManifestObject, error: SluiceError) -> None:
    told = "; ".join([str(error)] + [f"{name}: {value}" for name, value in sorted(error.facts.items())])
    record = ObjectError(item.id.hash, error.code, told[:2000])
    key = error_key(plan.batch, plan.table, item.id.hash)
    s3.put_object(Bucket=silver_bucket, Key=key, Body=record.to_json().encode("utf-8"), ContentType="application/json")


@lru_cache(maxsize=4)
def _client(source: ObjectSource) -> Any:
    """One client per worker process; Spark keeps workers from task to task."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 4},
        connect_timeout=5,
        read_timeout=30,
        max_pool_connections=READ_AHEAD_OBJECTS + 2,
        s3={"addressing_style": "path"} if source.endpoint_url else None,
    )
    return boto3.Session(region_name=source.region).client("s3", endpoint_url=source.endpoint_url, config=config)
