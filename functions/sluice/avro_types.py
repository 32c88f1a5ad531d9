"""Finds the types that an Avro schema names: defined once, anywhere, and referred to by name after."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from sluice.errors import UnsupportedType

MAX_NESTING = 32  # arrays in arrays, types within types: beyond is an error of the schema, not of the interpreter


class NamedTypes:
    """The named types of one schema (as JSON values)."""

    def __init__(self, schema: Any) -> None:
        self._types: Dict[str, Mapping[str, Any]] = {}
        root = schema if isinstance(schema, Mapping) else {}
        self._space = _full_name(str(root.get("name", "")), root.get("namespace")).rpartition(".")[0]
        pending: List[Tuple[Any, str]] = [(schema, "")]
        while pending:  # no recursion: the schema comes from an object that anybody may have written
            node, space = pending.pop()
            if isinstance(node, list):
                pending.extend((item, space) for item in node)
            elif isinstance(node, Mapping):
                if node.get("type") in ("record", "enum", "fixed", "error") and isinstance(node.get("name"), str):
                    full = _full_name(node["name"], node.get("namespace", space))
                    self._types.setdefault(full, node)
                    space = full.rpartition(".")[0]
                fields = node.get("fields")
                if isinstance(fields, list):
                    pending.extend((item.get("type"), space) for item in fields if isinstance(item, Mapping))
                pending.extend((node[key], space) for key in ("items", "values") if key in node)
                if isinstance(node.get("type"), (list, Mapping)):
                    pending.append((node["type"], space))
        self._short: Dict[str, List[Mapping[str, Any]]] = {}
        for full, node in self._types.items():
            self._short.setdefault(full.rpartition(".")[2], []).append(node)

    def resolve(self, written: Any, name: str) -> Mapping[str, Any]:
        """A mapping whose `type` is a primitive's or complex type's own name."""
        for _ in range(MAX_NESTING):
            if isinstance(written, str):
                if written in _AVRO_TYPES:
                    return {"type": written}
                if written in self._types:
                    return self._types[written]
                if f"{self._space}.{written}" in self._types:
                    return self._types[f"{self._space}.{written}"]
                same = self._short.get(written.rpartition(".")[2], [])
                if len(same) != 1:
                    break
                return same[0]
            if not isinstance(written, Mapping):
                break
            if isinstance(written.get("type"), str) and written["type"] in _AVRO_TYPES:
                return written
            written = written.get("type")
        raise UnsupportedType(
            f"Column {name} has a type that the schema doesn't define: {str(written)[:100]}",
            column=name,
            source_type=str(written)[:100],
        )

    def non_null(self, written: Any, name: str) -> Tuple[Mapping[str, Any], bool]:
        """The one type of a union with null in either order, and whether null was there."""
        if isinstance(written, Mapping) and isinstance(written.get("type"), list):
            written = written["type"]
        if not isinstance(written, list):
            return self.resolve(written, name), False
        others = [
            item
            for item in written
            if item != "null" and not (isinstance(item, Mapping) and item.get("type") == "null")
        ]
        if len(others) != 1:
            told = (
                " or ".join(str(item.get("type") if isinstance(item, Mapping) else item) for item in others)
                or "null only"
            )
            raise UnsupportedType(f"Column {name} is a union of {told[:100]}", column=name, source_type=told[:100])
        return self.resolve(others[0], name), len(others) < len(written)

    def is_record(self, written: Any) -> bool:
        """Whether a type is a record, or a record or null."""
        try:
            return bool(self.non_null(written, "")[0]["type"] == "record")
        except UnsupportedType:
            return False


_AVRO_TYPES = frozenset(
    (
        "null",
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "bytes",
        "string",
        "record",
        "error",
        "enum",
        "array",
        "map",
        "fixed",
    )
)


def _full_name(name: str, namespace: Any) -> str:
    return name if "." in name or not isinstance(namespace, str) or not namespace else f"{namespace}.{name}"
