"""What `json_types` of a table says that a column of schemaless JSON is, in Avro form.

Infers the schema of JSON records that carry none, in Avro form: from every record of an object, so that nothing is guessed.

Kafka Connect's schemas, as its JSON converter writes them, in the Avro form in which every writer schema is understood.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from sluice.errors import Incompatible, UnusableSchema
from sluice.names import stored_name
from sluice.schema.avro import metadata_names
from sluice_formats.json_text import NumberText

NUMBER_TEXT = "sluice.json.Number"  # a number that no binary type holds exactly, as text
JSON_TEXT = "io.debezium.data.Json"  # Debezium's own name for JSON as text
METADATA = "sluice.json.Metadata"  # a field of which the name counts, and whose value is taken as it is

_DECIMAL = re.compile(r"(base64 )?decimal\(([1-9][0-9]?),([0-9]{1,2})\)")
_TYPES: dict[str, Any] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
    "json": {"type": "string", "connect.name": JSON_TEXT},
    "date": {"type": "int", "connect.name": "io.debezium.time.Date"},
    "time_millis": {"type": "int", "connect.name": "io.debezium.time.Time"},
    "time_micros": {"type": "long", "connect.name": "io.debezium.time.MicroTime"},
    "time_nanos": {"type": "long", "connect.name": "io.debezium.time.NanoTime"},
    "timestamp_millis": {"type": "long", "connect.name": "io.debezium.time.Timestamp"},
    "timestamp_micros": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"},
    "timestamp_nanos": {"type": "long", "connect.name": "io.debezium.time.NanoTimestamp"},
    "zoned_timestamp": {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"},
}
TYPE_PATTERN = rf"^({'|'.join(_TYPES)}|(base64 )?decimal\([1-9][0-9]?,[0-9]{{1,2}}\))$"  # for editors
BASE64 = "sluice.base64"  # attribute of a decimal whose text is the unscaled number's bytes, not the number


class UnknownType(ValueError):
    """A type that isn't among those that can be declared."""


def declared_type(text: str) -> Any:
    """The Avro form of a declared type: a name above, `decimal(p,s)`, or `base64 decimal(p,s)` for unscaled bytes.

    Raises UnknownType, a message without a subject.
    """
    if text in _TYPES:
        return _TYPES[text]
    decimal = _DECIMAL.fullmatch(text)
    if decimal is None:
        raise UnknownType(f"is one of {', '.join(_TYPES)}, decimal(p,s) and base64 decimal(p,s)")
    precision, scale = int(decimal[2]), int(decimal[3])
    if precision > 38 or scale > precision:
        raise UnknownType("is a decimal of at most 38 digits, of which no more are behind the point")
    return {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
        **({BASE64: True} if decimal[1] else {}),
    }


MAX_FIELDS = 4_096
EXACT_IN_DOUBLE = "sluice.exact_in_double"  # attribute of a `long`, or of text that is NaN and infinities only: a double holds its values too
_NOT_FINITE = frozenset(("NaN", "Infinity", "-Infinity"))  # as Jackson writes them in JSON: as text

_BOOLEAN, _SMALL, _LONG, _BIG, _FLOAT, _PRECISE, _TEXT, _NESTED, _UNKNOWN, _ENDLESS = (1 << bit for bit in range(10))
_NUMBERS = _SMALL | _LONG | _BIG | _FLOAT | _PRECISE
_WORDS = {_BOOLEAN: "true or false", _NUMBERS: "a number", _TEXT: "text", _NESTED: "an object or array"}
_AS_IT_IS = {"type": "string", "connect.name": METADATA}
_EXACT = 2**53
_LIMIT = 2**63


