"""Plans of merges by Arrow into the tables of a part, its own and the history's, and what they come to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Callable

from pyspark.sql.types import StructType

from sluice.batch.dumps import floors_of
from sluice.batch.kafka_watch import Watched
from sluice.changes.log_restart import SeenObject
from sluice.config.table import IGNORE, MOR
from sluice.hudi.file_slices import Committed
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.needed_members import missing_in_engine
from sluice_spark.hudi.slices import newest_slices
from sluice_spark.merge.by_arrow.covers import check_slices, check_table
from sluice_spark.merge.by_arrow.decide import NO_CHANGES
from sluice_spark.merge.by_arrow.large.merge import LargeMerge
from sluice_spark.merge.by_arrow.large.plan import LoadPlan, check_first_load
from sluice_spark.merge.by_arrow.rewrite import Rewrite
from sluice_spark.merge.context import PartContext
from sluice_spark.merge.history_table import history_part, history_plan
from sluice_spark.merge.plan import column_types
from sluice_spark.merge.prepare import Prepared, table_facts
from sluice_spark.merge.rows import LeftToSpark, check_columns


@dataclass(frozen=True)
class TableRows:
    """The rows to write into a table, None for none, and what became of the changes (`counts`, as those of a merge).

    `target` has the table's columns after this batch. `suspicions` are those of PartRows.
    """

    part: PartContext
    facts: TableFacts
    target: StructType
    rows: LargeMerge | Rewrite | None = None
    counts: Mapping[str, int] = field(default_factory=lambda: NO_CHANGES)
    suspicions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PartDecision:
    """The rows to write, None where no change is left, and what was seen of each object.

    Those of the history table are written first; None where it has none.
    """

    rows: LargeMerge | Rewrite | None
    counts: Mapping[str, int]
    judged: Watched
    seen: Sequence[SeenObject]
    history: TableRows | None = None
    truncates: Collection[tuple[str | None, str]] = ()


def part_plan(part: PartContext, prepared: Prepared) -> LoadPlan:
    """The plan of a part's merge into its own table, to which `with_files` adds the table's files."""
    config, facts = part.config, prepared.facts
    return LoadPlan(
        prepared.planned.plan,
        column_types(prepared.planned.target),
        part.hudi.path,
        part.services.source,
        config.keep_deleted_values,
        config.lineage,
        prepared.source_clock,
        ignore_deletes=config.delete_mode == IGNORE,
        floors=facts.floor,
        purged=facts.purged,
        dumps=floors_of(prepared.objects, config),
    )


def with_files(part: PartContext, facts: TableFacts, plan: LoadPlan) -> LoadPlan:
    """The plan with the files of the table. Raises LeftToSpark for a table that Arrow doesn't merge."""
    config = part.config
    plan = replace(plan, in_logs=config.table_type == MOR, rows=facts.rows)
    if facts.empty:
        check_first_load(config, facts, plan)
        return replace(plan, slices=())  # a history's plan begins as its table's
    check_table(config, facts, plan.target)
    check_columns(plan.reader, plan.target)
    missing = missing_in_engine(part.spark, facts.record_index)
    if missing:
        raise LeftToSpark("engine", ", ".join(missing))
    slices = newest_slices(part.services.objects, part.hudi.path, facts.timeline, partitioned=bool(config.partition_by))
    check_slices(slices)
    return replace(plan, slices=slices, committed=Committed.of(facts.timeline))


def history_rows(
    part: PartContext, prepared: Prepared, plan: LoadPlan, merge: Callable[[TableRows, LoadPlan], TableRows]
) -> TableRows:
    """What `merge` makes of the history table and its plan; `plan` is that of the part. Raises LeftToSpark."""
    own = history_part(part)
    facts = table_facts(own)
    try:
        target = history_plan(prepared.planned, facts).target
        plan = replace(
            plan,
            target=column_types(target),
            table_uri=own.hudi.path,
            lineage=own.config.lineage,
            ignore_deletes=False,
            history=True,
        )
        return merge(TableRows(own, facts, target), with_files(own, facts, plan))
    except LeftToSpark as left:
        own.services.tables.keep(own.config, facts)
        raise LeftToSpark("history", f"{left}") from left
