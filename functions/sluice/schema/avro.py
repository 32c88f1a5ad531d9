"""What a writer schema says: the shape of its records, their data columns, and where the metadata is.

Finds the types that an Avro schema names: defined once, anywhere, and referred to by name after.

The columns that an Avro schema's types make: simple ones, arrays, and records and maps as JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluice.changes.hidden_columns import colliding
from sluice.changes.position import OFFSET_ONLY, PositionFields, detect
from sluice.errors import UnsupportedType, UnusableSchema
from sluice.names import stored_name
from sluice.schema.columns import (
    SPARK_TYPES,
    Column,
    RowSchema,
    array_column,
    column_of,
    json_column,
    variable_decimal_column,
)
from sluice.schema.temporal import STRUCTURED

FLATTENED = "flattened"  # Debezium's ExtractNewRecordState: the row with metadata columns beside
ENVELOPE = "envelope"  # before, after, source, op
PLAIN = "plain"  # rows without any metadata

MAX_COLUMNS = 4_096

DEFAULT_PREFIX = "__"
# The fields that ExtractNewRecordState can add beside a row (`add.fields`), as it names them after
# the prefix, alone or with the struct they come from (`source.ts_ms` becomes `__source_ts_ms`).
# https://debezium.io/documentation/reference/3.5/transformations/event-flattening.html
_SOURCE_NAMES = (
    "version connector name ts_ms ts_us ts_ns snapshot db sequence schema table collection txId lsn xmin origin origin_lsn "
    "server_id gtid file pos row thread query change_lsn commit_lsn event_serial_no "
    "scn commit_scn lcr_position rs_id ssn redo_thread user_name redo_sql row_id start_scn start_ts_ms commit_ts_ms txSeq "
    "rs ord lsid txnNumber stxnid wallTime"
).split()
_OF_TRANSACTION = ("total_order", "data_collection_order")
_META_NAMES = frozenset(
    _SOURCE_NAMES
    + [f"source_{name}" for name in _SOURCE_NAMES]
    + ["op", "deleted", "id", *_OF_TRANSACTION]
    + ["transaction_id", "transaction_total_order", "transaction_data_collection_order"]
)
# What tells that fields under a prefix are metadata: under the default one alone, and beside an `op` of the same prefix.
_ALONE = ("lsn", "source_lsn", "commit_lsn", "source_ts_ms", "source_ts_us", "source_ts_ns")
_DELETED = "__deleted"  # so named whatever the prefix is
_TELLING = tuple(
    struct + name
    for name in ("lsn", "commit_lsn", "file", "scn", "ord", "ts_ms", "ts_us", "ts_ns")
    for struct in ("", "source_")
)


@dataclass(frozen=True)
class MetaFields:
    """The names under which a record carries its metadata; None where it doesn't.

    For `flattened` they are fields of the record; for `envelope` `op` is one of the record and
    `source_ts_ms` and the position's names are fields of its `source`.
    """

    op: str | None
    deleted: str | None
    source_ts_ms: str | None
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
    types = NamedTypes(schema)
    record, _ = types.non_null(schema, "")  # a Connect schema that is optional is a union with null
    if record["type"] != "record":
        raise UnusableSchema(f"The schema is {record['type']!r}, not a record", source_type=str(record["type"]))
    fields = _fields(record)
    shape = _shape(types, record)
    if shape == ENVELOPE:
        row, meta = _envelope(types, fields)
    else:
        prefix = _prefix(list(fields)) if shape == FLATTENED else None
        meta_names = metadata_names(list(fields)) if shape == FLATTENED else frozenset()
        row = _row(types, [field for name, field in fields.items() if name not in meta_names])
        meta = _flattened_meta(meta_names, prefix)
    return WriterSchema(shape, row, meta, fingerprint(schema))


def shape_of(schema: Mapping[str, Any]) -> str:
    """Which of the three shapes a record schema has."""
    return _shape(NamedTypes(schema), schema)


def _shape(types: NamedTypes, record: Mapping[str, Any]) -> str:
    """An envelope has records under its names: a table may have columns called op, source, before and after."""
    written = {field.get("name"): field.get("type") for field in record.get("fields", ()) if isinstance(field, Mapping)}
    sides = {"before", "after"} & set(written)
    if (
        {"op", "source"} <= set(written)
        and sides
        and any(types.is_record(written[name]) for name in ("source", *sides))
    ):
        return ENVELOPE
    return PLAIN if _prefix(list(written)) is None else FLATTENED


def metadata_names(names: Sequence[str]) -> frozenset[str]:
    """Which of a flattened record's fields are metadata that the connector added; none where the record is plain."""
    prefix = _prefix(names)
    found = frozenset(name for name in names if prefix is not None and _is_meta(name, prefix))
    if prefix in (None, DEFAULT_PREFIX) or any(prefix + name in found for name in _OF_TRANSACTION):
        return found
    return found - {prefix + "id"}  # MongoDB's `_id` under the prefix `_`: a transaction's id comes with its orders


