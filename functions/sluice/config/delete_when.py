"""The column that marks deletions in plain rows, as AWS DMS writes it.

Debezium's deletions carry marks of their own. Any other capture that marks them in a column needs `delete_when`:
without it deleted rows would stay alive (`sluice.changes.capture_marks` knows such columns).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sluice.changes.capture_marks import mark_text
from sluice.config.setting import Value, setting
from sluice.config.values import MARK_PLACE, MARKS, SWITCH

_CREATIONS = frozenset(("i", "c", "r", "l", "insert", "create", "read", "load"))
_LOADED = (None, "", "I")  # what DMS writes for a row of its full load
_NULL, _NOT_NULL = "null", "not null"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS_OF_YAML = frozenset(("yes", "no", "on", "off", "y", "n", "null", "true", "false"))


def _nullness(written: Any) -> bool:
    if written not in (_NULL, _NOT_NULL):
        raise ValueError(f"is one of {_NULL}, {_NOT_NULL}")
    return bool(written == _NULL)


_NULLNESS = Value(
    _nullness, {"type": ["string", "null"], "enum": [_NULL, _NOT_NULL, None]}, lambda null: _NULL if null else _NOT_NULL
)


@dataclass(frozen=True)
class DeleteWhen:
    """A row is a deletion where `column` holds one of `values`, or by `is_null`. Without a column no row is.

    Where it is off, a column of operations is data like any other.
    """

    on: bool = setting(True, SWITCH, "`off`: a column such as `Op` is data, and marks no deletion.", key="enabled")
    column: str | None = setting(
        None,
        MARK_PLACE,
        "The column: text, a whole number, or true and false; any with `is`. With `change` its path in the record.",
    )
    values: tuple[str, ...] = setting((), MARKS, "The values that mark a deletion, one or a list. Case counts.")
    is_null: bool | None = setting(
        None,
        _NULLNESS,
        "In place of `values`: `not null` where any value marks a deletion, such as the time of it; `null` where "
        "none does.",
        key="is",
    )

    @property
    def marks(self) -> bool:
        return self.on and self.column is not None

    def is_deletion(self, value: Any) -> bool:
        """True if a value of the column marks a deletion. Empty text is none: CSV in quotes has no other null."""
        if self.is_null is not None:
            return (value is None or value in ("", b"")) == self.is_null
        return mark_text(value) in self.values

    def is_loaded(self, value: Any) -> bool:
        """True if a value of the column is that of a full load, which has no place in the source's log."""
        return self.is_null is None and (value is None or mark_text(value) in _LOADED)


def is_creation(value: Any) -> bool:
    """True if a value of a column of operations is that of a new row, or of one that a full load reads."""
    text = mark_text(value)
    return not text or text.lower() in _CREATIONS


def written_marks(column: str, values: Iterable[str]) -> str:
    """The setting for a column and the values that mark deletions, as a rule has it; without values: any but null."""
    shown = ", ".join(map(_scalar, values))
    return f"delete_when: {{column: {column}, {f'values: [{shown}]' if shown else f'is: {_NOT_NULL}'}}}"


def _scalar(text: str) -> str:
    """A text as YAML reads it back: `true` and whole numbers count as their text."""
    plain = text == "true" or text.isascii() and text.isdigit() or _PLAIN.fullmatch(text)
    return text if plain and (text == "true" or text.lower() not in _WORDS_OF_YAML) else json.dumps(text)
