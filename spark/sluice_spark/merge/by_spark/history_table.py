"""Writes every change of a part into the table's history table, before the state is committed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import HISTORY_STAGE
from sluice.changes import hidden_columns as hidden
from sluice.changes.source_tables import Floors
from sluice.config.table import IGNORE
from sluice_spark.merge.by_spark.columns import quoted, table_columns
from sluice_spark.merge.by_spark.commit import commit
from sluice_spark.merge.by_spark.decide import MergeTarget, decide_rows
from sluice_spark.merge.by_spark.latest import has_no_row, key_columns, same_key
from sluice_spark.merge.by_spark.truncates import Truncate, floor_of
from sluice_spark.merge.by_spark.working_columns import FLOOR, INEXACT, OWN_FLOOR
from sluice_spark.merge.context import PartContext
from sluice_spark.merge.history_table import history_part, history_plan
from sluice_spark.merge.prepare import Prepared, table_facts


def write_history(
    part: PartContext,
    changes: DataFrame,
    *,
    prepared: Prepared,
    objects: Sequence[ManifestObject],
    truncates: Sequence[Truncate],
    few_keys: bool,
) -> tuple[int, str | None]:
    """Commit the changes that the history table doesn't hold: how many these are, and that table's newest commit.

    `changes` are normalized, `truncates` are the batch's newest. Raises what `commit` does.
    """
    own = history_part(part)
    with part.stages.timed(HISTORY_STAGE), ExitStack() as frames:
        facts = table_facts(own)
        planned = history_plan(prepared.planned, facts)
        rows = changes_as_rows(
            changes, target=planned.target, record_key=part.config.record_key, keep=part.config.keep_deleted_values
        )
        if part.config.delete_mode != IGNORE:
            stored = None
            if facts.schema is not None:
                stored = own.hudi.stored(facts, *_columns_of_lives(part, facts.schema.names))
            markers = {hidden.DELETED: F.lit(True), hidden.OP: F.lit(hidden.DELETE), INEXACT: F.lit(0)}
            for ends in _ends(part, changes.where(~has_no_row()), stored, prepared.facts.floor, truncates):
                rows = rows.unionByName(ends.select(*table_columns(rows.schema, ends.columns, markers)))
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
            return 0, None if newest is None else newest.time
        committed = commit(own, decided.rows, planned=planned, objects=objects, facts=facts)
    written = decided.counts["winning"]
    part.event("history_committed", instant=committed.instant, changes=written)
    return written, committed.instant


def changes_as_rows(changes: DataFrame, *, target: StructType, record_key: Sequence[str], keep: bool) -> DataFrame:
    """The changes of rows as rows of a history table.

    A deletion keeps its key alone, unless `keep`. The columns that a change left unchanged are null, and their names
    are in OWED as JSON.
    """
    kept_columns = {*record_key, *hidden.NAMES}
    unchanged, deleted = quoted(hidden.UNCHANGED), quoted(hidden.DELETED)
    names = F.map_from_arrays(unchanged, F.transform(unchanged, lambda _: F.lit("")))
    own = {hidden.OWED: F.when(unchanged.isNotNull() & ~deleted, F.to_json(names))}
    if not keep:
        own.update({name: F.when(~deleted, quoted(name)) for name in changes.columns if name not in kept_columns})
    none = F.lit(None).cast(changes.schema[hidden.UNCHANGED].dataType)
    return changes.where(~has_no_row()).select(
        *table_columns(target, changes.columns, own),
        none.alias(hidden.UNCHANGED),
        F.lit(0).cast(changes.schema[INEXACT].dataType).alias(INEXACT),
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
    keys = [quoted(name) for name in record_key]
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
