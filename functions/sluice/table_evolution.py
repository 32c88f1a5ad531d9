"""What a writer schema means for a table: column by column, the table's types after it, and the verdict on it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from sluice.column_types import RowSchema
from sluice.errors import Incompatible
from sluice.hidden_columns import NAMES
from sluice.stored_types import NARROWER, PROMOTED, REWRITTEN, SAME, incompatible, widen

NEW_TABLE, ADDED, DROPPED, INCOMPATIBLE = "new_table", "added", "dropped", "incompatible"
# A schema's verdict is the strongest of its columns': in this order.
_STRENGTH = (SAME, DROPPED, NARROWER, ADDED, PROMOTED, REWRITTEN, NEW_TABLE, INCOMPATIBLE)

_TOLD = {
    ADDED: "{column} is new ({new}): null in rows from before",
    DROPPED: "{column} ({old}) is no longer sent: kept, null in rows that change from now on",
    NARROWER: "{column} comes as {new}: kept as {old}",
    PROMOTED: "{column} becomes {to} ({new} came, {old} was stored)",
    REWRITTEN: "{column} becomes {to} ({new} came, {old} was stored): the whole table is written anew in the commit that brings it",
}


@dataclass(frozen=True)
class ColumnChange:
    """What a writer schema changes about one column. Types are Spark's names; None where the column isn't.

    `to` is the stored type afterwards.
    """

    column: str
    change: str
    old: Optional[str]
    new: Optional[str]
    to: Optional[str]
    told: str


@dataclass(frozen=True)
class Evolution:
    """A writer schema seen from a table: its verdict, the columns that are not the same, and the table's types after it."""

    verdict: str
    changes: Tuple[ColumnChange, ...]
    target: Mapping[str, str]

    def to_dict(self) -> Dict[str, Any]:
        """Plain JSON values, without the target."""
        return {"verdict": self.verdict, "changes": [asdict(change) for change in self.changes]}


def evolve(
    stored: Optional[Mapping[str, str]],
    written: RowSchema,
    *,
    record_key: Tuple[str, ...],
    partition_by: Tuple[str, ...],
) -> Evolution:
    """Compare a schema with the table's columns (name -> Spark's type name; None while there is no table).

    Raises Incompatible naming the first column that keeps it from going on. Sluice's own columns are left alone.
    """
    for name in record_key:
        if written.column(name) is None:
            raise Incompatible(
                f"The record key {name} is not a column of this schema",
                column=name,
                types=[(stored or {}).get(name, ""), "absent"],
                next_step="Let the connector send the key's columns, or give the topic a table with a key that it has",
            )
    types = {column.name: column.spark_type for column in written.columns}
    if stored is None:
        return Evolution(NEW_TABLE, (), types)
    _same_case(stored, types)
    target: Dict[str, str] = {}
    changes: List[ColumnChange] = []
    for name, old in stored.items():
        new = types.pop(name, None)
        if new is None:
            target[name] = old
            if name not in NAMES:
                changes.append(_change(name, DROPPED, old, None, old))
            continue
        found = widen(name, old, new)
        if found.type != old and name in record_key + partition_by and found.type != "bigint":
            raise incompatible(
                name,
                old,
                new,
                "it is part of the table's key or of its folders",
                "Change it back at the source, or give the topic a table of another name",
            )
        target[name] = found.type
        if found.change != SAME:
            changes.append(_change(name, found.change, old, new, found.type))
    for name, new in types.items():
        target[name] = new
        changes.append(_change(name, ADDED, None, new, new))
    return Evolution(
        max((change.change for change in changes), key=_STRENGTH.index, default=SAME), tuple(changes), target
    )


def compare(old: Mapping[str, str], new: Mapping[str, str]) -> Tuple[ColumnChange, ...]:
    """Every column that differs between two schemas (name -> Spark's type name), incompatible ones among them."""
    changes: List[ColumnChange] = []
    for name, kind in old.items():
        if name not in new:
            changes.append(_change(name, DROPPED, kind, None, kind))
            continue
        try:
            found = widen(name, kind, new[name])
        except Incompatible as error:
            changes.append(ColumnChange(name, INCOMPATIBLE, kind, new[name], None, str(error)))
            continue
        if found.change != SAME:
            changes.append(_change(name, found.change, kind, new[name], found.type))
    return (*changes, *(_change(name, ADDED, None, kind, kind) for name, kind in new.items() if name not in old))


def refused(error: Incompatible) -> Evolution:
    """The verdict on a schema that `evolve` refused."""
    old, new = (error.facts.get("types") or [None, None])[:2]
    change = ColumnChange(str(error.facts.get("column", "")), INCOMPATIBLE, old, new, None, str(error))
    return Evolution(INCOMPATIBLE, (change,), {})


def rewritten_columns(stored: Mapping[str, str], target: Mapping[str, str]) -> Tuple[str, ...]:
    """The stored columns whose type in `target` needs every file of the table written anew."""
    return tuple(
        name for name, old in stored.items() if name in target and widen(name, old, target[name]).change == REWRITTEN
    )


def _change(column: str, change: str, old: Optional[str], new: Optional[str], to: str) -> ColumnChange:
    return ColumnChange(column, change, old, new, to, _TOLD[change].format(column=column, old=old, new=new, to=to))


def _same_case(stored: Mapping[str, str], written: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in stored}
    for name in written:
        same = known.get(name.lower(), name)
        if same != name:
            raise Incompatible(
                f"Columns {same} and {name} differ in case only",
                column=name,
                types=[same, name],
                next_step="Name the column at the source as the table does, or give the topic a table of another name",
            )
