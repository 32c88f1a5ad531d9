"""Reads a writer schema: the shape of its records, their data columns, and the fields of their metadata."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluice.changes.hidden_columns import colliding
from sluice.changes.position import OFFSET_ONLY, PositionFields, detect
from sluice.errors import UnusableSchema
from sluice.names import stored_name
from sluice.schema.avro_types import Columns, NamedTypes
from sluice.schema.columns import Column, RowSchema

FLATTENED = "flattened"  # Debezium's ExtractNewRecordState: the row, and metadata beside it
ENVELOPE = "envelope"  # before, after, source, op
PLAIN = "plain"  # rows without metadata

MAX_COLUMNS = 4_096

DEFAULT_PREFIX = "__"
# Fields that ExtractNewRecordState can add beside a row (`add.fields`): their names after the prefix, alone or with
# the struct they come from (`source.ts_ms` becomes `__source_ts_ms`).
# https://debezium.io/documentation/reference/3.5/transformations/event-flattening.html
_SOURCE_NAMES = (
    "version connector name ts_ms ts_us ts_ns snapshot db sequence schema table collection txId lsn xmin origin "
    "origin_lsn server_id gtid file pos row thread query change_lsn commit_lsn event_serial_no scn commit_scn "
    "lcr_position rs_id ssn redo_thread user_name redo_sql row_id start_scn start_ts_ms commit_ts_ms txSeq rs ord lsid "
    "txnNumber stxnid wallTime"
).split()
_OF_TRANSACTION = ("total_order", "data_collection_order")
_META_NAMES = frozenset(
    _SOURCE_NAMES
    + [f"source_{name}" for name in _SOURCE_NAMES]
    + ["op", "deleted", "id", *_OF_TRANSACTION]
    + ["transaction_id", "transaction_total_order", "transaction_data_collection_order"]
)
# Fields that mark a prefix as metadata: of the default prefix each alone, of any other beside an `op`.
_ALONE = ("lsn", "source_lsn", "commit_lsn", "source_ts_ms", "source_ts_us", "source_ts_ns")
_DELETED = "__deleted"  # whatever the prefix is
_WITH_OP = tuple(
    struct + name
    for name in ("lsn", "commit_lsn", "file", "scn", "ord", "ts_ms", "ts_us", "ts_ns")
    for struct in ("", "source_")
)


@dataclass(frozen=True)
class MetaFields:
    """The fields of a record's metadata; None for what it lacks.

    In a `flattened` record they are fields of the record. In an `envelope`, `op` is a field of the record, and
    `source_ts_ms` and the position's fields are fields of its `source`.
    """

    op: str | None
    deleted: str | None
    source_ts_ms: str | None
    position: PositionFields


_INFERRED = ("sluice.csv.", "sluice.json.")  # names of the schemas that `sluice_formats` makes of values
_MADE = (*_INFERRED, "sluice.parquet.")


@dataclass(frozen=True)
class WriterSchema:
    """A writer schema as Sluice reads it. `untyped` objects say no types (CSV, JSON without a schema).

    `defaults` are the values that it declares for columns, by the writer's names, in the form of Avro's JSON; None for
    a schema that was made of an object's values or types.
    """

    shape: str
    row: RowSchema
    meta: MetaFields
    fingerprint: str
    untyped: bool = False
    defaults: Mapping[str, Any] | None = dataclasses.field(default=None, compare=False)

    @property
    def of_changes(self) -> bool:
        """Whether its records are changes of a log, Debezium's, and not rows alone."""
        return self.shape != PLAIN

    @property
    def has_source_clock(self) -> bool:
        """Whether its times are the source's. `__ts_ms` is the connector's clock, later for a repeated change."""
        name = self.meta.source_ts_ms
        return name is not None and (self.shape == ENVELOPE or name.endswith("source_ts_ms"))


def fingerprint(schema: Any) -> str:
    """32 hexadecimal digits of the schema's canonical JSON (sorted keys, no spaces)."""
    text = json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def read_writer_schema(schema: Mapping[str, Any]) -> WriterSchema:
    """Read a writer schema (as JSON values).

    Raises UnusableSchema for anything but a record of uniquely named columns, and UnsupportedType for the first column
    that can't be stored.
    """
    types = NamedTypes(schema)
    record, _ = types.non_null(schema, "")  # an optional Connect schema is a union with null
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
    name = str(record.get("name"))
    defaults = None if name.startswith(_MADE) else _defaults(types, fields, shape)
    return WriterSchema(shape, row, meta, fingerprint(schema), name.startswith(_INFERRED), defaults)


