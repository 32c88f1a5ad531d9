"""Writes every change of a part into the table's history table, before the state is committed.

The key of a history table is the state's key and the position of the change, so a change that comes again is known by
it and dropped: a part that is merged a second time, after a crash between the two commits, writes no change twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import HISTORY_STAGE
from sluice.changes import hidden_columns as hidden
from sluice.changes.source_tables import Floors
from sluice.config.table import IGNORE
from sluice.schema.evolution import rewritten_columns
from sluice_spark.hudi.came_back import rolled_back_lately
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.recovery import recovered_facts, refuse_missing, roll_back_unfinished
from sluice_spark.hudi.table import HudiTable
from sluice_spark.merge.by_spark.commit import commit
from sluice_spark.merge.by_spark.decide import MergeTarget, decide_rows
from sluice_spark.merge.by_spark.latest import has_no_row, key_columns, same_key
from sluice_spark.merge.by_spark.normalize import quoted
from sluice_spark.merge.by_spark.truncates import Truncate, floor_of
from sluice_spark.merge.by_spark.working_columns import FLOOR, INEXACT, OWN_FLOOR
from sluice_spark.merge.context import PartContext, Stages
from sluice_spark.merge.plan import PlannedRead, column_types
from sluice_spark.merge.prepare import Prepared


@dataclass(frozen=True)
class HistoryWritten:
    """How many changes a part added to the history table, and that table's newest commit."""

    changes: int
    instant: str | None


def write_history(
    part: PartContext,
    changes: DataFrame,
    *,
    prepared: Prepared,
    objects: Sequence[ManifestObject],
    truncates: Sequence[Truncate],
    few_keys: bool,
) -> HistoryWritten:
    """Commit the changes that the history table doesn't hold.

    `changes` are normalized, `truncates` are the batch's newest. Raises what `commit` does.
    """
    own = _of_history(part)
    with part.stages.timed(HISTORY_STAGE), ExitStack() as frames:
        facts = _facts(own)
        planned = _planned(prepared.planned, facts)
        rows = changes_as_rows(
            changes, target=planned.target, record_key=part.config.record_key, keep=part.config.keep_deleted_values
        )
        if part.config.delete_mode != IGNORE:
            stored = None
            if facts.schema is not None:
                stored = own.hudi.stored(facts, *_columns_of_lives(part, facts.schema.names))
            for ends in _ends(part, changes.where(~has_no_row()), stored, prepared.facts.floor, truncates):
                rows = rows.unionByName(ends_of_lives(ends, target=rows.schema))
        decided = decide_rows(
            rows,
            target=MergeTarget(
                hudi=own.hudi,
                facts=facts,
                schema=planned.target,
                few_keys=few_keys,
                unordered=False,
                frames=frames,
            ),
        )
        if decided.changes_nothing:
            own.services.tables.keep(own.config, facts)
            newest = facts.timeline.newest
            return HistoryWritten(0, None if newest is None else newest.time)
        committed = commit(own, decided.rows, planned=planned, objects=objects, facts=facts)
    written = decided.counts["winning"]
    part.event("history_committed", instant=committed.instant, changes=written)
    return HistoryWritten(written, committed.instant)


def roll_back_history(part: PartContext) -> str | None:
    """Roll back what is unfinished on the history table. Its commits stay; returns the newest of them."""
    own = _of_history(part)
    own.services.tables.take(own.config)
    if not own.hudi.exists():
        return None
    rolled_back = roll_back_unfinished(own.hudi)
    if rolled_back:
        part.event("history_rolled_back", instants=list(rolled_back))
    return own.hudi.newest_commit()


def changes_as_rows(changes: DataFrame, *, target: StructType, record_key: Sequence[str], keep: bool) -> DataFrame:
    """The changes of rows as rows of a history table.

    A deletion keeps its key alone, unless `keep`. The columns that a change left unchanged are null, and their names
    are in OWED as JSON.
    """
    kept_columns = {*record_key, *hidden.NAMES}
    unchanged, deleted = quoted(hidden.UNCHANGED), quoted(hidden.DELETED)
    chosen = []
    for field in target.fields:
        value = quoted(field.name) if field.name in changes.columns else F.lit(None).cast(field.dataType)
        if field.name == hidden.OWED:
            names = F.map_from_arrays(unchanged, F.transform(unchanged, lambda _: F.lit("")))
            value = F.when(unchanged.isNotNull() & ~deleted, F.to_json(names))
        elif field.name not in kept_columns and not keep:
            value = F.when(~deleted, value)
        chosen.append(value.cast(field.dataType).alias(field.name))
    none = F.lit(None).cast(changes.schema[hidden.UNCHANGED].dataType)
    return changes.where(~has_no_row()).select(
        *chosen, none.alias(hidden.UNCHANGED), F.lit(0).cast(changes.schema[INEXACT].dataType).alias(INEXACT)
    )


