"""The Arrow way of a part: a merge of few keys that the driver decides, else one of whole slices, or a first load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sluice.batch.dumps import floors_of, refusal_of
from sluice.batch.kafka_watch import KafkaWatch, watched
from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import HISTORY_CHANGES, HISTORY_STAGE, READ_STAGE
from sluice.batch.part_counts import merged_again, unexpected_in
from sluice.changes.log_restart import SeenObject
from sluice_spark.hudi.facts import CommitResult
from sluice_spark.log import failure_place
from sluice_spark.merge.by_arrow.commit import commit, evolves
from sluice_spark.merge.by_arrow.covers import WRITTEN_IN_DRIVER
from sluice_spark.merge.by_arrow.decide import NO_CHANGES
from sluice_spark.merge.by_arrow.driver_merge import merge_in_driver
from sluice_spark.merge.by_arrow.driver_read import DecodedObjects, decoded_objects, leave_unmerged
from sluice_spark.merge.by_arrow.large.merge import LargeMerge, read_in_driver, read_in_tasks
from sluice_spark.merge.by_arrow.large.pieces import PIECES, Share, divided_objects, share_reader
from sluice_spark.merge.by_arrow.large.plan import MOST_PARTS, LoadPlan, part_count
from sluice_spark.merge.by_arrow.rewrite import FileWork
from sluice_spark.merge.by_arrow.table_plans import PartDecision, TableRows, history_rows, part_plan, with_files
from sluice_spark.merge.commit import raise_floors
from sluice_spark.merge.context import MergedPart, PartContext
from sluice_spark.merge.driver_limits import are_few
from sluice_spark.merge.prepare import Prepared
from sluice_spark.merge.read import SeenObjects, shared_out
from sluice_spark.merge.rows import LeftToSpark

# Why parts are too large, or too unusual, for the driver's merge of single keys, but not for one of whole slices.
FOR_LARGE_MERGES = frozenset(("size", "changes", "truncate", "floor"))
PARTS_OF_LARGE_ROWS = 8  # times the parts that the bytes of objects ask for, where one is too large in Arrow


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
    facts = raise_floors(part, prepared.facts, decided.truncates)
    committed: CommitResult | None = None
    if decided.rows is None:
        part.services.tables.keep(part.config, facts)
    else:
        committed = commit(part, decided.rows, target=prepared.planned.target, facts=facts)
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


def _decided(part: PartContext, prepared: Prepared) -> PartDecision | None:
    """Decide about a part; None for one that this way isn't asked about. Raises LeftToSpark."""
    if prepared.facts.forgotten:
        return None
    if prepared.facts.empty:
        return _large_merge(part, prepared)
    configs = (part.config, *([part.config.history_table] if part.config.history else []))
    if not part.services.in_driver or any(map(part.services.tables.is_left_to_spark, configs)):
        return None
    read: DecodedObjects | None = None
    if not floors_of(prepared.objects, part.config):
        try:
            with part.stages.timed(READ_STAGE):
                return merge_in_driver(part, prepared)
        except LeftToSpark as left:
            if left.reason not in FOR_LARGE_MERGES:
                raise
            part.event("left_to_tasks", reason=left.reason, detail=left.detail or None)
            read = left.read
    return _large_merge(part, prepared, read)


