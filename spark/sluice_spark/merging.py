"""Decides which changes of a batch become rows: the latest per key, newer than what is stored, deletes as tombstones."""
from __future__ import annotations

from typing import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice import hidden_columns as hidden
from sluice_spark.normalizing import UNHELD, quoted

CHANGES = "_sluice_changes"  # how many changes of the batch a row stands for
WINS = "_sluice_wins"
_STORED = "_sluice_stored_position"
_KEY = "_sluice_key_"
_RANK = "_sluice_rank"


def latest_changes(changes: DataFrame, *, record_key: Sequence[str]) -> DataFrame:
    """One row per key: the change with the highest position; the CHANGES column counts how many it was chosen from.

    By a window and not by max_by: that aggregates by sorting twice, and took a third longer.
    """
    of_key = Window.partitionBy(*[quoted(name) for name in record_key])
    rank = F.row_number().over(of_key.orderBy(quoted(hidden.POSITION).desc()))
    ranked = changes.withColumn(_RANK, rank).withColumn(CHANGES, F.count(F.lit(1)).over(of_key))
    return ranked.where(F.col(_RANK) == 1).drop(_RANK)


def as_tombstones(changes: DataFrame, *, record_key: Sequence[str], keep_values: bool) -> DataFrame:
    """Empty a deleted row of everything but its key and its hidden columns, the partition column included.

    A delete often carries only the key, and its other columns null or as type defaults: nothing else
    is known of it. With `keep_values` what the delete carries stays.
    """
    if keep_values:
        return changes
    kept = {*record_key, *hidden.NAMES, CHANGES, UNHELD}
    return changes.select(*[
        quoted(field.name) if field.name in kept
        else F.when(~quoted(hidden.DELETED), quoted(field.name)).alias(field.name)
        for field in changes.schema.fields
    ])


def against_stored(latest: DataFrame, *, stored: DataFrame, record_key: Sequence[str], few: bool) -> DataFrame:
    """Mark in the WINS column which rows are newer than the table's.

    `stored` has the key and position columns of the whole table: one read, narrowed here to the
    batch's keys before anything of it moves. `few` says that the keys are few enough to send them to
    every task of that read.
    """
    names = [f"{_KEY}{number}" for number in range(len(record_key))]
    keys = latest.select(*[quoted(name).alias(alias) for name, alias in zip(record_key, names)])
    types = {field.name: field.dataType for field in latest.schema.fields}
    held = stored.select(
        *[quoted(name).cast(types[name]).alias(alias) for name, alias in zip(record_key, names)],
        quoted(hidden.POSITION).alias(_STORED),
    ).join(F.broadcast(keys) if few else keys, names, "left_semi")
    joined = latest.join(held, [quoted(name) == held[alias] for name, alias in zip(record_key, names)], "left")
    newer = F.col(_STORED).isNull() | (quoted(hidden.POSITION) > F.col(_STORED))
    return joined.select(*[quoted(name) for name in latest.columns], newer.alias(WINS))


def winners(marked: DataFrame) -> DataFrame:
    """The rows to write, with the table's columns only."""
    return marked.where(F.col(WINS)).drop(CHANGES, WINS, UNHELD)


def replacing(stored: DataFrame, rows: DataFrame, *, target: StructType, record_key: Sequence[str]) -> DataFrame:
    """The whole table after a commit of `rows`: they, and what is stored under other keys, with the types of `target`."""
    names = [f"{_KEY}{number}" for number in range(len(record_key))]
    keys = rows.select(*[quoted(name).alias(alias) for name, alias in zip(record_key, names)])
    same = [quoted(name).eqNullSafe(keys[alias]) for name, alias in zip(record_key, names)]
    held = set(stored.columns)
    kept = stored.join(keys, same, "left_anti").select(*[
        (quoted(field.name) if field.name in held else F.lit(None)).cast(field.dataType).alias(field.name) for field in target.fields
    ])
    return kept.unionByName(rows)
