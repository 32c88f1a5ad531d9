"""Merges one table's part of a batch: prepare, try the ways in order, report.

`merge_part` is the whole of it. `resolve_part` finds out what an attempt that failed or died has committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Callable

from pyspark.sql import SparkSession

from sluice.batch.dumps import REFUSED, floors_of
from sluice.batch.manifest import Manifest
from sluice.batch.outcome import COMMIT_STAGE, COMMITTED, QUARANTINED, Outcome, Stage
from sluice.batch.part_counts import unexpected_note
from sluice.changes.outdated import OUTDATED, outdated_note
from sluice.config.rules.expectations import REPORT
from sluice.hudi.timeline import instant_ms
from sluice_spark.hudi.recovery import roll_back_unfinished
from sluice_spark.iceberg.keep_up import keep_up_or_log
from sluice_spark.merge.by_arrow import attempt as by_arrow
from sluice_spark.merge.by_spark import attempt as by_spark
from sluice_spark.merge.context import MergedPart, MergeServices, PartContext, part_context
from sluice_spark.merge.history_table import roll_back_history
from sluice_spark.merge.plan import changed_columns
from sluice_spark.merge.prepare import prepare
from sluice_spark.merge.set_aside import SetAside

# In order: the first that covers a part merges it.
WAYS = (by_arrow.attempt, by_spark.attempt)


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
        return _report(part, MergedPart(), set_aside=SetAside(prepared.refused), notes=prepared.notes)
    merged = next(filter(None, (attempt(part, prepared) for attempt in WAYS)))
    columns: tuple[Mapping[str, Any], ...] = ()
    if merged.committed is not None and not prepared.facts.empty:
        columns = changed_columns(prepared.facts.schema, prepared.planned.target)
    return _report(part, merged, set_aside=part.aside.read(), notes=prepared.notes, columns=columns)


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
    services.tables.take(part.config)
    history_instant = roll_back_history(part) if part.config.history else None
    rolled_back = roll_back_unfinished(part.hudi)
    if rolled_back:
        part.event("rolled_back", instants=list(rolled_back))
    commit = part.hudi.commit_of_batch(manifest.batch, since_ms=manifest.created_at)
    if commit is None:
        return None
    part.event("found_committed", instant=commit.instant)
    if part.config.iceberg:
        keep_up_or_log(part.hudi, part.hudi.look(), services, part.check_held)
    if commit.completed_at is not None:
        began, completed = instant_ms(commit.instant), min(commit.completed_at, services.clock.now_ms())
        part.stages.note(Stage(COMMIT_STAGE, began, max(0, completed - began)))
    # Objects refused for their schemas are among those set aside: that was written before the commit.
    set_aside = replace(part.aside, attempt=commit.attempt).read()
    left = {error.object for error in (*set_aside.objects, *set_aside.parked)}
    counts = dict(commit.counts)
    dumps = floors_of((item for item in part.claimed.objects if item.id.hash not in left), part.config)
    if dumps and part.config.snapshot.awaits_next and part.hudi.look().floor.everywhere < max(dumps):
        counts[REFUSED] = 1  # which leaves no error: the floor of any other was raised before the commit
    merged = MergedPart(counts, commit, history_instant=history_instant)
    return _report(part, merged, set_aside=set_aside)


def _report(
    part: PartContext,
    merged: MergedPart,
    *,
    set_aside: SetAside,
    notes: tuple[str, ...] = (),
    columns: tuple[Mapping[str, Any], ...] = (),
) -> Outcome:
    """Log the part and its notes, and make its outcome."""
    counts, committed, watch, unexpected = merged.counts, merged.committed, merged.watch, merged.unexpected
    notes = (*notes, *merged.notes)
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
        "quarantined_rows": sum(row.rows for row in set_aside.rows),
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
        quarantined_rows=tuple(sorted(set_aside.rows, key=lambda row: row.object)),
        notes=notes,
        stages=stages,
        parked=tuple(sorted(set_aside.parked, key=lambda error: error.object)),
        parked_generation=part.config.generation if set_aside.parked else None,
        watch=watch.to_dict() if watch is not None else {},
        columns=columns,
        history_instant=merged.history_instant,
    )
