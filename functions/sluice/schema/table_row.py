"""The columns that a table takes of a writer's row, with the types and names that the table wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sluice.changes.hidden_columns import ROW
from sluice.changes.position import MONGODB
from sluice.config.json_types import declared_type
from sluice.config.table import TableConfig
from sluice.schema import columns as kinds
from sluice.schema.avro import WriterSchema
from sluice.schema.avro_types import Columns, NamedTypes
from sluice.schema.columns import Column, RowSchema, plain_column, row_as_configured, stored_column
from sluice.schema.concealment import ruled
from sluice.schema.made_columns import with_partition_columns, with_source_columns

_UNTYPED = ("string", "array<string>")  # types that MongoDB's connector writes where it knows none


def row_for_table(writer: WriterSchema | RowSchema, config: TableConfig) -> RowSchema:
    """A writer's columns as its table stores them: with those of its metadata that the table has, under the table's
    column rules, raw where configured, with a row key where it appends, and with the columns of partition transforms.

    Bytes in the key or in a partition column become base64 text, as with `binary.handling.mode=base64`: Hudi turns
    bytes of a key into a hexadecimal number or into an address in memory.
    """
    row = with_source_columns(writer, config.source_words).row if isinstance(writer, WriterSchema) else writer
    row = with_path_columns(row, path_columns(config))
    wanted = row_as_configured(ruled(row, config.columns), config.raw)
    base_columns = {*config.record_key, *config.partition_columns}
    columns = (
        replace(plain_column(column.name, kinds.STRING, column.nullable, column.source_type), field=column.field)
        if column.kind == kinds.BYTES and column.name in base_columns
        else column
        for column in wanted.columns
    )
    own = (plain_column(ROW, kinds.STRING, False, "row"),) if config.append_only else ()
    return with_partition_columns(RowSchema((*columns, *own)), config)


def path_columns(config: TableConfig) -> tuple[Column, ...]:
    """The columns that a table takes from its objects' folders."""
    types = NamedTypes({})
    return tuple(
        Columns(types).column(name, ["null", declared_type(config.json_types.get(name, kinds.STRING))])
        for name in config.path_columns
    )


def with_path_columns(row: RowSchema, added: Sequence[Column]) -> RowSchema:
    """A writer's row with those of the columns that it lacks."""
    lacked = tuple(column for column in added if row.column(column.name) is None)
    return RowSchema((*row.columns, *lacked)) if lacked else row


def row_with_types(writer: WriterSchema, config: TableConfig, spark_types: Mapping[str, str]) -> RowSchema:
    """`row_for_table` of a writer's row, where columns of unknown type get their type in `spark_types` (Spark's names).

    MongoDB's documents have no schema: the connector writes text for a null, and an array of texts for an empty array.
    A row with a value of another type is set aside.
    https://github.com/debezium/debezium, connector/mongodb/transforms/MongoDataConverter.java
    """
    row = row_for_table(writer, config)
    if writer.meta.position.kind != MONGODB:
        return row
    fixed = {*config.record_key, *config.partition_columns}
    return RowSchema(
        tuple(
            replace(stored_column(column.name, spark_types[column.name]), field=column.field)
            if column.name in spark_types
            and column.name not in fixed
            and _may_be_untyped(column)
            and spark_types[column.name] not in _UNTYPED
            else column
            for column in row.columns
        )
    )


def known_types(writers: Sequence[WriterSchema], config: TableConfig) -> Mapping[str, str]:
    """Types (Spark's names) of columns, each by the first schema that knows it. Empty unless a writer is MongoDB's."""
    spark_types: dict[str, str] = {}
    for writer in writers if any(writer.meta.position.kind == MONGODB for writer in writers) else ():
        for column in row_for_table(writer, config).columns:
            if not _may_be_untyped(column):
                spark_types.setdefault(column.name, column.spark_type)
    return spark_types


def _may_be_untyped(column: Column) -> bool:
    return (
        column.kind == kinds.STRING
        or column.kind == kinds.ARRAY
        and column.element is not None
        and column.element.kind == kinds.STRING
    )
