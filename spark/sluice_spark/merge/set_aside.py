"""Keeps what can't be merged of a batch, with the reason, in S3 beside the batch, before it commits.

Set aside are whole objects (refused or parked), records that can't be read, and changes at or below the purge floor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Callable

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import ObjectError, RowErrorCount
from sluice.batch.row_errors import JSON_TEXT, MAX_CONTENT_BYTES, RowError, counted, from_lines, to_lines
from sluice.changes import hidden_columns as hidden
from sluice.silver_keys import (
    PARKED_SUFFIX,
    ROW_COUNT_SUFFIX,
    error_key,
    error_prefix,
    parked_key,
    row_count_key,
    rows_key,
)
from sluice_aws.s3.objects import Document, Objects, ObjectSource, task_objects
from sluice_spark.arrow.driver_read import DecodedObjects
from sluice_spark.errors import BelowPurgeFloor
from sluice_spark.merge.normalize import quoted
from sluice_spark.merge.working_columns import CONTENT

PUTS_AT_ONCE, READS_AT_ONCE = 8, 16  # of one table's part; two tables at a time share the driver's 32 connections


@dataclass(frozen=True)
class SetAside:
    """What one table's part has set aside: refused objects, the number of rows of others, and parked objects."""

    objects: tuple[ObjectError, ...] = ()
    rows: tuple[RowErrorCount, ...] = ()
    parked: tuple[ObjectError, ...] = ()


def leave_error(
    objects: Objects, silver_bucket: str, *, batch: str, table: str, attempt: str | None = None, error: ObjectError
) -> None:
    """Put the reason why one object is refused where a take-over finds it. The same error gives the same bytes."""
    _put_error(objects, silver_bucket, error_key(batch, table, error.object, attempt), error)


def leave_parked(
    objects: Objects, silver_bucket: str, *, batch: str, table: str, attempt: str | None = None, error: ObjectError
) -> None:
    """Put the reason why one object is parked where a take-over finds it."""
    _put_error(objects, silver_bucket, parked_key(batch, table, error.object, attempt), error)


def _put_error(objects: Objects, silver_bucket: str, key: str, error: ObjectError) -> None:
    objects.put(silver_bucket, key, error.to_json().encode("utf-8"), content_type="application/json")


def leave_rows(
    objects: Objects,
    silver_bucket: str,
    *,
    batch: str,
    table: str,
    attempt: str | None,
    object_hash: str,
    rows: Sequence[RowError],
) -> None:
    """Put one object's rows that can't be merged, then their number: a number is never without its rows."""
    objects.put(
        silver_bucket,
        rows_key(batch, table, object_hash),
        to_lines(rows).encode("utf-8"),
        content_type="application/jsonl",
    )
    count = counted(object_hash, rows).to_json().encode("utf-8")
    objects.put(
        silver_bucket, row_count_key(batch, table, object_hash, attempt), count, content_type="application/json"
    )


def leave_unmerged(
    objects: Objects, silver_bucket: str, *, batch: str, table: str, attempt: str | None = None, read: DecodedObjects
) -> None:
    """Put the objects that can't be read, and the rows that can't be merged, as read tasks do. Several at a time."""
    place: dict[str, Any] = {"batch": batch, "table": table, "attempt": attempt}
    with ThreadPoolExecutor(PUTS_AT_ONCE, thread_name_prefix="set-aside") as pool:
        puts = [pool.submit(leave_error, objects, silver_bucket, error=error, **place) for error in read.errors]
        puts += [
            pool.submit(leave_rows, objects, silver_bucket, object_hash=each.seen.object, rows=each.rows, **place)
            for each in read.objects
            if each.rows
        ]
        for put in puts:
            put.result()


def read_set_aside(
    objects: Objects, silver_bucket: str, *, batch: str, table: str, attempt: str | None = None
) -> SetAside:
    """All that one merge of a table's part set aside, by the name that its commit has too."""
    errors: list[ObjectError] = []
    rows: list[RowErrorCount] = []
    parked: list[ObjectError] = []
    prefix = error_prefix(batch, table, attempt)
    keys = [key for key in objects.keys(silver_bucket, prefix) if "/" not in key[len(prefix) :]]
    for key, document in zip(keys, _documents(objects, silver_bucket, keys)):
        if document is None:
            continue
        text = document.data.decode("utf-8")
        if key.endswith(ROW_COUNT_SUFFIX):
            rows.append(RowErrorCount.from_json(text))
        elif key.endswith(PARKED_SUFFIX):
            parked.append(ObjectError.from_json(text))
        else:
            errors.append(ObjectError.from_json(text))
    whole = {error.object for error in (*errors, *parked)}
    return SetAside(tuple(errors), tuple(found for found in rows if found.object not in whole), tuple(parked))


