"""What a truncate of the source's table does: stored rows that are older become deleted rows at its position.

The same position becomes the table's floor (`commit.raise_floor`): an older change that arrives later loses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.changes import hidden_columns as hidden
from sluice_spark.merge.normalize import quoted


@dataclass(frozen=True)
class Truncate:
    """A truncate: its position and where it came from. `partition` is Kafka's."""

    position: str
    source_ts_ms: int | None
    object: str | None
    offset: int | None
    partition: int | None


def newest_truncate(changes: DataFrame) -> Truncate | None:
    """The truncate with the highest position; None where there is none."""
    partition = quoted(hidden.PARTITION) if hidden.PARTITION in changes.columns else F.lit(None)
    truncates = changes.where(quoted(hidden.OP) == hidden.TRUNCATE).select(
        quoted(hidden.POSITION).alias("position"),
        quoted(hidden.SOURCE_TS_MS).alias("source_ts_ms"),
        quoted(hidden.OBJECT).alias("object"),
        quoted(hidden.OFFSET).alias("offset"),
        partition.alias("partition"),
    )
    found = truncates.orderBy(F.desc("position")).first()
    return None if found is None else Truncate(**found.asDict())


def truncated_rows(stored: DataFrame, *, truncate: Truncate, target: StructType) -> DataFrame:
    """The stored rows that a truncate deletes, as deleted rows in the table's columns.

    Columns that `stored` has keep their values, the others become null.
    """
    own: dict[str, Any] = {
        hidden.POSITION: truncate.position,
        hidden.DELETED: True,
        hidden.OP: hidden.TRUNCATE,
        hidden.SOURCE_TS_MS: truncate.source_ts_ms,
        hidden.OBJECT: truncate.object,
        hidden.OFFSET: truncate.offset,
        hidden.PARTITION: truncate.partition,
        hidden.OWED: None,
    }
    present = set(stored.columns)
    chosen = [
        (F.lit(own[field.name]) if field.name in own else quoted(field.name) if field.name in present else F.lit(None))
        .cast(field.dataType)
        .alias(field.name)
        for field in target.fields
    ]
    return stored.where((quoted(hidden.POSITION) < F.lit(truncate.position)) & ~quoted(hidden.DELETED)).select(*chosen)


def owes_since_before(truncate: Truncate) -> SparkColumn:
    """True for a stored row that is newer than the truncate and owes columns: their values may be from before it."""
    return (quoted(hidden.POSITION) > F.lit(truncate.position)) & quoted(hidden.OWED).isNotNull()
