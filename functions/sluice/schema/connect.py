"""Kafka Connect's schemas, as its JSON converter writes them, in Avro form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.errors import UnusableSchema

MAX_NESTING = 32
MAX_CONNECT_FIELDS = 4_096
DECIMAL = "org.apache.kafka.connect.data.Decimal"
# Precision that Connect's Avro converter assumes for a Decimal without one.
# https://github.com/confluentinc/schema-registry AvroData.CONNECT_AVRO_DECIMAL_PRECISION_DEFAULT
DEFAULT_PRECISION = 64

# org.apache.kafka.connect.json.JsonSchema: the names of types in {"schema": ...}.
_PRIMITIVES: dict[str, str] = {
    "boolean": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "bytes": "bytes",
    "string": "string",
}


def avro_form(schema: Any) -> dict[str, Any]:
    """The Avro record of a Connect struct schema (JSON values), with semantic names and parameters as `connect.*`.

    Raises UnusableSchema for anything but a struct, and for a schema that nests too deeply.
    """
    made = _Translation().type_of(schema, "value", 0)
    if isinstance(made, list):
        made = made[-1]
    if not isinstance(made, dict) or made.get("type") != "record":
        raise UnusableSchema(
            "The Connect schema is not a struct",
            source_type=str(schema.get("type") if isinstance(schema, Mapping) else schema)[:100],
        )
    return made


class _Translation:
    """Translates one schema. A struct that repeats under the same name becomes a reference, as Avro requires."""

    def __init__(self) -> None:
        self._structs: dict[str, Any] = {}
        self._fields = 0

    def type_of(self, node: Any, path: str, depth: int) -> Any:
        if depth > MAX_NESTING:
            raise _refused(path, f"nests more than {MAX_NESTING} deep")
        if not isinstance(node, Mapping) or not isinstance(node.get("type"), str):
            raise _refused(path, "has no type")
        base = node["type"]
        if base in _PRIMITIVES:
            made: Any = _named(_PRIMITIVES[base], node)
        elif base == "array":
            made = {**_attributes(node), "type": "array", "items": self.type_of(node.get("items"), path, depth + 1)}
        elif base == "map":
            made = self._map(node, path, depth)
        elif base == "struct":
            made = self._struct(node, path, depth)
        else:
            raise _refused(path, f"has the unknown type {base[:40]!r}")
        return ["null", made] if node.get("optional") is True else made

    def _map(self, node: Mapping[str, Any], path: str, depth: int) -> dict[str, Any]:
        keys = node.get("keys")
        # Optional keys too: JsonConverter.convertToJson looks at the type alone.
        if isinstance(keys, Mapping) and keys.get("type") == "string":
            return {**_attributes(node), "type": "map", "values": self.type_of(node.get("values"), path, depth + 1)}
        # Maps with other keys are written as arrays of pairs.
        pair = {
            "type": "record",
            "name": f"MapEntry{len(self._structs)}",
            "fields": [
                {"name": "key", "type": self.type_of(keys, path, depth + 1)},
                {"name": "value", "type": self.type_of(node.get("values"), path, depth + 1)},
            ],
        }
        return {"type": "array", "items": pair}

    def _struct(self, node: Mapping[str, Any], path: str, depth: int) -> Any:
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise _refused(path, "has a struct without fields")
        self._fields += len(fields)
        if self._fields > MAX_CONNECT_FIELDS:
            raise UnusableSchema(f"The Connect schema has more than {MAX_CONNECT_FIELDS} fields")
        made: list[dict[str, Any]] = []
        for field in fields:
            name = field.get("field") if isinstance(field, Mapping) else None
            if not isinstance(name, str):
                raise _refused(path, "has a field without a name")
            default = field.get("default")
            declared = {"default": default} if isinstance(default, (str, int, float)) else {}
            made.append({"name": name, "type": self.type_of(field, name, depth + 1), **declared})
        record_name = _text(node.get("name"))
        record = {
            **_attributes(node),
            "type": "record",
            "name": record_name or f"ConnectDefault{len(self._structs)}",
            "fields": made,
        }
        if record_name is not None and self._structs.get(record_name) == record:
            return record_name
        self._structs.setdefault(record["name"], record)
        return record


def _refused(path: str, why: str) -> UnusableSchema:
    return UnusableSchema(f"The Connect schema {why} at {path[:100]}", column=path[:100])


def _named(avro: str, node: Mapping[str, Any]) -> Any:
    attributes = _attributes(node)
    if not attributes:
        return avro
    if attributes.get("connect.name") == DECIMAL:
        parameters = attributes.get("connect.parameters", {})
        attributes = {
            **attributes,
            "logicalType": "decimal",
            "scale": _number(parameters.get("scale"), 0),
            "precision": _number(parameters.get("connect.decimal.precision"), DEFAULT_PRECISION),
        }
    return {"type": avro, **attributes}


def _attributes(node: Mapping[str, Any]) -> dict[str, Any]:
    name, parameters = _text(node.get("name")), node.get("parameters")
    attributes: dict[str, Any] = {} if name is None else {"connect.name": name}
    if isinstance(parameters, Mapping):
        attributes["connect.parameters"] = dict(parameters)
    return attributes


def _number(value: Any, otherwise: int) -> Any:
    if value is None:
        return otherwise
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
