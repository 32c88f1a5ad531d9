"""Writes down what a merge learns of a table's schemas: each writer schema's verdict, and the table's own columns."""
from __future__ import annotations

from typing import Mapping, Optional, Sequence

from pyspark.sql.types import StructType

from sluice.avro_schema import WriterSchema
from sluice.schema_history import StoredColumns, seen
from sluice.table_config import TableConfig
from sluice.table_evolution import Evolution
from sluice.table_rows import row_for_table
from sluice_aws.schema_history_store import SchemaHistory


def remember_schemas(
    history: SchemaHistory, config: TableConfig, *, writers: Sequence[WriterSchema], verdicts: Mapping[str, Evolution], at: int, batch: str
) -> None:
    """Note every schema with its verdict. Before the commit: what is merged is then never without its schema."""
    for writer in writers:
        row = row_for_table(writer.row, config)
        history.note(seen(config.table, writer.fingerprint, row, verdicts[writer.fingerprint], at=at, batch=batch))


def remember_columns(history: SchemaHistory, config: TableConfig, stored: Optional[StructType]) -> None:
    """Tell the table's columns as its newest commit has them; admission compares with them."""
    if stored is not None:
        history.keep_columns(StoredColumns(config.table, {field.name: field.dataType.simpleString() for field in stored.fields}))
