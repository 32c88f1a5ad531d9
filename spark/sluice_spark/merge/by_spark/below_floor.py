"""Sets aside changes at or below the purge floor, of keys that the table doesn't hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Callable

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from sluice.batch.manifest import ManifestObject
from sluice.batch.row_errors import JSON_TEXT, MAX_CONTENT_BYTES, RowError, from_lines
from sluice.changes import hidden_columns as hidden
from sluice.silver_keys import row_count_key, rows_key
from sluice_aws.s3.objects import Objects, ObjectSource
from sluice_spark.engine.tasks import task_objects
from sluice_spark.errors import BelowPurgeFloor
from sluice_spark.merge.by_spark.columns import quoted
from sluice_spark.merge.by_spark.working_columns import CONTENT
from sluice_spark.merge.context import PartContext
from sluice_spark.merge.set_aside import Aside


def leave_below_floor(
    part: PartContext, below: DataFrame, *, objects: Sequence[ManifestObject], columns: Sequence[str]
) -> None:
    """Put the changes at or below the purge floor beside the other rows that were set aside of their objects.

    Of an object that was merged before, only the rows that no batch has merged: the others are repetitions. After
    the limit of one object's rows they are listed without their content.
    """
    items_by_lineage = {item.id.lineage: item for item in objects if not item.merged or item.rows_aside is not None}
    rows = below.select(
        quoted(hidden.OBJECT).alias("object"),
        quoted(hidden.OFFSET).alias("offset"),
        quoted(hidden.POSITION).alias("position"),
        F.to_json(F.struct(*[quoted(name) for name in columns])).alias(CONTENT),
    )
    place = (part.manifest.batch, part.config.table, part.attempt)
    task = _task(items_by_lineage, part.config.limits.quarantined_rows, part.services.source, place)
    rows.repartition("object").sortWithinPartitions("object", "offset").foreachPartition(task)


def _task(
    items_by_lineage: Mapping[str, ManifestObject], limit: int, source: ObjectSource, place: tuple[str, str, str]
) -> Callable[[Iterable[Row]], None]:
    def run(rows: Iterable[Row]) -> None:
        for lineage, of_object in groupby(rows, key=lambda row: row["object"]):
            if lineage in items_by_lineage:
                item, objects = items_by_lineage[lineage], task_objects(source)
                wanted = _unmerged(objects, source.silver_bucket, item)
                row_errors = _row_errors(of_object, item.offset, limit, wanted)
                if row_errors:
                    _leave(Aside(objects, source.silver_bucket, *place), item.id.hash, row_errors)

    return run


def _unmerged(objects: Objects, silver_bucket: str, item: ManifestObject) -> frozenset[int] | None:
    """The record numbers of an object's rows that no batch has merged; None stands for all of them."""
    document = objects.get(silver_bucket, item.rows_aside) if item.rows_aside is not None else None
    return None if document is None else frozenset(row.record for row in from_lines(document.data.decode("utf-8")))


def _row_errors(
    rows: Iterable[Row], first_offset: int | None, limit: int, wanted: frozenset[int] | None
) -> list[RowError]:
    row_errors: list[RowError] = []
    for number, row in enumerate(rows):
        error = BelowPurgeFloor("The row was purged, and this change is not newer than the purged rows")
        record = row["offset"] - (first_offset or 0) if row["offset"] is not None else number
        if wanted is not None and record not in wanted:
            continue
        content = row[CONTENT] if len(row_errors) < limit else ""
        row_errors.append(
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
    return row_errors


def _leave(aside: Aside, object_hash: str, rows: list[RowError]) -> None:
    """Put rows beside those that the reading of the object left. A task that runs again changes nothing."""
    of_object = (aside.batch, aside.table, object_hash)
    counted_now = aside.objects.get(aside.silver_bucket, row_count_key(*of_object, aside.attempt))
    # Without a count of this merge's own the rows are those of another one.
    document = None if counted_now is None else aside.objects.get(aside.silver_bucket, rows_key(*of_object))
    before = [] if document is None else list(from_lines(document.data.decode("utf-8")))
    other_rows = [row for row in before if row.code != BelowPurgeFloor.code]
    aside.keep_rows(object_hash, [*other_rows, *rows])
