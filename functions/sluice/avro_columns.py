"""The columns that an Avro schema's types make: simple ones, arrays, and records and maps as JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, List, Mapping

from sluice.avro_types import MAX_NESTING, NamedTypes
from sluice.column_types import SPARK_TYPES, Column, array_column, column_of, json_column, variable_decimal_column
from sluice.errors import UnsupportedType
from sluice.structured_time import STRUCTURED

MAX_NESTED = 4_096  # types looked at below the columns of one schema: named types can be used again and again
VARIABLE_SCALE_DECIMAL = "io.debezium.data.VariableScaleDecimal"


class Columns:
    """Makes the columns of one schema, within bounds on their nesting and number."""

    def __init__(self, types: NamedTypes) -> None:
        self._types = types
        self._left = MAX_NESTED

    def column(self, name: str, written: Any) -> Column:
        """The column of a field. Raises UnsupportedType naming column and type."""
        return self._column(name, name, written, 0)

    def _column(self, top: str, name: str, written: Any, depth: int) -> Column:
        """`top` is the column that a message names; `name` the one that the value is found under."""
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
        told = value.get("connect.name") or value.get("name") or value["type"]
        source_type = (
            f"{value['type']} {told}" if isinstance(told, str) and told != value["type"] else str(value["type"])
        )
        if value["type"] == "map":
            return json_column(
                name, nullable, source_type, element=self._column(top, "value", value.get("values"), depth + 1)
            )
        if _is_variable_decimal(value):
            return variable_decimal_column(name, nullable, source_type)
        made = json_column(name, nullable, source_type, fields=tuple(self._fields(top, value, depth)))
        kind = STRUCTURED.get(told) if isinstance(told, str) else None
        return made if kind is None else replace(made, kind=kind, spark_type=SPARK_TYPES[kind])

    def _fields(self, top: str, record: Mapping[str, Any], depth: int) -> List[Column]:
        fields = record.get("fields")
        if not isinstance(fields, list) or not all(
            isinstance(field, Mapping) and isinstance(field.get("name"), str) for field in fields
        ):
            raise UnsupportedType(f"Column {top} is a record without fields", column=top, source_type="record")
        self._left -= len(fields)
        return [self._column(top, field["name"], field.get("type"), depth + 1) for field in fields]


def _is_variable_decimal(record: Mapping[str, Any]) -> bool:
    """By its semantic name or, from converters that leave those out, by its own name and fields."""
    fields = record.get("fields")
    names = {field.get("name") for field in fields if isinstance(field, Mapping)} if isinstance(fields, list) else set()
    full = f"{record.get('namespace')}.{record.get('name')}"
    return names == {"scale", "value"} and VARIABLE_SCALE_DECIMAL in (
        record.get("connect.name"),
        full,
        record.get("name"),
    )
