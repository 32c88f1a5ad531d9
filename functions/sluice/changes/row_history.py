"""Defines the row that results from all changes of one key, in any order and grouping. The merge in Spark follows it.

A row's position is that of its newest change. A change may omit unchanged columns. Such a column keeps the value of the
newest older change that holds it, back to the deletion or creation with which the row's life begins. Because that older
change may still be under way, the row records for each such column the position at which its value was known (`owed`).
A change that loses by its position, but is newer than that, still supplies the column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.changes import source_tables
from sluice.changes.hidden_columns import CREATE
from sluice.changes.position import former_positions, is_adopted
from sluice.changes.source_tables import Floors

NEVER = source_tables.NEVER  # known at no position: lower than every position
EVERY_COLUMN = "*"  # owed by a row of which only an ignored deletion is known


@dataclass(frozen=True)
class Change:
    """A change of a row. `values` lacks the columns in `unchanged`; `source` is its source table, None if unknown.

    `ignored`: a deletion that its merge ignored, where that isn't so of all.
    """

    position: str
    op: str | None
    deleted: bool
    values: Mapping[str, Any] = field(default_factory=dict, hash=False)
    unchanged: frozenset[str] = frozenset()
    source: str | None = None
    ignored: bool = False

    @property
    def begins_a_life(self) -> bool:
        """True if no value from before the change can hold after it."""
        return self.deleted or self.op == CREATE


@dataclass(frozen=True)
class Row:
    """A stored row; a deleted one has no values. `owed` maps columns to the position at which they were known.

    `source` is the source table of the change that it is from, None if unknown.
    """

    position: str
    deleted: bool
    values: Mapping[str, Any] = field(default_factory=dict, hash=False)
    owed: Mapping[str, str] = field(default_factory=dict, hash=False)
    source: str | None = field(default=None, compare=False)


def row_after(
    stored: Row | None,
    changes: Iterable[Change],
    *,
    columns: Sequence[str],
    floor: str | Floors = NEVER,
    ignore_deletes: bool = False,
) -> Row | None:
    """The row after these changes, None without a change newer than the last truncate that concerns it.

    `columns` are all columns but the key's. `floor` has the positions of the newest truncates, or is that of one that
    concerns every source table; older changes don't count (but with `ignore_deletes` the stored row stays). Changes may
    be repeated and in any order.
    """
    floors = floor if isinstance(floor, Floors) else Floors(floor)
    counted = [change for change in changes if change.position > floors.of(change.source)]
    others = [change for change in counted if not (change.ignored or ignore_deletes and change.deleted)]
    if ignore_deletes or len(others) < len(counted):
        deletions = [change.position for change in counted if change.ignored or ignore_deletes and change.deleted]
        return _row_ignoring_deletes(stored, others, deletions, columns)
    if stored is not None and stored.position < floors.of(stored.source):
        # Where source tables have floors of their own, a later change of the key in another one wins over this.
        at = stored.position if floors.by_source else floors.everywhere
        stored = Row(at, True, source=stored.source)
    return _row(stored, counted, columns, floors)


def _row(stored: Row | None, changes: Sequence[Change], columns: Sequence[str], floors: Floors) -> Row | None:
    newest = max(changes, key=lambda change: change.position, default=None)
    if newest is None or stored is not None and stored.position > newest.position:
        if stored is None or stored.deleted and not _knows_nothing(stored):
            return stored
        if newest is not None and newest.deleted and stored.deleted:
            return Row(stored.position, True, source=stored.source)
    elif newest.deleted:
        return Row(newest.position, True, source=newest.source)
    events: list[Change | Row] = [*changes, *([] if stored is None else [stored])]
    last = max(events, key=lambda event: event.position)
    position, floor = last.position, floors.of(last.source)
    # A life begins at the newest deletion, creation or truncate. Values known before don't hold after it.
    begins = max([change.position for change in changes if change.begins_a_life] + [floor])
    if stored is not None and stored.deleted and not _knows_nothing(stored):
        begins = max(begins, stored.position)
    values: dict[str, Any] = {}
    owed: dict[str, str] = {}
    for column in columns:
        known_at, value = _known(column, stored, changes)
        is_known = known_at is not None and known_at >= begins
        values[column] = value if is_known else None
        # A value known no later than the stored row owes it stays owed. A creation may owe at its own position.
        if not is_known or known_at < position or stored is not None and known_at == stored.owed.get(column):
            owed[column] = known_at if is_known else begins
    return Row(position, False, values, owed, last.source)


def _known(column: str, stored: Row | None, changes: Sequence[Change]) -> tuple[Any, Any]:
    """The newest position at which a column's value is known, and the value; None if it never is."""
    summary = [
        (change.position, change.values.get(column))
        for change in changes
        if column not in change.unchanged and not change.deleted
    ]
    if stored is not None and not stored.deleted:
        summary.append((stored.owed.get(column, stored.position), stored.values.get(column)))
    return max((entry for entry in summary if entry[0] != NEVER), key=lambda entry: entry[0], default=(None, None))


