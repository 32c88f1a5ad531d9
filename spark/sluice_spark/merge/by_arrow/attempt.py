"""The Arrow way of a part: a first load of an empty table, else a merge that the driver decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sluice.batch.dumps import floors_of
from sluice.batch.kafka_watch import KafkaWatch, Watched, watched
from sluice.batch.manifest import ManifestObject
from sluice.batch.merged_again import merged_again
from sluice.batch.outcome import HISTORY_STAGE, READ_STAGE
from sluice.batch.unexpected import unexpected_in
from sluice.changes.log_restart import SeenObject
from sluice.config.table import IGNORE
from sluice_spark.hudi.facts import CommitResult
from sluice_spark.log import failure_place
from sluice_spark.merge.by_arrow.commit import commit
from sluice_spark.merge.by_arrow.decide import NO_CHANGES
from sluice_spark.merge.by_arrow.driver_merge import TableRows, merge_in_driver
from sluice_spark.merge.by_arrow.driver_read import DecodedObjects, decoded_objects
from sluice_spark.merge.by_arrow.first_load import (
    FirstLoad,
    LoadPlan,
    check_first_load,
    load_in_driver,
    part_count,
    read_first_load,
)
from sluice_spark.merge.by_arrow.rewrite import FileWork, Rewrite
from sluice_spark.merge.by_arrow.rows import LeftToSpark
from sluice_spark.merge.context import MergedPart, PartContext
from sluice_spark.merge.driver_limits import are_few
from sluice_spark.merge.plan import column_types
from sluice_spark.merge.prepare import Prepared
from sluice_spark.merge.read import SeenObjects, share_reader, shared_out
from sluice_spark.merge.set_aside import leave_error, leave_rows

PUTS_AT_ONCE = 8  # of one table's part; two tables at a time share the driver's 32 connections


def attempt(part: PartContext, prepared: Prepared) -> MergedPart | None:
    """Merge a part by Arrow; None, before anything is written, for what is left to Spark. The reason is logged.

    Raises what `merge_part` does.
    """
    try:
        decided = _decided(part, prepared)
    except LeftToSpark as left:
        part.event("left_to_spark", reason=left.reason, detail=left.detail or None)
        return None
    except Exception as failure:  # of any kind: no row is written yet, and tasks try their reads again
        if not prepared.facts.empty:
            part.services.tables.leave_to_spark(part.config)
        part.event("left_to_spark", level="warning", reason="failed", detail=failure_place(failure))
        return None
    if decided is None:
        return None
    counts = {**decided.counts, "bytes_read": sum(item.size for item in prepared.objects)}
    history_instant = None if decided.history is None else _write_history(part, decided.history)
    committed: CommitResult | None = None
    if decided.rows is None:
        part.services.tables.keep(part.config, prepared.facts)
    else:
        committed = commit(part, decided.rows, target=prepared.planned.target, facts=prepared.facts)
        counts.update(committed.counts)
    seen = unexpected_in(decided.seen)
    return MergedPart(counts, committed, decided.judged.watch, seen, history_instant=history_instant)


def _write_history(part: PartContext, own: TableRows) -> str | None:
    """Commit the rows of the history table where there are some. Returns its newest commit."""
    if own.rows is None:
        part.services.tables.keep(own.part.config, own.facts)
        newest = own.facts.timeline.newest
        return None if newest is None else newest.time
    with part.stages.timed(HISTORY_STAGE):
        committed = commit(own.part, own.rows, target=own.target, facts=own.facts)
    part.event("history_committed", instant=committed.instant, changes=own.counts["winning"])
    return committed.instant


@dataclass(frozen=True)
class _Decided:
    """The rows to write, None where no change is left, and what was seen of each object."""

    rows: FirstLoad | Rewrite | None
    counts: Mapping[str, int]
    judged: Watched
    seen: Sequence[SeenObject]
    history: TableRows | None = None


def _decided(part: PartContext, prepared: Prepared) -> _Decided | None:
    """Decide about a part; None for one that this way isn't asked about. Raises LeftToSpark."""
    if prepared.facts.forgotten or floors_of(prepared.objects, part.config):
        return None
    if prepared.facts.empty:
        return _first_load(part, prepared)
    configs = (part.config, *([part.config.history_table] if part.config.history else []))
    if not part.services.in_driver or any(map(part.services.tables.is_left_to_spark, configs)):
        return None
    return _small_merge(part, prepared)


def _first_load(part: PartContext, prepared: Prepared) -> _Decided:
    planned, config, objects = prepared.planned, part.config, prepared.objects
    plan = LoadPlan(
        planned.plan,
        column_types(planned.target),
        part.hudi.path,
        part.services.source,
        config.keep_deleted_values,
        config.lineage,
        prepared.source_clock,
        ignore_deletes=config.delete_mode == IGNORE,
    )
    check_first_load(config, prepared.facts, plan)
    with part.stages.timed(READ_STAGE):
        load, seen = _read_first_load(part, objects, plan)
        judged = watched(KafkaWatch.from_dict(part.claimed.watch), seen, config)
        if judged.refused or judged.parked:
            raise LeftToSpark("set_aside")
    counts = {**NO_CHANGES, **merged_again(objects, seen)}
    if load is not None:
        counts.update({**load.counts, **judged.outdated(load.suspicions, keys=load.counts["winning"])})
    return _Decided(load, counts, judged, seen)


def _read_first_load(
    part: PartContext, objects: Sequence[ManifestObject], plan: LoadPlan
) -> tuple[FirstLoad | None, Sequence[SeenObject]]:
    """Read the objects in the driver where they are few, else in tasks: a first load, and what was seen of each.

    The load is None where the driver found no change that can be merged.
    """
    spark, services, parts = part.spark, part.services, part_count(objects)
    if services.in_driver and parts == 1 and are_few(objects):
        reading = FileWork(spark, services.objects, services.source, in_tasks=False)
        try:
            read = decoded_objects(reading, [objects], plan.reader)
        except LeftToSpark as left:  # tasks read again
            part.event("left_to_tasks", reason=left.reason, detail=left.detail or None)
        else:
            _leave_unmerged(part, read)
            return load_in_driver(spark, read.batches, plan) if read.batches else None, read.seen
    seen = SeenObjects(spark.sparkContext)
    shares = shared_out(objects, spark.sparkContext.defaultParallelism)
    load = read_first_load(spark, shares, share_reader(plan.reader, services.source, seen), plan, parts=parts)
    return load, seen.take(objects)


def _small_merge(part: PartContext, prepared: Prepared) -> _Decided:
    with part.stages.timed(READ_STAGE):
        merged = merge_in_driver(part, prepared)
        _leave_unmerged(part, merged.read)
    return _Decided(merged.own.rows, merged.counts, merged.judged, merged.read.seen, merged.history)


def _leave_unmerged(part: PartContext, read: DecodedObjects) -> None:
    """Put the objects that can't be read, and the rows that can't be merged, as read tasks do. Several at a time."""
    silver: tuple[Any, ...] = (part.services.objects, part.services.silver_bucket)
    place: dict[str, Any] = dict(part.aside)
    with ThreadPoolExecutor(PUTS_AT_ONCE, thread_name_prefix="set-aside") as pool:
        puts = [pool.submit(leave_error, *silver, error=error, **place) for error in read.errors]
        puts += [
            pool.submit(leave_rows, *silver, object_hash=decoded.seen.object, rows=decoded.rows, **place)
            for decoded in read.objects
            if decoded.rows
        ]
        for put in puts:
            put.result()
