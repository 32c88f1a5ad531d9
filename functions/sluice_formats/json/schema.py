"""Schemas of JSON records that carry none, in Avro form, the form in which Sluice reads every writer schema.

Two sources: the types that a table declares in `types` (`declared_type`), and the values of all records of an
object (`Inference`). Schemas that records carry are read in `sluice.schema.connect`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from sluice.changes.hidden_columns import MESSAGE
from sluice.config.json_types import JSON_TEXT, declared_type
from sluice.config.rules.columns import ColumnRules
from sluice.errors import Incompatible, UnusableSchema
from sluice.names import stored_name
from sluice.schema.avro import ENVELOPE, MESSAGES, PLAIN, metadata_names
from sluice.schema.meaning import NUMBER_TEXT
from sluice_formats.json.text import NumberText

METADATA = "sluice.json.Metadata"  # a metadata field, whose value is taken as it is

MAX_FIELDS = 4_096
# Attribute of a `long`, or of text of NaN and infinities only, whose values a double holds too.
EXACT_IN_DOUBLE = "sluice.exact_in_double"
WHOLE = "sluice.whole"  # attribute of a `double` whose values are all whole numbers that a `long` holds, such as 5.0
_NOT_FINITE = frozenset(("NaN", "Infinity", "-Infinity"))  # Jackson writes them as text

# What the values of a column are: each value sets a bit.
(_BOOLEAN, _SMALL, _LONG, _BIG, _FLOAT, _PRECISE, _TEXT, _NESTED, _UNKNOWN, _INFINITE, _WHOLE) = (
    1 << bit for bit in range(11)
)
_NUMBERS = _SMALL | _LONG | _BIG | _FLOAT | _PRECISE | _WHOLE
_WORDS = {_BOOLEAN: "true or false", _NUMBERS: "a number", _TEXT: "text", _NESTED: "an object or array"}
_AS_IT_IS = {"type": "string", "connect.name": METADATA}
_EXACT = 2**53
_LIMIT = 2**63


class Inference:
    """Infers the schema of one object from every one of its records.

    `types` and `shape` are the table's. `unavailable` are the placeholder texts, which stand for a value of any type.
    """

    def __init__(self, types: Mapping[str, str], unavailable: frozenset[str], shape: str | None = None) -> None:
        self._types = types
        self._unavailable = unavailable
        self._shape = shape
        self._flat: dict[str, int] = {}
        self._row: dict[str, int] = {}
        self._source: dict[str, int] = {}
        self._envelopes = self._messages = 0
        self._records = 0

    def add(self, record: Mapping[str, Any]) -> None:
        """Add one record. Raises UnusableSchema when the records have more fields than a schema may have."""
        self._records += 1
        if self._shape in (None, ENVELOPE) and is_envelope(record):
            self._envelopes += 1
            self._messages += record["op"] == MESSAGE
            self._flat.update(dict.fromkeys(record, _UNKNOWN))
            for side in ("before", "after"):
                _see(self._row, record.get(side) or {}, self._unavailable)
            _see(self._source, record["source"], self._unavailable)
        else:
            _see(self._flat, record, self._unavailable)

    def schema(self, name: str = "sluice.json.Value") -> dict[str, Any]:
        """The schema of all records. Raises Incompatible for a column of two types, UnusableSchema for mixed shapes."""
        if not self._envelopes:
            return {"type": "record", "name": name, "fields": self._fields(self._flat)}
        if self._envelopes < self._records:
            raise UnusableSchema(
                "Some records of the object are envelopes (before, after, source, op), and some are not"
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
        alone = {MESSAGES: True} if self._messages == self._records else {}
        return {"type": "record", "name": f"{name}.Envelope", "fields": fields, **alone}

    def _fields(self, seen: Mapping[str, int]) -> list[dict[str, Any]]:
        """The fields with a type. A column that is null everywhere is left out; a metadata field needs no type."""
        metadata = frozenset() if self._shape == PLAIN else metadata_names(tuple(seen))
        types = {
            name: told_type(name, self._types, metadata) or kinds and _type(name, kinds) for name, kinds in seen.items()
        }
        return [{"name": name, "type": ["null", kind]} for name, kind in types.items() if kind]


def told_type(name: str, types: Mapping[str, str], metadata: Collection[str]) -> Any:
    """The type of a field that the table's `types` declare, or that is metadata; None for any other."""
    declared = types.get(name) or types.get(stored_name(name))
    return declared_type(declared) if declared else _AS_IT_IS if name in metadata else None


def is_envelope(record: Mapping[str, Any]) -> bool:
    """Whether a record is Debezium's change event, with the row before and after the change."""
    if "op" not in record or not isinstance(record.get("source"), dict) or "__op" in record or "__deleted" in record:
        return False
    sides = [record[side] for side in ("before", "after") if side in record]
    return bool(sides) and all(side is None or isinstance(side, dict) for side in sides)


