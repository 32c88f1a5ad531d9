"""How much more memory than bytes the values of a schema can take once they are decoded: what a block may hold is the less for it."""

from __future__ import annotations

from typing import Any, List, Mapping

_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed"))
# A list's item takes a byte, and as a Python object 40 of them; as an object with fields, or a list of its own, 270.
PLAIN, LISTS, LISTS_OF_MORE = 1, 4, 24


def weight_of(schema: Any) -> int:
    """By what to divide a limit on bytes, so that lists of a schema (Avro form) keep within the memory that other values take."""
    weight = PLAIN
    pending: List[Any] = [schema]
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
