"""Merges one table's part of a batch: prepare, read, decide, commit, report.

`merge_part` is the whole of it. `resolve_part` finds out what an attempt that failed or died has committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Callable

from pyspark.sql import DataFrame, SparkSession

from sluice.batch.kafka_watch import KafkaWatch, Watched, watched
from sluice.batch.manifest import Manifest, ManifestObject
from sluice.batch.merged_again import merged_again
from sluice.batch.outcome import (
    COMMIT_STAGE,
    COMMITTED,
    HISTORY_CHANGES,
    QUARANTINED,
    READ_STAGE,
    ObjectError,
    Outcome,
    Stage,
)
from sluice.batch.unexpected import unexpected_in, unexpected_note
from sluice.changes.log_restart import LOG_RESTARTED, SeenObject
from sluice.changes.outdated import OUTDATED, outdated_note
from sluice.config.rules.expectations import REPORT
from sluice.hudi.timeline import instant_ms
from sluice_spark.errors import KeyNotUnique
from sluice_spark.hudi.facts import CommitResult
from sluice_spark.hudi.recovery import roll_back_unfinished
from sluice_spark.log import failure_place
from sluice_spark.merge.by_arrow.covers import are_few
from sluice_spark.merge.by_arrow.decide import NO_CHANGES
from sluice_spark.merge.by_arrow.driver_merge import merge_in_driver
from sluice_spark.merge.by_arrow.driver_read import DecodedObjects, decoded_objects
from sluice_spark.merge.by_arrow.first_load import (
    FirstLoad,
    LoadPlan,
    check_first_load,
    load_in_driver,
    part_count,
    read_first_load,
)
from sluice_spark.merge.by_arrow.rewrite import FileWork
from sluice_spark.merge.by_arrow.rows import LeftToSpark
from sluice_spark.merge.by_spark import shared_keys
from sluice_spark.merge.by_spark.below_floor import leave_below_floor
from sluice_spark.merge.by_spark.decide import DecidedRows, MergeTarget, decide_rows
from sluice_spark.merge.by_spark.history_table import roll_back_history, write_history
from sluice_spark.merge.by_spark.latest import is_forgotten
from sluice_spark.merge.by_spark.normalize import normalized
from sluice_spark.merge.commit import commit, commit_first_load, commit_small, raise_floors
from sluice_spark.merge.context import MergeServices, PartContext, part_context
from sluice_spark.merge.plan import changed_columns, column_types
from sluice_spark.merge.prepare import Prepared, prepare
from sluice_spark.merge.read import SeenObjects, read_changes, share_reader, shared_out
from sluice_spark.merge.set_aside import (
    SetAside,
    leave_error,
    leave_parked,
    leave_unmerged,
    read_set_aside,
)

# A batch whose objects are smaller than this has keys that are broadcast to every task of the stored table's scan.
BROADCAST_BYTES = 32 * 1024**2

SOURCE_UNKNOWN = (
    "{rows:,} rows of before their source table was recorded stayed at a truncate of batch {batch}, which may be about "
    "them: `{command}` decides"
)


def merge_part(
    spark: SparkSession,
    *,
    manifest: Manifest,
    table: str,
    services: MergeServices,
    still_held: Callable[[], bool],
    before: Sequence[Stage] = (),
) -> Outcome:
    """Read, merge and commit one table's part. `before` is where the part's time went until now.

    Raises LaneLost where `still_held` says no immediately before a write. An object that can't be merged is in the
    outcome with its reason, and the rest is committed. Any other exception leaves open whether the commit is on the
    timeline: call `resolve_part` before anything else (`resolve-before-write`).
    """
    part = part_context(spark, manifest=manifest, table=table, services=services, still_held=still_held, before=before)
    prepared = prepare(part)
    if not prepared.objects:
        return _report(part, set_aside=SetAside(prepared.refused), notes=prepared.notes)
    merged = None
    if not prepared.facts.forgotten:
        merged = _first_load(part, prepared) if prepared.facts.empty else _small_merge(part, prepared)
    if merged is not None:
        return merged
    with ExitStack() as frames:
        decided = _read_and_decide(part, prepared, frames)
        rows, notes = decided.rows, (*prepared.notes, *_notes(part, decided))
        if rows is None:
            return _report(part, set_aside=decided.set_aside, notes=notes, watch=decided.judged.watch)
        lost = decided.judged.outdated(rows.suspicions, keys=rows.keys)
        counts = {**rows.counts, **lost, "bytes_read": sum(item.size for item in decided.objects)}
        history = None
        if decided.changes is not None:
            history = write_history(
                part,
                decided.changes,
                prepared=prepared,
                objects=decided.objects,
                truncates=rows.truncates,
                few_keys=_are_few(decided.objects),
            )
            counts[HISTORY_CHANGES] = history.changes
        facts = raise_floors(part, prepared.facts, rows.truncates)
        committed: CommitResult | None = None
        if rows.changes_nothing:
            services.known.keep(part.config, facts)
        else:
            committed = commit(part, rows.rows, planned=prepared.planned, objects=decided.objects, facts=facts)
            counts.update(committed.counts)
    return _report(
        part,
        set_aside=decided.set_aside,
        notes=notes,
        watch=decided.judged.watch,
        counts=counts,
        committed=committed,
        unexpected=decided.unexpected,
        history_instant=None if history is None else history.instant,
        columns=()
        if committed is None or prepared.facts.empty
        else changed_columns(prepared.facts.schema, prepared.planned.target),
    )


def resolve_part(
    spark: SparkSession, *, manifest: Manifest, table: str, services: MergeServices, still_held: Callable[[], bool]
) -> Outcome | None:
    """Roll back what is unfinished, then look for the batch on the table's timeline (`resolve-before-write`).

    Returns the outcome where it was committed, else None: the part has to be merged again. Raises LaneLost before
    anything is rolled back where `still_held` says no.
    """
    part = part_context(spark, manifest=manifest, table=table, services=services, still_held=still_held)
    if not part.hudi.exists():
        return None
    part.check_held()
    services.known.take(part.config)
    history_instant = roll_back_history(part) if part.config.history else None
    rolled_back = roll_back_unfinished(part.hudi)
    if rolled_back:
        part.event("rolled_back", instants=list(rolled_back))
    found = part.hudi.commit_of_batch(manifest.batch, since_ms=manifest.created_at)
    if found is None:
        return None
    part.event("found_committed", instant=found.instant)
    if found.completed_at is not None:
        began, completed = instant_ms(found.instant), min(found.completed_at, services.clock.now_ms())
        part.stages.note(Stage(COMMIT_STAGE, began, max(0, completed - began)))
    # Objects refused for their schemas are among those set aside: that was written before the commit.
    return _report(
        part,
        set_aside=_set_aside_by(part, found.attempt),
        counts=found.counts,
        committed=found,
        history_instant=history_instant,
    )


def _first_load(part: PartContext, prepared: Prepared) -> Outcome | None:
    """Load an empty table by Arrow; None, before anything is written, for what is left to Spark."""
    planned, config, services, objects = prepared.planned, part.config, part.services, prepared.objects
    plan = LoadPlan(
        planned.plan,
        column_types(planned.target),
        part.hudi.path,
        services.source,
        config.keep_deleted_values,
        config.lineage,
        prepared.source_clock,
    )
    try:
        check_first_load(config, prepared.facts, plan)
        with part.stages.timed(READ_STAGE):
            load, taken = _read_first_load(part, objects, plan)
            judged = watched(KafkaWatch.from_dict(part.claimed.watch), taken, config)
            if judged.refused or judged.parked:
                raise LeftToSpark("set_aside")
    except LeftToSpark as left:
        part.event("left_to_spark", reason=left.reason, detail=left.detail or None)
        return None
    except Exception as failure:  # of any kind: nothing is written yet, and Spark's way meets the same, or serves
        part.event("left_to_spark", level="warning", reason="failed", detail=failure_place(failure))
        return None
    counts = {**NO_CHANGES, **merged_again(objects, taken), "bytes_read": sum(item.size for item in objects)}
    committed: CommitResult | None = None
    if load is None:
        services.known.keep(config, prepared.facts)
    else:
        committed = commit_first_load(part, load, target=planned.target, facts=prepared.facts)
        lost = judged.outdated(load.suspicions, keys=load.counts["winning"])
        counts.update({**load.counts, **lost, **committed.counts})
    return _report(
        part,
        set_aside=_set_aside(part),
        notes=prepared.notes,
        watch=judged.watch,
        counts=counts,
        committed=committed,
        unexpected=unexpected_in(taken),
    )


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


def _small_merge(part: PartContext, prepared: Prepared) -> Outcome | None:
    """Merge some changes by Arrow; None, before anything is written, for what is left to Spark."""
    services, objects = part.services, prepared.objects
    if not services.in_driver or services.known.is_left_to_spark(part.config):
        return None
    try:
        with part.stages.timed(READ_STAGE):
            merged = merge_in_driver(
                part.hudi,
                prepared.facts,
                objects=services.objects,
                source=services.source,
                shares=shared_out(objects, part.spark.sparkContext.defaultParallelism),
                plan=prepared.planned.plan,
                before=column_types(prepared.facts.schema),
                target=column_types(prepared.planned.target),
                watch=KafkaWatch.from_dict(part.claimed.watch),
                source_clock=prepared.source_clock,
            )
            _leave_unmerged(part, merged.read)
    except LeftToSpark as left:
        part.event("left_to_spark", reason=left.reason, detail=left.detail or None)
        return None
    except Exception as failure:  # of any kind: no row is written yet, and tasks try their reads again
        services.known.leave_to_spark(part.config)
        part.event("left_to_spark", level="warning", reason="failed", detail=failure_place(failure))
        return None
    counts = {**merged.counts, "bytes_read": sum(item.size for item in objects)}
    committed: CommitResult | None = None
    if merged.rows is None:
        services.known.keep(part.config, prepared.facts)
    else:
        committed = commit_small(part, merged.rows, target=prepared.planned.target, facts=prepared.facts)
        counts.update(committed.counts)
    return _report(
        part,
        set_aside=_set_aside(part),
        notes=prepared.notes,
        watch=merged.judged.watch,
        counts=counts,
        committed=committed,
        unexpected=unexpected_in(merged.read.seen),
    )


@dataclass(frozen=True)
class _Decided:
    """What the read of a part came to. `rows` is None where no object was left to merge.

    `changes` has every change of the objects, for the history table; None where there is none.
    """

    objects: tuple[ManifestObject, ...]
    rows: DecidedRows | None
    set_aside: SetAside
    judged: Watched
    changes: DataFrame | None = None
    unexpected: Mapping[str, int] = field(default_factory=dict)


def _read_and_decide(part: PartContext, prepared: Prepared, frames: ExitStack) -> _Decided:
    """Read the objects and decide about their changes; refused and parked objects are left out.

    Which objects to leave out is known only once all were read. They are read again without those: the first reading
    keeps only each key's newest change, which may be one to leave out. Caching all changes instead would cost every
    batch memory and time for a case that stops objects until an operator acts.
    """
    objects = prepared.objects
    judged: Watched | None = None
    while True:
        with part.stages.timed(READ_STAGE):
            rows, seen, changes = _decided_rows(part, prepared, objects, frames)
            if judged is None:  # once: without the objects that are left out the watch would lose what it saw of them
                judged = watched(KafkaWatch.from_dict(part.claimed.watch), seen, part.config)
                _leave_reasons(part, judged)
            left_out = {*judged.refused, *judged.parked}
            kept = tuple(item for item in objects if item.id.hash not in left_out)
            if len(kept) == len(objects):
                unusable = shared_keys.refusal(rows.counts, part.config.record_key) if prepared.facts.empty else None
                if unusable is not None:
                    _leave_refused(part, objects, unusable)
                    return _Decided((), None, _set_aside(part), judged)
                _leave_below_floor(part, rows, prepared, objects)
                return _Decided(objects, rows, _set_aside(part), judged, changes, unexpected_in(seen))
            if not kept:
                return _Decided((), None, _set_aside(part), judged)
        frames.close()
        objects = kept


def _decided_rows(
    part: PartContext, prepared: Prepared, objects: Sequence[ManifestObject], frames: ExitStack
) -> tuple[DecidedRows, Sequence[SeenObject], DataFrame | None]:
    """One reading of the objects: the rows decided from it, what the tasks saw of each object's place, the changes."""
    planned = prepared.planned
    seen = SeenObjects(part.spark.sparkContext)
    raw = read_changes(part.spark, objects=objects, plan=planned.plan, source=part.services.source, seen=seen)
    target = MergeTarget(
        hudi=part.hudi,
        facts=prepared.facts,
        schema=planned.target,
        few_keys=_are_few(objects),
        unordered=prepared.unordered,
        frames=frames,
        source_clock=prepared.source_clock,
    )
    changes = normalized(raw, plan=planned.plan, target=planned.target)
    noted = prepared.facts.forgotten
    if part.config.history or noted:
        changes = target.cached(changes)  # used twice
    dropped = 0
    if noted:
        forgotten = is_forgotten(noted, table=part.config.table, record_key=part.config.record_key)
        dropped = changes.where(forgotten).count()
        changes = changes.where(~forgotten)
    rows = decide_rows(changes, target=target)
    if dropped:
        rows = replace(rows, counts={**rows.counts, "read": rows.counts["read"] + dropped, "forgotten": dropped})
    taken = seen.take(objects)
    rows = replace(rows, counts={**rows.counts, **merged_again(objects, taken)})
    return rows, taken, changes if part.config.history else None


