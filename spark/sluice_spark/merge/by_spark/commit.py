"""Commits the rows of a DataFrame by Hudi's data source."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import COMMIT_STAGE
from sluice.changes import hidden_columns as hidden
from sluice.config.table import MOR
from sluice.hudi import options as hudi_options
from sluice_spark.hudi.facts import CommitResult, TableFacts
from sluice_spark.hudi.own_write import refuse_other_writers
from sluice_spark.merge.by_spark.columns import quoted, table_columns
from sluice_spark.merge.by_spark.latest import key_columns, key_names
from sluice_spark.merge.commit import follow_up, wait_for_turn, write_alone
from sluice_spark.merge.context import PartContext
from sluice_spark.merge.plan import PlannedRead


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
        wait_for_turn(part, facts)
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

        result = write_alone(part, facts, write)
    return follow_up(part, result)


def _computed(rows: DataFrame, frames: ExitStack) -> DataFrame:
    """The rows, computed now and kept until `frames` is closed.

    Adaptive execution runs the shuffles of a plan when Hudi asks for its RDD, before Hudi begins the commit's instant:
    between the last look at the lane and that instant no job may run. Other rows come from frames that are computed.
    """
    persisted = rows.persist(StorageLevel.MEMORY_AND_DISK)
    frames.callback(persisted.unpersist)
    persisted.count()
    return persisted


def with_lineage(rows: DataFrame, *, words: Collection[str], batch: str) -> DataFrame:
    """The rows as `batch` writes them: with the lineage that `words` name (of `hidden_columns.LINEAGE`), the rest null.

    Not done earlier, since merging needs some of these columns whether or not they are stored.
    """
    off = {column for word, column in hidden.LINEAGE.items() if word not in words}
    own = {hidden.BATCH: F.lit(batch), **{name: F.lit(None) for name in off}}
    return rows.select(*table_columns(rows.schema, rows.columns, own))


def whole_table(stored: DataFrame, rows: DataFrame, *, target: StructType, record_key: Sequence[str]) -> DataFrame:
    """The table after a commit of `rows`: these, and the stored rows with other keys, with the types of `target`."""
    keys = rows.select(*key_columns(record_key))
    same = [quoted(name).eqNullSafe(keys[alias]) for name, alias in zip(record_key, key_names(record_key))]
    untouched = stored.join(keys, same, "left_anti").select(*table_columns(target, stored.columns))
    return untouched.unionByName(rows)
