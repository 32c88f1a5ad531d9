"""Refuses Avro schemas that cost too much to resolve or decode, and weighs the memory of their values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.config.limits import DEFAULTS, Limits
from sluice.errors import SchemaTooComplex

# Types whose values take no byte: null, and records of nothing else. A record of many of them takes time and memory
# without a byte in the object.
MAX_WEIGHTLESS = 256
_JSON_PER_TYPE = 4  # most levels of JSON per level of type: type, fields, field, union
_NAMED = ("record", "error", "enum", "fixed")

MAX_TEXT_BYTES = 1024**2
# Values in the JSON of a schema. Each takes up to 232 bytes once parsed, and a schema that is all columns has one in
# eight bytes.
MAX_TEXT_VALUES = MAX_TEXT_BYTES // 8
# Characters of a name. Full names and descriptions of columns repeat names: a megabyte's namespace of four thousand
# types would take gigabytes.
MAX_NAME = 512
_NAMES = ("name", "namespace", "connect.name", "logicalType")


def parse_schema(text: bytes) -> Any:
    """The JSON values of a schema's text, which is measured before it is parsed.

    Raises SchemaTooComplex, and ValueError and RecursionError for text that is not JSON.
    """
    if len(text) > MAX_TEXT_BYTES:
        raise SchemaTooComplex(
            f"The schema's JSON has more than {MAX_TEXT_BYTES:,} bytes", what="bytes", limit=MAX_TEXT_BYTES
        )
    if 1 + sum(map(text.count, (b",", b"[", b"{"))) > MAX_TEXT_VALUES:  # a few more, where texts contain them
        raise SchemaTooComplex(
            f"The schema's JSON has more than {MAX_TEXT_VALUES:,} values", what="values", limit=MAX_TEXT_VALUES
        )
    return json.loads(text)


def check_schema(schema: Any, limits: Limits = DEFAULTS) -> None:
    """Raises SchemaTooComplex for a schema (as JSON values) that is too deep, too wide, recursive or weightless.

    Depth and number are counted as decoding meets them, a named type each time it is used: twenty records that each
    hold two of the next are a million. Recursion here never exceeds the limit.
    """
    deepest = _JSON_PER_TYPE * limits.schema_depth + _JSON_PER_TYPE
    if nests_deeper(schema, deepest - 1):
        raise SchemaTooComplex(f"The schema's JSON nests more than {deepest} deep", what="depth", limit=deepest)
    total = _Walk(limits).cost(schema, "", 1)
    if total.weightless > MAX_WEIGHTLESS:
        raise SchemaTooComplex("The schema has too many types without values", what="weightless", limit=MAX_WEIGHTLESS)


@dataclass(frozen=True)
class _Cost:
    """The cost of a type: types in it, depth, types in it whose values take no byte, and whether its own take none."""

    types: int
    depth: int
    weightless: int
    empty: bool


_VALUE = _Cost(1, 1, 0, False)
_NOTHING = _Cost(1, 1, 1, True)


class _Walk:
    """A walk through a schema that computes the cost of each named type once."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: dict[str, _Cost] = {}
        self._open: list[str] = []

    def cost(self, node: Any, space: str, depth: int) -> _Cost:
        cost = self._cost(node, space, depth)
        if depth + cost.depth - 1 > self._limits.schema_depth:
            message = f"The schema nests types more than {self._limits.schema_depth} deep"
            raise self._limits.too_complex("schema_depth", message, "depth")
        if cost.types > self._limits.schema_types:
            message = f"The schema has more than {self._limits.schema_types:,} types"
            raise self._limits.too_complex("schema_types", message, "types")
        return cost

    def _cost(self, node: Any, space: str, depth: int) -> _Cost:
        if depth > self._limits.schema_depth:
            return _Cost(1, 1, 0, False)  # `cost` refuses the depth
        if isinstance(node, str):
            return self._referred(node, space)
        if isinstance(node, list):
            return _union([self.cost(item, space, depth) for item in node])
        if not isinstance(node, Mapping):
            return _VALUE  # not a type: refused when the schema is read
        _check_names(node)
        kind = node.get("type")
        if kind in ("array", "map"):
            return self._repeated(kind, node.get("items" if kind == "array" else "values"), space, depth)
        if kind not in _NAMED:
            return self.cost(kind, space, depth) if isinstance(kind, (Mapping, list, str)) else _VALUE
        name, inner = full_name(node, space)
        if kind == "enum":
            cost = _VALUE
        elif kind == "fixed":
            cost = _NOTHING if node.get("size") == 0 else _VALUE
        else:
            cost = self._record(node.get("fields"), name, inner, depth)
        if name:
            self._known.setdefault(name, cost)
        return cost

    def _record(self, fields: Any, name: str, space: str, depth: int) -> _Cost:
        listed = [field for field in fields if isinstance(field, Mapping)] if isinstance(fields, list) else []
        for field in listed:
            _check_names(field)
        if len(listed) > self._limits.schema_columns:
            message = f"A record has more than {self._limits.schema_columns:,} fields"
            raise self._limits.too_complex("schema_columns", message, "columns")
        self._open.append(name)
        costs = [self.cost(field.get("type"), space, depth + 1) for field in listed]
        self._open.pop()
        return _sum(costs, deeper=1, empty=all(cost.empty for cost in costs))

    def _repeated(self, kind: str, items: Any, space: str, depth: int) -> _Cost:
        cost = self.cost(items, space, depth + 1)
        if kind == "array" and cost.empty:
            raise SchemaTooComplex(
                "The schema has an array whose items take no byte, so that its length has no limit",
                what="weightless",
                limit=0,
            )
        return _sum([cost], deeper=1, empty=False)

    def _referred(self, name: str, space: str) -> _Cost:
        if name == "null":
            return _NOTHING
        for full in (f"{space}.{name}" if space and "." not in name else name, name):
            if full in self._open:
                raise SchemaTooComplex(f"The type {full[:100]} contains itself", what="recursion", limit=0)
            if full in self._known:
                return self._known[full]
        return _VALUE  # a primitive, or an undefined name


