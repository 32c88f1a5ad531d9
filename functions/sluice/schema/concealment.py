"""A source's rows under a table's column rules: what remains of a row, and text in place of concealed values.

Applied to each record as it is decoded, so that nothing stored has other values: rows, histories, quarantined records.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Callable

from sluice.config.placeholders import Placeholders
from sluice.config.rules.columns import ColumnRules
from sluice.errors import SluiceError
from sluice.names import stored_name
from sluice.schema import columns as kinds
from sluice.schema.columns import Column, RowSchema, plain_column
from sluice.schema.meaning import value_text

MASK = "***"
# Facts of errors that hold no value of a record.
_NAMED_FACTS = frozenset("block column field format limit record row source_type types unit".split())
_QUOTED = re.compile(r"""['"].*['"]""", re.DOTALL)
# The statement that made a change, with its values: Debezium's `include.query`, and Oracle's redo.
_STATEMENTS = ("query", "redo_sql")


def ruled(row: RowSchema, rules: ColumnRules) -> RowSchema:
    """The row without excluded columns, with the table's names, and with text where values are hashed or masked.

    `Column.field` keeps the writer's name. Two columns may get the same name: `evolution.evolve_table` refuses that.
    """
    if not rules.any:
        return row
    return RowSchema(
        tuple(
            _ruled(column, rules)
            for column in row.columns
            if not (rules.excludes(column.name) or rules.conceals and _is_statement(column))
        )
    )


def _is_statement(column: Column) -> bool:
    """True for a statement that no other metadata tell from a column of the source: it may have concealed values."""
    return column.written_name in {f"__{name}" for name in _STATEMENTS}


def unknown_columns(rows: Iterable[RowSchema], rules: ColumnRules) -> tuple[str, ...]:
    """The columns that the rules name and no row has: misspelt, maybe, and then stored as they come."""
    written = {name.lower() for row in rows for name in row.names}
    return tuple(name for name in rules.named if name.lower() not in written)


def _ruled(column: Column, rules: ColumnRules) -> Column:
    name = rules.table_name(column.name)
    field = None if name == column.written_name else column.written_name
    if rules.hashes(column.name) or rules.mask_of(column.name) is not None:
        return replace(plain_column(name, kinds.STRING, column.nullable, column.source_type), field=field)
    return replace(column, name=name, field=field) if name != column.name else column


class Concealment:
    """Conceals the rows of one writer schema."""

    def __init__(
        self,
        rules: ColumnRules,
        row: RowSchema,
        key: bytes,
        placeholders: Placeholders,
        *,
        beside: Iterable[str | None] = (),
    ) -> None:
        """`row` is the writer's own, `key` the key of the hashes, `beside` the metadata fields of flattened rows."""
        self._key = key
        self._placeholders = placeholders
        self._own = frozenset(column.written_name for column in row.columns if not _is_statement(column))
        self._known = self._own.union(filter(None, beside))
        self._named = frozenset(name.lower() for name in rules.concealed)
        self._excluded = [column.written_name for column in row.columns if rules.excludes(column.name)]
        self._changed: list[tuple[Column, Callable[[str], str]]] = []
        for column in row.columns:
            shown = rules.mask_of(column.name)
            if rules.hashes(column.name):
                self._changed.append((column, self._hash))
            elif shown is not None:
                self._changed.append((column, partial(masked, shown=shown)))

    def of_row(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The row as the table may have it, under the writer's names.

        Raises ValueError, TypeError, ArithmeticError or AttributeError for a value that its type doesn't have.
        """
        made = dict(values)
        for name in made.keys() - self._known:  # a record in JSON may hold more than its schema declares
            if stored_name(name).lower() in self._named:
                del made[name]
        for name in self._excluded:
            made.pop(name, None)
        for column, conceal in self._changed:
            name = column.written_name
            if name in made:
                made[name] = self._text(made[name], column, conceal)
        return made

    def of_record(self, record: Mapping[str, Any], sides: Sequence[str]) -> dict[str, Any]:
        """The record with its row concealed, or the rows of its `sides`; and without the statement that made it."""
        if not sides:
            return _without_statements(self.of_row(record), self._own)
        made = _without_statements(record, frozenset(("before", "after")))
        for side in sides:
            if made.get(side) is not None:
                made[side] = self.of_row(made[side])
        if isinstance(made.get("source"), Mapping):
            made["source"] = _without_statements(made["source"], frozenset())
        return made

    def _text(self, value: Any, column: Column, conceal: Callable[[str], str]) -> str | None:
        if value is None:
            return None
        if is_placeholder(value, self._placeholders):  # the value is elsewhere: in the stored row, or in a change
            return self._placeholders.pair[0]
        return conceal(value_text(value, column))

    def _hash(self, text: str) -> str:
        return hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), "sha256").hex()


def masked(text: str, shown: int) -> str:
    """`***`, and the last `shown` characters of a text that is at least twice as long."""
    return MASK + (text[-shown:] if 0 < 2 * shown <= len(text) else "")


def is_placeholder(value: Any, placeholders: Placeholders) -> bool:
    """Whether a decoded value stands for one that the change leaves out, by the raw type of its column."""
    if isinstance(value, str):
        return value in placeholders.texts
    if isinstance(value, (bytes, bytearray)):
        return bytes(value) in placeholders.bytes_
    if isinstance(value, Mapping):
        return dict(value) == {placeholders.pair[0]: placeholders.pair[1]}
    if isinstance(value, (list, tuple)):
        return tuple(value) == placeholders.codes or len(value) == 1 and is_placeholder(value[0], placeholders)
    return False


def _without_statements(record: Mapping[str, Any], own: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name in own or not name.endswith(_STATEMENTS)}


def without_values(error: SluiceError) -> SluiceError:
    """The error without what it may quote of a record."""
    facts = {name: fact for name, fact in error.facts.items() if name in _NAMED_FACTS}
    return type(error)(_QUOTED.sub("'…'", error.message), next_step=error.next_step, **facts)