def _are_few(objects: Sequence[ManifestObject]) -> bool:
    return sum(item.size for item in objects) < BROADCAST_BYTES


def _leave_reasons(part: PartContext, judged: Watched) -> None:
    """Put in S3, before anything is committed, why objects are refused or parked."""
    objects, silver_bucket = part.services.objects, part.services.silver_bucket
    for named, refusal in judged.refused.items():
        leave_error(objects, silver_bucket, error=ObjectError(named, refusal.code, str(refusal)), **part.aside)
    for named, reason in judged.parked.items():
        leave_parked(objects, silver_bucket, error=ObjectError(named, LOG_RESTARTED, reason), **part.aside)


def _leave_unmerged(part: PartContext, read: DecodedObjects) -> None:
    """Put what the driver itself has read and can't merge in S3, before anything is committed."""
    leave_unmerged(part.services.objects, part.services.silver_bucket, read=read, **part.aside)


def _leave_refused(part: PartContext, objects: Sequence[ManifestObject], refusal: KeyNotUnique) -> None:
    """Put one reason for all objects in S3: nothing is committed, so that the table's key can still change."""
    for item in objects:
        error = ObjectError(item.id.hash, refusal.code, str(refusal))
        leave_error(part.services.objects, part.services.silver_bucket, error=error, **part.aside)


