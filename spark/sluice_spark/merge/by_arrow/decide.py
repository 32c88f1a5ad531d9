"""Decides by Arrow which rows a part's changes write, and counts what became of each change.

The Arrow form of `merge.by_spark.latest` and `decide`. Keys that rows of a snapshot may share are left to Spark.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Callable

import pyarrow as pa
import pyarrow.compute as pc

from sluice.changes import hidden_columns as hidden
from sluice.changes.outdated import LATER, REWOUND, ChangePlace, suspicions_in
from sluice.changes.source_tables import Floors
from sluice.config.table import IGNORE, TableConfig
from sluice_spark.merge.by_arrow.keyed_rows import Key, StoredRow, as_tombstones, flat, keys_of
from sluice_spark.merge.by_arrow.rows import LeftToSpark
from sluice_spark.merge.by_arrow.unchanged_values import completed_rows, is_partial, unchanged_columns


@dataclass(frozen=True)
class DecidedChanges:
    """The rows to write, one per key in the table's columns, their keys in the same order, and the part's counts.

    `suspicions` counts keys that lost a change that may be later than what they hold.
    """

    rows: pa.Table
    keys: Sequence[Key]
    counts: dict[str, int]
    suspicions: Mapping[str, int] = dataclasses.field(default_factory=dict)


# Reads the rows that the table holds of the keys of changes, all of which it has, with the values of some columns.
ReadValues = Callable[[pa.Table, Sequence[str]], Mapping[Key, StoredRow]]
NO_CHANGES = dict.fromkeys(("read", "winning", "deleted", "overtaken", "losing", "repeated"), 0)


def newest_changes(rows: pa.Table, config: TableConfig) -> pa.Table:
    """Each key's newest change by position. `rows` are those of `arrow_rows`.

    Raises LeftToSpark where rows of a snapshot may share a key.
    """
    keys, positions = [rows.column(name) for name in config.record_key], rows.column(hidden.POSITION)
    if not config.append_only and may_share_keys(keys, positions, rows.column(hidden.OP)):
        raise LeftToSpark("shared_keys")
    return rows.take(newest_places(keys, positions)).combine_chunks()


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
    columns = [flat(column) for column in ordered.columns]
    same = reduce(pc.and_, (pc.equal(column.slice(1), column.slice(0, count - 1)) for column in columns))
    return pa.concat_arrays([pa.array([False], pa.bool_()), same])


def decide_changes(
    newest: pa.Table,
    changes: pa.Table,
    *,
    stored: Mapping[Key, StoredRow],
    read_values: ReadValues,
    config: TableConfig,
    floors: Floors,
    latest: pa.Table | None = None,
) -> DecidedChanges:
    """The rows that are newer than the table's, or complete them, and the counts of `changes`.

    `stored` has the rows of the changes' keys that the table holds, `read_values` reads values of them. `floors` are
    the table's; all changes are above them. `latest` are the keys' latest changes (`latest_changes`), None where
    Kafka's order says nothing.
    """
    keys, ignore_deletes = keys_of(newest, config.record_key), config.delete_mode == IGNORE
    positions = newest.column(hidden.POSITION).to_pylist()
    held = [stored.get(key) for key in keys]
    if config.append_only and (changes.num_rows > len(keys) or any(row is not None for row in held)):
        raise LeftToSpark("came_before")  # perhaps: the records are compared
    wins = [row is None or position > row.position for position, row in zip(positions, held)]
    partial = is_partial(newest, ignore_deletes=ignore_deletes).to_pylist()
    # A change that loses still supplies columns that the row owes; one that is stored already may have older ones of
    # its key with it.
    completes = [
        is_one if won or row is None else row.owed is not None and (is_one or position < row.position)
        for is_one, won, row, position in zip(partial, wins, held, positions)
    ]
    won = [is_won and not completed for is_won, completed in zip(wins, completes)]
    winners = newest.filter(pa.array(won, pa.bool_()))
    counts = {
        "read": changes.num_rows,
        "winning": winners.num_rows,
        "deleted": pc.sum(winners.column(hidden.DELETED).cast(pa.int64())).as_py() or 0,
        "overtaken": changes.num_rows - len(keys),
        "losing": len(keys) - winners.num_rows,
        "repeated": sum(row is not None and position == row.position for position, row in zip(positions, held)),
    }
    inexact = pc.sum(newest.filter(pa.array(wins, pa.bool_())).column(hidden.INEXACT)).as_py()
    if inexact:
        counts["inexact"] = inexact
    if not config.keep_deleted_values:
        winners = as_tombstones(winners, record_key=config.record_key)
    won_keys = [key for key, is_won in zip(keys, won) if is_won]
    if any(completes):
        wanted = {key: row for key, row, is_one in zip(keys, held, completes) if is_one}
        present = newest.filter(pa.array([is_one and row is not None for is_one, row in zip(completes, held)]))
        if present.num_rows:
            # A row that stays in place is written again whole.
            whole = ignore_deletes or not all(is_won for is_won, is_one in zip(wins, completes) if is_one)
            every = [name for name in present.schema.names if name not in (hidden.UNCHANGED, hidden.INEXACT)]
            wanted.update(read_values(present, every if whole else unchanged_columns(present)))
        completed = completed_rows(
            changes, wanted, record_key=config.record_key, floors=floors, ignore_deletes=ignore_deletes
        )
        winners = pa.concat_tables([winners, completed.rows])
        won_keys += completed.keys
        new = len(completed.keys) - completed.supplied
        counts["winning"] += new
        counts["deleted"] += completed.deleted
        counts["losing"] -= len(completed.keys)
        counts.update(supplied=completed.supplied, owed=completed.owed)
    winners = winners.drop_columns([hidden.UNCHANGED, hidden.INEXACT])
    return DecidedChanges(winners, won_keys, counts, _suspicions(newest, latest, held, wins))


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
