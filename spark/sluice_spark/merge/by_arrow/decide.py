"""Decides by Arrow which rows changes write, beside the stored rows of their keys, and counts what became of each.

The Arrow form of `merge.by_spark.latest` and `decide`. The changes are those of a small part, or of one part of a large
merge: with all changes of its keys, the stored rows of these but for their values, and every truncate of the batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.changes import hidden_columns as hidden
from sluice.changes.outdated import LATER, REWOUND, UNTIMED, ChangePlace, suspicions_in
from sluice.changes.source_tables import Floors, concerns
from sluice_spark.merge.by_arrow.keyed_rows import Key, StoredRow, flat, keys_of
from sluice_spark.merge.by_arrow.large.plan import LoadPlan
from sluice_spark.merge.by_arrow.unchanged_values import completed_rows, is_partial
from sluice_spark.merge.rows import LeftToSpark

# Columns beside the table's own: Hudi's text of a row's key; the number of the slice that holds the key, null for none;
# the partition that the row belongs to and its bytes, both where rows are counted alone. No source has such names.
KEY, FILE, PATH, BYTES = hidden.BESIDE_ROWS
NO_ROW = (hidden.TRUNCATE, hidden.MESSAGE)
PLACE_COLUMNS = (hidden.POSITION, hidden.OFFSET, hidden.PARTITION, hidden.SOURCE_TS_MS, hidden.OP)
NO_CHANGES = dict.fromkeys(("read", "winning", "deleted", "overtaken", "losing", "repeated"), 0)
BYTES_OF_ROW = 200  # of one whose values aren't at hand where rows are counted


@dataclass(frozen=True)
class PartRows:
    """The rows to write, in the columns of the changes and with FILE, and what became of the changes.

    `needs` are the keys whose stored rows must be read with their values first, with all of them where it `needs_whole`
    rows; there are no rows then. `truncates` are source tables and positions, `sources` the source tables of changes
    and stored rows. `replaced` says how many rows a full dump deletes, and how many there are after it. `suspicions`
    counts keys that lost a change that may be later than what they hold, by `outdated.suspicion`.
    """

    rows: pa.Table
    counts: Mapping[str, int] = field(default_factory=dict)
    needs: pa.Table | None = None
    truncates: frozenset[tuple[str | None, str]] = frozenset()
    sources: frozenset[str | None] = frozenset()
    replaced: tuple[int, int] = (0, 0)
    suspicions: Mapping[str, int] = field(default_factory=dict)
    needs_whole: bool = True


@dataclass(frozen=True)
class _Keys:
    """Each key's newest change, and beside it the number of its stored row, null for none, and what becomes of it."""

    newest: pa.Table
    stored: pa.Array
    wins: pa.Array
    completes: pa.Array


