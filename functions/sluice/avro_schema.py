"""What a writer schema says: the shape of its records, their data columns, and where the metadata is."""
from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from sluice.column_types import Column, RowSchema, array_column, column_of
from sluice.errors import UnsupportedType, UnusableSchema
from sluice.hidden_columns import colliding
from sluice.position import PositionFields, detect

FLATTENED = "flattened"  # Debezium's ExtractNewRecordState: the row with metadata columns beside
ENVELOPE = "envelope"  # before, after, source, op
PLAIN = "plain"  # rows without any metadata

MAX_COLUMNS = 4_096
MAX_NESTING = 32  # arrays in arrays; recursion ends in an error and not in the interpreter's

DEFAULT_PREFIX = "__"
# The fields that ExtractNewRecordState can add beside a row (`add.fields`), as it names them after
# the prefix, alone or with the struct they come from (`source.ts_ms` becomes `__source_ts_ms`).
# https://debezium.io/documentation/reference/3.5/transformations/event-flattening.html
_SOURCE_NAMES = (
    "version connector name ts_ms ts_us ts_ns snapshot db sequence schema table collection txId lsn xmin origin origin_lsn "
    "server_id gtid file pos row thread query change_lsn commit_lsn event_serial_no scn commit_scn lcr_position"
).split()
_META_NAMES = frozenset(
    _SOURCE_NAMES + [f"source_{name}" for name in _SOURCE_NAMES]
    + ["op", "deleted", "id", "total_order", "data_collection_order"]
    + ["transaction_id", "transaction_total_order", "transaction_data_collection_order"]
)
_TELLING = ("lsn", "source_lsn", "commit_lsn", "source_ts_ms", "source_ts_us", "source_ts_ns")


@dataclass(frozen=True)
class MetaFields:
    """The names under which a record carries its metadata; None where it doesn't.

    For `flattened` they are fields of the record; for `envelope` `op` is one of the record and
    `source_ts_ms` and the position's names are fields of its `source`.
    """

    op: Optional[str]
    deleted: Optional[str]
    source_ts_ms: Optional[str]
    position: PositionFields


@dataclass(frozen=True)
class WriterSchema:
    """A writer schema understood."""

    shape: str
    row: RowSchema
    meta: MetaFields
    fingerprint: str


def fingerprint(schema: Any) -> str:
    """32 hexadecimal digits of the schema's canonical JSON (sorted keys, no spaces)."""
    text = json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def read_writer_schema(schema: Mapping[str, Any]) -> WriterSchema:
    """Understand a writer schema (as JSON values).

    Raises UnusableSchema for what isn't a record of uniquely named columns, and UnsupportedType
    naming the first column that can't be stored.
    """
    types = _NamedTypes(schema)
    record = types.resolve(schema, "")
    if record["type"] != "record":
        raise UnusableSchema(f"The schema is {record['type']!r}, not a record", source_type=str(record["type"]))
    fields = _fields(record)
    shape = shape_of(record)
    if shape == ENVELOPE:
        row, meta = _envelope(types, fields)
    else:
        prefix = _prefix(list(fields)) if shape == FLATTENED else None
        meta_names = {name for name in fields if prefix is not None and _is_meta(name, prefix)}
        row = _row(types, [field for name, field in fields.items() if name not in meta_names])
        meta = _flattened_meta(meta_names, prefix)
    return WriterSchema(shape, row, meta, fingerprint(schema))


def shape_of(schema: Mapping[str, Any]) -> str:
    """Which of the three shapes a record schema has."""
    names = [field.get("name") for field in schema.get("fields", ()) if isinstance(field, Mapping)]
    if {"op", "source"} <= set(names) and ({"before", "after"} & set(names)):
        return ENVELOPE
    return PLAIN if _prefix(names) is None else FLATTENED


def _prefix(names: Sequence[Any]) -> Optional[str]:
    """The prefix of the metadata fields, None when there are none.

    Another prefix than the default counts only where `op` and a log position or source time stand under it.
    """
    present = {name for name in names if isinstance(name, str)}
    if DEFAULT_PREFIX + "op" in present:
        return DEFAULT_PREFIX
    for prefix in sorted(name[:-2] for name in present if name.endswith(("_op", "-op", ".op"))):
        if any(prefix + name in present for name in _TELLING):
            return prefix
    return DEFAULT_PREFIX if any(DEFAULT_PREFIX + name in present for name in ("deleted", *_TELLING)) else None


def _is_meta(name: str, prefix: str) -> bool:
    return name == "__deleted" or name.startswith(prefix) and name[len(prefix):] in _META_NAMES


