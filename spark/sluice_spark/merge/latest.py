"""Decides which changes of a batch become rows: the latest per key, newer than what is stored and than the last truncate, deletes as tombstones."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.changes import hidden_columns as hidden
from sluice.changes.position import is_by_offset_alone
from sluice_spark.merge.normalize import UNHELD, quoted

CHANGES = "_sluice_changes"  # how many changes of the batch a row stands for
NEWEST = "_sluice_newest"  # whether a row is its key's newest change in the batch
STORED_POSITION = "_sluice_stored_position"
STORED_OWED = "_sluice_stored_owed"
WINS = "_sluice_wins"
BELOW = "_sluice_below"  # whether it is of a row that the table doesn't have, at or below what was purged
FILLS = "_sluice_fills"  # whether a key needs its history to be folded (filling.py)
_KEY = "_sluice_key_"
_RANK = "_sluice_rank"
_INCOMPLETE = "_sluice_incomplete"


def latest_changes(changes: DataFrame, *, record_key: Sequence[str], ignore_deletes: bool) -> DataFrame:
    """One row per key: the change with the highest position; the CHANGES column counts how many it was chosen from.

    Where the latest change left columns unchanged (or is a deletion that is ignored), all changes of its key are
    kept, and NEWEST tells which is the latest: an older one may tell those columns. Truncates and messages, which have
    no key, are kept too.

    By a window and not by max_by: that aggregates by sorting twice, and took a third longer. All three frames are of the
    one ordered window, so that there is one operator: a second one for the count took 6 % of the processor time of a first load.
    """
    of_key = Window.partitionBy(*[quoted(name) for name in record_key])
    newest_first = of_key.orderBy(quoted(hidden.POSITION).desc())
    all_of_key = newest_first.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    ranked = changes.withColumns(
        {
            _RANK: F.row_number().over(newest_first),
            _INCOMPLETE: F.first(_incomplete(ignore_deletes)).over(all_of_key),
            CHANGES: F.count(F.lit(1)).over(all_of_key),
        }
    )
    kept = ranked.where((F.col(_RANK) == 1) | F.col(_INCOMPLETE) | of_no_row())
    return kept.withColumn(NEWEST, F.col(_RANK) == 1).drop(_RANK)


def of_no_row() -> SparkColumn:
    """Whether a change is a truncate or a message."""
    return F.coalesce(quoted(hidden.OP).isin(hidden.TRUNCATE, hidden.MESSAGE), F.lit(False))


def _incomplete(ignore_deletes: bool) -> SparkColumn:
    """Whether a change alone doesn't say what its row becomes."""
    deleted = quoted(hidden.DELETED)
    unchanged = quoted(hidden.UNCHANGED).isNotNull()
    return unchanged | deleted if ignore_deletes else unchanged & ~deleted


def as_tombstones(changes: DataFrame, *, record_key: Sequence[str], keep_values: bool) -> DataFrame:
    """Empty a deleted row of everything but its key and its hidden columns, the partition column included.

    A delete often carries only the key, and its other columns null or as type defaults: nothing else
    is known of it. With `keep_values` what the delete carries stays.
    """
    if keep_values:
        return changes
    kept = {*record_key, *hidden.NAMES, hidden.UNCHANGED, CHANGES, NEWEST, UNHELD, _INCOMPLETE}
    return changes.select(
        *[
            quoted(field.name)
            if field.name in kept
            else F.when(~quoted(hidden.DELETED), quoted(field.name)).alias(field.name)
            for field in changes.schema.fields
        ]
    )