def _large_merge(part: PartContext, prepared: Prepared, read: DecodedObjects | None = None) -> PartDecision:
    """`read` are the objects where they are decoded already."""
    planned, config, objects, facts = prepared.planned, part.config, prepared.objects, prepared.facts
    plan = with_files(part, facts, part_plan(part, prepared))
    if config.history and (facts.floor or plan.dumps):
        raise LeftToSpark("history")  # truncates end the states of rows
    with part.stages.timed(READ_STAGE):
        load, seen = _read_large_merge(part, objects, plan, read)
        judged = watched(KafkaWatch.from_dict(part.claimed.watch), seen, config)
        if judged.refused or judged.parked:
            raise LeftToSpark("set_aside")
        history = None
        if config.history and load is not None:
            history = history_rows(part, prepared, plan, partial(_large_history, objects=objects, read=read))
    counts = {**NO_CHANGES, **merged_again(objects, seen)}
    if load is None:
        return PartDecision(None, counts, judged, seen)
    if plan.dumps:
        _refuse_doubtful_dumps(part, objects, load)
    keys = load.counts["winning"] + load.counts["losing"]
    counts.update({**load.counts, **judged.outdated(load.suspicions, keys=keys)})
    if history is not None:
        counts[HISTORY_CHANGES] = history.counts["winning"]
    load = replace(load, evolves=evolves(planned.target, config, facts))
    return PartDecision(load if load.rows else None, counts, judged, seen, history, load.truncates)


def _large_history(
    table: TableRows, plan: LoadPlan, *, objects: Sequence[ManifestObject], read: DecodedObjects | None
) -> TableRows:
    """The changes that the history table doesn't hold, by a reading of its own. Raises LeftToSpark."""
    load, _ = _read_large_merge(table.part, objects, plan, read)
    if load is None:
        return table
    rows = replace(load, evolves=evolves(table.target, table.part.config, table.facts)) if load.rows else None
    return replace(table, rows=rows, counts=load.counts)


def _refuse_doubtful_dumps(part: PartContext, objects: Sequence[ManifestObject], load: LargeMerge) -> None:
    """Raise LeftToSpark for dumps that may be refused: Spark's way tells them apart."""
    aside = part.aside.read()
    if aside.objects or aside.rows or aside.parked:
        raise LeftToSpark("set_aside")
    if refusal_of(*load.replaced, part.config) is not None:
        raise LeftToSpark("dump")


def _read_large_merge(
    part: PartContext, objects: Sequence[ManifestObject], plan: LoadPlan, read: DecodedObjects | None
) -> tuple[LargeMerge | None, Sequence[SeenObject]]:
    """Read the objects in the driver where they and the table are few, else in tasks: the merge, and what was seen.

    The merge is None where the driver found no change that can be merged.
    """
    spark, services, parts = part.spark, part.services, part_count(objects, rows=plan.rows or 0)
    work = FileWork(spark, services.objects, services.source, in_tasks=False)
    stored_bytes = sum(file.size for item in plan.slices for file in item.files)
    if services.in_driver and parts == 1 and (read or are_few(objects)) and stored_bytes <= WRITTEN_IN_DRIVER:
        try:
            read = read or decoded_objects(work, [objects], plan.reader)
        except LeftToSpark as left:  # tasks read again
            part.event("left_to_tasks", reason=left.reason, detail=left.detail or None)
        else:
            leave_unmerged(part, read)
            return read_in_driver(spark, read.batches, plan, work=work) if read.batches else None, read.seen
    context = spark.sparkContext
    try:
        pieces, whole = divided_objects(objects, plan.reader, services.objects)
    except Exception as failure:  # of any kind: tasks try their reads again
        part.event("left_to_tasks", level="warning", reason="failed", detail=failure_place(failure))
        pieces, whole = [], list(objects)
    while True:
        shares: list[Share] = [(piece,) for piece in pieces]
        if whole:
            shares += shared_out(whole, context.defaultParallelism)
        seen = SeenObjects(context)
        reader = share_reader(plan.reader, services.source, seen)
        try:
            return read_in_tasks(spark, shares, reader, plan, parts=parts, work=work), seen.take(objects)
        except LeftToSpark as left:
            if left.reason == PIECES:
                part.event("read_whole", objects=len({piece.item.id for piece in pieces}))
                pieces, whole = [], list(objects)
                continue
            # Bytes as stored say little of texts that compress well.
            more = min(MOST_PARTS, PARTS_OF_LARGE_ROWS * part_count(objects, rows=plan.rows or 0))
            if left.reason != "size" or parts >= more:
                raise
            parts = more
            part.event("left_to_tasks", reason="size", detail=f"{parts} parts")
