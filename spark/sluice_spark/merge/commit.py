"""Commits a part's rows: raises the floor for a truncate, writes, and does the housekeeping that is due."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Callable

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import COMMIT_STAGE, HOUSEKEEPING_STAGE
from sluice.changes import hidden_columns as hidden
from sluice.config.table import MOR
from sluice.errors import TableWentBack
from sluice.hudi import options as hudi_options
from sluice.hudi import write_choices
from sluice_spark.errors import CleaningUnfinished, CommitNotNewest, LaneLost
from sluice_spark.hudi.base_files import NewFiles, commit_base_files
from sluice_spark.hudi.came_back import strangers, undo_what_came_back
from sluice_spark.hudi.facts import BaseFile, CommitResult, TableFacts
from sluice_spark.hudi.few_rows import FewRows, write_few
from sluice_spark.hudi.housekeeping import keep_house
from sluice_spark.hudi.own_write import give_way, refuse_other_writers
from sluice_spark.log import describe
from sluice_spark.merge.by_arrow.first_load import FirstLoad
from sluice_spark.merge.by_arrow.rewrite import Rewrite
from sluice_spark.merge.by_spark.latest import key_columns, key_names
from sluice_spark.merge.by_spark.normalize import quoted
from sluice_spark.merge.by_spark.truncates import Truncate
from sluice_spark.merge.context import PartContext
from sluice_spark.merge.plan import PlannedRead, column_types
from sluice_spark.merge.schemas import remember_columns


def raise_floors(part: PartContext, facts: TableFacts, truncates: Sequence[Truncate]) -> TableFacts:
    """Raise the table's floors to the batch's newest truncates; the facts with the floors that hold now.

    Comes before the commit: even if this attempt fails, the batch is merged in the end, so changes older than the
    truncates have lost already.
    """
    found = [(each.source, each.position) for each in truncates]
    if facts.floor.raised(found) == facts.floor:
        return facts
    part.check_held()
    floors = part.hudi.raise_floors(found)
    part.event("floor_raised", positions={source or "": position for source, position in found})
    return replace(facts, floor=floors)


def commit(
    part: PartContext,
    rows: DataFrame,
    *,
    planned: PlannedRead,
    objects: Sequence[ManifestObject],
    facts: TableFacts,
) -> CommitResult:
    """Write the rows as one Hudi commit, then do the housekeeping that is due.

    Raises LaneLost before anything is written. Any other exception leaves open whether the commit is on the timeline.
    """
    with part.stages.timed(COMMIT_STAGE), ExitStack() as frames:
        result = _written(part, rows, planned=planned, objects=objects, facts=facts, frames=frames)
    return _followed(part, result)


def commit_first_load(part: PartContext, load: FirstLoad, *, target: StructType, facts: TableFacts) -> CommitResult:
    """Write a first load as one Hudi commit; `target` has the table's columns. As `commit` otherwise."""
    schema = with_lineage_schema(target, words=part.config.lineage)
    return _committed(part, facts, lambda: _with_files(part, load.write, schema=schema, facts=facts))


def commit_small(part: PartContext, rows: FewRows | Rewrite, *, target: StructType, facts: TableFacts) -> CommitResult:
    """Write a small part's rows as one Hudi commit. After a failure this run merges the table by Spark."""
    part.check_held()

    def write() -> CommitResult:
        try:
            if isinstance(rows, FewRows):
                kinds = column_types(target)
                return write_few(part.hudi, rows, kinds=kinds, facts=facts, check_held=part.check_held, **part.origin)
            return _with_files(part, rows.write, schema=None, facts=facts)
        except Exception:
            part.services.known.leave_to_spark(part.config)
            raise

    return _committed(part, facts, write)


def _with_files(
    part: PartContext,
    write: Callable[[NewFiles], Sequence[BaseFile]],
    *,
    schema: StructType | None,
    facts: TableFacts,
) -> CommitResult:
    """Commit the files that `write` makes."""
    return commit_base_files(part.hudi, write, schema=schema, facts=facts, check_held=part.check_held, **part.origin)


def _committed(part: PartContext, facts: TableFacts, write: Callable[[], CommitResult]) -> CommitResult:
    with part.stages.timed(COMMIT_STAGE):
        _begin(part, facts)
        result = _alone(part, facts, write)
    return _followed(part, result)


def _alone(part: PartContext, facts: TableFacts, write: Callable[[], CommitResult]) -> CommitResult:
    """The commit that `write` makes, compared with what others committed; undone for a driver that lost its lane."""
    try:
        return looked_at_again(part, write(), facts)
    except (CommitNotNewest, LaneLost):
        if not part.still_held():
            undone = give_way(part.hudi, facts, part.attempt)
            part.event("gave_way", level="warning", instant=undone)
            part.check_held()
        raise


def _followed(part: PartContext, result: CommitResult) -> CommitResult:
    """The commit, after its columns are recorded and the housekeeping that is due is done."""
    if result.facts is not None:
        remember_columns(part.services.history, part.config, result.facts.schema)
        _keep_house(part, result.facts)
    return result


def _begin(part: PartContext, facts: TableFacts) -> None:
    """Wait until the commit's instant will be the newest, and look at the lane for the last time before it."""
    clock = part.services.clock
    part.hudi.wait_until_past_newest(facts.newest, now_ms=clock.now_ms, wait=clock.wait)
    part.check_held()