def beside_stored(latest: DataFrame, *, stored: DataFrame | None, record_key: Sequence[str], few: bool) -> DataFrame:
    """The changes with their rows' stored position and owed columns beside, null where the table has no such row.

    `stored` has the key, position and owed columns of the whole table (None: the table is empty): one read, narrowed here
    to the batch's keys before anything of it moves. `few` says that the keys are few enough to send them to
    every task of that read.
    """
    if stored is None:
        return latest.withColumns(
            {STORED_POSITION: F.lit(None).cast("string"), STORED_OWED: F.lit(None).cast("string")}
        )
    names = [f"{_KEY}{number}" for number in range(len(record_key))]
    keys = latest.where(F.col(NEWEST)).select(*[quoted(name).alias(alias) for name, alias in zip(record_key, names)])
    types = {field.name: field.dataType for field in latest.schema.fields}
    held = stored.select(
        *[quoted(name).cast(types[name]).alias(alias) for name, alias in zip(record_key, names)],
        quoted(hidden.POSITION).alias(STORED_POSITION),
        quoted(hidden.OWED).alias(STORED_OWED),
    ).join(F.broadcast(keys) if few else keys, names, "left_semi")
    joined = latest.join(held, [quoted(name) == held[alias] for name, alias in zip(record_key, names)], "left")
    return joined.select(*[quoted(name) for name in latest.columns], STORED_POSITION, STORED_OWED)


def marked(beside: DataFrame, *, floor: str, purged: str, purged_partition: int | None = None) -> DataFrame:
    """Mark in the WINS column which rows are newer than the table's, and in FILLS those that need their key's history.

    `floor` is the position of the newest truncate: what is not newer loses, also for keys that the table never had. `purged` is the
    highest position of a row that was removed for good: what isn't newer may be what its tombstone had defeated, so it
    can't become a row again where the table has none of its key (rule 13). A `purged` that is a Kafka offset alone is of `purged_partition`, the only
    one that the table had then: offsets of others, which came since, don't compare with it. Those of an earlier generation are older wherever they are.
    """
    position, stored, owed = quoted(hidden.POSITION), F.col(STORED_POSITION), F.col(STORED_OWED)
    above = F.col(NEWEST) & ~of_no_row() & (position > F.lit(floor))
    below = above & stored.isNull() & (position <= F.lit(purged))
    if purged_partition is not None and is_by_offset_alone(purged):
        elsewhere = (quoted(hidden.PARTITION) != F.lit(purged_partition)) & (
            F.substring(position, 1, 4) == F.lit(purged[:4])
        )
        below = below & ~F.coalesce(elsewhere, F.lit(False))
    alive = above & ~below
    newer = stored.isNull() | (position > stored)
    # A change that loses still supplies columns that the row owes; one that is stored already may have older ones with it.
    supplies = ~newer & owed.isNotNull() & (F.col(_INCOMPLETE) | (position < stored))
    return beside.withColumns(
        {BELOW: below, WINS: alive & newer, FILLS: alive & ((newer & F.col(_INCOMPLETE)) | supplies)}
    )


def winners(rows: DataFrame, *, target: StructType) -> DataFrame:
    """The rows to write as they are, with the table's columns only."""
    return rows.where(F.col(WINS) & ~F.col(FILLS)).select(*[quoted(name) for name in target.names])


def keys_of(
    rows: DataFrame, condition: SparkColumn, *, record_key: Sequence[str], beside: Sequence[str] = ()
) -> DataFrame:
    """The keys of some newest changes, each once, under the names that `same_key` compares; with the columns of `beside`."""
    keys = [quoted(name).alias(f"{_KEY}{number}") for number, name in enumerate(record_key)]
    return rows.where(F.col(NEWEST) & condition).select(*keys, *beside)


def same_key(rows: DataFrame, keys: DataFrame, *, record_key: Sequence[str]) -> SparkColumn:
    """The condition of a join of rows with `keys_of` others; no key has a null."""
    condition = F.lit(True)
    for number, name in enumerate(record_key):
        condition = condition & (rows["`" + name.replace("`", "``") + "`"] == keys[f"{_KEY}{number}"])
    return condition


def replacing(stored: DataFrame, rows: DataFrame, *, target: StructType, record_key: Sequence[str]) -> DataFrame:
    """The whole table after a commit of `rows`: they, and what is stored under other keys, with the types of `target`."""
    names = [f"{_KEY}{number}" for number in range(len(record_key))]
    keys = rows.select(*[quoted(name).alias(alias) for name, alias in zip(record_key, names)])
    same = [quoted(name).eqNullSafe(keys[alias]) for name, alias in zip(record_key, names)]
    held = set(stored.columns)
    kept = stored.join(keys, same, "left_anti").select(
        *[
            (quoted(field.name) if field.name in held else F.lit(None)).cast(field.dataType).alias(field.name)
            for field in target.fields
        ]
    )
    return kept.unionByName(rows)