def decided_part(
    changes: pa.Table,
    stored: pa.Table,
    plan: LoadPlan,
    *,
    source_clock: bool | None = None,
    newest: pa.Table | None = None,
) -> PartRows:
    """The rows of a part. `changes` and `stored` have the record key's columns, KEY and hidden columns; `stored` FILE.

    `source_clock`: the changes' times are the source's; None where nobody asks for suspicions. `newest` are each key's
    newest changes, where they are known. Raises LeftToSpark.
    """
    ops = changes.column(hidden.OP)
    truncates = changes.filter(pc.equal(ops, hidden.TRUNCATE))
    beside = pc.is_in(ops, value_set=pa.array(NO_ROW))
    rows = changes.filter(pc.invert(beside)) if pc.any(beside).as_py() else changes
    raised = list(zip(_source(truncates).to_pylist(), truncates.column(hidden.POSITION).to_pylist()))
    if plan.ignore_deletes:  # and truncates with them
        raised = []
    floors = plan.floors.raised(raised)
    if pc.count_distinct(stored.column(KEY)).as_py() < stored.num_rows:
        raise LeftToSpark("stored_twice")
    keys = _keys(rows, stored, floors, plan, newest if rows is changes else None)
    truncated = bool(raised and plan.slices)
    sources: frozenset[str | None] = frozenset()
    touched = pa.array([False] * stored.num_rows, pa.bool_())
    emptied = touched
    if truncated:
        cut = _floor_of(stored, Floors(topic=floors.topic).raised(raised))
        _refuse_doubt(stored, raised, floors)
        above = pc.greater(stored.column(hidden.POSITION), cut)
        decided = keys.newest.filter(pc.or_(keys.wins, keys.completes)).column(KEY)
        undecided = pc.invert(pc.is_in(stored.column(KEY), value_set=flat(decided)))
        owes = pc.and_(pc.and_(above, pc.greater(cut, "")), pc.is_valid(stored.column(hidden.OWED)))
        touched = flat(pc.and_(owes, undecided))
        older = pc.and_(pc.less(stored.column(hidden.POSITION), cut), pc.invert(stored.column(hidden.DELETED)))
        emptied = flat(pc.and_(older, undecided))
        if plan.keep_deleted_values and pc.any(emptied).as_py():
            raise LeftToSpark("kept_values")
    if floors.by_source:
        sources = frozenset((*pc.unique(_source(rows)).to_pylist(), *pc.unique(_source(stored)).to_pylist()))
    histories, needs = _histories(keys, stored, touched, plan)
    if needs is not None:
        supplied = pc.any(pc.and_(keys.completes, pc.invert(keys.wins))).as_py()
        whole = plan.ignore_deletes or supplied or pc.any(touched).as_py()
        return PartRows(changes.slice(0, 0), needs=needs, needs_whole=bool(whole))
    won = pc.and_(keys.wins, pc.invert(keys.completes))
    winners = keys.newest.filter(won)
    made = [winners]
    counts = Counter(
        read=changes.num_rows,
        keys=keys.newest.num_rows,
        truncates=truncates.num_rows,
        messages=changes.num_rows - rows.num_rows - truncates.num_rows,
        winning=winners.num_rows,
        deleted=_count(winners.column(hidden.DELETED)),
        losing=keys.newest.num_rows - winners.num_rows,
        repeated=_count(pc.equal(keys.newest.column(hidden.POSITION), _of(stored, hidden.POSITION, keys.stored))),
        inexact=pc.sum(keys.newest.filter(keys.wins).column(hidden.INEXACT)).as_py() or 0,
    )
    if histories:
        completed = completed_rows(
            rows, histories, record_key=(*plan.record_key, KEY), floors=floors, ignore_deletes=plan.ignore_deletes
        )
        made.append(completed.rows)
        counts["winning"] += len(completed.keys) - completed.supplied
        counts["deleted"] += completed.deleted
        counts["losing"] -= _count(pc.is_in(completed.rows.column(KEY), value_set=flat(keys.newest.column(KEY))))
        counts["supplied"], counts["owed"] = completed.supplied, completed.owed
    if truncated:
        made.append(_emptied(stored.filter(emptied), cut.filter(emptied), truncates, changes.schema))
        counts["truncated"] = made[-1].num_rows
        counts.update(supplied=0, owed=0)
    result = pa.concat_tables(made).combine_chunks()
    at = keys.stored.filter(won)
    if histories or truncated:
        at = pc.index_in(result.column(KEY), value_set=flat(stored.column(KEY)))
    file = stored.column(FILE).take(at)
    result = result.append_column(FILE, file)
    suspicions: Mapping[str, int] = {}
    if source_clock is not None and not plan.append_only:
        suspicions = _suspicions(rows, keys, stored, floors, source_clock=source_clock)
    replaced = _replaced(keys, stored, result, raised, plan)
    return PartRows(result, counts, None, frozenset(raised), sources, replaced, suspicions)


