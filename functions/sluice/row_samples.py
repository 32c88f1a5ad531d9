"""What a few rows of a topic show about its columns: nulls, distinct values, repeats, and what deletions still tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, FrozenSet, List, Mapping, Optional, Sequence, Set, Tuple

from sluice.avro_schema import ENVELOPE, WriterSchema
from sluice.hidden_columns import CREATE, DELETE, MESSAGE, SNAPSHOT_READ, TRUNCATE

_EMPTY = (None, "", 0, False, b"")  # what a deletion carries for a column that the source's log left out


@dataclass(frozen=True)
class SampledRow:
    """One change: its row, whether it is a deletion, and whether it begins the row's life (a snapshot's read or a creation)."""

    values: Mapping[str, Any]
    deleted: bool = False
    first: bool = True
    before: Optional[Mapping[str, Any]] = None


@dataclass(frozen=True)
class ColumnFacts:
    """What the sampled rows show about one column. `changed` counts updates that tell both values and differ, of `compared`."""

    name: str
    rows: int
    nulls: int
    distinct: int
    changed: int = 0
    compared: int = 0


def sampled_row(record: Mapping[str, Any], writer: WriterSchema) -> Optional[SampledRow]:
    """A record's row; None for a truncate, a message, or a record that isn't of the writer's form."""
    op = record.get(writer.meta.op) if writer.meta.op else None
    if op in (TRUNCATE, MESSAGE):
        return None
    deleted = op == DELETE or _true(record.get(writer.meta.deleted) if writer.meta.deleted else None)
    before = None
    row: Any = record
    if writer.shape == ENVELOPE:
        before = record.get("before")
        row = record.get("after") if record.get("after") is not None else before
    if not isinstance(row, Mapping):
        return None
    values = {column.name: row.get(column.written_name) for column in writer.row.columns}
    told = (
        {column.name: before.get(column.written_name) for column in writer.row.columns}
        if isinstance(before, Mapping) and not deleted
        else None
    )
    return SampledRow(values, deleted, op in (None, CREATE, SNAPSHOT_READ) and not deleted, told)


def living_rows(rows: Sequence[SampledRow]) -> List[SampledRow]:
    """The rows by which keys can be told: each row's first change where any are known, else all; every one once, as deliveries repeat."""
    alive = [row for row in rows if not row.deleted]
    first = [row for row in alive if row.first]
    seen: Set[Tuple[Any, ...]] = set()
    found = []
    for row in first or alive:
        key = tuple(sortable(value) for value in row.values.values())
        if key not in seen:
            seen.add(key)
            found.append(row)
    return found


def column_facts(name: str, rows: Sequence[SampledRow], all_rows: Sequence[SampledRow]) -> ColumnFacts:
    """One column over `rows`; whether updates change it, over `all_rows`."""
    values = [row.values.get(name) for row in rows]
    pairs = [(row.before.get(name), row.values.get(name)) for row in all_rows if row.before is not None]
    return ColumnFacts(
        name,
        len(values),
        sum(value is None for value in values),
        len({sortable(value) for value in values if value is not None}),
        sum(before != after for before, after in pairs),
        len(pairs),
    )


def repeats(columns: Sequence[str], rows: Sequence[SampledRow]) -> int:
    """How many rows have values in these columns that another row before them has."""
    return len(rows) - len({tuple(sortable(row.values.get(name)) for name in columns) for row in rows})


def told_by_deletions(rows: Sequence[SampledRow], columns: Sequence[str]) -> Tuple[FrozenSet[str], int]:
    """The columns that every deletion has a value in and that differ between deletions, and how many deletions there are.

    Where the source's log keeps the key alone, those are the key's: the others come null, or as a default, which is always the same.
    """
    deletions = [row for row in rows if row.deleted]

    def tells(name: str) -> bool:
        values = [row.values.get(name) for row in deletions]
        return not any(map(_is_empty, values)) and (len(values) < 2 or len({sortable(value) for value in values}) > 1)

    return frozenset(name for name in columns if deletions and tells(name)), len(deletions)


def sortable(value: Any) -> Any:
    """A value that sets can hold; 1 and true stay apart, and so do 1 and "1"."""
    if isinstance(value, (dict, list)):
        return repr(value)
    return (type(value).__name__, value)


def _is_empty(value: Any) -> bool:
    return any(value == empty and type(value) is type(empty) for empty in _EMPTY)


def _true(value: Any) -> bool:
    return value is True or value == "true"
