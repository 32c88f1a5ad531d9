"""The column that marks deletions in plain rows, as AWS DMS writes it, and the marks by which one is recognized.

Debezium's deletions carry marks of their own. Any other capture that marks them in a column needs `delete_when`:
without it deleted rows would stay alive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from sluice.config.setting import setting
from sluice.config.values import COLUMN_NAME, MARKS, SWITCH, mark_text

# Columns that hold the operation of a change, in lower case, and the words that captures write there.
# https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.S3.html
_OPERATION_COLUMNS = frozenset(("op", "_op", "__op"))
_DELETIONS = frozenset(("d", "delete"))
_CREATIONS = frozenset(("i", "c", "r", "l", "insert", "create", "read", "load"))
_OPERATIONS = _DELETIONS | _CREATIONS | {"u", "update"}
_LOADED = (None, "", "I")  # what DMS writes for a row of its full load


@dataclass(frozen=True)
class DeleteWhen:
    """A row is a deletion where `column` holds one of `values`. Without a column no row is.

    Where it is off, a column of operations is data like any other.
    """

    on: bool = field(
        default=True,
        metadata=setting(SWITCH, "`off`: a column such as `Op` is data, and marks no deletion.", key="enabled"),
    )
    column: str | None = field(
        default=None, metadata=setting(COLUMN_NAME, "The column: text, a whole number, or true and false.")
    )
    values: tuple[str, ...] = field(
        default=(), metadata=setting(MARKS, "The values that mark a deletion, one or a list. Case counts.")
    )

    @property
    def marks(self) -> bool:
        """True if a column marks deletions."""
        return self.on and self.column is not None

    def is_deletion(self, value: Any) -> bool:
        """True if a value of the column marks a deletion."""
        return mark_text(value) in self.values

    def is_loaded(self, value: Any) -> bool:
        """True if a value of the column is that of a full load, which has no place in the source's log."""
        return value in _LOADED


def operation_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that are named as those of an operation."""
    return tuple(name for name in names if name.lower() in _OPERATION_COLUMNS)


def are_operations(values: Collection[Any]) -> bool:
    """Whether values of such a column are operations: at least one, and nothing else but nulls."""
    found = {value for value in values if value is not None}
    return bool(found) and all(isinstance(value, str) and value.lower() in _OPERATIONS for value in found)


def is_creation(value: Any) -> bool:
    """True if a value of such a column is that of a new row, or of one that a full load reads."""
    return value is None or value == "" or isinstance(value, str) and value.lower() in _CREATIONS


def deletions_among(values: Iterable[Any]) -> tuple[str, ...]:
    """Return the operations that delete among values of such a column; D where there is none yet."""
    found = sorted({value for value in values if isinstance(value, str) and value.lower() in _DELETIONS})
    return tuple(found) or ("D",)
