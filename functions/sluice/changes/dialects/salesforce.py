"""Change events of Salesforce, as Amazon AppFlow and subscribers of its event bus write them.

https://developer.salesforce.com/docs/atlas.en-us.change_data_capture.meta/change_data_capture/cdc_event_fields_header.htm
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluice.changes.dialects.nested import SENT, CaptureDialect, Reading, Record, at, change, placed, whole
from sluice.changes.hidden_columns import CREATE, DELETE, UPDATE
from sluice.errors import UnusableSchema

_HEADER, _ID = "ChangeEventHeader", "Id"
# What the event bus and its subscribers put around it.
_AROUND = ("payload", "detail", "detail.payload", "data.payload")
_OPERATIONS = {"CREATE": CREATE, "UNDELETE": CREATE, "UPDATE": UPDATE, "DELETE": DELETE, "GAP_DELETE": DELETE}


@dataclass(frozen=True)
class ChangeEvents(CaptureDialect):
    """The dialect: the fields of a record that changed beside a header, with the ids of all records of the change."""

    name: str = "salesforce"
    shapes: tuple[frozenset[str], ...] = tuple(frozenset(path.split(".")[:1]) for path in (_HEADER, *_AROUND))

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        event = _event(record)
        ids, kind = at(event, f"{_HEADER}.recordIds"), at(event, f"{_HEADER}.changeType")
        return isinstance(ids, list) and isinstance(kind, str) and all(isinstance(id, str) for id in ids)

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        """A change of each record. Raises UnusableSchema for an event that doesn't say what changed, or in what."""
        record = _event(record)
        header = record[_HEADER]
        op = _OPERATIONS.get(header["changeType"])
        if op is None or not header["recordIds"] or any("*" in id for id in header["recordIds"]):
            raise UnusableSchema(
                f"The event {header['changeType'][:40]} of Salesforce doesn't say what changed",
                next_step="Read the records from Salesforce and load them again under a higher generation, then "
                "`sluice quarantine discard` the event",
                column=_HEADER,
            )
        listed = [*(header.get("changedFields") or ()), *(header.get("nulledFields") or ())]
        if header.get("diffFields") or any(str(name).startswith("0x") for name in listed):
            raise UnusableSchema(
                "The event of Salesforce names its fields by bits, or has the difference of a long text",
                next_step="Let the subscriber decode the bit fields of the header, and write whole texts",
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


def _event(record: Record) -> Record:
    """The event, in a record that may hold it in a field."""
    inner = (at(record, path) for path in _AROUND if _HEADER not in record)
    return next((event for event in inner if isinstance(event, dict) and _HEADER in event), record)


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
