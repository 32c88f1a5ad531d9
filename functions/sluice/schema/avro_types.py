"""The types of an Avro schema: named types, defined once and then referred to by name, and the columns of types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sluice.errors import UnsupportedType
from sluice.schema import columns as kinds
from sluice.schema.columns import Column, array_column, column_of, json_column, plain_column
from sluice.schema.limits import full_name
from sluice.schema.temporal import STRUCTURED

MAX_NESTING = 32  # types within types: deeper is an error of the schema, not of the interpreter


def is_null(written: Any) -> bool:
    """Whether a type is null alone."""
    if isinstance(written, Mapping):
        return is_null(written.get("type"))
    return written == "null" or isinstance(written, list) and bool(written) and all(map(is_null, written))


class NamedTypes:
    """The named types of one schema (as JSON values)."""

    def __init__(self, schema: Any) -> None:
        self._types: dict[str, Mapping[str, Any]] = {}
        root = schema if isinstance(schema, Mapping) else {}
        _, self._space = full_name(root, "")
        pending: list[tuple[Any, str]] = [(schema, "")]
        while pending:  # no recursion: the schema is untrusted
            node, space = pending.pop()
            if isinstance(node, list):
                pending.extend((item, space) for item in node)
            elif isinstance(node, Mapping):
                if node.get("type") in ("record", "enum", "fixed", "error") and isinstance(node.get("name"), str):
                    full, space = full_name(node, space)
                    self._types.setdefault(full, node)
                fields = node.get("fields")
                if isinstance(fields, list):
                    pending.extend((item.get("type"), space) for item in fields if isinstance(item, Mapping))
                pending.extend((node[key], space) for key in ("items", "values") if key in node)
                if isinstance(node.get("type"), (list, Mapping)):
                    pending.append((node["type"], space))
        self._short: dict[str, list[Mapping[str, Any]]] = {}
        for full, node in self._types.items():
            self._short.setdefault(full.rpartition(".")[2], []).append(node)

    def resolve(self, written: Any, name: str) -> Mapping[str, Any]:
        """The definition of a type: a mapping whose `type` is a primitive or complex type. Raises UnsupportedType.

        `name` is the column that an error names.
        """
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

    def non_null(self, written: Any, name: str) -> tuple[Mapping[str, Any], bool]:
        """The type of a union with null in either order, and whether null was in it. Raises UnsupportedType."""
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
            names = [str(item.get("type") if isinstance(item, Mapping) else item) for item in others]
            union = (" or ".join(names) or "null only")[:100]
            raise UnsupportedType(f"Column {name} is a union of {union}", column=name, source_type=union)
        return self.resolve(others[0], name), len(others) < len(written)

    def is_record(self, written: Any) -> bool:
        """Whether a type is a record, or a record or null."""
        try:
            return bool(self.non_null(written, "")[0]["type"] == "record")
        except UnsupportedType:
            return False


_AVRO_TYPES = frozenset("null boolean int long float double bytes string record error enum array map fixed".split())


MAX_NESTED = 4_096  # types below the columns of one schema; a named type counts each time it is used
VARIABLE_SCALE_DECIMAL = "io.debezium.data.VariableScaleDecimal"


class Columns:
    """Makes the columns of one schema, within limits of nesting and number."""

    def __init__(self, types: NamedTypes) -> None:
        self._types = types
        self._left = MAX_NESTED

    def column(self, name: str, written: Any) -> Column:
        """The column of a field: simple, an array, or a record or map as JSON. Raises UnsupportedType."""
        return self._column(name, name, written, 0)

    def _column(self, top: str, name: str, written: Any, depth: int) -> Column:
        """`top` is the column that an error names, `name` the field that holds the value."""
        value, nullable = self._types.non_null(written, top)
        if value["type"] not in ("array", "map", "record"):
            return replace(column_of(top, value, nullable), name=name)
        self._left -= 1
        if depth >= MAX_NESTING or self._left < 0:
            raise UnsupportedType(
                f"Column {top} nests types too deeply or has too many of them",
                column=top,
                source_type=str(value["type"]),
            )
        if value["type"] == "array":
            return array_column(name, self._column(top, name, value.get("items"), depth + 1), nullable)
        base, semantic = str(value["type"]), value.get("connect.name") or value.get("name") or value["type"]
        source_type = f"{base} {semantic}" if isinstance(semantic, str) and semantic != base else base
        if value["type"] == "map":
            return json_column(
                name, nullable, source_type, element=self._member(top, "value", value.get("values"), depth + 1)
            )
        if _is_variable_decimal(value):
            return plain_column(name, kinds.VARIABLE_DECIMAL, nullable, source_type)
        made = json_column(name, nullable, source_type, fields=tuple(self._fields(top, value, depth)))
        kind = STRUCTURED.get(semantic) if isinstance(semantic, str) else None
        return made if kind is None else replace(made, kind=kind, spark_type=kinds.SPARK_TYPES[kind])

    def _fields(self, top: str, record: Mapping[str, Any], depth: int) -> list[Column]:
        fields = record.get("fields")
        if not isinstance(fields, list) or not all(
            isinstance(field, Mapping) and isinstance(field.get("name"), str) for field in fields
        ):
            raise UnsupportedType(f"Column {top} is a record without fields", column=top, source_type="record")
        self._left -= len(fields)
        return [self._member(top, field["name"], field.get("type"), depth + 1) for field in fields]

    def _member(self, top: str, name: str, written: Any, depth: int) -> Column:
        """The column of a member of JSON text. Of null alone, as Arrow and DuckDB write what has no value, it is text,
        and so are the items of a list of nulls.
        """
        if is_null(written):
            return plain_column(name, kinds.STRING, True, "null")
        kind = next((one for one in written if not is_null(one)), None) if isinstance(written, list) else written
        if isinstance(kind, Mapping) and kind.get("type") == "array" and is_null(kind.get("items")):
            return array_column(name, plain_column(name, kinds.STRING, True, "null"), True)
        return self._column(top, name, written, depth)


def _is_variable_decimal(record: Mapping[str, Any]) -> bool:
    """By its semantic name or, from converters that leave that out, by its own name and fields."""
    fields = record.get("fields")
    names = {field.get("name") for field in fields if isinstance(field, Mapping)} if isinstance(fields, list) else set()
    full = f"{record.get('namespace')}.{record.get('name')}"
    return names == {"scale", "value"} and VARIABLE_SCALE_DECIMAL in (
        record.get("connect.name"),
        full,
        record.get("name"),
    )
