"""Makes rows of their keys' histories: with the values that changes left unchanged, and that ignored deletes keep.

`row_history.row_after` decides, by the numbers of rows in place of values: these stay in Arrow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.changes import hidden_columns as hidden
from sluice.changes.row_history import EVERY_COLUMN, NEVER, Change, Row, row_after
from sluice.changes.source_tables import Floors
from sluice_spark.merge.by_arrow.keyed_rows import Key, StoredRow, as_tombstones, from_counts, keys_of
from sluice_spark.merge.rows import rows_schema

# Of a stored row, what its history needs beside its position.
_OF_STORED = (hidden.DELETED, hidden.SOURCE)
_EVERY_OTHER = ""  # stands for the columns that each change has
_LINEAGE = frozenset((*hidden.LINEAGE.values(), hidden.SOURCE))


@dataclass(frozen=True)
class CompletedRows:
    """The rows that follow from histories, in the order of `keys`; of those, how many `deleted`, how many `supplied`.

    A supplied row keeps its position. `owed` rows still lack a value. Rows that stay as they are stored are left out.
    """

    rows: pa.Table
    keys: Sequence[Key]
    deleted: int
    supplied: int
    owed: int


def is_partial(changes: pa.Table, *, ignore_deletes: bool) -> pa.Array:
    """Whether each change alone doesn't give its row."""
    deleted = changes.column(hidden.DELETED)
    unchanged = pc.is_valid(changes.column(hidden.UNCHANGED))
    return pc.or_(unchanged, deleted) if ignore_deletes else pc.and_(unchanged, pc.invert(deleted))


def unchanged_columns(changes: pa.Table) -> list[str]:
    """The columns of stored rows that complete changes which left some unchanged."""
    names = {*_OF_STORED, *pc.unique(pc.list_flatten(changes.column(hidden.UNCHANGED))).to_pylist()}
    return [name for name in changes.schema.names if name in names]


def completed_rows(
    changes: pa.Table,
    stored: Mapping[Key, StoredRow | None],
    *,
    record_key: Sequence[str],
    floors: Floors,
    ignore_deletes: bool,
) -> CompletedRows:
    """The rows of the keys of `stored` after `changes`, among which are those of other keys.

    Each stored row has its values, at least those of `unchanged_columns`.
    """
    places: dict[Key, list[int]] = {key: [] for key in stored}
    for place, key in enumerate(keys_of(changes, record_key)):
        if key in places:
            places[key].append(place)
    changes = changes.take(pa.array([place for own in places.values() for place in own], pa.int64()))
    held = [{**row.values, hidden.POSITION: row.position} for row in stored.values() if row is not None]
    rows = pa.concat_tables([changes, from_counts(held, changes.schema)]).combine_chunks()
    owed = {name for row in stored.values() if row is not None for name in json.loads(row.owed or "{}")}
    lacking = owed.union(*filter(None, changes.column(hidden.UNCHANGED).to_pylist()))
    order = {name: place for place, name in enumerate(rows.schema.names)}
    columns = [*sorted(lacking - {EVERY_COLUMN}, key=lambda name: order.get(name, 0)), _EVERY_OTHER]
    events = _events(rows, changes.num_rows, stored, columns)
    results: list[tuple[Key, Row, int]] = []
    change, of_stored = 0, changes.num_rows
    for key, row in stored.items():
        own = range(change, change + len(places[key]))
        change = own.stop
        before = events[of_stored] if row is not None else None
        newest = max(own, key=lambda place: events[place].position, default=of_stored)  # a truncate may concern the row
        if row is not None:
            newest = max((of_stored, newest), key=lambda place: events[place].position)
            of_stored += 1
        after = row_after(
            before, [events[place] for place in own], columns=columns, floor=floors, ignore_deletes=ignore_deletes
        )
        if after is not None and not (before and (after.position, after.owed) == (before.position, before.owed)):
            results.append((key, after, newest))
    return CompletedRows(
        _table(rows, results, record_key=record_key),
        [key for key, _, _ in results],
        deleted=sum(after.deleted for _, after, newest in results if newest < changes.num_rows),
        supplied=sum(newest >= changes.num_rows for _, _, newest in results),
        owed=sum(
            EVERY_COLUMN in after.owed or (not after.deleted and None in map(after.values.get, columns))
            for _, after, _ in results
        ),
    )


