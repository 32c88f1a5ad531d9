"""Chooses each key's newest change and marks the ones that win over the table.

In order: `latest_changes`, `as_tombstones`, `beside_stored`, `marked`, `winners`. The columns that they add are in
`working_columns`. `key_columns` and `same_key` join by record key, under column names that neither side has.
`later_in_batch`, `may_be_later` and `later_than_stored` find changes that lost though they may be later: they are
Spark's form of `sluice.changes.outdated.suspicion`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.changes import hidden_columns as hidden
from sluice.changes.forgotten import SEPARATOR, marks
from sluice.changes.outdated import (
    BELOW,
    LATER,
    MOVED,
    POSTGRES_PLACE,
    REWOUND,
    SNAPSHOT_BYTES,
    UNTIMED,
)
from sluice.changes.position import BEFORE_THE_LOG, BY_ARRIVAL, BY_OFFSET_ALONE, OFFSET_DIGITS, is_by_offset_alone
from sluice_spark.merge.by_spark.columns import quoted
from sluice_spark.merge.by_spark.shared_keys import shared_columns
from sluice_spark.merge.by_spark.working_columns import (
    BELOW_PURGE_FLOOR,
    CHANGES,
    INCOMPLETE,
    INEXACT,
    KEY_PREFIX,
    LATEST,
    NEEDS_HISTORY,
    NEWEST,
    RANK,
    SHARED,
    SNAPSHOT,
    SNAPSHOT_ROWS,
    STORED_OWED,
    STORED_PARTITION,
    STORED_POSITION,
    STORED_TIME,
    WINS,
)

SUSPICIONS = (LATER, UNTIMED, REWOUND, MOVED, BELOW)


def latest_changes(
    changes: DataFrame,
    *,
    record_key: Sequence[str],
    ignore_deletes: bool,
    source_clock: bool = True,
    floor: SparkColumn | None = None,
) -> DataFrame:
    """Keep one row per key, the change with the highest position. `changes` come from `with_snapshots`.

    `floor` is given where source tables have floors of their own: a change above its floor is newer than one below.

    Adds CHANGES, NEWEST, INCOMPLETE, SHARED, SNAPSHOT_ROWS and LATEST; without `source_clock` times don't count. All
    changes of a key are kept where the newest alone doesn't give the row: it left columns unchanged, or is a delete
    that is ignored. Truncates and messages have no key and are kept too.
    """
    # A window, since max_by aggregates by sorting twice and took a third longer. All frames are of the one ordered
    # window, which Spark runs as one operator: a second took 6 % of the processor time of a first load.
    of_key = Window.partitionBy(*[quoted(name) for name in record_key])
    position = quoted(hidden.POSITION)
    newest_first = of_key.orderBy(*([] if floor is None else [(position > floor).desc()]), position.desc())
    all_of_key = newest_first.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    ranked = changes.withColumns(
        {
            RANK: F.row_number().over(newest_first),
            INCOMPLETE: F.first(_incomplete(ignore_deletes=ignore_deletes)).over(all_of_key),
            CHANGES: F.count(F.lit(1)).over(all_of_key),
            LATEST: F.max(_place(source_clock=source_clock)).over(all_of_key),
            **shared_columns(all_of_key),
        }
    )
    candidates = ranked.where((F.col(RANK) == 1) | F.col(INCOMPLETE) | has_no_row())
    another = F.col(f"{LATEST}.position") != quoted(hidden.POSITION)
    return candidates.withColumns({NEWEST: F.col(RANK) == 1, LATEST: F.when(another, F.col(LATEST))}).drop(
        RANK, SNAPSHOT
    )


def has_no_row() -> SparkColumn:
    """True for truncates and messages, which are changes of no row."""
    return F.coalesce(quoted(hidden.OP).isin(hidden.TRUNCATE, hidden.MESSAGE), F.lit(False))


def _incomplete(*, ignore_deletes: bool) -> SparkColumn:
    deleted = quoted(hidden.DELETED)
    unchanged = quoted(hidden.UNCHANGED).isNotNull()
    return unchanged | deleted if ignore_deletes else unchanged & ~deleted


def as_tombstones(changes: DataFrame, *, record_key: Sequence[str], keep_values: bool) -> DataFrame:
    """Set all but the key and the hidden columns of a deleted row to null, its partition column too.

    A delete often carries only the key, and its other columns as null or as type defaults. With `keep_values` they stay
    as the delete has them.
    """
    if keep_values:
        return changes
    own = {CHANGES, NEWEST, INEXACT, INCOMPLETE, SHARED, SNAPSHOT_ROWS, LATEST}
    kept_columns = {*record_key, *hidden.NAMES, hidden.UNCHANGED, *own}
    return changes.select(
        *[
            quoted(field.name)
            if field.name in kept_columns
            else F.when(~quoted(hidden.DELETED), quoted(field.name)).alias(field.name)
            for field in changes.schema.fields
        ]
    )


def beside_stored(latest: DataFrame, *, stored: DataFrame | None, record_key: Sequence[str], few: bool) -> DataFrame:
    """Add STORED_POSITION and STORED_OWED of the stored row with the same key, null where there is none.

    `stored` has the key, position and owed columns of the whole table, None for an empty one. It is narrowed to the
    batch's keys before it is shuffled. `few` is true where the keys are few enough to broadcast.
    """
    if stored is None:
        return latest.withColumns(
            {STORED_POSITION: F.lit(None).cast("string"), STORED_OWED: F.lit(None).cast("string")}
        )
    names = key_names(record_key)
    keys = latest.where(F.col(NEWEST)).select(*key_columns(record_key))
    types = {field.name: field.dataType for field in latest.schema.fields}
    held = stored.select(
        *[quoted(name).cast(types[name]).alias(alias) for name, alias in zip(record_key, names)],
        quoted(hidden.POSITION).alias(STORED_POSITION),
        quoted(hidden.OWED).alias(STORED_OWED),
    ).join(F.broadcast(keys) if few else keys, names, "left_semi")
    joined = latest.join(held, [quoted(name) == held[alias] for name, alias in zip(record_key, names)], "left")
    return joined.select(*[quoted(name) for name in latest.columns], STORED_POSITION, STORED_OWED)


def marked(beside: DataFrame, *, floor: SparkColumn, purged: str, purged_partition: int | None = None) -> DataFrame:
    """Add WINS, NEEDS_HISTORY and BELOW_PURGE_FLOOR.

    `floor` is the position of the newest truncate: a change that isn't newer loses, also for a key that the table never
    had. `purged` is the highest position of a purged row: where the table has no row of its key, a change that isn't
    newer can't become one, since the purged tombstone may have been its own (`floor-before-purge`).

    A `purged` that is a Kafka offset alone is of `purged_partition`, the only one that the table had then. Offsets of
    the same generation in other partitions don't compare with it; every earlier generation is older.
    """
    position, stored, owed = quoted(hidden.POSITION), F.col(STORED_POSITION), F.col(STORED_OWED)
    above = F.col(NEWEST) & ~has_no_row() & (position > floor)
    below = above & stored.isNull() & (position <= F.lit(purged))
    if purged_partition is not None and is_by_offset_alone(purged):
        elsewhere = (quoted(hidden.PARTITION) != F.lit(purged_partition)) & (
            F.substring(position, 1, 4) == F.lit(purged[:4])
        )
        below = below & ~F.coalesce(elsewhere, F.lit(False))
    alive = above & ~below
    newer = stored.isNull() | (position > stored)
    # A change that loses still supplies columns that the row owes; one that is stored already may have older ones
    # of its key with it.
    supplies = ~newer & owed.isNotNull() & (F.col(INCOMPLETE) | (position < stored))
    return beside.withColumns(
        {
            BELOW_PURGE_FLOOR: below,
            WINS: alive & newer,
            NEEDS_HISTORY: alive & ((newer & F.col(INCOMPLETE)) | supplies),
        }
    )


def winners(rows: DataFrame, *, target: StructType) -> DataFrame:
    """The winning rows that need no history, in the table's columns."""
    return rows.where(F.col(WINS) & ~F.col(NEEDS_HISTORY)).select(*[quoted(name) for name in target.names])


