"""Changes of MongoDB: events of its change streams, and envelopes of Debezium's connector with documents as text.

https://www.mongodb.com/docs/manual/reference/change-events/
https://debezium.io/documentation/reference/3.5/connectors/mongodb.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sluice.changes.dialects.nested import BY_WORDS, CaptureDialect, ChangePaths, Reading, Record, at, change, whole
from sluice.changes.hidden_columns import DELETE, MESSAGE, UPDATE
from sluice.errors import UnusableSchema

_STATEMENTS = (
    "drop rename dropdatabase invalidate create modify createindexes dropindexes shardcollection reshardcollection "
    "refinecollectionshardkey startindexbuild abortindexbuild updatesearchindex"
).split()
_WHOLE = "Take $changeStreamSplitLargeEvent out of the change stream, or leave out fields that make events so large"
_LOOK_UP = "Let the change stream return whole documents: fullDocument updateLookup, or a post-image"
# https://www.mongodb.com/docs/manual/reference/mongodb-extended-json/
_PLAIN_TYPES = ("$oid", "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal", "$uuid", "$symbol")
_NUMBER_TYPES = _PLAIN_TYPES[1:5]


def _document(value: Any, record: Mapping[str, Any], reading: Reading) -> Any:
    """A document whose values of MongoDB's Extended JSON are plain: numbers, text of ids, times in ISO 8601."""
    return _plain(value, reading)


def _plain(value: Any, reading: Reading) -> Any:
    if isinstance(value, list):
        return [_plain(item, reading) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (kind, held), *_ = value.items()
        if kind in _NUMBER_TYPES and isinstance(held, str):
            return _number(held, reading)
        if kind in _PLAIN_TYPES:
            return held
        if kind == "$date":
            return _time(_plain(held, reading))
        if kind == "$binary" and isinstance(held, dict):
            return held.get("base64")
    return {name: _plain(member, reading) for name, member in value.items()}


def _number(text: str, reading: Reading) -> Any:
    try:
        return reading.parse(text)
    except Exception as error:  # whatever the parser raises for text that is no number
        raise UnusableSchema(f"The number {text[:40]!r} of a document can't be read") from error


def _time(value: Any) -> Any:
    """A point in time in ISO 8601, of a number of milliseconds; other forms, and far times, stay as they are."""
    if type(value) is not int:
        return value
    try:
        moment = datetime(1970, 1, 1) + timedelta(milliseconds=value)
    except OverflowError:
        return value
    return f"{moment.isoformat(timespec='milliseconds')}Z"


def _parsed(value: Any, reading: Reading) -> Any:
    """A value that MongoDB's Kafka connector writes as JSON text, with `output.format.value=schema`."""
    return reading.parse(value) if isinstance(value, str) and value.startswith("{") else value


def _place(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """The cluster time: seconds, and the number of the operation in them."""
    time = _parsed(record.get("clusterTime"), reading)
    seconds, number = (whole(at({"of": time}, f"of.$timestamp.{part}")) for part in "ti")
    return {} if seconds is None or number is None else {"ts_ms": seconds * 1000, "ord": number}


_EVENTS = ChangePaths(
    "mongodb",
    fields=frozenset(("operationType", "ns")),
    operation="operationType",
    operations={**BY_WORDS, "replace": UPDATE, **dict.fromkeys(_STATEMENTS, MESSAGE)},
    row="fullDocument",
    before="fullDocumentBeforeChange",
    key="documentKey",
    source={"db": "ns.db", "table": "ns.coll"},
    place=_place,
    decoded=_document,
    texts=True,
)
_UPDATED = replace(_EVENTS, operations={"update": UPDATE}, before="", partial=True)


@dataclass(frozen=True)
class MongoDb(CaptureDialect):
    """The dialect. An update without its document has the fields that changed, unless one lies within another."""

    name: str = "mongodb"
    shapes: tuple[frozenset[str], ...] = (_EVENTS.fields, frozenset(("source", "op")))

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether a record is an event, or Debezium's envelope around documents as text."""
        if at(record, "source.connector") == "mongodb" and "op" in record:
            sides = [record.get(side) for side in ("before", "after")]
            return all(side is None or isinstance(side, str) for side in sides)
        return _EVENTS.recognises(record, named=named)

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        """The changes. Raises UnusableSchema for an update or a deletion that doesn't say of which document."""
        if at(record, "splitEvent.of") not in (None, 1):
            raise UnusableSchema("A change event is split, and its parts are records of their own", next_step=_WHOLE)
        if "operationType" not in record:
            return [_of_debezium(record, reading)]
        if str(record["operationType"]).lower() == "update" and not record.get("fullDocument"):
            return _UPDATED.changes({**record, "fullDocument": _updated(record, reading)}, reading)
        return _EVENTS.changes(record, reading)


def _updated(record: Record, reading: Reading) -> dict[str, Any]:
    """The fields that an update says it changed."""
    updated, removed = (at(record, f"updateDescription.{name}Fields") for name in ("updated", "removed"))
    updated = _parsed(updated, reading)
    if (
        not isinstance(updated, dict)
        or not isinstance(removed or [], list)
        or at(record, "updateDescription.truncatedArrays")
        or any("." in str(name) for name in (*updated, *(removed or ())))
    ):
        raise UnusableSchema("An update of a change stream has no whole document", next_step=_LOOK_UP)
    return {**updated, **dict.fromkeys(map(str, removed or ()))}


def _applied(document: dict[str, Any], record: Record, reading: Reading) -> dict[str, Any]:
    """The document after an update: the one before it, with the fields that changed, also within others.

    Raises UnusableSchema where a field lies within none that the document has, or an array became shorter.
    """
    description = record.get("updateDescription") or {}
    updated = _parsed(description.get("updatedFields"), reading)
    if not isinstance(updated, dict) or description.get("truncatedArrays"):
        raise UnusableSchema("An update of a change stream has no whole document", next_step=_LOOK_UP)
    for path, value in (*updated.items(), *((name, None) for name in description.get("removedFields") or ())):
        *outer, name = path.split(".")
        place: Any = document
        for part in outer:
            place = place.get(part) if isinstance(place, dict) else None
        if not isinstance(place, dict):
            raise UnusableSchema("An update of a change stream has no whole document", next_step=_LOOK_UP)
        place[name] = value
    return document


def _of_debezium(record: Record, reading: Reading) -> dict[str, Any]:
    before, after = (
        None if record.get(side) is None else _document(reading.parse(record[side]), record, reading)
        for side in ("before", "after")
    )
    source = {**record["source"], "table": record["source"].get("collection")}
    if after is None and before is not None and record["op"] == UPDATE:  # without a look-up: what changed in it is told
        after = _document(_applied(reading.parse(record["before"]), record, reading), record, reading)
    if after is None and before is None and record["op"] != MESSAGE:
        raise UnusableSchema(
            "A change of Debezium's MongoDB connector has no document before it and none after",
            next_step="Capture documents before and after changes (change_streams_update_full_with_pre_image), or let "
            "ExtractNewDocumentState write rows",
        )
    return change(record["op"], before, None if record["op"] == DELETE else after, source)


MONGODB_EVENTS = MongoDb()
