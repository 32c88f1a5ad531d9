"""Folds the history of keys whose newest change doesn't tell every column: the Spark form of `sluice.folding`, by built-in aggregates."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from sluice.changes import hidden_columns as hidden
from sluice.changes.row_history import EVERY_COLUMN, NEVER
from sluice_spark.merge.latest import keys_of, same_key
from sluice_spark.merge.normalize import quoted

SUPPLIED = "_sluice_supplied"  # whether a stored row keeps its position and only got columns that it owed
OWES = "_sluice_owes"  # whether a row still lacks the value of a column
_STORED = "_sluice_is_stored"
_AS_STORED = "_sluice_as_stored"  # a stored row's position, as the table has it
_ADVANCES = "_sluice_advances"
_TOLD, _BEGINS, _POSITION, _LIVES, _AT, _REST, _NEWEST, _ROW_OWED = (
    "_sluice_told",
    "_sluice_begins",
    "_sluice_last",
    "_sluice_lives",
    "_sluice_at",
    "_sluice_rest",
    "_sluice_lineage",
    "_sluice_row_owed",
)
_LINEAGE = tuple(hidden.LINEAGE.values())


def unavailable_columns(target: StructType, record_key: Sequence[str]) -> list[str]:
    """The columns that a change may leave unchanged without telling: those of types that sources store apart."""
    kinds = (StringType, BinaryType, ArrayType, MapType)
    return [
        field.name
        for field in target.fields
        if isinstance(field.dataType, kinds) and field.name not in {*record_key, *hidden.NAMES}
    ]


def history(
    changes: DataFrame,
    *,
    fills: SparkColumn,
    taken: SparkColumn,
    stored: DataFrame | None,
    touched: SparkColumn | None,
    target: StructType,
    record_key: Sequence[str],
    floor: str,
    ignore_deletes: bool,
) -> DataFrame:
    """Every change of the keys that `fills` marks, and the stored rows of these keys, in the table's columns.

    `touched` marks stored rows that are folded too, unless the batch's changes that `taken` marks decide about them.
    """
    keys = keys_of(changes, fills, record_key=record_key)
    batch = changes.join(keys, same_key(changes, keys, record_key=record_key), "left_semi").where(
        quoted(hidden.POSITION) > F.lit(floor)
    )
    frame = batch.select(
        *[quoted(name) for name in target.names],
        quoted(hidden.UNCHANGED),
        F.lit(False).alias(_STORED),
        F.lit(None).cast("string").alias(_AS_STORED),
    )
    if stored is None:
        return frame
    held = stored.join(keys, same_key(stored, keys, record_key=record_key), "left_semi")
    if touched is not None:
        decided, owing = keys_of(changes, taken, record_key=record_key), stored.where(touched)
        held = held.unionByName(owing.join(decided, same_key(owing, decided, record_key=record_key), "left_anti"))
    return frame.unionByName(_as_history(held, target, floor, ignore_deletes))


def _as_history(held: DataFrame, target: StructType, floor: str, ignore_deletes: bool) -> DataFrame:
    """Stored rows in the table's columns. One that is older than the truncate is a row deleted by it."""
    position, present = quoted(hidden.POSITION), set(held.columns)
    truncated = F.lit(False) if ignore_deletes else position < F.lit(floor)
    own = {
        hidden.POSITION: F.when(truncated, F.lit(floor)).otherwise(position),
        hidden.DELETED: truncated | quoted(hidden.DELETED),
        hidden.OWED: F.when(~truncated, quoted(hidden.OWED)),
    }
    chosen = [
        own.get(field.name, quoted(field.name) if field.name in present else F.lit(None))
        .cast(field.dataType)
        .alias(field.name)
        for field in target.fields
    ]
    return held.select(
        *chosen,
        F.lit(None).cast("array<string>").alias(hidden.UNCHANGED),
        F.lit(True).alias(_STORED),
        position.alias(_AS_STORED),
    )