def key_names(record_key: Sequence[str]) -> list[str]:
    """The names that `key_columns` gives to a key's columns."""
    return [f"{KEY_PREFIX}{number}" for number in range(len(record_key))]


def key_columns(record_key: Sequence[str]) -> list[SparkColumn]:
    """A key's columns under the names that `same_key` compares."""
    return [quoted(name).alias(alias) for name, alias in zip(record_key, key_names(record_key))]


def key_hash_column(table: str, record_key: Sequence[str]) -> SparkColumn:
    """The same hash of a row's key as `sluice.changes.forgotten.key_hash`."""
    texts = [quoted(name).cast("string") for name in record_key]
    return F.sha2(F.concat_ws(SEPARATOR, F.lit(table), *texts), 256)


def is_forgotten(noted: str, *, table: str, record_key: Sequence[str]) -> SparkColumn:
    """True for a change of a forgotten row that is no newer than the row was; `noted` is the table's note."""
    positions = F.create_map(*[F.lit(part) for mark in marks(noted).items() for part in mark])
    until = positions[key_hash_column(table, record_key)]
    return F.coalesce(quoted(hidden.POSITION) <= until, F.lit(False))


def keys_of(rows: DataFrame, condition: SparkColumn, *, record_key: Sequence[str]) -> DataFrame:
    """The keys of the newest changes that meet a condition, each once."""
    return rows.where(F.col(NEWEST) & condition).select(*key_columns(record_key))


def same_key(rows: DataFrame, keys: DataFrame, *, record_key: Sequence[str]) -> SparkColumn:
    """The join condition of rows and `key_columns`. A key has no null."""
    return reduce(
        and_,
        (
            rows["`" + name.replace("`", "``") + "`"] == keys[alias]
            for name, alias in zip(record_key, key_names(record_key))
        ),
        F.lit(True),
    )