def _prefix(names: Sequence[Any]) -> str | None:
    """The prefix of the metadata fields, None when there are none.

    Another prefix than the default counts only where `op` and a log position or time stand under it. None at all
    (`add.fields.prefix` empty) isn't taken for one: `id`, `name` or `table` would then be metadata.
    """
    present = {name for name in names if isinstance(name, str)}
    if (
        any(DEFAULT_PREFIX + name in present for name in ("op", *_ALONE))
        or detect(present, _under(DEFAULT_PREFIX)).kind != OFFSET_ONLY
    ):
        return DEFAULT_PREFIX
    for prefix in sorted(name[:-2] for name in present if name.endswith("op") and len(name) > len("op")):
        if any(prefix + name in present for name in _TELLING):
            return prefix
    return DEFAULT_PREFIX if _DELETED in present else None


def _under(prefix: str) -> tuple[str, str]:
    """The two ways in which a field of the source block is named under a prefix."""
    return (prefix, prefix + "source_")


def _is_meta(name: str, prefix: str) -> bool:
    return name == _DELETED or name.startswith(prefix) and name[len(prefix) :] in _META_NAMES


def _flattened_meta(names: Any, prefix: str | None) -> MetaFields:
    if prefix is None:
        return MetaFields(None, None, None, detect((), ()))

    def first(*wanted: str) -> str | None:
        return next((name for name in wanted if name in names), None)

    return MetaFields(
        op=first(prefix + "op"),
        deleted=first(_DELETED, prefix + "deleted"),
        source_ts_ms=first(prefix + "source_ts_ms", prefix + "ts_ms"),
        position=detect(names, _under(prefix)),
    )


def _envelope(types: NamedTypes, fields: dict[str, Mapping[str, Any]]) -> tuple[RowSchema, MetaFields]:
    """The row is what `after` or `before` is: whichever comes first defines the type, the other refers to it."""
    rows = []
    for side in ("after", "before"):
        if side in fields:
            value, _ = types.non_null(fields[side].get("type"), side)
            if value["type"] != "record":
                raise UnusableSchema(
                    f"The envelope's {side} is {value['type']!r}, not a record", column=side, next_step=_NO_RECORD
                )
            fields_of_row = list(_fields(value).values())
            rows.append(
                _row(types, fields_of_row) if fields_of_row else RowSchema(())
            )  # of JSON's truncates nothing tells a column
    if len({_compared(row.columns) for row in rows}) > 1:
        raise UnusableSchema("The envelope's before and after have different columns")
    source, _ = types.non_null(fields["source"].get("type"), "source")
    if source["type"] != "record":
        raise UnusableSchema(f"The envelope's source is {source['type']!r}, not a record", column="source")
    names = _fields(source)
    return rows[0], MetaFields("op", None, "ts_ms" if "ts_ms" in names else None, detect(names))


# https://debezium.io/documentation/reference/3.5/transformations/mongodb-event-flattening.html
_NO_RECORD = (
    "Where MongoDB's connector writes documents as text, let it use ExtractNewDocumentState; its rows have columns then"
)