def _written(
    part: PartContext,
    rows: DataFrame,
    *,
    planned: PlannedRead,
    objects: Sequence[ManifestObject],
    facts: TableFacts,
    frames: ExitStack,
) -> CommitResult:
    part.check_held()
    hudi, config = part.hudi, part.config
    operation = hudi_options.BULK_INSERT if facts.empty else hudi_options.UPSERT
    size_bytes = sum(item.size for item in objects)
    rows = with_lineage(rows, words=config.lineage, batch=part.manifest.batch)
    if planned.rewritten:
        operation, size_bytes = hudi_options.REWRITE, hudi.size_bytes(facts)
        stored = hudi.stored(facts, *(facts.schema.names if facts.schema is not None else ()))
        rows = whole_table(stored, rows, target=planned.target, record_key=config.record_key)
        rows = _computed(rows, frames)
        part.event("table_rewritten", columns=list(planned.rewritten), bytes=size_bytes)
    elif planned.widened and config.table_type == MOR:
        # Older log blocks have the narrower type (`compact-before-wider-types`).
        compacted = hudi.compact_all()
        part.event("compacted_before_wider_types", columns=list(planned.widened), instant=compacted)
        facts = hudi.look()
    if planned.widened:
        part.check_held()
        hudi.note_widened(planned.widened, facts)
    _begin(part, facts)
    begun_from = facts

    def write() -> CommitResult:
        return hudi.write(
            rows,
            operation=operation,
            facts=begun_from,
            size_bytes=size_bytes,
            before_commit=lambda: refuse_other_writers(hudi, begun_from, part.check_held),
            **part.origin,
        )

    return _alone(part, facts, write)


def looked_at_again(part: PartContext, result: CommitResult, before: TableFacts) -> CommitResult:
    """Compare the timeline with the one before the write: only this commit may be new, and none may be gone.

    Raises TableWentBack, and InstantCameBack where another writer's commit repeats rows and can't be undone.
    """
    after = result.facts
    if after is None:
        return result
    gone = [item.time for item in before.timeline.commits if not after.timeline.holds(item.time)]
    if gone:
        raise TableWentBack(
            f"{part.config.table} has lost commit {gone[-1]} during a write", table=part.config.table, instant=gone[-1]
        )
    others = strangers(before, after, result.instant, merge_on_read=part.config.table_type == MOR)
    if not others:
        return result
    part.check_held()
    return replace(result, facts=undo_what_came_back(part.hudi, others, after, part.services.log))


def _computed(rows: DataFrame, frames: ExitStack) -> DataFrame:
    """The rows, computed now and kept until `frames` is closed.

    Adaptive execution runs the shuffles of a plan when Hudi asks for its RDD, before Hudi begins the commit's instant:
    between the last look at the lane and that instant no job may run. Other rows come from frames that are computed.
    """
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    frames.callback(kept.unpersist)
    kept.count()
    return kept


def _keep_house(part: PartContext, committed: TableFacts) -> None:
    """Do the housekeeping that is due, and keep the table's facts for the next batch.

    The rows are committed, so a failure is logged and does not fail the part: the work is due again with a later
    commit, and the table's facts are forgotten.
    """
    known = part.services.known
    if not write_choices.housekeeping_due(part.config, committed.commits):
        known.keep(part.config, committed)
        return
    part.check_held()
    try:
        with part.stages.timed(HOUSEKEEPING_STAGE):
            done = keep_house(part.hudi, now_ms=part.services.clock.now_ms(), known=known, check_held=part.check_held)
            known.keep(part.config, part.hudi.look())
    # Java's exceptions come as Py4J's or under Spark's own names.
    except (Py4JJavaError, PySparkException, CleaningUnfinished) as failure:
        part.event("housekeeping_failed", level="error", error=describe(failure))
        return
    if done.late_files:
        part.event("late_files_removed", level="warning", files=list(done.late_files))
    part.event("housekept", cleaning=done.cleaning, files=done.files, archived=done.archived, compacted=done.compacted)


def with_lineage(rows: DataFrame, *, words: Collection[str], batch: str) -> DataFrame:
    """The rows as `batch` writes them: with the lineage that `words` name (of `hidden_columns.LINEAGE`), the rest null.

    Not done earlier, since merging needs some of these columns whether or not they are stored.
    """
    off = {column for word, column in hidden.LINEAGE.items() if word not in words}
    chosen = []
    for field in rows.schema.fields:
        value = F.lit(None) if field.name in off else F.lit(batch) if field.name == hidden.BATCH else quoted(field.name)
        chosen.append(value.cast(field.dataType).alias(field.name))
    return rows.select(*chosen)


def with_lineage_schema(target: StructType, *, words: Collection[str]) -> StructType:
    """The schema of `with_lineage` of rows of the schema `target`: only a batch id that is written is never null."""
    written = hidden.BATCH if "batch" in words else None
    fields = [StructField(field.name, field.dataType, field.name != written) for field in target.fields]
    return StructType(fields)


def whole_table(stored: DataFrame, rows: DataFrame, *, target: StructType, record_key: Sequence[str]) -> DataFrame:
    """The table after a commit of `rows`: these, and the stored rows with other keys, with the types of `target`."""
    keys = rows.select(*key_columns(record_key))
    same = [quoted(name).eqNullSafe(keys[alias]) for name, alias in zip(record_key, key_names(record_key))]
    held = set(stored.columns)
    kept = stored.join(keys, same, "left_anti").select(
        *[
            (quoted(field.name) if field.name in held else F.lit(None)).cast(field.dataType).alias(field.name)
            for field in target.fields
        ]
    )
    return kept.unionByName(rows)
