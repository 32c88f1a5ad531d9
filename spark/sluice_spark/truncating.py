"""What a truncate of the source's table does to the stored rows: those that are older become deleted rows at its position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice import hidden_columns as hidden
from sluice_spark.normalizing import quoted


@dataclass(frozen=True)
class Truncate:
    """A truncate: its position and where it came from."""

    position: str
    source_ts_ms: Optional[int]
    object: Optional[str]
    offset: Optional[int]
    partition: Optional[int]  # Kafka's


def tombstones(stored: DataFrame, *, truncate: Truncate, target: StructType) -> DataFrame:
    """The stored rows that a truncate deletes, as it leaves them: what `stored` has of values is kept, the rest is null."""
    own: Dict[str, Any] = {
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


def owing_from_before(truncate: Truncate) -> SparkColumn:
    """Stored rows that are newer than the truncate and owe columns: what they hold of these may be from before it."""
    return (quoted(hidden.POSITION) > F.lit(truncate.position)) & quoted(hidden.OWED).isNotNull()