def _flattened_meta(names: Any, prefix: Optional[str]) -> MetaFields:
    if prefix is None:
        return MetaFields(None, None, None, detect((), ()))

    def first(*wanted: str) -> Optional[str]:
        return next((name for name in wanted if name in names), None)

    return MetaFields(
        op=first(prefix + "op"),
        deleted=first("__deleted", prefix + "deleted"),
        source_ts_ms=first(prefix + "source_ts_ms", prefix + "ts_ms"),
        position=detect(names, (prefix, prefix + "source_")),
    )


def _envelope(types: _NamedTypes, fields: Dict[str, Mapping[str, Any]]) -> Tuple[RowSchema, MetaFields]:
    """The row is what `after` or `before` is: whichever comes first defines the type, the other refers to it."""
    rows = []
    for side in ("after", "before"):
        if side in fields:
            value, _ = types.non_null(fields[side].get("type"), side)
            if value["type"] != "record":
                raise UnusableSchema(f"The envelope's {side} is {value['type']!r}, not a record", column=side)
            rows.append(_row(types, list(_fields(value).values())))
    if len({row.columns for row in rows}) > 1:
        raise UnusableSchema("The envelope's before and after have different columns")
    source, _ = types.non_null(fields["source"].get("type"), "source")
    if source["type"] != "record":
        raise UnusableSchema(f"The envelope's source is {source['type']!r}, not a record", column="source")
    names = _fields(source)
    return rows[0], MetaFields("op", None, "ts_ms" if "ts_ms" in names else None, detect(names))


def _fields(record: Mapping[str, Any]) -> Dict[str, Mapping[str, Any]]:
    fields = record.get("fields")
    if not isinstance(fields, list) or len(fields) > MAX_COLUMNS:
        raise UnusableSchema(f"A record needs a list of at most {MAX_COLUMNS} fields")
    found: Dict[str, Mapping[str, Any]] = {}
    for field in fields:
        if not isinstance(field, Mapping) or not isinstance(field.get("name"), str) or field["name"] in found:
            raise UnusableSchema("A record's fields need names of their own")
        found[field["name"]] = field
    return found


def _row(types: _NamedTypes, fields: Sequence[Mapping[str, Any]]) -> RowSchema:
    names = [field["name"] for field in fields]
    taken = colliding(names)
    if taken:
        raise UnusableSchema(f"The source's columns {', '.join(taken)} have names that Sluice or Hudi uses", columns=list(taken))
    twice = sorted(name for name, count in Counter(name.lower() for name in names).items() if count > 1)
    if twice:
        raise UnusableSchema(f"The source's columns {', '.join(twice)} differ in case only; Spark and Glue can't tell them apart", columns=twice)
    if not names:
        raise UnusableSchema("The record has no data column")
    return RowSchema(tuple(_column(types, field["name"], field.get("type"), 0) for field in fields))


def _column(types: _NamedTypes, name: str, written: Any, depth: int) -> Column:
    value, nullable = types.non_null(written, name)
    if value["type"] != "array":
        return column_of(name, value, nullable)
    if depth >= MAX_NESTING:
        raise UnsupportedType(f"Column {name} nests arrays too deeply", column=name, source_type="array")
    return array_column(name, _column(types, name, value.get("items"), depth + 1), nullable)


class _NamedTypes:
    """The named types of one schema: defined once, anywhere, and referred to by name after."""

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
        raise UnsupportedType(f"Column {name} has a type that the schema doesn't define: {str(written)[:100]}", column=name, source_type=str(written)[:100])

    def non_null(self, written: Any, name: str) -> Tuple[Mapping[str, Any], bool]:
        """The one type of a union with null in either order, and whether null was there."""
        if isinstance(written, Mapping) and isinstance(written.get("type"), list):
            written = written["type"]
        if not isinstance(written, list):
            return self.resolve(written, name), False
        others = [item for item in written if item != "null" and not (isinstance(item, Mapping) and item.get("type") == "null")]
        if len(others) != 1:
            told = " or ".join(str(item.get("type") if isinstance(item, Mapping) else item) for item in others) or "null only"
            raise UnsupportedType(f"Column {name} is a union of {told[:100]}", column=name, source_type=told[:100])
        return self.resolve(others[0], name), len(others) < len(written)


_AVRO_TYPES = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "record", "error", "enum", "array", "map", "fixed")
)


def _full_name(name: str, namespace: Any) -> str:
    return name if "." in name or not isinstance(namespace, str) or not namespace else f"{namespace}.{name}"