def _documents(objects: Objects, silver_bucket: str, keys: Sequence[str]) -> list[Document | None]:
    """The documents in the order of their keys. Several at a time: a batch may have set all of its objects aside."""
    if len(keys) < 2:
        return [objects.get(silver_bucket, key) for key in keys]
    with ThreadPoolExecutor(min(READS_AT_ONCE, len(keys)), thread_name_prefix="set-aside") as pool:
        return list(pool.map(lambda key: objects.get(silver_bucket, key), keys))


def leave_below_floor(
    below: DataFrame,
    *,
    objects: Sequence[ManifestObject],
    batch: str,
    table: str,
    attempt: str | None,
    columns: Sequence[str],
    limit: int,
    source: ObjectSource,
) -> None:
    """Put the changes at or below the purge floor beside the other rows that were set aside of their objects.

    Of an object that was merged before, only the rows that no batch has merged: the others are repetitions. After
    `limit` rows of one object, rows are listed without their content.
    """
    known = {item.id.lineage: item for item in objects if not item.merged or item.rows_aside is not None}
    rows = below.select(
        quoted(hidden.OBJECT).alias("object"),
        quoted(hidden.OFFSET).alias("offset"),
        quoted(hidden.POSITION).alias("position"),
        F.to_json(F.struct(*[quoted(name) for name in columns])).alias(CONTENT),
    )
    rows.repartition("object").sortWithinPartitions("object", "offset").foreachPartition(
        _task(known, limit, source, batch=batch, table=table, attempt=attempt)
    )


def _task(
    known: Mapping[str, ManifestObject], limit: int, source: ObjectSource, **place: Any
) -> Callable[[Iterable[Row]], None]:
    def run(rows: Iterable[Row]) -> None:
        for lineage, of_object in groupby(rows, key=lambda row: row["object"]):
            if lineage in known:
                item, objects = known[lineage], task_objects(source)
                wanted = _unmerged(objects, source.silver_bucket, item)
                found = _row_errors(of_object, item.offset, limit, wanted)
                if found:
                    _leave(objects, source.silver_bucket, item.id.hash, found, **place)

    return run


def _unmerged(objects: Objects, silver_bucket: str, item: ManifestObject) -> frozenset[int] | None:
    """The record numbers of an object's rows that no batch has merged; None stands for all of them."""
    document = objects.get(silver_bucket, item.rows_aside) if item.rows_aside is not None else None
    return None if document is None else frozenset(row.record for row in from_lines(document.data.decode("utf-8")))


def _row_errors(
    rows: Iterable[Row], first_offset: int | None, limit: int, wanted: frozenset[int] | None
) -> list[RowError]:
    found: list[RowError] = []
    for number, row in enumerate(rows):
        error = BelowPurgeFloor("The row was purged, and this change is not newer than the purged rows")
        record = row["offset"] - (first_offset or 0) if row["offset"] is not None else number
        if wanted is not None and record not in wanted:
            continue
        content = row[CONTENT] if len(found) < limit else ""
        found.append(
            RowError(
                record,
                error.code,
                str(error),
                row["offset"],
                row["position"],
                JSON_TEXT,
                content[:MAX_CONTENT_BYTES],
                len(content),
            )
        )
    return found


def _leave(
    objects: Objects,
    silver_bucket: str,
    object_hash: str,
    rows: list[RowError],
    *,
    batch: str,
    table: str,
    attempt: str | None,
) -> None:
    """Put rows beside those that the reading of the object left. A task that runs again changes nothing."""
    counted_now = objects.get(silver_bucket, row_count_key(batch, table, object_hash, attempt))
    # Without a count of this merge's own the rows are those of another one.
    document = None if counted_now is None else objects.get(silver_bucket, rows_key(batch, table, object_hash))
    before = [] if document is None else list(from_lines(document.data.decode("utf-8")))
    kept = [row for row in before if row.code != BelowPurgeFloor.code]
    leave_rows(
        objects,
        silver_bucket,
        batch=batch,
        table=table,
        attempt=attempt,
        object_hash=object_hash,
        rows=[*kept, *rows],
    )
