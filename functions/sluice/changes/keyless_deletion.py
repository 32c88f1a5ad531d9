"""Deletions that carry no key: those of PostgreSQL's tables whose replica identity is an index other than the key's.

Such a deletion has the columns of the index, all of them NOT NULL. Of every other column, the key's among them, it has
null, the declared default or the default of the type: taken as it stands, it would delete the row with the key 0 or "".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# What Debezium writes for a NOT NULL column that the log doesn't hold: zero, also as decimal text, midnight of
# 1970-01-01, no bytes, no items.
_TYPE_DEFAULT = re.compile(r"|0+(\.0+)?|\{\}|\[\]|1970-01-01Z?|(1970-01-01T)?00:00(:00(\.0+)?)?Z?")


@dataclass(frozen=True)
class DeletionColumns:
    """The columns of deletions: those of the record key, the others, and which of these may be null.

    `defaults` are the values that the source declares for columns that a change doesn't hold.
    """

    key: tuple[str, ...]
    others: tuple[str, ...]
    nullable: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] | None = None


def without_key(deletions: Sequence[Mapping[str, Any]], columns: DeletionColumns) -> list[bool]:
    """Which of the deletions of one object carry no key, by the traces of their replica identity.

    A deletion of the key's default is one of that row where no other column is filled (the key alone is the identity),
    or where one is filled that an index can't have, since it may be null (the whole row is the identity), or all of
    several columns. Another deletion of the object that is filled beside its key shows that whole rows are.
    """
    filled = [_filled(row, columns.others, columns) for row in deletions]
    has_key = [bool(_filled(row, columns.key, columns)) for row in deletions]
    if any(present and others for present, others in zip(has_key, filled)):
        return [False] * len(deletions)
    return [
        not present
        and bool(others)
        and columns.nullable.isdisjoint(others)
        and (len(others) < len(columns.others) or len(others) == 1)
        for present, others in zip(has_key, filled)
    ]


def seen_null(rows: Iterable[Mapping[str, Any]], columns: Collection[str]) -> frozenset[str]:
    """The columns that are null in a row that is there whole, and so may be null."""
    return frozenset(name for row in rows for name in columns if row.get(name) is None)


def _filled(row: Mapping[str, Any], names: Iterable[str], columns: DeletionColumns) -> list[str]:
    return [name for name in names if not _is_default(row.get(name), (columns.defaults or {}).get(name))]


def _is_default(value: Any, declared: Any) -> bool:
    if value is None or value == declared:
        return True
    if isinstance(value, str):
        return _TYPE_DEFAULT.fullmatch(value) is not None
    if isinstance(value, (bytes, bytearray)):
        return not any(value) or isinstance(declared, str) and declared.encode("latin-1", "replace") == value
    if isinstance(value, Mapping) and "value" in value:  # a number with a scale of its own
        return _is_default(value["value"], None)
    return not value
