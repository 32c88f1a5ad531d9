"""Decides by Arrow which rows a part's changes write, and counts what became of each change.

The Arrow form of `sluice_spark.merge.latest` and `decide`, for changes that are whole: a change that left columns
unchanged, and a stored row that owes some, are left to Spark. So are keys that rows of a snapshot may share.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.changes import hidden_columns as hidden
from sluice.config.table import TableConfig
from sluice_spark.arrow.rows import LeftToSpark

Key = tuple[Any, ...]


@dataclass(frozen=True)
class StoredRow:
    """The stored row of a key: its position, what it owes, Hudi's text of its key, and the number of its file."""

    position: str
    owed: str | None
    record_key: str
    file: int


@dataclass(frozen=True)
class DecidedChanges:
    """The rows that win, one per key in the table's columns, their keys in the same order, and the part's counts."""

    rows: pa.Table
    keys: Sequence[Key]
    counts: dict[str, int]


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
    names = [str(number) for number in range(len(keys))]
    rows = pa.table([*keys, positions], names=[*names, hidden.POSITION])
    order = pc.sort_indices(rows, sort_keys=[*((name, "ascending") for name in names), (hidden.POSITION, "descending")])
    return order.filter(pc.invert(_repeats(rows.select(names).take(order))))


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
    newest: pa.Table, *, read: int, stored: Mapping[Key, StoredRow], config: TableConfig, columns: Sequence[str]
) -> DecidedChanges:
    """The rows that are newer than the table's, and the counts of `read` changes.

    `stored` has the rows of the changes' keys that the table holds, `columns` are the table's. Raises LeftToSpark where
    one of them owes columns, and where most changes lost (`decide_rows` then looks at Kafka's order).
    """
    keys = keys_of(newest, config.record_key)
    positions = newest.column(hidden.POSITION).to_pylist()
    held = [stored.get(key) for key in keys]
    if any(row is not None and row.owed is not None for row in held):
        raise LeftToSpark("owed")
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
    return DecidedChanges(winners.select(list(columns)), [key for key, won in zip(keys, wins) if won], counts)


def as_tombstones(rows: pa.Table, *, record_key: Collection[str]) -> pa.Table:
    """The rows with null in all but the key and the hidden columns of deleted ones."""
    deleted = _flat(rows.column(hidden.DELETED))
    if not pc.any(deleted).as_py():
        return rows
    kept = {*record_key, *hidden.NAMES, hidden.UNCHANGED, hidden.INEXACT}
    alive = pc.if_else(deleted, pa.scalar(None, pa.int64()), pa.array(range(len(deleted)), pa.int64()))
    arrays = [
        rows.column(name) if name in kept else rows.column(name).take(alive)  # `if_else` lacks lists in some releases
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
