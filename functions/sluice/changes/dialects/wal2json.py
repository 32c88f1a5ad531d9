"""Changes of PostgreSQL as its plug-in wal2json writes them: a transaction a record (version 1), or a change (2).

https://github.com/eulerto/wal2json
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluice.changes.dialects.nested import BY_WORDS, CaptureDialect, ChangePaths, Reading, Record, lsn, nanos, placed
from sluice.changes.hidden_columns import CREATE, DELETE, MESSAGE, TRUNCATE, UPDATE
from sluice.errors import UnusableSchema


def _place(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """The place in the log with `include-lsn`: of the change in version 2, of the transaction's end in version 1."""
    place = lsn(record.get("lsn"))
    time = nanos(record.get("timestamp"))
    source = {} if time is None else {"ts_ms": time // 10**6}
    return {**source, **placed(lsn(record.get("nextlsn")) if place is None else place)}


def _columns(columns: Any, record: Mapping[str, Any], reading: Reading) -> Any:
    """The row of a list of columns, or of lists of their names and values."""
    if isinstance(columns, list) and all(isinstance(column, dict) and "name" in column for column in columns):
        return {str(column["name"]): column.get("value") for column in columns}
    names, values = (columns.get(f"key{part}") for part in ("names", "values")) if isinstance(columns, dict) else (0, 0)
    if not isinstance(names, list) or not isinstance(values, list) or len(names) != len(values):
        raise UnusableSchema("A change of wal2json lacks the names or the values of its columns")
    return dict(zip(map(str, names), values))


_BY_CHANGE = ChangePaths(
    "wal2json",
    fields=frozenset(("action",)),
    operation="action",
    operations={"i": CREATE, "u": UPDATE, "d": DELETE, "t": TRUNCATE, **dict.fromkeys("bcm", MESSAGE)},
    row="columns",
    before="identity",
    source={"schema": "schema", "table": "table"},
    place=_place,
    decoded=_columns,
    partial=True,  # unchanged large values are left out
)
_BY_TRANSACTION = replace(
    _BY_CHANGE,
    fields=frozenset(("change",)),
    listed="change",
    operation="kind",
    operations={**BY_WORDS, "truncate": TRUNCATE, "message": MESSAGE},
    before="oldkeys",
)
_OF_TRANSACTION = frozenset("xid timestamp lsn nextlsn origin change".split())
_OF_MESSAGE = frozenset("transactional prefix content".split()) | _OF_TRANSACTION


@dataclass(frozen=True)
class Wal2Json(CaptureDialect):
    """The dialect, in both versions of its format."""

    name: str = "wal2json"
    shapes: tuple[frozenset[str], ...] = (_BY_CHANGE.fields, _BY_TRANSACTION.fields)

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether a record has the fields of a change or of a transaction, and no others."""
        if isinstance(record.get("change"), list):
            return (named or record.keys() <= _OF_TRANSACTION) and _BY_TRANSACTION.recognises(_with_columns(record))
        if record.get("action") in ("B", "C", "M"):
            return named or record.keys() - {"action"} <= _OF_MESSAGE
        return (named or {"schema", "table"} <= record.keys()) and _BY_CHANGE.recognises(record)

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        """The changes. Raises UnusableSchema for columns whose names and values don't fit."""
        if isinstance(record.get("change"), list):
            return _BY_TRANSACTION.changes(_with_columns(record), reading)
        return _BY_CHANGE.changes(record, reading)


def _with_columns(record: Record) -> dict[str, Any]:
    """A transaction whose changes have their columns in one field, in the form of their keys."""
    parts = [
        {**part, "columns": {"keynames": part["columnnames"], "keyvalues": part.get("columnvalues")}}
        if isinstance(part, dict) and "columnnames" in part
        else part
        for part in record["change"]
    ]
    return {**record, "change": parts}


WAL2JSON = Wal2Json()
