"""Finds columns by which another capture marks deletions, where the table's rule doesn't read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sluice.changes import hidden_columns as hidden
from sluice.changes.capture_marks import (
    deletion_marks,
    is_flag,
    mark_text,
    marking_columns,
    may_mark,
    operations_marking,
    other_deletions,
)
from sluice.config.delete_when import written_marks
from sluice.config.table import TableConfig
from sluice.names import stored_name
from sluice.schema.avro import WriterSchema
from sluice.schema.concealment import ruled
from sluice_formats.captures.wrapped import changes_in, nested_rows
from sluice_formats.errors import DeletionsUnmarked
from sluice_formats.records import Record

_MOST_OPERATIONS, _DATA = 100, ""  # a column with more values holds data; empty text is no operation
_FIRST = 100  # records of a chunk that are looked at


class UnmarkedDeletions:
    """Watches an object for columns of other captures by which rows are deleted, where the table's rule sees none."""

    def __init__(self, config: TableConfig) -> None:
        self._config = config
        self._values: dict[str, set[str | None]] = {}
        self._named: dict[str, set[str | None]] = {}  # the column of the rule itself
        self._marking: set[str] = set()  # columns of captures by their names
        self._data: set[str] = set()  # columns whose values are no operations

    def take(self, records: Sequence[Record], writer: WriterSchema) -> None:
        """Add one chunk. Raises DeletionsUnmarked for operations that Debezium doesn't write, and for nested rows."""
        rule = self._config.marks_of_rows
        if self._config.append_only or not rule.on or writer.dialect.holds_rows:
            return
        column = ruled(writer.row, self._config.columns).column(rule.column or "")
        first: dict[str, Any] = next((record for record in records if isinstance(record, dict)), {})
        wrapped = nested_rows(writer, append_only=False, rule=rule, fields=tuple(first))
        if wrapped is not None:
            raise wrapped
        written = [of_row.written_name for of_row in writer.row.columns]
        if rule.marks and (column is not None or writer.meta.op == rule.column):
            name = str(rule.column) if column is None else column.written_name
            if rule.is_null is None:
                self._add(self._named, name, records)
            return
        if not writer.of_changes:
            self._marking.update(marking_columns(written))
            for name in written:
                if name in self._marking or self._may_mark(name, records):
                    self._add(self._values, name, records)
        elif writer.meta.op is not None:  # now, before each of the rows is refused for itself
            marks = _marks_of(records, writer.meta.op) - {*hidden.OPS, None}
            _refuse_unmarked(writer.meta.op, operations_marking(marks), marks)

    def _may_mark(self, name: str, records: Sequence[Record]) -> bool:
        """Whether a column by another name may hold operations: most columns show by a value that it is data."""
        if name in self._values or name in self._data:
            return name in self._values
        values = (record.get(name) for record in records[:_FIRST] if isinstance(record, dict))
        first = next((value for value in values if value is not None), None)
        if first is not None and not may_mark(name, first):
            self._data.add(name)
            held = changes_in(name, first)
            if held is not None:
                raise held
        return may_mark(name, first)

    def check(self) -> None:
        """Raise DeletionsUnmarked if a column of the object says which rows are deleted, and the rule doesn't read it.

        Also where the rule names other values than the deletions there.
        """
        for name, values in self._values.items():
            _refuse_unmarked(name, deletion_marks(name, values, named=name in self._marking), values)
        for name, values in self._named.items():
            others = other_deletions(name, values, self._config.marks_of_rows.values)
            if others:
                raise DeletionsUnmarked(
                    f"The column {name} holds {', '.join(others)[:100]}, which `delete_when` doesn't name: deleted "
                    "rows would stay alive",
                    column=name,
                    values=list(others),
                )

    def _add(self, marks_by_column: dict[str, set[str | None]], name: str, records: Sequence[Record]) -> None:
        values = marks_by_column.get(name, set()) | _marks_of(records, name)
        if len(values) > _MOST_OPERATIONS:  # times of deletions, or data
            values = set(sorted(filter(None, values))[-_MOST_OPERATIONS:]) if is_flag(name) else {_DATA}
        marks_by_column[name] = values


def _marks_of(records: Sequence[Record], name: str) -> set[str | None]:
    """The different values of a column as texts, None for null and for values that have none."""
    values: Iterable[Any] = [record.get(name) for record in records if isinstance(record, dict)]
    try:
        values = [value for _, value in {(type(value), value) for value in values}]  # True equals 1
    except TypeError:  # lists and structs, which mark nothing
        pass
    return {mark_text(int(value) if isinstance(value, float) and value.is_integer() else value) for value in values}


def _refuse_unmarked(column: str, marks: tuple[str, ...] | None, values: Collection[str | None]) -> None:
    if marks is not None:
        raise DeletionsUnmarked(
            f"The column {column} {'marks deletions' if is_flag(column) else 'holds operations'}, and the rule has no "
            f"`{written_marks(stored_name(column), marks)}`: deleted rows would stay alive",
            column=column,
            values=sorted(filter(None, values))[:_MOST_OPERATIONS],
        )
