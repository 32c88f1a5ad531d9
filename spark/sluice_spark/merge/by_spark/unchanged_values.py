"""Gives rows the values that a change left unchanged and didn't carry (Debezium's unavailable-value placeholder).

The Spark form of `sluice.changes.row_history`, by built-in aggregates: the history of a key, which is its changes and
its stored row, becomes one row. `sluice.config.placeholders` has the placeholders themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.changes import hidden_columns as hidden
from sluice.changes.row_history import EVERY_COLUMN, NEVER
from sluice.changes.source_tables import Floors
from sluice_spark.merge.by_spark.columns import quoted, table_columns
from sluice_spark.merge.by_spark.latest import keys_of, same_key
from sluice_spark.merge.by_spark.truncates import floor_of
from sluice_spark.merge.by_spark.working_columns import (
    HAS_VALUES,
    IS_STORED,
    KNOWN_AT_PREFIX,
    LAST_EVENT_AT,
    LAST_LINEAGE,
    LAST_POSITION,
    LAST_VALUES,
    LIFE_BEGINS_AT,
    NEEDS_HISTORY,
    OWED_AT,
    OWES,
    POSITION_ONLY,
    STORED_OWED,
    STORED_POSITION,
    SUPPLIED,
    WINS,
)

_KNOWN_AT_TYPE = "map<string,string>"
_LINEAGE = tuple(hidden.LINEAGE.values())


def unavailable_columns(target: StructType, record_key: Sequence[str]) -> list[str]:
    """The columns that a change may leave unchanged: all but the key's, where captures write a part of the row."""
    return [name for name in target.names if name not in {*record_key, *hidden.NAMES}]


def rows_from_history(
    changes: DataFrame,
    *,
    stored: DataFrame | None,
    touched: SparkColumn | None,
    target: StructType,
    record_key: Sequence[str],
    columns: Sequence[str],
    floors: Floors,
    keep_positions: bool,
    ignore_deletes: bool,
) -> DataFrame:
    """One row per key that NEEDS_HISTORY marks, as `row_history.row_after` defines it; none that equals the stored row.

    `touched` marks stored rows that get a history too, unless the batch decided about their key. With `keep_positions`
    a stored row that is older than its floor is deleted at its own position (`truncated_rows`). `columns` are those
    that a change or stored row of the history may lack. Adds SUPPLIED and OWES.
    """
    keys = keys_of(changes, F.col(NEEDS_HISTORY), record_key=record_key)
    batch = changes.join(keys, same_key(changes, keys, record_key=record_key), "left_semi").where(
        quoted(hidden.POSITION) > floor_of(floors, changes.columns)
    )
    rows = batch.select(
        *[quoted(name) for name in target.names],
        quoted(hidden.UNCHANGED),
        F.lit(False).alias(IS_STORED),
        F.lit(None).cast("string").alias(STORED_POSITION),
    )
    if stored is not None:
        held = stored.join(keys, same_key(stored, keys, record_key=record_key), "left_semi")
        if touched is not None:
            decided = F.col(NEEDS_HISTORY) | F.col(WINS)
            others, owing = keys_of(changes, decided, record_key=record_key), stored.where(touched)
            held = held.unionByName(owing.join(others, same_key(owing, others, record_key=record_key), "left_anti"))
        floor = floor_of(floors, held.columns)
        rows = rows.unionByName(
            _as_history(held, target=target, floor=floor, keep_positions=keep_positions, ignore_deletes=ignore_deletes)
        )
    floor = F.lit(NEVER) if ignore_deletes else floor_of(floors, target.names)
    return _folded(rows, target, record_key, columns, floor=floor, ignore_deletes=ignore_deletes)


def _as_history(
    held: DataFrame, *, target: StructType, floor: SparkColumn, keep_positions: bool, ignore_deletes: bool
) -> DataFrame:
    """Stored rows in the table's columns. One that is older than the truncate is a row deleted by it."""
    position = quoted(hidden.POSITION)
    truncated = F.lit(False) if ignore_deletes else position < floor
    own = {
        hidden.POSITION: position if keep_positions else F.when(truncated, floor).otherwise(position),
        hidden.DELETED: truncated | quoted(hidden.DELETED),
        hidden.OWED: F.when(~truncated, quoted(hidden.OWED)),
    }
    return held.select(
        *table_columns(target, held.columns, own),
        F.lit(None).cast("array<string>").alias(hidden.UNCHANGED),
        F.lit(True).alias(IS_STORED),
        position.alias(STORED_POSITION),
    )