def _leave_below_floor(
    part: PartContext, rows: DecidedRows, prepared: Prepared, objects: Sequence[ManifestObject]
) -> None:
    if rows.below_purge_floor is not None:
        leave_below_floor(
            rows.below_purge_floor,
            objects=objects,
            columns=prepared.planned.target.names,
            limit=part.config.limits.quarantined_rows,
            source=part.services.source,
            **part.aside,
        )


def _set_aside(part: PartContext) -> SetAside:
    return read_set_aside(part.services.objects, part.services.silver_bucket, **part.aside)


def _set_aside_by(part: PartContext, attempt: str | None) -> SetAside:
    """What the merge set aside that another attempt has committed."""
    return read_set_aside(part.services.objects, part.services.silver_bucket, **part.place, attempt=attempt)


def _notes(part: PartContext, decided: _Decided) -> tuple[str, ...]:
    notes = []
    parked = decided.judged.parked
    if parked:
        notes.append(f"{len(parked)} objects of batch {part.manifest.batch} are parked: {parked[min(parked)]}")
    counts = decided.rows.counts if decided.rows is not None else {}
    if counts.get("source_unknown"):
        count, rebuild = counts["source_unknown"], f"sluice rebuild table {part.config.table}"
        notes.append(SOURCE_UNKNOWN.format(rows=count, batch=part.manifest.batch, command=rebuild))
    shared = shared_keys.note(counts, part.config.record_key, part.manifest.batch)
    if shared is not None:
        notes.append(shared)
    anew = shared_keys.note_of_taken_anew(counts, part.manifest.batch)
    if anew is not None:
        notes.append(anew)
    return tuple(notes)