def _events(rows: pa.Table, changes: int, stored: Mapping[Key, StoredRow | None], columns: Sequence[str]) -> list[Any]:
    """The first rows as changes and the others as stored rows, with the number of a row as each of its values."""
    names = (hidden.POSITION, hidden.DELETED, hidden.OP, hidden.UNCHANGED, hidden.SOURCE)
    held = set(rows.schema.names)
    of_rows = zip(*(rows.column(name).to_pylist() if name in held else [None] * rows.num_rows for name in names))
    owed = (json.loads(row.owed or "{}") for row in stored.values() if row is not None)
    events: list[Any] = []
    for number, (position, deleted, op, unchanged, source) in enumerate(of_rows):
        values = dict.fromkeys(columns, number)
        if number < changes:
            events.append(Change(position, op, deleted, values, frozenset(unchanged or ()), source))
        else:
            events.append(Row(position, deleted, {} if deleted else values, next(owed), source))
    return events


def _table(rows: pa.Table, results: Sequence[tuple[Key, Row, int]], *, record_key: Sequence[str]) -> pa.Table:
    """The results with their values."""
    newest = pa.array([place for _, _, place in results], pa.int64())
    lacking = {name for _, row, _ in results for name in (*row.values, *row.owed)}
    own = {
        hidden.POSITION: [row.position for _, row, _ in results],
        hidden.DELETED: [row.deleted for _, row, _ in results],
        hidden.OWED: [json.dumps(row.owed, separators=(",", ":")) if row.owed else None for _, row, _ in results],
    }
    others = pa.array([row.values.get(_EVERY_OTHER) for _, row, _ in results], pa.int64())
    arrays: list[Any] = []
    for field in rows.schema:
        if field.name in own:
            arrays.append(pa.array(own[field.name], field.type))
        elif field.name == hidden.UNCHANGED:
            arrays.append(pa.nulls(len(results), field.type))
        elif field.name in record_key or field.name in _LINEAGE:
            arrays.append(rows.column(field.name).take(newest))
        elif field.name in lacking:
            numbers = pa.array([row.values.get(field.name) for _, row, _ in results], pa.int64())
            arrays.append(rows.column(field.name).take(numbers))
        else:
            arrays.append(rows.column(field.name).take(others))
    return pa.table(arrays, schema=rows.schema)


def changes_as_rows(changes: pa.Table, *, target: Mapping[str, str], record_key: Sequence[str], keep: bool) -> pa.Table:
    """The changes as rows of a history table, in the form of `arrow_rows`.

    A deletion keeps its key alone, unless `keep`. The columns that a change left unchanged are null, and their names
    are in OWED.
    """
    rows = changes if keep else as_tombstones(changes, record_key=record_key)
    deleted, held = rows.column(hidden.DELETED).to_pylist(), set(rows.schema.names)
    owed = [
        None if gone or names is None else json.dumps(dict.fromkeys(names, NEVER), separators=(",", ":"))
        for gone, names in zip(deleted, rows.column(hidden.UNCHANGED).to_pylist())
    ]
    own: Mapping[str, Any] = {
        hidden.OWED: pa.array(owed, pa.string()),
        hidden.UNCHANGED: pa.nulls(rows.num_rows, rows.schema.field(hidden.UNCHANGED).type),
        hidden.INEXACT: pa.array([0] * rows.num_rows, rows.schema.field(hidden.INEXACT).type),
    }
    schema = rows_schema(target)
    return pa.table(
        [
            own[item.name]
            if item.name in own
            else rows.column(item.name)
            if item.name in held
            else pa.nulls(rows.num_rows, item.type)
            for item in schema
        ],
        schema=schema,
    )
