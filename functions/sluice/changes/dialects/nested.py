"""What a dialect declares: in which fields of a record the rows, the operation and the place of a change lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Protocol

from sluice.changes.hidden_columns import DELETE, MESSAGE, TRUNCATE, UPDATE

Record = Mapping[str, Any]
IsKey = Callable[[str], bool]  # whether a field of a row is a column of its table's record key


class CaptureDialect(Protocol):
    """A form of changes. `name` is the word for it in a rule's `format`, `fields` are those of every record."""

    @property
    def name(self) -> str: ...

    @property
    def fields(self) -> frozenset[str]: ...

    def recognises(self, record: Record) -> bool:
        """Whether a record, by its fields and their values, is a change in this form."""
        ...

    def changes(self, record: Record, is_key: IsKey) -> Sequence[dict[str, Any]]:
        """The changes in a record of this form, in Debezium's envelope. Raises UnusableSchema."""
        ...


def at(record: Record, path: str) -> Any:
    """The value at a path of names with dots between them; None where a part is absent."""
    value: Any = record
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def change(op: str, before: Any, after: Any, source: Mapping[str, Any]) -> dict[str, Any]:
    """A change in Debezium's envelope."""
    return {"before": before, "after": after, "source": dict(source), "op": op}


@dataclass(frozen=True)
class NestedRows:
    """A dialect whose records hold a row, or a list of rows, in one field.

    `fields` are those that every record has. `operations` are Debezium's, by the words of the field `operation` in
    lower case; MESSAGE is that of records without a row. `row` holds the row after a change, or the deleted one, and
    `old` the former values of what an update changed. `source` are paths by Debezium's words for the metadata, and
    `place` makes the fields of the position. `typed` gives a row its types, where the dialect writes all as text.
    """

    name: str
    fields: frozenset[str]
    operation: str
    operations: Mapping[str, str]
    row: str
    old: str
    source: Mapping[str, str]
    place: Callable[[Record], Mapping[str, Any]]
    typed: Callable[[dict[str, Any], Record], dict[str, Any]] = lambda row, record: row

    def recognises(self, record: Record) -> bool:
        """Whether a record has the fields, a known operation, and a row where the operation has one."""
        if not self.fields <= record.keys():
            return False
        op = self.operations.get(str(at(record, self.operation)).lower())
        if op is None or op in (MESSAGE, TRUNCATE):
            return op is not None
        return all(isinstance(row, dict) for row in self._rows(record))

    def changes(self, record: Record, is_key: IsKey) -> Sequence[dict[str, Any]]:
        """The changes of each row of a recognised record. An update of the key also deletes the former key's row."""
        op = self.operations[str(at(record, self.operation)).lower()]
        source = {word: value for word, path in self.source.items() if (value := at(record, path)) is not None}
        source.update(self.place(record))
        if op in (MESSAGE, TRUNCATE):
            return [change(op, None, None, source)]
        old_rows = at(record, self.old)
        olds = iter(old_rows if isinstance(old_rows, list) else [old_rows])
        made = []
        for row in self._rows(record):
            old = next(olds, None)
            row = self.typed(row, record)
            if op == DELETE:
                made.append(change(op, row, None, source))
                continue
            before = {**row, **self.typed(old, record)} if op == UPDATE and isinstance(old, dict) else None
            if before is not None and any(is_key(name) and before[name] != row.get(name) for name in before):
                made.append(change(DELETE, before, None, source))
            made.append(change(op, before, row, source))
        return made

    def _rows(self, record: Record) -> list[Any]:
        rows = at(record, self.row)
        return rows if isinstance(rows, list) and rows else [rows]
