"""The columns that a table takes of a writer's row, and what they mean for the columns that it has."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Mapping, Optional, Sequence

from sluice.avro_schema import WriterSchema
from sluice.column_types import (
    ARRAY,
    BYTES,
    JSON,
    STRING,
    Column,
    RowSchema,
    plain_column,
    row_as_configured,
    stored_column,
)
from sluice.errors import Incompatible
from sluice.hidden_columns import NAMES, ROW
from sluice.position import MONGODB
from sluice.stored_types import SAME
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
    return (
        replace(plain_column(column.name, STRING, column.nullable, column.source_type), field=column.field)
        if column.kind == BYTES
        else column
    )


def row_with_types(writer: WriterSchema, config: TableConfig, known: Mapping[str, str]) -> RowSchema:
    """`row_for_table` of a writer's row, columns of which its schema tells no type as they are `known` (Spark's names of types).

    MongoDB's documents have no schema: for a null the connector writes text, for an empty array one of texts. A value that is there
    and isn't what is known costs its row. https://github.com/debezium/debezium, connector/mongodb/transforms/MongoDataConverter.java
    """
    row = row_for_table(writer.row, config)
    if writer.meta.position.kind != MONGODB:
        return row
    fixed = {*config.record_key, *config.partition_by}
    return RowSchema(
        tuple(
            replace(stored_column(column.name, known[column.name]), field=column.field)
            if column.name in known
            and column.name not in fixed
            and _untold(column)
            and not _untold_as(known[column.name])
            else column
            for column in row.columns
        )
    )


def types_told(writers: Sequence[WriterSchema], config: TableConfig) -> Mapping[str, str]:
    """The types (Spark's names) of all columns of which some schema does tell one, of several the first; none where every schema tells all types."""
    told: Dict[str, str] = {}
    for writer in writers if any(writer.meta.position.kind == MONGODB for writer in writers) else ():
        for column in row_for_table(writer.row, config).columns:
            if not _untold(column):
                told.setdefault(column.name, column.spark_type)
    return told


def _untold(column: Column) -> bool:
    return (
        column.kind == STRING or column.kind == ARRAY and column.element is not None and column.element.kind == STRING
    )


def _untold_as(spark_type: str) -> bool:
    return spark_type in ("string", "array<string>")


def evolve_nothing(before: Mapping[str, str]) -> Evolution:
    """What a schema without any column means for a table that is there."""
    return Evolution(SAME, (), before)


def evolve_table(before: Optional[Mapping[str, str]], row: RowSchema, config: TableConfig) -> Evolution:
    """As table_evolution.evolve, for a row of `row_for_table`. Raises Incompatible, also where the position column is missing.

    For a table that would have more columns than its limits allow: objects of one record's width each can bring other names each. And for a column of the key or of folders' names that is an array or a map, whose text is not the same each time.
    """
    for name in config.record_key + config.partition_by:
        column = row.column(name)
        if column is not None and (column.kind == ARRAY or column.kind == JSON and column.element is not None):
            raise Incompatible(
                f"The column {name} of the key or of folders' names is {column.source_type}",
                column=name,
                types=[column.source_type, "a single value"],
                next_step="Give the topic a table with a record_key and partition_by of numbers, texts or times",
            )
    if config.position is not None:
        column = row.column(config.position)
        if column is None:
            raise Incompatible(
                f"The position column {config.position} is not a column of this schema",
                column=config.position,
                types=["", "absent"],
            )
        check_watermark(column)
    found = evolve(before, row, record_key=config.record_key, partition_by=config.partition_by)
    width = len(found.target.keys() - set(NAMES))
    if width > config.limits.schema_columns and len(found.target) > len(before or ()):
        new = next(name for name in found.target if name not in (before or ()))
        raise Incompatible(
            f"The table would have {width:,} columns, {new[:100]} among the new ones",
            column=new[:100],
            types=["", found.target[new]],
            next_step="Let the source write what it has no fixed names for as one column of JSON text or a map, or raise the table's limit schema_columns",
        )
    return found
