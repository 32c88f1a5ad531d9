"""Change events of Salesforce, as Amazon AppFlow and subscribers of its event bus write them.

https://developer.salesforce.com/docs/atlas.en-us.change_data_capture.meta/change_data_capture/cdc_event_fields_header.htm
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluice.changes.dialects.nested import SENT, JsonOnly, Reading, Record, at, change, placed, whole
from sluice.changes.hidden_columns import CREATE, DELETE, UPDATE
from sluice.errors import UnusableSchema

_HEADER, _ID = "ChangeEventHeader", "Id"
_OPERATIONS = {"CREATE": CREATE, "UNDELETE": CREATE, "UPDATE": UPDATE, "DELETE": DELETE, "GAP_DELETE": DELETE}


@dataclass(frozen=True)
class ChangeEvents(JsonOnly):
    """The dialect: the fields of a record that changed beside a header, with the ids of all records of the change."""

    name: str = "salesforce"
    shapes: tuple[frozenset[str], ...] = (frozenset((_HEADER,)),)

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether a record has the header of a change."""
        ids, kind = at(record, f"{_HEADER}.recordIds"), at(record, f"{_HEADER}.changeType")
        return isinstance(ids, list) and isinstance(kind, str) and all(isinstance(id, str) for id in ids)

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        """A change of each record. Raises UnusableSchema for an event that doesn't say what changed, or in what."""
        header = record[_HEADER]
        op = _OPERATIONS.get(header["changeType"])
        if op is None or not header["recordIds"] or any("*" in id for id in header["recordIds"]):
            raise UnusableSchema(
                f"The event {header['changeType'][:40]} of Salesforce doesn't say what changed",
                next_step="Read the records from Salesforce and load them again under a higher generation, then "
                "`sluice quarantine discard` the event",
                column=_HEADER,
            )
        number, step = whole(header.get("commitNumber")), whole(header.get("sequenceNumber"))
        time, table = whole(header.get("commitTimestamp")), header.get("entityName")
        source = {**({} if time is None else {"ts_ms": time}), **({"table": table} if table else {})}
        source |= placed(number, step or 0)
        fields = _columns(record, header) if op != DELETE else {}
        if op == UPDATE:
            source[SENT] = [_ID, *fields]
        rows = [{_ID: id, **fields} for id in header["recordIds"]]
        return [change(op, None, row, source) if op != DELETE else change(op, row, None, source) for row in rows]


def _columns(record: Record, header: Record) -> dict[str, Any]:
    """The fields of an event; of an update those that changed. A compound field is a column for each of its parts."""
    columns: dict[str, Any] = {}
    for name, value in record.items():
        if name != _HEADER:
            parts = {f"{name}.{part}": held for part, held in value.items()} if isinstance(value, dict) else None
            columns.update({name: value} if parts is None else parts)
    listed = header.get("changedFields")
    if header["changeType"] == "UPDATE" and isinstance(listed, list) and listed:
        nulled = (*listed, *(header.get("nulledFields") or ()))
        changed = {name for name in columns if name in nulled or name.partition(".")[0] in nulled}
        columns = {name: columns[name] for name in columns if name in changed}
    return {**columns, **dict.fromkeys(map(str, header.get("nulledFields") or ()))}


SALESFORCE = ChangeEvents()