def _report(
    part: PartContext,
    *,
    set_aside: SetAside,
    notes: tuple[str, ...] = (),
    counts: Mapping[str, int] = MappingProxyType({}),
    committed: CommitResult | None = None,
    watch: KafkaWatch | None = None,
    columns: tuple[Mapping[str, Any], ...] = (),
    unexpected: Mapping[str, int] = MappingProxyType({}),
    history_instant: str | None = None,
) -> Outcome:
    """Log the part and its notes, and make its outcome."""
    stages = part.stages.ended()
    if unexpected:
        counts = {**counts, "unexpected": sum(unexpected.values())}
        if part.config.expect.failures == REPORT:
            notes = (*notes, unexpected_note(unexpected, part.manifest.batch))
    lost = counts.get(OUTDATED, 0)
    if lost:
        notes = (*notes, outdated_note(part.config.table, lost))
    if watch is not None:
        watch = watch.with_lost(lost, generation=part.config.generation)
    part.event("merged", seconds={stage.name: stage.ms / 1000 for stage in stages}, **counts)
    for note in notes:
        part.event("noted", level="warning", note=note)
    objects, errors = part.claimed.objects, set_aside.objects
    nothing_left = committed is None and bool(errors) and len(errors) == len(objects)
    own_counts = {
        "objects": len(objects),
        "quarantined_objects": len(errors),
        "quarantined_rows": sum(found.rows for found in set_aside.rows),
        **({"parked_objects": len(set_aside.parked)} if set_aside.parked else {}),
    }
    return Outcome(
        batch=part.manifest.batch,
        table=part.config.table,
        state=QUARANTINED if nothing_left else COMMITTED,
        committed_at=part.services.clock.now_ms(),
        instant=None if committed is None else committed.instant,
        no_change=committed is None and not nothing_left,
        counts={**own_counts, **counts},
        quarantined=tuple(sorted(errors, key=lambda error: error.object)),
        reason="every object of this part was quarantined" if nothing_left else None,
        quarantined_rows=tuple(sorted(set_aside.rows, key=lambda found: found.object)),
        notes=notes,
        stages=stages,
        parked=tuple(sorted(set_aside.parked, key=lambda error: error.object)),
        parked_generation=part.config.generation if set_aside.parked else None,
        watch=watch.to_dict() if watch is not None else {},
        columns=columns,
        history_instant=history_instant,
    )