def _row_ignoring_deletes(
    stored: Row | None, newer: Sequence[Change], deletions: Sequence[str], columns: Sequence[str]
) -> Row | None:
    """Apply ignored deletions: they raise the row's position, so that older changes lose, and keep its values.

    A row of which only a deletion is known is hidden and owes every column to the newest older change to come.
    """
    hidden = stored is not None and _knows_nothing(stored)
    if hidden and stored is not None:
        deletions = [*deletions, stored.position]
    row = _row(None if hidden else stored, newer, columns, Floors())
    last = max(deletions, default=NEVER)
    if row is None:
        return Row(last, True, {}, {EVERY_COLUMN: NEVER}) if deletions else None
    return row if last <= row.position else Row(last, row.deleted, row.values, row.owed, row.source)


def _knows_nothing(row: Row) -> bool:
    return row.deleted and EVERY_COLUMN in row.owed


def adopted(stored: Row | None) -> Row | None:
    """What a stored row has of another tool's table, None for nothing: all of it, or columns that its changes left out.

    No object has it, and any change of its key wins.
    """
    if stored is None or is_adopted(stored.position):
        return stored
    at = {name: known_at for name, known_at in stored.owed.items() if is_adopted(known_at)}
    if not at:
        return None
    values = {name: stored.values.get(name) for name in at}
    return Row(max(at.values()), False, values, {name: at.get(name, NEVER) for name in stored.values})


# How a stored row differs from the one that results from all of its changes.
LOST, BACK, OTHER_POSITION, OTHER_VALUES = "lost", "back", "other_position", "other_values"
NO_TOMBSTONE, OTHER_OWED, TWICE, NO_HISTORY = "no_tombstone", "other_owed", "twice", "no_history"


def disagreement(expected: Row | None, stored: Row | None, *, purged: str = NEVER) -> str | None:
    """How a stored row differs from the one that results from its changes; None if it doesn't.

    A deleted row may be gone up to `purged`, the highest position of a row that was purged. A row that a truncate
    removed is kept as a deleted one.
    """
    if expected is None:
        return None if stored is None or stored.deleted else BACK
    if stored is None:
        return LOST if not expected.deleted else NO_TOMBSTONE if expected.position > purged else None
    if expected.deleted != stored.deleted:
        return BACK if expected.deleted else LOST
    if stored.position not in (expected.position, *former_positions(expected.position)):
        return OTHER_POSITION
    if dict(expected.values) != dict(stored.values):
        return OTHER_VALUES
    return OTHER_OWED if dict(expected.owed) != dict(stored.owed) else None


def never_came(row: Row | None, changes: Iterable[Change]) -> tuple[str, ...]:
    """The columns of a row that are null since none of its changes has their values: the newest left them unchanged."""
    if row is None or row.deleted:
        return ()
    brought = {(name, change.position) for change in changes for name in row.owed if name not in change.unchanged}
    return tuple(
        name
        for name, at in row.owed.items()
        if row.values.get(name) is None and (name, at) not in brought and not is_adopted(at)
    )
