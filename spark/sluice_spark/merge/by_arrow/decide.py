"""Decides by Arrow which rows a part's changes write, and counts what became of each change.

The Arrow form of `merge.by_spark.latest` and `decide`, for changes that are whole: a change that left columns
unchanged, and a stored row that owes some, are left to Spark. So are keys that rows of a snapshot may share.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.changes import hidden_columns as hidden
from sluice.changes.outdated import LATER, REWOUND, ChangePlace, suspicions_in
from sluice.config.table import TableConfig
from sluice_spark.merge.by_arrow.rows import LeftToSpark

Key = tuple[Any, ...]


@dataclass(frozen=True)
class StoredRow:
    """The stored row of a key: its position, what it owes, Hudi's text of its key, and the number of its file.

    `partition` and `source_ts_ms` are those of the change that it is from, None without lineage.
    """

    position: str
    owed: str | None
    record_key: str
    file: int
    partition: int | None = None
    source_ts_ms: int | None = None


@dataclass(frozen=True)
class DecidedChanges:
    """The rows that win, one per key in the table's columns, their keys in the same order, and the part's counts.

    `suspicions` counts keys that lost a change that may be later than what they hold.
    """

    rows: pa.Table
    keys: Sequence[Key]
    counts: dict[str, int]
    suspicions: Mapping[str, int] = dataclasses.field(default_factory=dict)


NO_CHANGES = dict.fromkeys(("read", "winning", "deleted", "overtaken", "losing", "repeated"), 0)


def newest_changes(rows: pa.Table, config: TableConfig) -> pa.Table:
    """Each key's newest change by position. `rows` are those of `arrow_rows`.

    Raises LeftToSpark where the newest change isn't the whole row, and where rows of a snapshot may share a key.
    """
    keys, positions = [rows.column(name) for name in config.record_key], rows.column(hidden.POSITION)
    if not config.append_only and may_share_keys(keys, positions, rows.column(hidden.OP)):
        raise LeftToSpark("shared_keys")
    newest = rows.take(newest_places(keys, positions)).combine_chunks()
    incomplete = pc.and_(pc.is_valid(newest.column(hidden.UNCHANGED)), pc.invert(newest.column(hidden.DELETED)))
    if pc.any(incomplete).as_py():
        raise LeftToSpark("unchanged")
    return newest


def newest_places(keys: Sequence[Any], positions: Any) -> pa.Array:
    """The place of each key's change with the highest position. `keys` has a column or several."""
    count = len(positions)
    if len(keys) == 1 and pc.count_distinct(keys[0]).as_py() == count:
        return pa.array(range(count), pa.int64())
    return _last_places(keys, [positions])


def latest_places(keys: Sequence[Any], times: Any, offsets: Any) -> pa.Array:
    """The place of each key's latest change by the source's time, then by offset: as `newest_places` orders the keys.

    Of rows in which a key repeats.
    """
    return _last_places(keys, [times, offsets])


def _last_places(keys: Sequence[Any], by: Sequence[Any]) -> pa.Array:
    """The place of each key's last row by these columns, in the order of the keys. Nulls come first."""
    names, orders = [str(number) for number in range(len(keys))], [f"by{number}" for number in range(len(by))]
    rows = pa.table([*keys, *by], names=[*names, *orders])
    sort_keys = [*((name, "ascending") for name in names), *((name, "descending") for name in orders)]
    order = pc.sort_indices(rows, sort_keys=sort_keys)
    return order.filter(pc.invert(_repeats(rows.select(names).take(order))))


PLACE_COLUMNS = (hidden.POSITION, hidden.OFFSET, hidden.PARTITION, hidden.SOURCE_TS_MS, hidden.OP)


