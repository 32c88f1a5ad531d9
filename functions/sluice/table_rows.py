"""The columns that a table takes of a writer's row, and what they mean for the columns that it has."""
from __future__ import annotations

from typing import Mapping, Optional

from sluice.column_types import STRING, RowSchema, plain_column, row_as_configured
from sluice.errors import Incompatible
from sluice.hidden_columns import ROW
from sluice.table_config import TableConfig
from sluice.table_evolution import Evolution, evolve
from sluice.watermark import check_watermark


def row_for_table(row: RowSchema, config: TableConfig) -> RowSchema:
    """A writer's columns as its table has them: raw where it wants them so, and with a key of the table's own where rows have none."""
    wanted = row_as_configured(row, config.raw)
    return RowSchema((*wanted.columns, plain_column(ROW, STRING, False, "row"))) if config.append_only else wanted


def evolve_table(before: Optional[Mapping[str, str]], row: RowSchema, config: TableConfig) -> Evolution:
    """As table_evolution.evolve, for a row of `row_for_table`. Raises Incompatible, also where the position column is missing."""
    if config.position is not None:
        column = row.column(config.position)
        if column is None:
            raise Incompatible(f"The position column {config.position} is not a column of this schema", column=config.position, types=["", "absent"])
        check_watermark(column)
    return evolve(before, row, record_key=config.record_key, partition_by=config.partition_by)
