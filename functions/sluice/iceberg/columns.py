"""The columns of an Iceberg table over Hudi's files: ids that stay, types, and the names by which files have them.

The files have no field ids, so readers find columns by the table's name mapping. It names every column of the files,
hidden ones too, since a reader may refuse a file with a column that has no id; only the shown ones are in the schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NAME_MAPPING = "schema.name-mapping.default"

_TYPES: Mapping[str, str] = {
    "boolean": "boolean",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamptz",  # Hudi's files hold microseconds since 1970 UTC
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_LIST = re.compile(r"array<(.*)>")
_ITEM_NAMES = ["element", "array", "item"]  # of Parquet's writers: Spark, parquet-avro and Arrow
_WIDER = {("int", "long"), ("float", "double")}


@dataclass(frozen=True)
class IcebergColumns:
    """IcebergColumns of an Iceberg table: the fields of its schema, its name mapping, and the highest id in use.

    `replaced` are names whose type has become one that older files can't be read as.
    """

    fields: Sequence[Mapping[str, Any]]
    mapping: Sequence[Mapping[str, Any]]
    last_id: int
    replaced: frozenset[str] = frozenset()

    @property
    def mapping_text(self) -> str:
        """The name mapping as the table's property has it."""
        return json.dumps(self.mapping, ensure_ascii=False, separators=(",", ":"))


def columns_after(
    before: Mapping[str, Any] | None, types: Mapping[str, str], *, hidden: Sequence[str]
) -> IcebergColumns:
    """The columns of a table whose files have `types` (Spark's names, by column); those of `hidden` are not shown.

    `before` is the Iceberg table's metadata up to now, whose ids stay. A column whose type is no wider form of what it
    was has a new id: all files were rewritten for it. Names are added to the mapping and never leave it.
    """
    mapping = [] if before is None else json.loads(before["properties"][NAME_MAPPING])
    by_name = {entry["names"][0]: entry for entry in mapping}
    types_before = {} if before is None else {field["name"]: field["type"] for field in current_fields(before)}
    ids = _Ids(0 if before is None else int(before["last-column-id"]))
    fields: list[Mapping[str, Any]] = []
    replaced: set[str] = set()
    for name in (*(name for name in hidden if name not in types), *types):
        kind = types.get(name, "string")
        entry = by_name.get(name)
        old = types_before.get(name)
        if entry is not None and old is not None and not _is_readable_as(old, kind):
            replaced.add(name)
            entry = None
        by_name[name] = entry = ids.mapped([name], kind) if entry is None else entry
        if name not in hidden:
            field = {"id": entry["field-id"], "name": name, "required": False, "type": _iceberg_type(kind, entry)}
            fields.append(field)
    return IcebergColumns(tuple(fields), tuple(by_name.values()), ids.last, frozenset(replaced))


def current_fields(metadata: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    schemas: dict[int, Any] = {schema["schema-id"]: schema for schema in metadata["schemas"]}
    fields: Sequence[Mapping[str, Any]] = schemas[metadata["current-schema-id"]]["fields"]
    return fields


def glue_columns(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Name and type of each column of a table's current schema, in Hive's words."""
    yield from ((str(field["name"]), _hive_type(field["type"])) for field in current_fields(metadata))


def _hive_type(kind: Any) -> str:
    if isinstance(kind, Mapping):
        return f"array<{_hive_type(kind['element'])}>"
    spark_types = {iceberg: spark for spark, iceberg in _TYPES.items()}
    return spark_types.get(str(kind), str(kind).replace(" ", ""))


class _Ids:
    """Gives ids that no column had before."""

    def __init__(self, last: int) -> None:
        self.last = last

    def mapped(self, names: list[str], kind: str) -> dict[str, Any]:
        self.last += 1
        entry: dict[str, Any] = {"field-id": self.last, "names": names}
        items = _LIST.fullmatch(kind)
        return {**entry, "fields": [self.mapped(_ITEM_NAMES, items[1])]} if items else entry


def _iceberg_type(kind: str, entry: Mapping[str, Any]) -> Any:
    items = _LIST.fullmatch(kind)
    if items:
        (item,) = entry["fields"]
        element = _iceberg_type(items[1], item)
        return {"type": "list", "element-id": item["field-id"], "element-required": False, "element": element}
    decimal = _DECIMAL.fullmatch(kind)
    return f"decimal({decimal[1]}, {decimal[2]})" if decimal else _TYPES[kind]


def _is_readable_as(old: Any, kind: str) -> bool:
    """Whether Iceberg lets files of the type `old` be read as Spark's type `kind`."""
    items = _LIST.fullmatch(kind)
    if isinstance(old, Mapping) or items:
        return isinstance(old, Mapping) and items is not None and _is_readable_as(old["element"], items[1])
    was, now = _DECIMAL.fullmatch(str(old)), _DECIMAL.fullmatch(kind)
    if was and now:
        return was[2] == now[2] and int(was[1]) <= int(now[1])
    new = _TYPES.get(kind)
    return old == new or (old, new) in _WIDER