def _suspicions(
    rows: pa.Table, keys: _Keys, stored: pa.Table, floors: Floors, *, source_clock: bool
) -> Mapping[str, int]:
    newest = keys.newest.select([*PLACE_COLUMNS, KEY])
    latest = newest
    if not source_clock:
        place = newest.schema.get_field_index(hidden.SOURCE_TS_MS)
        latest = newest.set_column(place, newest.schema.field(place), pa.nulls(newest.num_rows, pa.int64()))
    elif newest.num_rows < rows.num_rows:
        places = _last_places(rows.column(KEY), rows.column(hidden.SOURCE_TS_MS), rows.column(hidden.OFFSET))
        latest = rows.select([*PLACE_COLUMNS, KEY]).take(places)
        latest = latest.take(pc.index_in(newest.column(KEY), value_set=flat(latest.column(KEY))))
    counts: Counter[str] = Counter()
    if latest is not newest:
        counts.update(_suspicions_of_keys(latest.filter(keys.wins), newest.filter(keys.wins)))
    if pc.all(keys.wins).as_py():
        return {word: count for word, count in counts.items() if count}
    lost = pc.and_(pc.invert(keys.wins), pc.is_valid(keys.stored))
    held = stored.take(keys.stored.filter(lost))
    own = zip(*(held.column(name).to_pylist() for name in (hidden.POSITION, hidden.PARTITION, hidden.SOURCE_TS_MS)))
    counts.update(suspicions_in(zip(_places_of(latest.filter(lost)), (ChangePlace(*values) for values in own))))
    behind = pc.and_(pc.invert(keys.wins), pc.is_null(keys.stored))
    if pc.any(behind).as_py():  # they lost to a truncate alone, whose time and partition nothing tells
        lost_at = latest.filter(behind).column(hidden.POSITION).to_pylist()
        floors_at = _floor_of(keys.newest.filter(behind), floors).to_pylist()
        pairs = [(ChangePlace(at, 0, None), ChangePlace(floor, 0, None)) for at, floor in zip(lost_at, floors_at)]
        counts[UNTIMED] += suspicions_in(pairs).get(UNTIMED, 0)
    return {word: count for word, count in counts.items() if count}


def _keys(rows: pa.Table, stored: pa.Table, floors: Floors, plan: LoadPlan, newest: pa.Table | None) -> _Keys:
    """What becomes of each key's newest change. A change that is newer than its floor is newer than one that isn't."""
    above = rows
    if floors:
        above = rows.filter(pc.greater(rows.column(hidden.POSITION), _floor_of(rows, floors)))
    if not plan.append_only and _may_share_keys(above.column(KEY), above.column(hidden.OP)):
        raise LeftToSpark("shared_keys")  # perhaps: rows of one snapshot are compared by their values
    if newest is None or above.num_rows < rows.num_rows:
        newest = newest_rows(above)
    count = newest.num_rows
    if above.num_rows < rows.num_rows:
        lost = rows.filter(pc.invert(pc.is_in(rows.column(KEY), value_set=flat(newest.column(KEY)))))
        newest = pa.concat_tables([newest, newest_rows(lost)])
    newest = newest.combine_chunks()
    at = flat(pc.index_in(newest.column(KEY), value_set=flat(stored.column(KEY))))
    if plan.append_only and (newest.num_rows < rows.num_rows or at.null_count < len(at)):
        raise LeftToSpark("came_before")  # perhaps: the records are compared
    position, held = flat(newest.column(hidden.POSITION)), _of(stored, hidden.POSITION, at)
    if plan.purged is not None and pc.any(pc.less_equal(rows.column(hidden.POSITION), plan.purged)).as_py():
        raise LeftToSpark("purge_floor")
    counts = pa.concat_arrays([pa.repeat(True, count), pa.repeat(False, newest.num_rows - count)])
    wins = pc.and_(counts, pc.fill_null(pc.greater(position, held), True))
    partial = flat(is_partial(newest, ignore_deletes=plan.ignore_deletes))
    owes = pc.is_valid(_of(stored, hidden.OWED, at))
    supplies = pc.and_(owes, pc.or_(partial, pc.fill_null(pc.less(position, held), False)))
    return _Keys(newest, at, wins, pc.and_(counts, pc.if_else(wins, partial, supplies)))