def _compared(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns without what doesn't change their values: whether they are nullable, and what a writer calls their types."""
    return tuple(
        replace(
            column,
            nullable=True,
            source_type="",
            element=_compared((column.element,))[0] if column.element else None,
            fields=_compared(column.fields),
        )
        for column in columns
    )


def _fields(record: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    fields = record.get("fields")
    if not isinstance(fields, list) or len(fields) > MAX_COLUMNS:
        raise UnusableSchema(f"A record needs a list of at most {MAX_COLUMNS} fields")
    found: dict[str, Mapping[str, Any]] = {}
    for field in fields:
        if not isinstance(field, Mapping) or not isinstance(field.get("name"), str) or field["name"] in found:
            raise UnusableSchema("A record's fields need names of their own")
        found[field["name"]] = field
    return found


def _row(types: NamedTypes, fields: Sequence[Mapping[str, Any]]) -> RowSchema:
    names = [stored_name(field["name"]) for field in fields]
    taken = colliding(names)
    if taken:
        raise UnusableSchema(
            f"The source's columns {', '.join(taken)} have names that Sluice or Hudi uses", columns=list(taken)
        )
    alike = sorted(name for name, count in Counter(names).items() if count > 1)
    if alike:
        summary = sorted(field["name"][:100] for field in fields if stored_name(field["name"]) in alike)
        raise UnusableSchema(
            f"The source's columns {', '.join(map(repr, summary))} would have one name: a column's has letters, digits and _ only",
            columns=summary,
        )
    twice = sorted(name for name, count in Counter(name.lower() for name in names).items() if count > 1)
    if twice:
        raise UnusableSchema(
            f"The source's columns {', '.join(twice)} differ in case only; Spark and Glue can't tell them apart",
            columns=twice,
        )
    if not names:
        raise UnusableSchema("The record has no data column")
    columns = Columns(types)
    made = [(columns.column(field["name"], field.get("type")), name) for field, name in zip(fields, names)]
    return RowSchema(
        tuple(column if column.name == name else replace(column, name=name, field=column.name) for column, name in made)
    )


MAX_NESTING = 32  # arrays in arrays, types within types: beyond is an error of the schema, not of the interpreter


class NamedTypes:
    """The named types of one schema (as JSON values)."""

    def __init__(self, schema: Any) -> None:
        self._types: dict[str, Mapping[str, Any]] = {}
        root = schema if isinstance(schema, Mapping) else {}
        self._space = _full_name(str(root.get("name", "")), root.get("namespace")).rpartition(".")[0]
        pending: list[tuple[Any, str]] = [(schema, "")]
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
        self._short: dict[str, list[Mapping[str, Any]]] = {}
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

    def non_null(self, written: Any, name: str) -> tuple[Mapping[str, Any], bool]:
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
            summary = (
                " or ".join(str(item.get("type") if isinstance(item, Mapping) else item) for item in others)
                or "null only"
            )
            raise UnsupportedType(
                f"Column {name} is a union of {summary[:100]}", column=name, source_type=summary[:100]
            )
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
        summary = value.get("connect.name") or value.get("name") or value["type"]
        source_type = (
            f"{value['type']} {summary}"
            if isinstance(summary, str) and summary != value["type"]
            else str(value["type"])
        )
        if value["type"] == "map":
            return json_column(
                name, nullable, source_type, element=self._column(top, "value", value.get("values"), depth + 1)
            )
        if _is_variable_decimal(value):
            return variable_decimal_column(name, nullable, source_type)
        made = json_column(name, nullable, source_type, fields=tuple(self._fields(top, value, depth)))
        kind = STRUCTURED.get(summary) if isinstance(summary, str) else None
        return made if kind is None else replace(made, kind=kind, spark_type=SPARK_TYPES[kind])

    def _fields(self, top: str, record: Mapping[str, Any], depth: int) -> list[Column]:
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