class Inference:
    """Takes every record of one object, then gives its schema.

    `types` are the table's `json_types`; `unavailable` are the texts that stand for a value of any type (unavailable.py).
    """

    def __init__(self, types: Mapping[str, str], unavailable: frozenset[str]) -> None:
        self._types = types
        self._unavailable = unavailable
        self._flat: dict[str, int] = {}
        self._row: dict[str, int] = {}
        self._source: dict[str, int] = {}
        self._envelopes = 0
        self._records = 0

    def add(self, record: Mapping[str, Any]) -> None:
        """Take one record. Raises UnusableSchema for a record of more fields than a schema may have."""
        self._records += 1
        if is_envelope(record):
            self._envelopes += 1
            self._flat.update(dict.fromkeys(record, _UNKNOWN))
            for side in ("before", "after"):
                _see(self._row, record.get(side) or {}, self._unavailable)
            _see(self._source, record["source"], self._unavailable)
        else:
            _see(self._flat, record, self._unavailable)

    def schema(self, name: str = "sluice.json.Value") -> dict[str, Any]:
        """The records' schema. Raises Incompatible for a column of two types, UnusableSchema when shapes are mixed."""
        if not self._envelopes:
            return {"type": "record", "name": name, "fields": self._fields(self._flat)}
        if self._envelopes < self._records:
            raise UnusableSchema(
                "Some records of the object are envelopes (before, after, source, op) and some are not"
            )
        row = {"type": "record", "name": name, "fields": self._fields(self._row)}
        source = {
            "type": "record",
            "name": f"{name}.Source",
            "fields": [{"name": field, "type": ["null", _AS_IT_IS]} for field in self._source],
        }
        fields: list[dict[str, Any]] = [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", name]},
            {"name": "source", "type": ["null", source]},
        ]
        fields += [
            {"name": field, "type": ["null", _AS_IT_IS]}
            for field in self._flat
            if field not in ("before", "after", "source")
        ]
        return {"type": "record", "name": f"{name}.Envelope", "fields": fields}

    def _fields(self, seen: Mapping[str, int]) -> list[dict[str, Any]]:
        """A column that is null everywhere has no type, so it is none; metadata stays, since only its name counts."""
        fields = []
        metadata = metadata_names(tuple(seen))
        for name, kinds in seen.items():
            declared = self._types.get(name) or self._types.get(stored_name(name))
            if declared:
                found = declared_type(declared)
            elif name in metadata:
                found = _AS_IT_IS
            elif kinds:
                found = _type(name, kinds)
            else:
                continue
            fields.append({"name": name, "type": ["null", found]})
        return fields


def is_envelope(record: Mapping[str, Any]) -> bool:
    """Whether a record is Debezium's change event with the row before and after."""
    if "op" not in record or not isinstance(record.get("source"), dict):
        return False
    sides = [record[side] for side in ("before", "after") if side in record]
    return bool(sides) and all(side is None or isinstance(side, dict) for side in sides)


def agreed(schemas: Sequence[Mapping[str, Any]], stored: Mapping[str, str]) -> list[dict[str, Any]]:
    """The same schemas, integers as doubles where the column is a double in the table (`stored`: Spark's names of types by column) or, where
    the table has none yet, in another of them.

    Writers such as JavaScript's write 5.0 as 5. Only where every integer of the object is exact as a double. Where the table holds whole
    numbers or text, one object with a fraction doesn't fit, and the others go on as they would without it.
    """
    known = {name for name, kind in stored.items() if kind == "double"}
    for schema in schemas:
        named = (
            stored_name(field["name"])
            for record in _records(schema)
            for field in record["fields"]
            if field["type"][-1] == "double"
        )
        known.update(name for name in named if stored.get(name, "float") == "float")  # which becomes a double
    return [_with_doubles(schema, known) for schema in schemas]


