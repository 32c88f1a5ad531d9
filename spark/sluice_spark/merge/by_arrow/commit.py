"""Commits the files that Arrow makes."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import StructField, StructType

from sluice.batch.outcome import COMMIT_STAGE
from sluice.changes import hidden_columns as hidden
from sluice.config.table import TableConfig
from sluice_spark.hudi.facts import CommitResult, TableFacts
from sluice_spark.hudi.own_files import commit_own_files
from sluice_spark.merge.by_arrow.large.merge import LargeMerge
from sluice_spark.merge.by_arrow.rewrite import Rewrite
from sluice_spark.merge.commit import follow_up, wait_for_turn, write_alone
from sluice_spark.merge.context import PartContext


def commit(part: PartContext, rows: LargeMerge | Rewrite, *, target: StructType, facts: TableFacts) -> CommitResult:
    """Write the rows as one Hudi commit, then do the housekeeping that is due; `target` has the table's columns.

    After a failure this run merges a table that has rows by Spark. Raises LaneLost before anything is written. Any
    other exception leaves open whether the commit is on the timeline.
    """

    def write() -> CommitResult:
        own: dict[str, Any] = {"facts": facts, "check_held": part.check_held, **part.origin}
        try:
            schema = _new_schema(part, target) if facts.empty or rows.evolves else None
            return commit_own_files(part.hudi, rows.write, schema=schema, in_driver=rows.in_driver, **own)
        except Exception:
            if not facts.empty:
                part.services.tables.leave_to_spark(part.config)
            raise

    if not facts.empty:
        part.check_held()
    with part.stages.timed(COMMIT_STAGE):
        wait_for_turn(part, facts)
        result = write_alone(part, facts, write)
    return follow_up(part, result)


def _new_schema(part: PartContext, target: StructType) -> StructType:
    """The table's schema as a Spark write would make it: only a batch id that is written is never null."""
    written = hidden.BATCH if "batch" in part.config.lineage else None
    return StructType([StructField(field.name, field.dataType, field.name != written) for field in target.fields])


def evolves(target: StructType, config: TableConfig, facts: TableFacts) -> bool:
    """Whether rows may have columns, or nulls, that the table's schema has not. The key and a batch id have none."""
    fields = facts.schema.fields if facts.schema is not None else []
    full = {*config.record_key, *([hidden.BATCH] if "batch" in config.lineage else [])}
    relaxed = any(not item.nullable and item.name not in full for item in fields)
    return relaxed or {item.name: item.dataType for item in fields} != {
        item.name: item.dataType for item in target.fields
    }