def agreed(
    schemas: Sequence[Mapping[str, Any]], stored: Mapping[str, str], rules: ColumnRules | None = None
) -> list[dict[str, Any]]:
    """The schemas, with integers as doubles where the column is a double in the table, or else in another schema.

    JavaScript writes 5.0 as 5, others 5 as 5.0. Applies only where every integer of the object is exact as a double.
    `stored` are Spark's type names by the table's column, whose name `rules` may change. Where the table has whole
    numbers or text, only objects with fractions don't fit. Concealed columns are text, whatever the numbers are.
    """
    rules = rules or ColumnRules()
    doubles = {name for name, kind in stored.items() if kind == "double"}
    whole = {name for name, kind in stored.items() if kind in ("bigint", "int")}
    for schema in schemas:
        for field in (field for record in _records(schema) for field in record["fields"]):
            name, kind = _in_table(field, rules), field["type"][-1]
            is_double = kind == "double" or isinstance(kind, dict) and kind["type"] == "double"
            if is_double and name and stored.get(name, "float") == "float":  # a stored float becomes a double
                doubles.add(name)
    return [_with_doubles(schema, doubles, whole, rules) for schema in schemas]


def _in_table(field: Mapping[str, Any], rules: ColumnRules) -> str | None:
    """The name of the column that has a field's numbers as they are."""
    name = stored_name(field["name"])
    return None if name.lower() in {one.lower() for one in rules.concealed} else rules.table_name(name)


def _with_doubles(
    node: Mapping[str, Any], doubles: Collection[str], whole: Collection[str], rules: ColumnRules
) -> dict[str, Any]:
    fields = []
    for field in node["fields"]:
        name, kind = _in_table(field, rules), field["type"][-1]
        if isinstance(kind, dict) and "fields" in kind:
            kind = _with_doubles(kind, doubles, whole, rules)
        elif isinstance(kind, dict) and kind.get(EXACT_IN_DOUBLE):
            kind = "double" if name in doubles else kind["type"]
        elif isinstance(kind, dict) and kind.get(WHOLE):
            kind = "long" if name in whole else "double"
        fields.append({**field, "type": ["null", kind]})
    return {**node, "fields": fields}


def _records(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    nested = [field["type"][-1] for field in schema["fields"]]
    return [schema, *(kind for kind in nested if isinstance(kind, dict) and "fields" in kind)]


def _see(seen: dict[str, int], record: Mapping[str, Any], unavailable: frozenset[str]) -> None:
    for name, value in record.items():
        kind = type(value)
        if kind is str:
            bit = _UNKNOWN if value in unavailable else _INFINITE if value in _NOT_FINITE else _TEXT
        elif value is None:
            bit = 0
        elif kind is int:
            bit = _SMALL if -_EXACT <= value <= _EXACT else _LONG if -_LIMIT <= value < _LIMIT else _BIG
        elif kind is NumberText:
            bit = _WHOLE if is_whole(value) else _FLOAT if exact_in_double(value) else _PRECISE
        else:
            bit = _BOOLEAN if kind is bool else _NESTED
        seen[name] = seen.get(name, 0) | bit
    if len(seen) > MAX_FIELDS:
        raise UnusableSchema(f"The object's records have more than {MAX_FIELDS} different fields")


def exact_in_double(text: str) -> bool:
    """Whether a number's text equals the shortest text of the nearest double."""
    if len(text) <= 16 and "e" not in text and "E" not in text:
        return True  # at most 15 digits
    try:
        return Decimal(text) == Decimal(repr(float(text)))
    except (InvalidOperation, OverflowError):
        return False


def is_whole(text: str) -> bool:
    """Whether a number's text is one of a whole number that a double holds exactly, such as 5.0 and 1E2."""
    try:
        number = Decimal(text)
        return number.is_finite() and abs(number.adjusted()) < 20 and int(number) == number and abs(number) <= _EXACT
    except InvalidOperation:
        return False


def _type(name: str, kinds: int) -> Any:
    seen = kinds & ~_UNKNOWN
    if seen == _INFINITE:
        return {"type": "string", EXACT_IN_DOUBLE: True}
    if seen & _INFINITE:
        seen = seen & ~_INFINITE | (_TEXT if seen & ~(_NUMBERS | _INFINITE) else _FLOAT)
    if not seen & ~_NUMBERS and seen:
        if seen in (_WHOLE, _WHOLE | _SMALL):
            return {"type": "double", WHOLE: True}
        if not seen & (_FLOAT | _PRECISE | _BIG | _WHOLE):
            return {"type": "long", EXACT_IN_DOUBLE: True} if seen == _SMALL else "long"
        return "double" if not seen & ~(_SMALL | _FLOAT | _WHOLE) else {"type": "string", "connect.name": NUMBER_TEXT}
    if seen in (0, _TEXT):
        return "string"
    if seen == _BOOLEAN:
        return "boolean"
    if seen == _NESTED:
        return {"type": "string", "connect.name": JSON_TEXT}
    words = [word for bits, word in _WORDS.items() if seen & bits]
    raise Incompatible(
        f"Column {name[:100]} is {' and '.join(words)} in one object",
        column=name[:100],
        types=words,
        next_step="Declare the column in the table's `types`, or let the source write one type",
    )