def _with_doubles(node: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    fields = []
    for field in node["fields"]:
        kind = field["type"][-1]
        if isinstance(kind, dict) and "fields" in kind:
            kind = _with_doubles(kind, known)
        elif isinstance(kind, dict) and kind.get(EXACT_IN_DOUBLE):
            kind = "double" if stored_name(field["name"]) in known else kind["type"]
        fields.append({**field, "type": ["null", kind]})
    return {**node, "fields": fields}


def _records(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    nested = [field["type"][-1] for field in schema["fields"]]
    return [schema, *(kind for kind in nested if isinstance(kind, dict) and "fields" in kind)]


def _see(seen: dict[str, int], record: Mapping[str, Any], unavailable: frozenset[str]) -> None:
    for name, value in record.items():
        kind = type(value)
        if kind is str:
            found = _UNKNOWN if value in unavailable else _ENDLESS if value in _NOT_FINITE else _TEXT
        elif value is None:
            found = 0
        elif kind is int:
            found = _SMALL if -_EXACT <= value <= _EXACT else _LONG if -_LIMIT <= value < _LIMIT else _BIG
        elif kind is NumberText:
            found = _FLOAT if exact_in_double(value) else _PRECISE
        else:
            found = _BOOLEAN if kind is bool else _NESTED
        seen[name] = seen.get(name, 0) | found
    if len(seen) > MAX_FIELDS:
        raise UnusableSchema(f"The object's records have more than {MAX_FIELDS} different fields")


def exact_in_double(text: str) -> bool:
    """Whether a number's text and the nearest double mean the same when the double is written as shortly as it can be."""
    if len(text) <= 16 and "e" not in text and "E" not in text:
        return True  # at most 15 digits
    try:
        return Decimal(text) == Decimal(repr(float(text)))
    except (InvalidOperation, OverflowError):
        return False


def _type(name: str, kinds: int) -> Any:
    known = kinds & ~_UNKNOWN
    if known == _ENDLESS:
        return {"type": "string", EXACT_IN_DOUBLE: True}
    if known & _ENDLESS:
        known = known & ~_ENDLESS | (_TEXT if known & ~(_NUMBERS | _ENDLESS) else _FLOAT)
    if not known & ~_NUMBERS and known:
        if not known & (_FLOAT | _PRECISE | _BIG):
            return {"type": "long", EXACT_IN_DOUBLE: True} if known == _SMALL else "long"
        return "double" if not known & ~(_SMALL | _FLOAT) else {"type": "string", "connect.name": NUMBER_TEXT}
    if known in (0, _TEXT):
        return "string"
    if known == _BOOLEAN:
        return "boolean"
    if known == _NESTED:
        return {"type": "string", "connect.name": JSON_TEXT}
    summary = [word for bits, word in _WORDS.items() if known & bits]
    raise Incompatible(
        f"Column {name[:100]} is {' and '.join(summary)} in one object",
        column=name[:100],
        types=summary,
        next_step="Say in json_types of the table what the column is, or let the source write one type",
    )


MAX_NESTING = 32
MAX_CONNECT_FIELDS = 4_096
DECIMAL = "org.apache.kafka.connect.data.Decimal"
# What Connect's Avro converter takes where a Decimal says no precision.
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
    """The Avro record schema of a Connect struct schema (JSON values), semantic names and parameters kept as `connect.*`.

    Raises UnusableSchema for what is no struct, nests too deeply, or is no Connect schema at all.
    """
    made = _Translation().type_of(schema, "value", 0)
    if isinstance(made, list):
        made = made[-1]
    if not isinstance(made, dict) or made.get("type") != "record":
        raise UnusableSchema(
            "The Connect schema is no struct",
            source_type=str(schema.get("type") if isinstance(schema, Mapping) else schema)[:100],
        )
    return made


class _Translation:
    """One schema's translation: a struct that comes again under the same name is referred to, as Avro wants it."""

    def __init__(self) -> None:
        self._structs: dict[str, Any] = {}
        self._fields = 0

    def type_of(self, node: Any, path: str, depth: int) -> Any:
        if depth > MAX_NESTING:
            raise UnusableSchema(
                f"The Connect schema nests more than {MAX_NESTING} deep at {path[:100]}", column=path[:100]
            )
        if not isinstance(node, Mapping) or not isinstance(node.get("type"), str):
            raise UnusableSchema(f"The Connect schema says no type for {path[:100]}", column=path[:100])
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
            raise UnusableSchema(
                f"The Connect schema has the unknown type {base[:40]!r} for {path[:100]}",
                column=path[:100],
                source_type=base[:40],
            )
        return ["null", made] if node.get("optional") is True else made

    def _map(self, node: Mapping[str, Any], path: str, depth: int) -> dict[str, Any]:
        keys = node.get("keys")
        if (
            isinstance(keys, Mapping) and keys.get("type") == "string"
        ):  # optional ones, too: JsonConverter.convertToJson goes by the type alone
            return {**_attributes(node), "type": "map", "values": self.type_of(node.get("values"), path, depth + 1)}
        # Other keys are written as pairs in an array.
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
            raise UnusableSchema(f"The Connect schema's struct {path[:100]} has no fields", column=path[:100])
        self._fields += len(fields)
        if self._fields > MAX_CONNECT_FIELDS:
            raise UnusableSchema(f"The Connect schema has more than {MAX_CONNECT_FIELDS} fields")
        made: list[dict[str, Any]] = []
        for field in fields:
            name = field.get("field") if isinstance(field, Mapping) else None
            if not isinstance(name, str):
                raise UnusableSchema(
                    f"The Connect schema's struct {path[:100]} has a field without a name", column=path[:100]
                )
            made.append({"name": name, "type": self.type_of(field, name, depth + 1)})
        named = _text(node.get("name"))
        record = {
            **_attributes(node),
            "type": "record",
            "name": named or f"ConnectDefault{len(self._structs)}",
            "fields": made,
        }
        if named is not None and self._structs.get(named) == record:
            return named
        self._structs.setdefault(record["name"], record)
        return record


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
    found: dict[str, Any] = {} if name is None else {"connect.name": name}
    if isinstance(parameters, Mapping):
        found["connect.parameters"] = dict(parameters)
    return found


def _number(value: Any, otherwise: int) -> Any:
    text = str(value)
    return (
        int(text)
        if value is not None and text.isascii() and text.isdigit() and len(text) < 6
        else otherwise
        if value is None
        else value
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