def _histories(
    keys: _Keys, stored: pa.Table, touched: pa.Array, plan: LoadPlan
) -> tuple[dict[Key, StoredRow | None], pa.Table | None]:
    """The stored rows of the keys whose history decides, None for a new key; or the keys whose rows must be read."""
    if not pc.any(keys.completes).as_py() and not pc.any(touched).as_py():
        return {}, None
    names = [*plan.record_key, KEY]
    completing = keys.newest.filter(keys.completes).select(names)
    histories: dict[Key, StoredRow | None] = {key: plan.held.get(key) for key in keys_of(completing, names)}
    present = pc.is_valid(keys.stored.filter(keys.completes))
    wanted = pa.concat_tables([completing.filter(present), stored.filter(touched).select(names)])
    own = keys_of(wanted, names)
    if any(key not in plan.held for key in own):
        places = pc.index_in(wanted.column(KEY), value_set=flat(stored.column(KEY)))
        return {}, stored.select([*names, hidden.POSITION, FILE]).take(places)
    histories.update({key: plan.held[key] for key in own})
    return histories, None


def newest_rows(rows: pa.Table) -> pa.Table:
    """Each key's change with the highest position. `rows` have KEY."""
    keys = rows.column(KEY)
    if pc.count_distinct(keys).as_py() == rows.num_rows:
        return rows
    return rows.take(_last_places(keys, rows.column(hidden.POSITION)))


def _last_places(keys: Any, *by: Any) -> pa.Array:
    """The place of each key's last row by these columns, in the order in which the keys come. Nulls come first."""
    codes, orders = flat(keys).dictionary_encode().indices, [f"by{number}" for number in range(len(by))]
    rows = pa.table([codes, *by], names=["key", *orders])
    order = pc.sort_indices(rows, sort_keys=[("key", "ascending"), *((name, "descending") for name in orders)])
    ordered = codes.take(order)
    changes = pc.not_equal(ordered.slice(1), ordered.slice(0, max(0, len(ordered) - 1)))
    return order.filter(pa.concat_arrays([pa.array([True] * min(1, len(ordered)), pa.bool_()), changes]))


def _suspicions_of_keys(latest: pa.Table, newest: pa.Table) -> dict[str, int]:
    """How many keys hold a change of a batch, though another one of it is later: `outdated.suspicion` by word.

    In the order of a batch alone, a change without a time is not later than another.
    """
    later = pc.and_(
        pc.greater(latest.column(hidden.SOURCE_TS_MS), newest.column(hidden.SOURCE_TS_MS)),
        pc.less_equal(latest.column(hidden.POSITION), newest.column(hidden.POSITION)),
    )
    if not pc.any(later).as_py():
        return {}
    pairs = zip(_places_of(latest.filter(later)), _places_of(newest.filter(later)))
    return {name: count for name, count in suspicions_in(pairs).items() if name in (LATER, REWOUND)}


def _places_of(rows: pa.Table) -> list[ChangePlace]:
    """Each row's place."""
    columns = (hidden.POSITION, hidden.PARTITION, hidden.SOURCE_TS_MS, hidden.OP)
    return [ChangePlace(*values) for values in zip(*(rows.column(name).to_pylist() for name in columns))]


def _may_share_keys(keys: Any, operations: Any) -> bool:
    """Whether two rows that a snapshot may have read have one key (`shared_keys.with_snapshots`)."""
    read = pc.or_kleene(pc.is_null(operations), pc.equal(operations, hidden.SNAPSHOT_READ))
    read_keys = keys.filter(read)
    return bool(pc.count_distinct(read_keys).as_py() < len(read_keys))


