"""The history table of a part's table: its own context, facts and plan, whichever way its changes are written.

The key of a history table is the state's key and the position of the change, so a change that comes again is known by
it and dropped: a part that is merged a second time, after a crash between the two commits, writes no change twice.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.types import StructType

from sluice.schema.evolution import rewritten_columns
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.recovery import roll_back_unfinished
from sluice_spark.hudi.table import HudiTable
from sluice_spark.merge.context import PartContext, Stages
from sluice_spark.merge.plan import PlannedRead, column_types


def history_part(part: PartContext) -> PartContext:
    """The same part of the batch for the history table. Its stages are one stage of the part."""
    config = part.config.history_table
    hudi = HudiTable(part.spark, part.services.table_path(config.database, config.name), config)
    return replace(part, config=config, hudi=hudi, stages=Stages(part.services.clock))


def history_plan(state: PlannedRead, facts: TableFacts) -> PlannedRead:
    """The plan of the state with the history table's own columns, and what it widens there."""
    held, wanted = column_types(facts.schema), column_types(state.target)
    gone = [field for field in (facts.schema.fields if facts.schema is not None else ()) if field.name not in wanted]
    target = StructType([*state.target.fields, *gone])
    types = column_types(target)
    widened = tuple(name for name, kind in held.items() if types[name] != kind)
    return PlannedRead(state.plan, target, {}, {}, widened, rewritten_columns(held, types))


def roll_back_history(part: PartContext) -> str | None:
    """Roll back what is unfinished on the history table. Its commits stay; returns the newest of them."""
    own = history_part(part)
    own.services.tables.take(own.config)
    if not own.hudi.exists():
        return None
    rolled_back = roll_back_unfinished(own.hudi)
    if rolled_back:
        part.event("history_rolled_back", instants=list(rolled_back))
    return own.hudi.newest_commit()
