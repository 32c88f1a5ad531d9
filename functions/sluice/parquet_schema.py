"""Parquet's own schema in the Avro form in which every writer schema is understood."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from sluice.errors import UnusableSchema
from sluice.json_types import JSON_TEXT

MAX_NESTING = 24
UUID = "io.debezium.data.Uuid"  # Debezium's own name for a UUID as text

# parquet.thrift: Type, ConvertedType, and the fields of the union LogicalType.
# https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
_PHYSICAL = ("boolean", "int", "long", "int96", "float", "double", "bytes", "bytes")
_REPEATED = 2
_C_MAP, _C_LIST, _C_DECIMAL, _C_UINT_64 = (1, 2), 3, 5, 14
_CONVERTED: Dict[int, Any] = {
    0: "string",
    4: "string",
    6: {"type": "int", "logicalType": "date"},
    7: {"type": "int", "logicalType": "time-millis"},
    8: {"type": "long", "logicalType": "time-micros"},
    9: {"type": "long", "logicalType": "timestamp-millis"},
    10: {"type": "long", "logicalType": "timestamp-micros"},
    11: "int",
    12: "int",
    13: "long",
    15: "int",
    16: "int",
    17: "int",
    18: "long",
    19: {"type": "string", "connect.name": JSON_TEXT},
}
_L_DECIMAL, _L_TIME, _L_TIMESTAMP, _L_INTEGER = 5, 7, 8, 10
_LOGICAL: Dict[int, Any] = {
    1: "string",
    4: "string",
    6: {"type": "int", "logicalType": "date"},
    12: {"type": "string", "connect.name": JSON_TEXT},
    14: {"type": "string", "connect.name": UUID},
    15: "float",
}
_UNSIGNED_64 = {
    "type": "bytes",
    "logicalType": "decimal",
    "precision": 20,
    "scale": 0,
}  # the shortest decimal with room for 2^64
_UNITS = {1: "millis", 2: "micros", 3: "nanos"}


def avro_form(elements: List[Mapping[int, Any]]) -> Dict[str, Any]:
    """The Avro record of a file's schema elements (as decoded from its footer). Raises UnusableSchema, KeyError, IndexError."""
    record, rest = _record(elements, 0, "sluice.parquet.Value", 0)
    if rest != len(elements):
        raise UnusableSchema("The Parquet schema has elements outside of its root")
    return record


def _record(elements: List[Mapping[int, Any]], at: int, name: str, depth: int) -> Tuple[Dict[str, Any], int]:
    if depth > MAX_NESTING:
        raise UnusableSchema(f"The Parquet schema nests more than {MAX_NESTING} deep")
    fields = []
    following = at + 1
    for _ in range(elements[at].get(5, 0)):
        own = _name(elements[following])
        kind, following = _field(elements, following, name, depth + 1)
        fields.append({"name": own, "type": kind})
    return {"type": "record", "name": name, "fields": fields}, following


def _field(elements: List[Mapping[int, Any]], at: int, parent: str, depth: int) -> Tuple[Any, int]:
    element = elements[at]
    kind, following = _group(elements, at, parent, depth) if element.get(5) else (_leaf(element), at + 1)
    if element.get(3) == _REPEATED:  # a repeated field outside of a list is a list itself
        return {"type": "array", "items": kind}, following
    return ["null", kind], following


def _group(elements: List[Mapping[int, Any]], at: int, parent: str, depth: int) -> Tuple[Any, int]:
    element = elements[at]
    name = f"{parent}.{_name(element)}"
    logical = next(iter(element.get(10) or {}), None)
    if element.get(6) == _C_LIST or logical == 3:
        return _list(elements, at, name, depth)
    made, following = _record(elements, at, name, depth)
    if element.get(6) in _C_MAP or logical == 2:
        entry = made["fields"][0]["type"]
        items = entry.get("items") if isinstance(entry, dict) else None
        if isinstance(items, dict) and len(items.get("fields", ())) == 2:
            key, value = (field["type"] for field in items["fields"])
            return (
                {"type": "map", "values": value} if key[-1] == "string" else {"type": "array", "items": items}
            ), following
    return made, following


def _list(elements: List[Mapping[int, Any]], at: int, name: str, depth: int) -> Tuple[Any, int]:
    """Three levels as the format wants it, or two as older writers (parquet-avro's default among them) have it.

    https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#lists
    """
    inner = elements[at + 1]
    made, following = _field(elements, at + 1, name, depth + 1)
    items = made.get("items") if isinstance(made, dict) else None
    if items is None or elements[at].get(5) != 1:
        raise UnusableSchema(f"The Parquet schema's list {name[:100]} has no repeated item")
    single = isinstance(items, dict) and len(items.get("fields", ())) == 1
    if single and _name(inner) not in ("array", f"{_name(elements[at])}_tuple"):
        items = items["fields"][0]["type"]
    return {"type": "array", "items": items}, following


def _leaf(element: Mapping[int, Any]) -> Any:
    physical = _PHYSICAL[element[1]]
    logical, detail = next(iter((element.get(10) or {}).items()), (None, {}))
    if logical == _L_DECIMAL or element.get(6) == _C_DECIMAL:
        scale, precision = (detail[1], detail[2]) if logical == _L_DECIMAL else (element.get(7, 0), element[8])
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    if logical in (_L_TIME, _L_TIMESTAMP):
        return _time("time" if logical == _L_TIME else "timestamp", _UNITS[next(iter(detail[2]))])
    if logical == _L_INTEGER:
        width, signed = detail[1], detail[2]
        return "int" if width < 32 or width == 32 and signed else "long" if width == 32 or signed else _UNSIGNED_64
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if element.get(6) == _C_UINT_64:
        return _UNSIGNED_64
    if element.get(6) in _CONVERTED:
        return _CONVERTED[element[6]]
    if physical == "int96":  # Hive's and Impala's timestamp
        return _time("timestamp", "nanos")
    return physical


def _time(what: str, unit: str) -> Dict[str, Any]:
    if (what, unit) == ("time", "nanos"):  # Avro has no such logical type; Debezium has
        return {"type": "long", "connect.name": "io.debezium.time.NanoTime"}
    return {"type": "int" if (what, unit) == ("time", "millis") else "long", "logicalType": f"{what}-{unit}"}


def _name(element: Mapping[int, Any]) -> str:
    name: Optional[bytes] = element.get(4)
    if not name:
        raise UnusableSchema("The Parquet schema has a column without a name")
    return name.decode("utf-8")
