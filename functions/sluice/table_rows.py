"""The columns that a table takes of a writer's row, and what they mean for the columns that it has."""
from __future__ import annotations

from dataclasses import replace
from typing import Mapping, Optional

from sluice.column_types import ARRAY, BYTES, JSON, STRING, Column, RowSchema, plain_column, row_as_configured
from sluice.errors import Incompatible
from sluice.hidden_columns import NAMES, ROW
from sluice.table_config import TableConfig
from sluice.table_evolution import Evolution, evolve
from sluice.watermark import check_watermark


def row_for_table(row: RowSchema, config: TableConfig) -> RowSchema:
    """A writer's columns as its table has them: raw where it wants them so, and with a key of the table's own where rows have none.

    Bytes in the key or in a folder's name are their base64 text, as `binary.handling.mode=base64` has them: Hudi makes keys of texts, and of
    bytes now a hexadecimal number and now the name of a place in memory.
    """
    wanted = row_as_configured(row, config.raw)
    named = {*config.record_key, *config.partition_by}
    columns = tuple(_told_as_text(column) if column.name in named else column for column in wanted.columns)
    return RowSchema((*columns, plain_column(ROW, STRING, False, "row")) if config.append_only else columns)


def _told_as_text(column: Column) -> Column:
    return replace(plain_column(column.name, STRING, column.nullable, column.source_type), field=column.field) if column.kind == BYTES else column


def evolve_table(before: Optional[Mapping[str, str]], row: RowSchema, config: TableConfig) -> Evolution:
    """As table_evolution.evolve, for a row of `row_for_table`. Raises Incompatible, also where the position column is missing.

    For a table that would have more columns than its limits allow: objects of one record's width each can bring other names each. And for a column of the key or of folders' names that is an array or a map, whose text is not the same each time.
    """
    for name in config.record_key + config.partition_by:
        column = row.column(name)
        if column is not None and (column.kind == ARRAY or column.kind == JSON and column.element is not None):
            raise Incompatible(
                f"The column {name} of the key or of folders' names is {column.source_type}", column=name, types=[column.source_type, "a single value"],
                next_step="Give the topic a table with a record_key and partition_by of numbers, texts or times")
    if config.position is not None:
        column = row.column(config.position)
        if column is None:
            raise Incompatible(f"The position column {config.position} is not a column of this schema", column=config.position, types=["", "absent"])
        check_watermark(column)
    found = evolve(before, row, record_key=config.record_key, partition_by=config.partition_by)
    width = len(found.target.keys() - set(NAMES))
    if width > config.limits.schema_columns and len(found.target) > len(before or ()):
        new = next(name for name in found.target if name not in (before or ()))
        raise Incompatible(
            f"The table would have {width:,} columns, {new[:100]} among the new ones", column=new[:100], types=["", found.target[new]],
            next_step="Let the source write what it has no fixed names for as one column of JSON text or a map, or raise the table's limit schema_columns")
    return found
