"""Items of DynamoDB: its full and incremental exports to S3, and its streams, also by way of Kinesis and Firehose.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/S3DataExport.Output.html
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_Record.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.changes.dialects.nested import CaptureDialect, ChangePaths, Reading, Record, at, placed, whole
from sluice.changes.hidden_columns import CREATE, DELETE, SNAPSHOT_READ, UPDATE
from sluice.errors import UnusableSchema

_TYPES = frozenset("S N B BOOL NULL M L SS NS BS".split())
_EXPORT = re.compile(r"(?:.*/)?AWSDynamoDB/0*([0-9]{13})-[^/]+/data/.*")  # when an export began, in milliseconds
_WINDOW_MICROS = 35 * 86_400 * 10**6  # the most of point-in-time recovery


def _item(item: Any, record: Mapping[str, Any], reading: Reading) -> Any:
    """An item with plain values in place of DynamoDB's typed ones. Raises UnusableSchema."""
    if not isinstance(item, Mapping):
        raise UnusableSchema("An item of DynamoDB is no object of attributes")
    return {name: _value(value, reading) for name, value in item.items()}


def _value(typed: Any, reading: Reading) -> Any:
    if not isinstance(typed, Mapping) or len(typed) != 1 or not typed.keys() <= _TYPES:
        raise UnusableSchema("An attribute of an item of DynamoDB isn't in its JSON form, such as {'S': 'text'}")
    (kind, value), *_ = typed.items()
    if kind == "NULL":
        return None
    if kind == "N":
        return _number(value, reading)
    if kind == "NS":
        return [_number(number, reading) for number in value]
    if kind == "L":
        return [_value(member, reading) for member in value]
    return {name: _value(member, reading) for name, member in value.items()} if kind == "M" else value


def _number(text: Any, reading: Reading) -> Any:
    if not isinstance(text, str) or not re.fullmatch(r"-?[0-9]{1,40}(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?", text):
        raise UnusableSchema(f"{str(text)[:40]!r} is not a number of DynamoDB")
    return reading.parse(re.sub(r"^(-?)0+(?=[0-9])", r"\1", text))


def _micros(value: Any) -> int | None:
    """Microseconds since 1970 of seconds, milliseconds or microseconds, as streams write them; None for others."""
    try:
        number = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else 0.0
    except ValueError:
        return None
    scale = next((scale for limit, scale in ((1e11, 10**6), (1e14, 10**3), (1e17, 1)) if number < limit), None)
    if scale is None or number <= 0:
        return None
    return int(value) * scale if type(value) is int else round(number * scale)


def _of_export(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """The time of the change in an incremental export; of a full one the earliest that its items may be of.

    The folder's name says when a full export began. Its items are as of the request's ExportTime, which only a manifest
    tells: no change since then may lose to them.
    """
    began = _EXPORT.fullmatch(reading.object_key)
    written = whole(at(record, "Metadata.WriteTimestampMicros.N")) if "Metadata" in record else None
    if written is not None:
        return {"ts_ms": written // 1000, **placed(written)}
    return {"ts_ms": int(began[1]), **placed(int(began[1]) * 1000 - _WINDOW_MICROS)} if began else {}


def _of_stream(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """The sequence number of the stream, or by way of Kinesis the time of the change."""
    time = _micros(at(record, "dynamodb.ApproximateCreationDateTime"))
    number = whole(at(record, "dynamodb.SequenceNumber"))
    match = re.search(r":table/([^/]+)", str(record.get("eventSourceARN")))
    table = record.get("tableName") or (match and match[1])
    source = {} if time is None else {"ts_ms": time // 1000}
    return {**source, **({"table": table} if table else {}), **placed(time if number is None else number)}


_FULL = ChangePaths("dynamodb_export", frozenset(("Item",)), row="Item", place=_of_export, decoded=_item)
_INCREMENTAL = ChangePaths(
    "dynamodb_export",
    frozenset(("Metadata", "Keys")),
    row="NewImage",
    before="OldImage",
    key="Keys",
    place=_of_export,
    decoded=_item,
)
_STREAM = ChangePaths(
    "dynamodb_stream",
    frozenset(("eventName", "dynamodb")),
    operation="eventName",
    operations={"insert": CREATE, "modify": UPDATE, "remove": DELETE},
    row="dynamodb.NewImage",
    before="dynamodb.OldImage",
    key="dynamodb.Keys",
    place=_of_stream,
    decoded=_item,
)


@dataclass(frozen=True)
class Exports(CaptureDialect):
    """The dialect of exports, full and incremental."""

    name: str = "dynamodb_export"
    shapes: tuple[frozenset[str], ...] = (_FULL.fields, _INCREMENTAL.fields)

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether a record is an item alone, or a change with its key and the time of it."""
        if "Item" in record:
            return (named or len(record) == 1) and _is_typed(record["Item"])
        return _is_typed(record.get("Keys")) and _INCREMENTAL.recognises(record)

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        if "Item" not in record:
            return _INCREMENTAL.changes(record, reading)
        return [{**made, "op": SNAPSHOT_READ} for made in _FULL.changes(record, reading)]


def _is_typed(item: Any) -> bool:
    return isinstance(item, Mapping) and all(
        isinstance(value, Mapping) and len(value) == 1 and value.keys() <= _TYPES for value in item.values()
    )


@dataclass(frozen=True)
class Streams(CaptureDialect):
    """The dialect of streams; a record may be a list of changes, as Lambda functions take them."""

    name: str = "dynamodb_stream"
    shapes: tuple[frozenset[str], ...] = (_STREAM.fields, frozenset(("Records",)))

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether a record is a change of a stream, or has a list of them."""
        listed = record.get("Records")
        if isinstance(listed, list) and len(record) == 1:
            return bool(listed) and all(isinstance(part, dict) and self.recognises(part) for part in listed)
        return _is_typed(at(record, "dynamodb.Keys")) and _STREAM.recognises(record)

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        """The changes. Raises UnusableSchema for a stream without images after changes."""
        if "Records" in record:
            return [made for part in record["Records"] for made in self.changes(part, reading)]
        if at(record, "dynamodb.NewImage") is None and str(record["eventName"]).lower() != "remove":
            raise UnusableSchema(
                "A change of a DynamoDB stream has no item after it",
                next_step="Let the stream have new images: StreamViewType NEW_IMAGE or NEW_AND_OLD_IMAGES",
                column="NewImage",
            )
        return _STREAM.changes(record, reading)


DYNAMODB_EXPORTS, DYNAMODB_STREAMS = Exports(), Streams()