def latest_changes(rows: pa.Table, newest: pa.Table, keys: Sequence[Any], *, source_clock: bool) -> pa.Table:
    """PLACE_COLUMNS of each key's latest change by the source's time, in the order of the keys of `newest`.

    `newest` are each key's newest changes among `rows` by position, and `keys` the columns of the key of `rows`.
    Without `source_clock` the rows' times are another's, and left out.
    """
    if newest.num_rows == rows.num_rows or not source_clock:
        alone = newest.select(list(PLACE_COLUMNS))
        times = PLACE_COLUMNS.index(hidden.SOURCE_TS_MS)
        field = alone.schema.field(times)
        return alone if source_clock else alone.set_column(times, field, pa.nulls(alone.num_rows, field.type))
    places = latest_places(keys, rows.column(hidden.SOURCE_TS_MS), rows.column(hidden.OFFSET))
    return rows.select(list(PLACE_COLUMNS)).take(places)


def suspicions_of_keys(latest: pa.Table, newest: pa.Table) -> dict[str, int]:
    """How many keys hold a change of a batch, though another one of it is later: `outdated.suspicion` by word.

    In the order of a batch alone, a change without a time is not later than another.
    """
    later = pc.and_(
        pc.greater(latest.column(hidden.SOURCE_TS_MS), newest.column(hidden.SOURCE_TS_MS)),
        pc.less_equal(latest.column(hidden.POSITION), newest.column(hidden.POSITION)),
    )
    if not pc.any(later).as_py():
        return {}
    pairs = zip(places_of(latest.filter(later)), places_of(newest.filter(later)))
    return {name: count for name, count in suspicions_in(pairs).items() if name in (LATER, REWOUND)}


def places_of(rows: pa.Table) -> list[ChangePlace]:
    """Each row's place."""
    columns = (hidden.POSITION, hidden.PARTITION, hidden.SOURCE_TS_MS, hidden.OP)
    return [ChangePlace(*values) for values in zip(*(rows.column(name).to_pylist() for name in columns))]


def may_share_keys(keys: Sequence[Any], positions: Any, operations: Any) -> bool:
    """Whether two rows that a snapshot may have read have one key (`shared_keys.with_snapshots`)."""
    read = pc.or_kleene(pc.is_null(operations), pc.equal(operations, hidden.SNAPSHOT_READ))
    read_positions = positions.filter(read)
    return len(newest_places([key.filter(read) for key in keys], read_positions)) < len(read_positions)


def _repeats(ordered: pa.Table) -> pa.Array:
    """For each row, whether it equals the row before it."""
    count = ordered.num_rows
    if count < 2:
        return pa.array([False] * count, pa.bool_())
    columns = [_flat(column) for column in ordered.columns]
    same = reduce(pc.and_, (pc.equal(column.slice(1), column.slice(0, count - 1)) for column in columns))
    return pa.concat_arrays([pa.array([False], pa.bool_()), same])