def _columns_of_lives(part: PartContext, present: Collection[str]) -> list[str]:
    """The columns that say which changes a truncate concerns: of those that are `present`."""
    wanted = (*part.config.record_key, hidden.POSITION, hidden.DELETED, hidden.SOURCE)
    return [name for name in dict.fromkeys(wanted) if name in present]


def _ends(
    part: PartContext,
    changes: DataFrame,
    stored: DataFrame | None,
    floors: Floors,
    truncates: Sequence[Truncate],
) -> Iterator[DataFrame]:
    """The rows whose lives truncates end: those of the batch's changes that came late for the table's `floors`, and all
    that the batch's `truncates` concern.

    The columns are those of `lives_ended`.
    """
    late = changes.select(*_columns_of_lives(part, changes.columns))
    every = late if stored is None else late.unionByName(stored, allowMissingColumns=True)
    own = Floors(topic=floors.topic).raised((truncate.source, truncate.position) for truncate in truncates)
    times = {truncate.position: truncate.source_ts_ms for truncate in truncates}
    if floors and late.where(quoted(hidden.POSITION) < floor_of(floors, late.columns)).head(1):
        yield lives_ended(late, every, floors, times, record_key=part.config.record_key)
    if own:
        yield lives_ended(every, every, own, times, record_key=part.config.record_key)


def lives_ended(
    rows: DataFrame, every: DataFrame, floors: Floors, times: Mapping[str, int | None], *, record_key: Sequence[str]
) -> DataFrame:
    """The key of each of the `rows` that a truncate ends, with the truncate's position and time (epoch ms).

    A life ends unless another change of the key came between: `every` has all changes. `times` are those of truncates,
    by position.
    """
    position, floor = quoted(hidden.POSITION), F.col(FLOOR)
    keys = ["`" + name.replace("`", "``") + "`" for name in record_key]
    ended = rows.withColumn(FLOOR, floor_of(floors, rows.columns)).where(position < floor)
    ended = ended.select(*key_columns(record_key), FLOOR).distinct()
    source = [name for name in (hidden.SOURCE,) if name in every.columns]
    others = every.withColumn(OWN_FLOOR, floor_of(floors, every.columns))
    before = others.join(ended, same_key(others, ended, record_key=record_key)).where(position < floor)
    newest = before.groupBy(*keys, FLOOR).agg(
        F.max_by(F.col(OWN_FLOOR), position).alias(OWN_FLOOR),
        F.max_by(quoted(hidden.DELETED), position).alias(hidden.DELETED),
        *[F.max_by(quoted(name), position).alias(name) for name in source],
    )
    at = [F.lit(value) for place, ms in times.items() if ms is not None for value in (place, ms)]
    return newest.where((F.col(OWN_FLOOR) == floor) & ~quoted(hidden.DELETED)).select(
        *keys,
        floor.alias(hidden.POSITION),
        (F.create_map(*at)[floor] if at else F.lit(None)).cast("long").alias(hidden.SOURCE_TS_MS),
        *source,
    )


def ends_of_lives(ended: DataFrame, *, target: StructType) -> DataFrame:
    """Rows of a history table that say that truncates ended lives; `ended` is of `lives_ended`."""
    markers = {hidden.DELETED: F.lit(True), hidden.OP: F.lit(hidden.DELETE), INEXACT: F.lit(0)}
    held = set(ended.columns)
    return ended.select(
        *[
            (quoted(field.name) if field.name in held else markers.get(field.name, F.lit(None)))
            .cast(field.dataType)
            .alias(field.name)
            for field in target.fields
        ]
    )


def _of_history(part: PartContext) -> PartContext:
    """The same part of the batch for the history table. Its stages are one stage of the part."""
    config = part.config.history_table
    hudi = HudiTable(part.spark, part.services.table_path(config.database, config.name), config)
    return replace(part, config=config, hudi=hudi, stages=Stages(part.services.clock))


def _facts(own: PartContext) -> TableFacts:
    clock = own.services.clock
    facts = own.services.tables.take(own.config)
    if facts is None or rolled_back_lately(facts, clock.now_ms()):
        last_instant = own.claimed.history_instant
        refuse_missing(own.hudi, last_instant)
        if own.hudi.ensure_created():
            own.event("table_created")
        own.check_held()
        facts = recovered_facts(own.hudi, own.services.log, last_instant)
    return own.hudi.date_anew(facts, now_ms=clock.now_ms, wait=clock.wait)


def _planned(state: PlannedRead, facts: TableFacts) -> PlannedRead:
    """The plan of the state with the history table's own columns, and what it widens there."""
    held, wanted = column_types(facts.schema), column_types(state.target)
    gone = [field for field in (facts.schema.fields if facts.schema is not None else ()) if field.name not in wanted]
    target = StructType([*state.target.fields, *gone])
    types = column_types(target)
    widened = tuple(name for name, kind in held.items() if types[name] != kind)
    return PlannedRead(state.plan, target, {}, {}, widened, rewritten_columns(held, types))
