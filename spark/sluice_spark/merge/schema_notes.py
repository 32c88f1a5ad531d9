"""Records a table's schemas: the verdict on each writer schema, and the table's own columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql.types import StructType

from sluice.config.table import TableConfig
from sluice.schema.avro import WriterSchema, fingerprint
from sluice.schema.evolution import DROPPED, NARROWER, SAME, Evolution, row_for_table
from sluice.schema.history import StoredColumns, seen
from sluice_aws.s3.schemas import SchemaHistory
from sluice_spark.merge.plan import column_types

_CHANGES_NO_TABLE = (SAME, DROPPED, NARROWER)


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
    """Record every writer schema with its verdict, before the commit, so that no merged object is without its schema.

    `inferred` are the schemas (JSON) of records that carry none. Of these only the ones that change the table are
    recorded, since there any selection of the table's columns is a schema of its own. `at` is in epoch milliseconds.
    """
    made_up = {fingerprint(json.loads(text)) for text in set(inferred)}
    for writer in writers:
        verdict = verdicts[writer.fingerprint]
        if writer.fingerprint in made_up and verdict.verdict in _CHANGES_NO_TABLE:
            continue
        row = row_for_table(writer.row, config)
        history.note(seen(config.table, writer.fingerprint, row, verdict, at=at, batch=batch))


def remember_columns(history: SchemaHistory, config: TableConfig, stored: StructType | None) -> None:
    """Record the table's columns as of its newest commit; admission compares with them."""
    if stored is not None:
        history.keep_columns(StoredColumns(config.table, column_types(stored)))