def _emptied(stored: pa.Table, cut: pa.Array, truncates: pa.Table, schema: pa.Schema) -> pa.Table:
    """Stored rows as the tombstones of their truncates, at the positions `cut`."""
    at = pc.index_in(cut, value_set=flat(truncates.column(hidden.POSITION)))
    own = {hidden.DELETED: True, hidden.INEXACT: 0, BYTES: BYTES_OF_ROW}
    of_truncate = (hidden.POSITION, hidden.OP, hidden.SOURCE_TS_MS, hidden.OBJECT, hidden.OFFSET, hidden.PARTITION)
    arrays: list[Any] = []
    for item in schema:
        if item.name in own:
            arrays.append(pa.repeat(pa.scalar(own[item.name], item.type), stored.num_rows))
        elif item.name in of_truncate:
            arrays.append(truncates.column(item.name).take(at))
        elif item.name in stored.schema.names and item.name != hidden.OWED:
            arrays.append(stored.column(item.name).cast(item.type))
        else:
            arrays.append(pa.nulls(stored.num_rows, item.type))
    return pa.table(arrays, schema=schema)


def _refuse_doubt(stored: pa.Table, truncates: Sequence[tuple[str | None, str]], floors: Floors) -> None:
    """Raise LeftToSpark for live rows of an unknown source table that a truncate may be about: they are counted."""
    unclear = [position for source, position in truncates if not concerns(source, None, floors.topic)]
    if unclear:
        older = pc.less(stored.column(hidden.POSITION), max(unclear))
        live = pc.and_(older, pc.invert(stored.column(hidden.DELETED)))
        if pc.any(pc.and_(live, pc.is_null(_source(stored)))).as_py():
            raise LeftToSpark("sources")


def _replaced(
    keys: _Keys, stored: pa.Table, rows: pa.Table, raised: Sequence[tuple[str | None, str]], plan: LoadPlan
) -> tuple[int, int]:
    of_dump = [position for _, position in raised if position in plan.dumps]
    if not of_dump:
        return (0, 0)
    floor, alive = max(of_dump), pc.invert(keys.newest.column(hidden.DELETED))
    never = pc.and_(pc.is_null(keys.stored), pc.less_equal(keys.newest.column(hidden.POSITION), floor))
    others = stored.filter(pc.invert(pc.is_in(stored.column(KEY), value_set=flat(rows.column(KEY)))))
    stay = pc.and_(pc.invert(others.column(hidden.DELETED)), pc.greater(others.column(hidden.POSITION), floor))
    emptied = _count(pc.equal(rows.column(hidden.OP), hidden.TRUNCATE))
    left = _count(pc.invert(rows.column(hidden.DELETED))) + _count(stay)
    return (emptied + _count(pc.and_(alive, never)), left)


def _floor_of(rows: pa.Table, floors: Floors) -> pa.Array:
    """The floor of each row by its source table."""
    encoded = flat(_source(rows)).dictionary_encode()
    of_names = pa.array([floors.of(name) for name in encoded.dictionary.to_pylist()], pa.string())
    return pc.fill_null(of_names.take(encoded.indices), floors.of(None))


def _source(rows: pa.Table) -> Any:
    has = hidden.SOURCE in rows.schema.names
    return rows.column(hidden.SOURCE) if has else pa.nulls(rows.num_rows, pa.string())


def _of(stored: pa.Table, name: str, at: pa.Array) -> pa.Array:
    return flat(stored.column(name)).take(at)


def _count(marks: Any) -> int:
    return int(pc.sum(marks).as_py() or 0)


def with_batch(rows: pa.Table, *, lineage: Collection[str], batch: str) -> pa.Table:
    """The rows as `batch` writes them: with the lineage columns that the words name, the others null."""
    off = {column for word, column in hidden.LINEAGE.items() if word not in lineage}
    count, arrays = rows.num_rows, []
    for item in rows.schema:
        if item.name in off:
            arrays.append(pa.nulls(count, item.type))
        elif item.name == hidden.BATCH:
            arrays.append(pa.repeat(pa.scalar(batch, item.type), count))
        else:
            arrays.append(rows.column(item.name))
    return pa.table(arrays, schema=rows.schema)