def _place(*, source_clock: bool) -> SparkColumn:
    """A change's place; compared, these are in the order of the source's time, then of the offset."""
    time = quoted(hidden.SOURCE_TS_MS) if source_clock else F.lit(None).cast("bigint")
    return F.struct(
        time.alias("time"),
        quoted(hidden.OFFSET).alias("offset"),
        quoted(hidden.POSITION).alias("position"),
        quoted(hidden.PARTITION).alias("partition"),
        quoted(hidden.OP).alias("op"),
    )


def later_in_batch(holds: SparkColumn) -> list[SparkColumn]:
    """Aggregates that count, by word, the keys that the row `holds` though another change of the batch is later."""
    words = _suspicion(F.col(LATEST), quoted(hidden.POSITION), quoted(hidden.PARTITION), quoted(hidden.SOURCE_TS_MS))
    return [F.count(F.when(holds & (words == word), 1)).alias(word) for word in (LATER, REWOUND)]


def may_be_later(lost: SparkColumn) -> SparkColumn:
    """True for those that `lost` to their stored row of which `later_than_stored` can tell whether they are later."""
    position, stored = F.coalesce(F.col(f"{LATEST}.position"), quoted(hidden.POSITION)), F.col(STORED_POSITION)
    behind = _offset(position) > _offset(stored)
    return lost & _comparable(position, stored) & (behind | position.rlike(BY_OFFSET_ALONE))


def behind_floor(lost: SparkColumn, floor: SparkColumn) -> SparkColumn:
    """True for those that `lost` to a truncate alone, whose time and partition nothing tells, at a higher offset."""
    position = F.coalesce(F.col(f"{LATEST}.position"), quoted(hidden.POSITION))
    behind = ~position.rlike(BY_OFFSET_ALONE) & ~position.rlike(BEFORE_THE_LOG) & (_offset(position) > _offset(floor))
    behind = behind & ~position.rlike(BY_ARRIVAL)
    return lost & F.col(STORED_POSITION).isNull() & ~F.col(BELOW_PURGE_FLOOR) & behind


def later_than_stored(suspects: DataFrame, *, source_clock: bool) -> dict[str, int]:
    """How many keys lost a change to their stored row that may be later, by word. The frame has the stored place."""
    lost = F.coalesce(F.col(LATEST), _place(source_clock=source_clock))
    words = _suspicion(lost, F.col(STORED_POSITION), F.col(STORED_PARTITION), F.col(STORED_TIME))
    counts = suspects.agg(*[F.count(F.when(words == word, 1)).alias(word) for word in SUSPICIONS]).first()
    assert counts is not None
    return {word: count for word, count in counts.asDict().items() if count}


def _suspicion(lost: SparkColumn, position: SparkColumn, partition: SparkColumn, time: SparkColumn) -> SparkColumn:
    own, own_time = lost.getField("position"), lost.getField("time")
    timed = own_time.isNotNull() & time.isNotNull()
    later, not_older = F.coalesce(own_time > time, F.lit(False)), ~timed | (own_time >= time)
    same_partition = lost.getField("partition") == partition  # null, and so no suspicion, where one is unknown
    by_offset = own.rlike(BY_OFFSET_ALONE) & position.rlike(BY_OFFSET_ALONE)
    places = own.rlike(POSTGRES_PLACE) & position.rlike(POSTGRES_PLACE)
    distance = position.substr(6, 20).cast("decimal(20,0)") - own.substr(6, 20).cast("decimal(20,0)")
    of_snapshot = F.coalesce(lost.getField("op") == hidden.SNAPSHOT_READ, F.lit(False))
    near = of_snapshot & places & (distance < SNAPSHOT_BYTES)
    behind = (_offset(own) > _offset(position)) & ~own.rlike(BEFORE_THE_LOG) & ~near
    alone = F.when(~same_partition, F.when(later, LATER).when(~timed, MOVED)).when(later, REWOUND).when(~timed, BELOW)
    in_log = F.when(same_partition & behind, F.when(later, LATER).otherwise(UNTIMED))
    suspicious = same_partition.isNotNull() & _comparable(own, position) & not_older
    return F.when(suspicious, F.when(by_offset, alone).otherwise(in_log))


def _comparable(lost: SparkColumn, winner: SparkColumn) -> SparkColumn:
    """Of one generation, and the first is the lower one. Places in objects are no offsets."""
    by_arrival = lost.rlike(BY_ARRIVAL) | winner.rlike(BY_ARRIVAL)
    return (lost.substr(1, 4) == winner.substr(1, 4)) & (lost <= winner) & ~by_arrival


def _offset(position: SparkColumn) -> SparkColumn:
    return position.substr(F.length(position) - (OFFSET_DIGITS - 1), F.lit(OFFSET_DIGITS))