def _defaults(types: NamedTypes, fields: Mapping[str, Mapping[str, Any]], shape: str) -> dict[str, Any]:
    if shape == ENVELOPE:
        row, _ = types.non_null(fields["after" if "after" in fields else "before"].get("type"), "after")
        fields = _fields(row)
    return {name: written["default"] for name, written in fields.items() if written.get("default") is not None}


def shape_of(schema: Mapping[str, Any]) -> str:
    """The shape of a record schema: FLATTENED, ENVELOPE or PLAIN."""
    return _shape(NamedTypes(schema), schema)


def _shape(types: NamedTypes, record: Mapping[str, Any]) -> str:
    """Only an envelope has records under its names: a table may have columns op, source, before and after."""
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
    """The fields that the connector added beside a flattened record's row; none for a plain record."""
    prefix = _prefix(names)
    found = frozenset(name for name in names if prefix is not None and _is_meta(name, prefix))
    if prefix in (None, DEFAULT_PREFIX) or any(prefix + name in found for name in _OF_TRANSACTION):
        return found
    return found - {prefix + "id"}  # MongoDB's `_id` under the prefix `_`; a transaction's id comes with its order


def _prefix(names: Sequence[Any]) -> str | None:
    """The prefix of the metadata fields, None when there are none.

    A prefix other than the default needs `op` and a log position or time. An empty prefix (`add.fields.prefix`) isn't
    recognized: columns `id`, `name` or `table` would become metadata.
    """
    present = {name for name in names if isinstance(name, str)}
    if (
        any(DEFAULT_PREFIX + name in present for name in ("op", *_ALONE))
        or detect(present, _under(DEFAULT_PREFIX)).kind != OFFSET_ONLY
    ):
        return DEFAULT_PREFIX
    for prefix in sorted(name[:-2] for name in present if name.endswith("op") and len(name) > len("op")):
        if any(prefix + name in present for name in _WITH_OP):
            return prefix
    return DEFAULT_PREFIX if _DELETED in present else None


def _under(prefix: str) -> tuple[str, str]:
    """The two prefixes of a field of the source block."""
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
    """The row is the type of `after` or `before`: the first defines it, the other refers to it."""
    rows = []
    for side in ("after", "before"):
        if side in fields:
            value, _ = types.non_null(fields[side].get("type"), side)
            if value["type"] != "record":
                raise UnusableSchema(
                    f"The envelope's {side} is {value['type']!r}, not a record", column=side, next_step=_NO_RECORD
                )
            fields_of_row = list(_fields(value).values())
            # A truncate in JSON without a schema shows no column.
            rows.append(_row(types, fields_of_row) if fields_of_row else RowSchema(()))
    if len({_compared(row.columns) for row in rows}) > 1:
        raise UnusableSchema("The envelope's before and after have different columns")
    source, _ = types.non_null(fields["source"].get("type"), "source")
    if source["type"] != "record":
        raise UnusableSchema(f"The envelope's source is {source['type']!r}, not a record", column="source")
    names = _fields(source)
    return rows[0], MetaFields("op", None, "ts_ms" if "ts_ms" in names else None, detect(names))


# https://debezium.io/documentation/reference/3.5/transformations/mongodb-event-flattening.html
_NO_RECORD = "Where MongoDB's connector writes documents as text, use ExtractNewDocumentState, which gives rows columns"


def _compared(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns without nullability and the writer's names of types, which don't change values."""
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
            raise UnusableSchema("A record's fields need unique names")
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
        written = sorted(field["name"][:100] for field in fields if stored_name(field["name"]) in alike)
        raise UnusableSchema(
            f"The source's columns {', '.join(map(repr, written))} would have the same name: "
            "a column's name has letters, digits and _ only",
            columns=written,
        )
    twice = sorted(name for name, count in Counter(name.lower() for name in names).items() if count > 1)
    if twice:
        written = sorted(field["name"][:100] for field in fields if stored_name(field["name"]).lower() in twice)
        raise UnusableSchema(
            f"The source's columns {', '.join(map(repr, written))} differ in case only; Spark and Glue can't "
            "distinguish them",
            columns=written,
        )
    if not names:
        raise UnusableSchema("The record has no data column")
    columns = Columns(types)
    made = [(columns.column(field["name"], field.get("type")), name) for field, name in zip(fields, names)]
    return RowSchema(
        tuple(column if column.name == name else replace(column, name=name, field=column.name) for column, name in made)
    )
