"""Where in the records of a table their changes lie, by paths: what a rule says of a form that has no name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from sluice.changes.capture_marks import mark_text, other_deletions
from sluice.changes.dialects.nested import ChangePaths, Reading, Record, at, clock, lsn, nanos, placed, whole
from sluice.config.delete_when import DeleteWhen
from sluice.config.setting import Value, setting
from sluice.config.values import SWITCH
from sluice.errors import UnusableSchema

PATH = re.compile(r"[^.\s]+(?:\.[^.\s]+)*")
_MOST_PATH, _MOST_ORDER = 255, 2


def _path(written: Any) -> str:
    if not isinstance(written, str) or len(written) > _MOST_PATH or not PATH.fullmatch(written):
        raise ValueError("is a path of names with dots between them, such as payload.after")
    return written


def _order(written: Any) -> tuple[str, ...]:
    paths = [written] if isinstance(written, str) else written
    if not isinstance(paths, list) or not 1 <= len(paths) <= _MOST_ORDER:
        raise ValueError(f"is a path, or a list of up to {_MOST_ORDER}: the first counts most")
    return tuple(map(_path, paths))


_PATH_SCHEMA: dict[str, Any] = {"type": "string", "pattern": f"^{PATH.pattern}$", "maxLength": _MOST_PATH}
_PATH_VALUE = Value(_path, _PATH_SCHEMA)
_ORDER_VALUE = Value(
    _order,
    {"anyOf": [_PATH_SCHEMA, {"type": "array", "items": _PATH_SCHEMA, "minItems": 1, "maxItems": _MOST_ORDER}]},
    list,
)


@dataclass(frozen=True)
class ChangeRule:
    """The paths of the parts of a change in a record. Without a `row` records are not read by paths."""

    row: str | None = setting(
        None, _PATH_VALUE, "The row after the change, or a list of rows: an object, or its JSON as text."
    )
    before: str | None = setting(
        None, _PATH_VALUE, "The row before the change, or its key alone, of deletions and new keys."
    )
    key: str | None = setting(None, _PATH_VALUE, "The key of the row, where rows or deletions lack it.")
    order: tuple[str, ...] = setting(
        (),
        _ORDER_VALUE,
        "What orders the changes of a row: whole numbers, times in ISO 8601, PostgreSQL's LSNs; one path or two.",
        default_text="the Kafka offset, or the object's name",
        fixed=True,
    )
    listed: str | None = setting(
        None, _PATH_VALUE, "The list of changes in a record; the other paths then begin in each of them.", key="list"
    )
    partial: bool = setting(False, SWITCH, "An update may leave out columns that it left unchanged.")

    def dialect(self, rule: DeleteWhen) -> ChangePaths | None:
        """The dialect of records with these paths, and deletions by a `rule` whose column is one; None without any."""
        return None if self.row is None else _dialect(self, rule)


@lru_cache(maxsize=64)
def _dialect(paths: ChangeRule, rule: DeleteWhen) -> ChangePaths:
    """The same for the same rules: what readers keep of a schema is found by it."""
    return ChangePaths(
        "change",
        fields=frozenset(),
        row=paths.row or "",
        listed=paths.listed or "",
        before=paths.before or "",
        key=paths.key or "",
        place=partial(_place, paths.order),
        order=paths.order,
        is_deletion=partial(_is_deletion, rule) if rule.marks else None,
        partial=paths.partial,
        texts=True,
        several=True,
    )


def _is_deletion(rule: DeleteWhen, record: Record) -> bool:
    value = at(record, rule.column or "")
    if rule.is_deletion(value):
        return True
    text = mark_text(value) if rule.is_null is None else None
    if text is not None and _is_other_deletion(str(rule.column), text, rule.values):
        raise UnusableSchema(
            f"A change holds {text[:100]} at `{rule.column}`, a deletion that the rule's `delete_when` doesn't name",
            column=str(rule.column)[:100],
            next_step="Add the word to `values` of `delete_when` and push it, then `sluice quarantine retry`",
        )
    return False


@lru_cache(maxsize=1024)
def _is_other_deletion(path: str, text: str, values: tuple[str, ...]) -> bool:
    return bool(other_deletions(path.rpartition(".")[2], (text,), values))


def _place(order: tuple[str, ...], record: Record, reading: Reading) -> Mapping[str, Any]:
    numbers = []
    for path in order:
        value = at(record, path)
        number = order_of(value)
        if number is None:
            raise UnusableSchema(
                f"A change has no number or time at `{path}`, by which the rule orders changes",
                column=path[:100],
                value=str(value)[:100],
            )
        numbers.append(number)
    return placed(*numbers) if numbers else {}


def order_of(value: Any) -> int | None:
    """The number by which a value orders changes; None for one that orders none.

    Values of one path are of one kind: whole numbers from 0, hybrid clocks, places in PostgreSQL's log, times.
    """
    number = whole(value)
    if number is not None:
        return number
    parts = clock(value)
    if parts is not None:
        return parts[0] * 10**10 + parts[1]
    place = lsn(value)
    return nanos(value) if place is None else place