def _sum(costs: list[_Cost], *, deeper: int, empty: bool) -> _Cost:
    return _Cost(
        1 + sum(cost.types for cost in costs),
        deeper + max((cost.depth for cost in costs), default=0),
        int(empty) + sum(cost.weightless for cost in costs),
        empty,
    )


def _union(costs: list[_Cost]) -> _Cost:
    """The cost of a union, whose values take at least the byte that selects the type."""
    weightless = max((cost.weightless for cost in costs if not cost.empty or cost.types > 1), default=0)
    return _Cost(
        1 + sum(cost.types for cost in costs), max((cost.depth for cost in costs), default=1), weightless, False
    )


def _check_names(node: Mapping[str, Any]) -> None:
    for key in _NAMES:
        value = node.get(key)
        if isinstance(value, str) and len(value) > MAX_NAME:
            raise SchemaTooComplex(
                f"The schema has a name of more than {MAX_NAME:,} characters: {value[:50]!r}",
                what="name",
                limit=MAX_NAME,
            )


def full_name(node: Mapping[str, Any], space: str) -> tuple[str, str]:
    """The full name of a named type, and the namespace of names inside it."""
    name = node.get("name")
    if not isinstance(name, str):
        return "", space
    given: Any | None = node.get("namespace", space)
    own = given if isinstance(given, str) else space
    full = name if "." in name or not own else f"{own}.{name}"
    return full, full.rpartition(".")[0]


def nests_deeper(value: Any, most: int) -> bool:
    """Whether objects and arrays of a JSON value nest more than `most` levels below its own, without recursion."""
    level: list[Any] = [value] if isinstance(value, (dict, list)) else []
    for _ in range(most + 1):
        level = [
            item
            for node in level
            for item in (node.values() if isinstance(node, dict) else node)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return False
    return True


_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed"))
# An item of a list takes a byte. As a Python object it takes 40; as an object with fields, or a list, 270.
PLAIN, LISTS, LISTS_OF_MORE = 1, 4, 24


def weight_of(schema: Any) -> int:
    """The divisor of a limit in bytes, by which a schema's lists (Avro form) take no more memory than other values."""
    weight = PLAIN
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending.extend(node)
        elif isinstance(node, Mapping):
            for inner in ("items", "values"):
                if inner in node:
                    weight = max(weight, LISTS if _is_primitive(node[inner]) else LISTS_OF_MORE)
                    pending.append(node[inner])
            fields = node.get("fields")
            pending.extend(
                field.get("type")
                for field in (fields if isinstance(fields, list) else ())
                if isinstance(field, Mapping)
            )
            if isinstance(node.get("type"), (list, Mapping)):
                pending.append(node["type"])
    return weight


def _is_primitive(node: Any) -> bool:
    if isinstance(node, list):
        return all(_is_primitive(item) for item in node)
    kind = node.get("type") if isinstance(node, Mapping) else node
    return isinstance(kind, str) and kind in _PRIMITIVES