def _folded(
    rows: DataFrame,
    target: StructType,
    record_key: Sequence[str],
    columns: Sequence[str],
    *,
    floor: SparkColumn,
    ignore_deletes: bool,
) -> DataFrame:
    position, deleted = quoted(hidden.POSITION), quoted(hidden.DELETED)
    stored, owed = F.col(IS_STORED), quoted(hidden.OWED)
    known_times = F.from_json(owed, _KNOWN_AT_TYPE)
    knows_nothing = stored & deleted & F.coalesce(known_times[EVERY_COLUMN].isNotNull(), F.lit(False))
    ignored = ~stored & deleted if ignore_deletes else F.lit(False)
    prepared = rows.withColumns({POSITION_ONLY: knows_nothing | ignored, OWED_AT: known_times})
    is_event = ~F.col(POSITION_ONLY)
    begins = is_event & (deleted | (~stored & F.coalesce(quoted(hidden.OP) == hidden.CREATE, F.lit(False))))
    lives = is_event & ~deleted
    every_change_has = [name for name in target.names if name not in {*record_key, *columns, *hidden.NAMES}]
    known_at = [_known_at(name, lives) for name in columns]
    grouped = prepared.groupBy(*[quoted(name) for name in record_key]).agg(
        F.max(position).alias(LAST_POSITION),
        F.max(F.when(begins, position)).alias(LIFE_BEGINS_AT),
        F.max(F.when(is_event, position)).alias(LAST_EVENT_AT),
        F.max_by(deleted, F.when(is_event, position)).alias(hidden.DELETED),
        F.max_by(_struct(name for name in _LINEAGE if name in target.names), position).alias(LAST_LINEAGE),
        *[F.max_by(quoted(name), position).alias(name) for name in target.names if name == hidden.SOURCE],
        F.max_by(_struct(every_change_has), F.when(lives, position)).alias(LAST_VALUES),
        *[F.max(at).alias(f"{KNOWN_AT_PREFIX}{number}") for number, at in enumerate(known_at)],
        *[F.max_by(quoted(name), at).alias(name) for name, at in zip(columns, known_at)],
        F.max(STORED_POSITION).alias(STORED_POSITION),
        F.max(F.when(stored, owed)).alias(STORED_OWED),
    )
    return _rows(grouped, target, columns, every_change_has, floor)


def _struct(names: Iterable[str]) -> SparkColumn:
    """The columns as one. HAS_VALUES keeps it from being a struct of nothing."""
    return F.struct(F.lit(True).alias(HAS_VALUES), *[quoted(name) for name in names])


def _known_at(name: str, lives: SparkColumn) -> SparkColumn:
    """The position at which a row of the history gives a column its value; null where it doesn't."""
    position = quoted(hidden.POSITION)
    of_stored = F.coalesce(F.col(OWED_AT)[name], position)
    of_change = F.when(~F.coalesce(F.array_contains(quoted(hidden.UNCHANGED), name), F.lit(False)), position)
    known_at = F.when(F.col(IS_STORED), of_stored).otherwise(of_change)
    return F.when(lives & (known_at != F.lit(NEVER)), known_at)


def _rows(
    grouped: DataFrame,
    target: StructType,
    columns: Sequence[str],
    every_change_has: Sequence[str],
    floor: SparkColumn,
) -> DataFrame:
    begins = F.greatest(F.coalesce(F.col(LIFE_BEGINS_AT), F.lit(NEVER)), floor)
    hidden_row = F.col(LAST_EVENT_AT).isNull()  # only ignored deletes are known of it
    deleted = hidden_row | F.coalesce(F.col(hidden.DELETED), F.lit(True))
    stored_owed = F.from_json(F.col(STORED_OWED), _KNOWN_AT_TYPE)
    values, entries, lacking = {}, [], F.lit(False)
    for number, name in enumerate(columns):
        known_at = F.col(f"{KNOWN_AT_PREFIX}{number}")
        is_known = F.coalesce(known_at >= begins, F.lit(False))
        at = F.when(is_known, known_at).otherwise(begins)
        values[name] = F.when(is_known & ~deleted, quoted(name))
        entries.append(
            F.when(
                ~is_known | (at < F.col(LAST_EVENT_AT)) | F.coalesce(at == stored_owed[name], F.lit(False)),
                F.struct(F.lit(name).alias("key"), at.alias("value")),
            )
        )
        lacking = lacking | ~is_known
    owing = F.filter(F.array(*entries), lambda entry: entry.isNotNull()) if entries else F.array()
    json = F.when(F.size(owing) > 0, F.to_json(F.map_from_entries(owing))) if entries else F.lit(None).cast("string")
    every = F.to_json(F.create_map(F.lit(EVERY_COLUMN), F.lit(NEVER)))
    own = {
        hidden.POSITION: F.col(LAST_POSITION),
        hidden.DELETED: deleted,
        hidden.OWED: F.when(hidden_row, every).when(~deleted, json),
        **{name: F.col(LAST_LINEAGE)[name] for name in _LINEAGE if name in target.names},
        **{name: F.when(~deleted, F.col(LAST_VALUES)[name]) for name in every_change_has},
        **values,
    }
    resolved = grouped.select(
        *table_columns(target, target.names, own),
        F.coalesce(F.col(STORED_POSITION) == F.col(LAST_POSITION), F.lit(False)).alias(SUPPLIED),
        (hidden_row | (~deleted & lacking)).alias(OWES),
        F.col(STORED_OWED),
    )
    # At the stored position a row differs only where a column is known at another position: those only grow.
    return resolved.where(~F.col(SUPPLIED) | ~quoted(hidden.OWED).eqNullSafe(F.col(STORED_OWED))).drop(STORED_OWED)
