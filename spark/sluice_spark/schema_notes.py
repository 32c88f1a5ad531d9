"""Writes down what a merge learns of a table's schemas: each writer schema's verdict, and the table's own columns."""

from __future__ import annotations

import json
from typing import Iterable, Mapping, Optional, Sequence

from pyspark.sql.types import StructType

from sluice.avro_schema import WriterSchema, fingerprint
from sluice.schema_history import StoredColumns, seen
from sluice.stored_types import NARROWER, SAME
from sluice.table_config import TableConfig
from sluice.table_evolution import DROPPED, Evolution
from sluice.table_rows import row_for_table
from sluice_aws.schema_history_store import SchemaHistory


_NOTHING_NEW = (SAME, DROPPED, NARROWER)


def remember_schemas(
    history: SchemaHistory,
    config: TableConfig,
    *,
    writers: Sequence[WriterSchema],
    inferred: Iterable[str],
    verdicts: Mapping[str, Evolution],
    at: int,
    batch: str,
) -> None:
    """Note every schema with its verdict. Before the commit: what is merged is then never without its schema.

    Of the `inferred` ones (as JSON, of records that carry none) only those that change the table: any
    selection of its columns is a schema of its own there.
    """
    made_up = {fingerprint(json.loads(text)) for text in set(inferred)}
    for writer in writers:
        if writer.fingerprint in made_up and verdicts[writer.fingerprint].verdict in _NOTHING_NEW:
            continue
        row = row_for_table(writer.row, config)
        history.note(seen(config.table, writer.fingerprint, row, verdicts[writer.fingerprint], at=at, batch=batch))


def remember_columns(history: SchemaHistory, config: TableConfig, stored: Optional[StructType]) -> None:
    """Tell the table's columns as its newest commit has them; admission compares with them."""
    if stored is not None:
        history.keep_columns(
            StoredColumns(config.table, {field.name: field.dataType.simpleString() for field in stored.fields})
        )
