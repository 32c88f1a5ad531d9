"""Samples of a topic: a few of its rows, and what they show about its columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluice.changes.capture_marks import is_before_image, is_flag, is_marked_deleted
from sluice.changes.hidden_columns import CREATE, DELETE, MESSAGE, SNAPSHOT_READ, TRUNCATE
from sluice.changes.source_tables import source_table
from sluice.config.delete_when import DeleteWhen, is_creation
from sluice.schema.avro import WriterSchema

PARTITIONS_FEW, PARTITIONS_MAX = 100, 1_000  # each partition is a folder with files of its own
ROWS_PER_PARTITION = 4  # of a sample, in which each day of a large table has few
ROWS_PER_FOLDER = 20  # of a sample, for other columns than dates

_EMPTY = (None, "", 0, False, b"")  # values of a deletion's columns that the source's log left out


@dataclass(frozen=True)
class SampledRow:
    """One change: its row, whether it is a deletion, and whether it begins the row's life.

    A snapshot's read or a creation does. `before` is the row before an update, if the change has it. `read` is true for
    a snapshot's row, `place` is the change's place in the source's log, or its object where it names none, and `source`
    its source table, where it names that.
    """

    values: Mapping[str, Any]
    deleted: bool = False
    first: bool = True
    before: Mapping[str, Any] | None = None
    read: bool = False
    place: tuple[Any, ...] = ()
    source: str | None = None


@dataclass(frozen=True)
class TopicSample:
    """What is known about a topic: its waiting objects, and the rows read from `read` of them, `partly` not to the end.

    `schemas` counts the writer schemas among the objects; `inferred` means that the records carry none. `key_fields`
    are the fields of the Kafka keys in `key_file`, which the sink wrote beside the values. `problems` says what could
    not be read, and in which object. `layout` says whose the objects' names are where they tell no topic; `key_pattern`
    and `format` read them. `nested` are the topics whose keys the pattern fits too. `delimiter` is what seems to
    stand between the values of CSV, where that is not a comma. `lacked` are the
    columns of `writer` that some of the objects' own schemas lack. `split_by` are the fields by whose values folders
    split the topic's Kafka partitions. `path_columns` are columns of `writer` that
    the objects' folders alone hold. `dialect` is the form of another capture's
    changes that the records of JSON have.
    """

    topic: str
    objects: int
    bytes: int
    read: int
    formats: tuple[str, ...] = ()
    writer: WriterSchema | None = None
    schemas: int = 1
    inferred: bool = False
    key_fields: tuple[str, ...] | None = None
    key_file: str | None = None
    rows: tuple[SampledRow, ...] = ()
    offsets_named: bool = True
    problems: tuple[str, ...] = ()
    layout: str | None = None
    key_pattern: str | None = None
    format: str | None = None
    partly: int = 0
    nested: tuple[str, ...] = ()
    delimiter: str | None = None
    lacked: frozenset[str] = frozenset()
    split_by: tuple[str, ...] = ()
    path_columns: tuple[str, ...] = ()
    dialect: str | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(sorted({row.source for row in self.rows if row.source is not None}))


@dataclass(frozen=True)
class ColumnFacts:
    """What the sampled rows show about one column.

    `compared` counts the updates that have the column before and after, `changed` those in which it differs.
    """

    name: str
    rows: int
    nulls: int
    distinct: int
    changed: int = 0
    compared: int = 0


def sampled_row(record: Mapping[str, Any], writer: WriterSchema) -> SampledRow | None:
    """Return a record's row, or None for a truncate, a message, or a record that doesn't fit the writer schema."""
    op = record.get(writer.meta.op) if writer.meta.op else None
    if op in (TRUNCATE, MESSAGE):
        return None
    deleted = op == DELETE or writer.meta.deleted is not None and is_marked_deleted(record.get(writer.meta.deleted))
    before, row = writer.dialect.before(record), writer.dialect.row(record)
    if not isinstance(row, Mapping):
        return None
    names, parts = writer.meta.position.names, writer.meta.source_table
    source = writer.dialect.metadata(record)
    updated = before if isinstance(before, Mapping) and not deleted else None
    return SampledRow(
        _values(row, writer),
        deleted,
        op in (None, CREATE, SNAPSHOT_READ) and not deleted,
        None if updated is None else _values(updated, writer),
        op == SNAPSHOT_READ,
        tuple(source.get(name) for name in names) if isinstance(source, Mapping) else (),
        source_table(*map(source.get, parts)) if parts and isinstance(source, Mapping) else None,
    )


def _values(row: Mapping[str, Any], writer: WriterSchema) -> dict[str, Any]:
    return {column.name: row.get(column.written_name) for column in writer.row.columns}


def distinct_rows(rows: Sequence[SampledRow]) -> list[SampledRow]:
    """Return the rows in which a key is unique: the first change of each row, or every change if none is a first one.

    Each counts once, since deliveries repeat.
    """
    alive = [row for row in rows if not row.deleted]
    first = [row for row in alive if row.first]
    seen: set[tuple[Any, ...]] = set()
    distinct = []
    for row in first or alive:
        key = tuple(_hashable(value) for value in row.values.values())
        if key not in seen:
            seen.add(key)
            distinct.append(row)
    return distinct


def with_operations(sample: TopicSample, column: str, deletions: Collection[str]) -> TopicSample:
    """Return a sample of plain rows whose operations stand in a column, with what they say: deletions and new rows.

    Without `deletions` any value but null marks one. Rows before an update are left out.
    """
    rule = DeleteWhen(column=column, values=tuple(deletions), is_null=None if deletions else False)
    flag = is_flag(column)
    rows = []
    for row in sample.rows:
        operation = row.values.get(column)
        if operation is not None and is_before_image(column, operation, row.values):
            continue
        deleted = rule.is_deletion(operation)
        rows.append(replace(row, deleted=deleted, first=not deleted and (flag or is_creation(operation))))
    return replace(sample, rows=tuple(rows))


def column_facts(name: str, rows: Sequence[SampledRow], all_rows: Sequence[SampledRow]) -> ColumnFacts:
    """Return the facts of one column in `rows`, and how often updates among `all_rows` change it."""
    values = [row.values.get(name) for row in rows]
    pairs = [(row.before.get(name), row.values.get(name)) for row in all_rows if row.before is not None]
    return ColumnFacts(
        name,
        len(values),
        sum(value is None for value in values),
        len({_hashable(value) for value in values if value is not None}),
        sum(before != after for before, after in pairs),
        len(pairs),
    )


def repeats(columns: Sequence[str], rows: Sequence[SampledRow]) -> int:
    """Count the rows whose values in these columns an earlier row has too."""
    return len(rows) - distinct_values(columns, rows)


def many_values(values: int, rows: int, rows_each: int) -> bool:
    """True if so many values in so many rows are too many for folders, which shall have `rows_each`.

    A table may have 100 in any number of rows.
    """
    return values > max(PARTITIONS_FEW, min(PARTITIONS_MAX, rows // rows_each))


def distinct_values(columns: Sequence[str], rows: Sequence[SampledRow]) -> int:
    """Count the values that the rows have in these columns."""
    return len({tuple(_hashable(row.values.get(name)) for name in columns) for row in rows})


def rows_of_keys(
    key: Sequence[str], rows: Sequence[SampledRow], columns: Sequence[str]
) -> list[list[tuple[tuple[Any, ...], tuple[Any, ...]]]]:
    """Return for each value of the key its rows: the place of each, and its values in these columns."""
    by_key: dict[tuple[Any, ...], list[tuple[tuple[Any, ...], tuple[Any, ...]]]] = {}
    for row in rows:
        values = tuple(_hashable(row.values.get(name)) for name in columns)
        of_key = by_key.setdefault(tuple(_hashable(row.values.get(name)) for name in key), [])
        of_key.append((tuple(map(_hashable, row.place)), values))
    return list(by_key.values())


def shared_keys(columns: Sequence[str], rows: Sequence[SampledRow]) -> tuple[int, int]:
    """Count the values that rows have in these columns, and those that several different rows of one place have."""
    by_key: dict[tuple[Any, ...], dict[tuple[Any, ...], set[Any]]] = {}
    for row in rows:
        key = tuple(_hashable(row.values.get(name)) for name in columns)
        of_place = by_key.setdefault(key, {}).setdefault(tuple(map(_hashable, row.place)), set())
        of_place.add(tuple(map(_hashable, row.values.values())))
    return len(by_key), sum(any(len(values) > 1 for values in places.values()) for places in by_key.values())


def columns_of_deletions(rows: Sequence[SampledRow], columns: Sequence[str]) -> tuple[frozenset[str], int]:
    """Return the columns that hold a value in every deletion and differ between deletions, and the number of deletions.

    If the source's log keeps only the key, these are the key: other columns are null, or always the same default.
    """
    deletions = [row for row in rows if row.deleted]

    def holds_values(name: str) -> bool:
        values = [row.values.get(name) for row in deletions]
        return not any(map(_is_empty, values)) and (len(values) < 2 or len({_hashable(value) for value in values}) > 1)

    return frozenset(name for name in columns if deletions and holds_values(name)), len(deletions)


def _hashable(value: Any) -> Any:
    """Return a value for sets that keeps 1, true and "1" apart."""
    if isinstance(value, (dict, list)):
        return repr(value)
    return (type(value).__name__, value)


def _is_empty(value: Any) -> bool:
    return any(value == empty and type(value) is type(empty) for empty in _EMPTY)