def _flat(values: Any) -> pa.Array:
    """One array; a column of a table is chunked in some releases of Arrow, even when it has one chunk."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays([*values.chunks, pa.array([], values.type)])


def decide_changes(
    newest: pa.Table,
    *,
    read: int,
    stored: Mapping[Key, StoredRow],
    config: TableConfig,
    columns: Sequence[str],
    latest: pa.Table | None = None,
) -> DecidedChanges:
    """The rows that are newer than the table's, and the counts of `read` changes.

    `stored` has the rows of the changes' keys that the table holds, `columns` are the table's, `latest` are the keys'
    latest changes (`latest_changes`), None where Kafka's order says nothing. Raises LeftToSpark where a stored row owes
    columns, and where most changes lost.
    """
    keys = keys_of(newest, config.record_key)
    positions = newest.column(hidden.POSITION).to_pylist()
    held = [stored.get(key) for key in keys]
    if any(row is not None and row.owed is not None for row in held):
        raise LeftToSpark("owed")
    if config.append_only and (read > len(keys) or any(row is not None for row in held)):
        raise LeftToSpark("came_before")  # perhaps: the records are compared
    wins = [row is None or position > row.position for position, row in zip(positions, held)]
    repeated = sum(row is not None and position == row.position for position, row in zip(positions, held))
    winning = sum(wins)
    losing = len(keys) - winning
    if 2 * (losing - repeated) > len(keys):
        raise LeftToSpark("mostly_losing")
    winners = newest.filter(pa.array(wins, pa.bool_()))
    counts = {
        "read": read,
        "winning": winning,
        "deleted": pc.sum(winners.column(hidden.DELETED).cast(pa.int64())).as_py() or 0,
        "overtaken": read - len(keys),
        "losing": losing,
        "repeated": repeated,
    }
    inexact = pc.sum(winners.column(hidden.INEXACT)).as_py()
    if inexact:
        counts["inexact"] = inexact
    if not config.keep_deleted_values:
        winners = as_tombstones(winners, record_key=config.record_key)
    won = [key for key, is_won in zip(keys, wins) if is_won]
    return DecidedChanges(winners.select(list(columns)), won, counts, _suspicions(newest, latest, held, wins))


def _suspicions(
    newest: pa.Table, latest: pa.Table | None, held: Sequence[StoredRow | None], wins: Sequence[bool]
) -> dict[str, int]:
    if latest is None:
        return {}
    won = pa.array(wins, pa.bool_())
    counts = suspicions_of_keys(latest.filter(won), newest.filter(won))
    lost = [row for row, is_won in zip(held, wins) if row is not None and not is_won]
    winners = (ChangePlace(row.position, row.partition, row.source_ts_ms) for row in lost)
    for name, count in suspicions_in(zip(places_of(latest.filter(pc.invert(won))), winners)).items():
        counts[name] = counts.get(name, 0) + count
    return counts


def as_tombstones(rows: pa.Table, *, record_key: Collection[str]) -> pa.Table:
    """The rows with null in all but the key and the hidden columns of deleted ones."""
    deleted = _flat(rows.column(hidden.DELETED))
    if not pc.any(deleted).as_py():
        return rows
    kept_columns = {*record_key, *hidden.NAMES, hidden.UNCHANGED, hidden.INEXACT}
    alive = pc.if_else(deleted, pa.scalar(None, pa.int64()), pa.array(range(len(deleted)), pa.int64()))
    arrays = [
        rows.column(name)
        if name in kept_columns
        else rows.column(name).take(alive)  # `if_else` lacks lists in some releases
        for name in rows.schema.names
    ]
    return pa.table(arrays, schema=rows.schema)


def with_batch(rows: pa.Table, *, lineage: Collection[str], batch: str) -> pa.Table:
    """The rows as `batch` writes them: with the lineage columns that the words name, the others null."""
    off = {column for word, column in hidden.LINEAGE.items() if word not in lineage}
    count, arrays = rows.num_rows, []
    for field in rows.schema:
        if field.name in off:
            arrays.append(pa.nulls(count, field.type))
        elif field.name == hidden.BATCH:
            arrays.append(pa.repeat(pa.scalar(batch, field.type), count))
        else:
            arrays.append(rows.column(field.name))
    return pa.table(arrays, schema=rows.schema)


def keys_of(rows: pa.Table, record_key: Sequence[str]) -> list[Key]:
    """Each row's key, as values that compare: dates and times are counts, since Python's own end at year 9999."""
    return list(zip(*(as_counts(_flat(rows.column(name))).to_pylist() for name in record_key)))


def as_counts(values: pa.Array) -> pa.Array:
    """Dates as days and timestamps as microseconds since 1970, in lists too; other values as they are."""
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.int64())
    if pa.types.is_date(values.type):
        return values.cast(pa.int32())
    if not pa.types.is_list(values.type):
        return values
    items = as_counts(values.values)
    return pa.Array.from_buffers(
        pa.list_(items.type), len(values), values.buffers()[:2], values.null_count, values.offset, children=[items]
    )