def folded(
    rows: DataFrame,
    *,
    target: StructType,
    record_key: Sequence[str],
    columns: Sequence[str],
    floor: str,
    ignore_deletes: bool,
) -> DataFrame:
    """One row per key as `sluice.folding.folded` says it, of those that differ from the stored row; with SUPPLIED and OWES beside.

    `columns` are those that some change or stored row of the history may not tell.
    """
    position, deleted, stored, owed = (
        quoted(hidden.POSITION),
        quoted(hidden.DELETED),
        F.col(_STORED),
        quoted(hidden.OWED),
    )
    known = F.from_json(owed, "map<string,string>")
    knows_nothing = stored & deleted & F.coalesce(known[EVERY_COLUMN].isNotNull(), F.lit(False))
    ignored = ~stored & deleted if ignore_deletes else F.lit(False)
    prepared = rows.withColumns({_ADVANCES: knows_nothing | ignored, _ROW_OWED: known})
    advances = F.col(_ADVANCES)
    begins = ~advances & (deleted | (~stored & F.coalesce(quoted(hidden.OP) == hidden.CREATE, F.lit(False))))
    single = {*record_key, *columns, *hidden.NAMES}
    rest = [name for name in target.names if name not in single]
    lives = ~advances & ~deleted
    summary = [_describe_at(name, lives) for name in columns]
    grouped = prepared.groupBy(*[quoted(name) for name in record_key]).agg(
        F.max(position).alias(_POSITION),
        F.max(F.when(begins, position)).alias(_BEGINS),
        F.max(F.when(~advances, position)).alias(_AT),
        F.max_by(deleted, F.when(~advances, position)).alias(hidden.DELETED),
        F.max_by(F.struct(*[quoted(name) for name in _LINEAGE if name in target.names]), position).alias(_NEWEST),
        F.max_by(F.struct(F.lit(True).alias(_LIVES), *[quoted(name) for name in rest]), F.when(lives, position)).alias(
            _REST
        ),
        *[F.max(at).alias(f"{_TOLD}{number}") for number, at in enumerate(summary)],
        *[F.max_by(quoted(name), at).alias(name) for name, at in zip(columns, summary)],
        F.max(_AS_STORED).alias(_AS_STORED),
        F.max(F.when(stored, owed)).alias(hidden.OWED),
    )
    return _rows(
        grouped,
        target=target,
        record_key=record_key,
        columns=columns,
        rest=rest,
        floor=NEVER if ignore_deletes else floor,
    )


def _describe_at(name: str, lives: SparkColumn) -> SparkColumn:
    """At which position a row of the history tells a column; null where it doesn't."""
    position = quoted(hidden.POSITION)
    of_stored = F.coalesce(F.col(_ROW_OWED)[name], position)
    of_change = F.when(~F.coalesce(F.array_contains(quoted(hidden.UNCHANGED), name), F.lit(False)), position)
    summary = F.when(F.col(_STORED), of_stored).otherwise(of_change)
    return F.when(lives & (summary != F.lit(NEVER)), summary)


def _rows(
    grouped: DataFrame,
    *,
    target: StructType,
    record_key: Sequence[str],
    columns: Sequence[str],
    rest: Sequence[str],
    floor: str,
) -> DataFrame:
    begins = F.greatest(F.coalesce(F.col(_BEGINS), F.lit(NEVER)), F.lit(floor))
    hidden_row = F.col(_AT).isNull()  # nothing but ignored deletions is known
    deleted = hidden_row | F.coalesce(F.col(hidden.DELETED), F.lit(True))
    stored_owed = F.from_json(F.col(hidden.OWED), "map<string,string>")
    values, entries, lacking = {}, [], F.lit(False)
    for number, name in enumerate(columns):
        summary = F.col(f"{_TOLD}{number}")
        known = F.coalesce(summary >= begins, F.lit(False))
        at = F.when(known, summary).otherwise(begins)
        values[name] = F.when(known & ~deleted, quoted(name))
        entries.append(
            F.when(
                ~known | (at < F.col(_AT)) | F.coalesce(at == stored_owed[name], F.lit(False)),
                F.struct(F.lit(name).alias("key"), at.alias("value")),
            )
        )
        lacking = lacking | ~known
    owing = F.filter(F.array(*entries), lambda entry: entry.isNotNull()) if entries else F.array()
    json = F.when(F.size(owing) > 0, F.to_json(F.map_from_entries(owing))) if entries else F.lit(None).cast("string")
    every = F.to_json(F.create_map(F.lit(EVERY_COLUMN), F.lit(NEVER)))
    own = {
        hidden.POSITION: F.col(_POSITION),
        hidden.DELETED: deleted,
        hidden.OWED: F.when(hidden_row, every).when(~deleted, json),
        **{name: F.col(_NEWEST)[name] for name in _LINEAGE if name in target.names},
        **{name: F.when(~deleted, F.col(_REST)[name]) for name in rest},
        **values,
    }
    chosen = [
        (own[field.name] if field.name in own else quoted(field.name)).cast(field.dataType).alias(field.name)
        for field in target.fields
    ]
    found = grouped.select(
        *chosen,
        F.coalesce(F.col(_AS_STORED) == F.col(_POSITION), F.lit(False)).alias(SUPPLIED),
        (hidden_row | (~deleted & lacking)).alias(OWES),
        F.col(hidden.OWED).alias(_ROW_OWED),
    )
    # Known at another position, or nothing happened: what a column is known at only grows.
    return found.where(~F.col(SUPPLIED) | ~quoted(hidden.OWED).eqNullSafe(F.col(_ROW_OWED))).drop(_ROW_OWED)
