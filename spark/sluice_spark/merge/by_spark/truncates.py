"""Applies truncates: what each of a batch empties, and the floor of a row or a change by its source table.

The Spark form of `sluice.changes.source_tables`. A truncate makes stored rows that are older, and of its source table,
into deleted rows. Its position becomes a floor (`commit.raise_floors`): an older change that arrives later loses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.changes import hidden_columns as hidden
from sluice.changes.source_tables import Floors, concerns
from sluice_spark.merge.by_spark.columns import table_columns


@dataclass(frozen=True)
class Truncate:
    """A truncate: its position, its source table and where it came from. `partition` is Kafka's."""

    position: str
    source_ts_ms: int | None
    object: str | None
    offset: int | None
    partition: int | None
    source: str | None = None


def floor_of(floors: Floors, columns: Sequence[str]) -> SparkColumn:
    """The floor of each row with these columns, by its source table (`Floors.of`)."""
    if not floors.by_source or hidden.SOURCE not in columns:
        return F.lit(floors.of(None))
    source = F.col(hidden.SOURCE)
    pairs = [F.lit(text) for name in floors.by_source for text in (name, floors.of(name))]
    unnamed = F.when(source.isNull(), F.lit(floors.of(None)))
    return F.coalesce(F.create_map(*pairs)[source], unnamed, F.lit(floors.everywhere))


def newest_truncates(changes: DataFrame) -> tuple[Truncate, ...]:
    """The truncate with the highest position of each source table."""
    absent = F.lit(None)
    columns = {
        "position": F.col(hidden.POSITION),
        "source_ts_ms": F.col(hidden.SOURCE_TS_MS),
        "object": F.col(hidden.OBJECT),
        "offset": F.col(hidden.OFFSET),
        "partition": F.col(hidden.PARTITION) if hidden.PARTITION in changes.columns else absent,
    }
    source = F.col(hidden.SOURCE) if hidden.SOURCE in changes.columns else absent.cast("string")
    truncates = changes.where(F.col(hidden.OP) == hidden.TRUNCATE).select(
        source.alias("source"), F.struct(*[column.alias(name) for name, column in columns.items()]).alias("own")
    )
    newest = truncates.groupBy("source").agg(F.max_by("own", "own.position").alias("own")).collect()
    newest_of_source = (Truncate(**row["own"].asDict(), source=row["source"]) for row in newest)
    return tuple(sorted(newest_of_source, key=lambda truncate: truncate.position))


def truncated_rows(
    stored: DataFrame, *, truncates: Sequence[Truncate], target: StructType, topic: str, keep_positions: bool
) -> DataFrame:
    """The stored rows that truncates delete, as deleted rows in the table's columns.

    Columns that `stored` has keep their values, the others become null. A row takes the position of its truncate; with
    `keep_positions` it keeps its own, so that a later change of its key in another source table wins over it.
    """
    at = _truncate_of(stored, truncates, topic)
    own: dict[str, SparkColumn] = {
        hidden.POSITION: F.col(hidden.POSITION) if keep_positions else at["position"],
        hidden.DELETED: F.lit(True),
        hidden.OP: F.lit(hidden.TRUNCATE),
        hidden.SOURCE_TS_MS: at["source_ts_ms"],
        hidden.OBJECT: at["object"],
        hidden.OFFSET: at["offset"],
        hidden.PARTITION: at["partition"],
        hidden.OWED: F.lit(None),
    }
    emptied = stored.where((F.col(hidden.POSITION) < at["position"]) & ~F.col(hidden.DELETED))
    return emptied.select(*table_columns(target, stored.columns, own))


def _truncate_of(stored: DataFrame, truncates: Sequence[Truncate], topic: str) -> SparkColumn:
    """The newest truncate that concerns each stored row; null where none does."""
    if hidden.SOURCE not in stored.columns:
        return _literal(_newest(truncates, None, topic))
    source = F.col(hidden.SOURCE)
    by_source = {
        truncate.source: _newest(truncates, truncate.source, topic)
        for truncate in truncates
        if truncate.source is not None
    }
    everywhere = [truncate for truncate in truncates if truncate.source is None]
    truncate_struct = F.when(source.isNull(), _literal(_newest(truncates, None, topic)))
    if by_source:
        pairs = [value for name, newest in by_source.items() for value in (F.lit(name), _literal(newest))]
        truncate_struct = F.coalesce(truncate_struct, F.create_map(*pairs)[source])
    return F.coalesce(truncate_struct, F.when(source.isNotNull(), _literal(everywhere[-1] if everywhere else None)))


def _newest(truncates: Sequence[Truncate], source: str | None, topic: str) -> Truncate | None:
    of_source = [truncate for truncate in truncates if concerns(truncate.source, source, topic)]
    return max(of_source, key=lambda truncate: truncate.position, default=None)


def _literal(truncate: Truncate | None) -> SparkColumn:
    kinds = {"position": "string", "source_ts_ms": "long", "object": "string", "offset": "long", "partition": "int"}
    if truncate is None:
        return F.lit(None).cast(f"struct<{','.join(f'{name}:{kind}' for name, kind in kinds.items())}>")
    values: dict[str, Any] = {name: getattr(truncate, name) for name in kinds}
    return F.struct(*[F.lit(value).cast(kinds[name]).alias(name) for name, value in values.items()])


def owes_since_before(truncates: Sequence[Truncate], columns: Sequence[str], topic: str) -> SparkColumn:
    """True for a stored row with these columns that is newer than its truncate and owes columns: their values may be
    from before it.
    """
    floor = floor_of(
        Floors(topic=topic).raised((truncate.source, truncate.position) for truncate in truncates), columns
    )
    return (F.col(hidden.POSITION) > floor) & (floor != F.lit("")) & F.col(hidden.OWED).isNotNull()


def source_tables(rows: DataFrame) -> set[str | None]:
    """The source tables of rows; None among them where some have none."""
    if hidden.SOURCE not in rows.columns:
        return {None}
    return {row[0] for row in rows.select(F.col(hidden.SOURCE)).distinct().collect()}
