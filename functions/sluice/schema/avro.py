"""Reads a writer schema: the shape of its records, their data columns, and the fields of their metadata."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Union

from sluice.changes.dialect import ENVELOPES, ROWS, ChangeDialect
from sluice.changes.dialects.nested import SENT, CaptureDialect, TypedForm
from sluice.changes.dialects.varied_envelopes import NEXT_STEP as YUGABYTEDB_STEP
from sluice.changes.dialects.varied_envelopes import RANGE
from sluice.changes.hidden_columns import colliding
from sluice.changes.position import MONGODB, MYSQL, OFFSET_ONLY, ORACLE, POSTGRES, SQLSERVER, PositionFields, detect
from sluice.config.values import SHAPES, SOURCE_WORDS
from sluice.errors import UnsupportedType, UnusableSchema
from sluice.names import stored_name
from sluice.schema.avro_types import Columns, NamedTypes, is_null
from sluice.schema.columns import Column, RowSchema

# Before, after, source and op; the row of Debezium's ExtractNewRecordState with metadata beside it; a row alone.
ENVELOPE, FLATTENED, PLAIN = SHAPES

MAX_COLUMNS = 4_096

DEFAULT_PREFIX = "__"
# Fields that ExtractNewRecordState can add beside a row (`add.fields`): their names after the prefix, alone or with
# the struct they come from (`source.ts_ms` becomes `__source_ts_ms`). Those of each connector's `source` alone:
# https://debezium.io/documentation/reference/3.5/transformations/event-flattening.html
_OF_CONNECTOR: dict[str, frozenset[str]] = {
    POSTGRES: frozenset("txId lsn xmin origin origin_lsn".split()),
    MYSQL: frozenset("server_id gtid file pos row thread query".split()),
    SQLSERVER: frozenset("change_lsn commit_lsn event_serial_no".split()),
    ORACLE: frozenset(
        "txId scn commit_scn lcr_position rs_id ssn redo_thread user_name redo_sql row_id start_scn start_ts_ms "
        "commit_ts_ms txSeq".split()
    ),
    MONGODB: frozenset("rs collection ord lsid txnNumber stxnid wallTime".split()),
}
_CLOCKS = ("ts_ms", "ts_us", "ts_ns")
_EVERY_SOURCE = frozenset((*_CLOCKS, *"snapshot db sequence schema table".split()))
_SELF_NAMED = ("version", "name")  # of the connector, beside its kind (`connector`): common names of columns
_SOURCE_NAMES = _EVERY_SOURCE.union(("connector", *_SELF_NAMED), *_OF_CONNECTOR.values())
_OF_TRANSACTION = ("total_order", "data_collection_order")
_META_NAMES = frozenset(
    (
        *(f"source_{name}" for name in _SOURCE_NAMES),
        *("op", "deleted", *_OF_TRANSACTION),
        *("transaction_id", "transaction_total_order", "transaction_data_collection_order"),
    )
)
# Names that a column of the source's own may have too: of such fields it is said that they are left out.
_ORDINARY = frozenset(("connector", "id", *_SELF_NAMED, *_EVERY_SOURCE, *chain(*_OF_CONNECTOR.values()))) - {*_CLOCKS}
_TEXTS = frozenset("version connector name db schema table collection gtid file query user_name redo_sql rs".split())
# Fields that mark a prefix as metadata: of the default prefix each alone, of any other beside an `op`.
_ALONE = ("lsn", "source_lsn", "commit_lsn", "source_ts_ms", "source_ts_us", "source_ts_ns")
_DELETED = "__deleted"  # whatever the prefix is


@dataclass(frozen=True)
class MetaFields:
    """The fields of a record's metadata; None for what it lacks.

    In a `flattened` record they are fields of the record. In an `envelope`, `op` is a field of the record, and
    `source_ts_ms`, the position's fields and `source_fields` are fields of its `source`. `source_fields` has the fields
    that say where a change is from, by their words in SOURCE_WORDS. `sent` has the columns that an update brings.
    """

    op: str | None
    deleted: str | None
    source_ts_ms: str | None
    position: PositionFields
    source_fields: tuple[tuple[str, str], ...] = ()
    sent: str | None = None

    @property
    def source_table(self) -> tuple[str, ...]:
        """The fields with the database, the schema and the table, "" for one that is absent; empty without a table."""
        fields = dict(self.source_fields)
        return tuple(fields.get(word, "") for word in ("db", "schema", "table")) if "table" in fields else ()


_INFERRED = ("sluice.csv.", "sluice.json.")  # names of the schemas that `sluice_formats` makes of values
_MADE = (*_INFERRED, "sluice.parquet.")
MESSAGES = "sluice.messages"  # attribute of the envelope's record in a schema that was made of messages alone


@dataclass(frozen=True)
class WriterSchema:
    """A writer schema as Sluice reads it. `untyped` objects say no types (CSV, JSON without a schema).

    `defaults` are the values that it declares for columns, by the writer's names, in the form of Avro's JSON; None for
    a schema that was made of an object's values or types. `typed` says how records in the form of a dialect become the
    envelopes that the rest is of. `left_out` are fields of the connector's metadata that are neither columns nor read,
    though a source's own column may be named so. `messages` says that no record concerns rows.
    """

    shape: str
    row: RowSchema
    meta: MetaFields
    fingerprint: str
    untyped: bool = False
    defaults: Mapping[str, Any] | None = dataclasses.field(default=None, compare=False)
    left_out: tuple[str, ...] = ()
    typed: TypedForm | None = dataclasses.field(default=None, compare=False)
    messages: bool = False

    def left_out_of(self, words: Collection[str]) -> tuple[str, ...]:
        """`left_out`, without the metadata that a table has columns of (`TableConfig.source_words`)."""
        taken = {field for word, field in self.meta.source_fields if word in words}
        return tuple(name for name in self.left_out if name not in taken)

    @property
    def dialect(self) -> ChangeDialect:
        return ENVELOPES if self.shape == ENVELOPE else ROWS

    @property
    def of_changes(self) -> bool:
        """Whether its records are changes of a log, Debezium's, and not rows alone."""
        return self.shape != PLAIN

    @property
    def has_source_clock(self) -> bool:
        """Whether its times are the source's. `__ts_ms` is the connector's clock, later for a repeated change."""
        name = self.meta.source_ts_ms
        return name is not None and (self.shape == ENVELOPE or name.endswith("source_ts_ms"))


WriterForm = Union[str, CaptureDialect, None]  # what a rule says of records: one of SHAPES, or a dialect


def left_out_note(names: Sequence[str]) -> str:
    """Says which fields are left out of a table; `names` are those of `WriterSchema.left_out`."""
    return f"left out of the table as the connector's metadata: {', '.join(names)}"


def fingerprint(schema: Any) -> str:
    """32 hexadecimal digits of the schema's canonical JSON (sorted keys, no spaces)."""
    text = json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def read_writer_schema(schema: Mapping[str, Any], form: WriterForm = None) -> WriterSchema:
    """Read a writer schema (as JSON values). `form` is that of the table's rule; without one its fields tell it.

    Raises UnusableSchema for anything but a record of uniquely named columns, and UnsupportedType for the first column
    that can't be stored.
    """
    types = NamedTypes(schema)
    record, _ = types.non_null(schema, "")  # an optional Connect schema is a union with null
    if record["type"] == "bytes":
        raise UnusableSchema(
            "The records are bytes, as Kafka has them: messages that a registry's serializer wrote are in the wire "
            "format of Confluent or AWS Glue, without their schema",
            next_step="Let the sink decode the messages: value.converter AvroConverter with the registry's address, in "
            "place of ByteArrayConverter",
        )
    if record["type"] != "record":
        raise UnusableSchema(f"The schema is {record['type']!r}, not a record", source_type=str(record["type"]))
    fields = _fields(record)
    if {"specversion", "data", "iodebeziumop"} <= fields.keys():
        raise UnusableSchema(
            "The records are CloudEvents of Debezium, whose row lies in `data`: only their JSON is read",
            column="data",
            next_step="Let the connector write its own envelope or flattened rows (AvroConverter, JsonConverter)",
        )
    name = str(record.get("name"))
    if form is not None and not isinstance(form, str):
        if not name.startswith(_INFERRED):
            return _typed_writer(types, record, form, fingerprint(schema))
        form = None  # its values were in an envelope already
    shape = form or _shape(types, record)
    meta_names: frozenset[str] = frozenset()
    prefix: str | None = None
    if shape == ENVELOPE:
        row, meta = _envelope(types, fields, untyped=name.startswith(_INFERRED))
    else:
        prefix = _prefix(list(fields)) if shape == FLATTENED else None
        if shape == FLATTENED and prefix is None:
            raise UnusableSchema("The records have no metadata of ExtractNewRecordState beside their rows")
        added = metadata_names(list(fields)) if shape == FLATTENED else ()
        meta_names = frozenset(
            name for name in added if name.removeprefix(prefix or "") not in _TEXTS or _is_text(types, fields[name])
        )
        row = _row(types, [field for name, field in fields.items() if name not in meta_names])
        meta = _flattened_meta(meta_names, prefix)
        if prefix is not None:  # a rule that names one of them says what it is, also without the company of others
            meta = replace(meta, source_fields=_source_fields(fields, _under(prefix)))
    ordinary = {name for name in meta_names if name.removeprefix(prefix or "") in _ORDINARY}
    unused = ordinary - {meta.op, meta.deleted, meta.source_ts_ms, *meta.position.names}
    defaults = None if name.startswith(_MADE) else _defaults(types, fields, shape)
    return WriterSchema(
        shape,
        row,
        meta,
        fingerprint(schema),
        name.startswith(_INFERRED),
        defaults,
        tuple(sorted(unused)),
        messages=bool(record.get(MESSAGES)),
    )


def _typed_writer(types: NamedTypes, record: Mapping[str, Any], dialect: CaptureDialect, mark: str) -> WriterSchema:
    """The schema of records with types in the form of a dialect, whose changes will be envelopes."""
    form = dialect.typed(_fields(record).keys())
    rows = (_record_at(types, record, path) for path in (() if form is None else form.rows))
    fields = next((list(_fields(row).values()) for row in rows if row is not None), None)
    if form is None or fields is None:
        raise UnusableSchema(
            f"The records are no changes in the form `{dialect.name}`, which the table's rule says, with columns in a "
            "record: of such changes only JSON without a schema is read",
            next_step="Let the writer write JSON without a schema, or take out what the rule says of their form",
        )
    row = _row(types, [field for field in fields if not form.own(field["name"])])
    source = form.source
    sent, time = (name if name in source else None for name in (SENT, "ts_ms"))
    meta = MetaFields("op", None, time, detect(source), _source_fields(source, ("",)), sent)
    return WriterSchema(ENVELOPE, row, meta, mark, typed=form)


def _record_at(types: NamedTypes, record: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """The record at a path of fields; None where there is none."""
    for name in path.split(".") if path else ():
        field = _fields(record).get(name)
        if field is None or not types.is_record(field.get("type")):
            return None
        record, _ = types.non_null(field.get("type"), name)
    return record


def _defaults(types: NamedTypes, fields: Mapping[str, Mapping[str, Any]], shape: str) -> dict[str, Any]:
    if shape == ENVELOPE:
        row, _ = types.non_null(fields["after" if "after" in fields else "before"].get("type"), "after")
        fields = _fields(row)
    return {name: written["default"] for name, written in fields.items() if written.get("default") is not None}


def shape_of(schema: Mapping[str, Any]) -> str:
    """The shape of a record schema: FLATTENED, ENVELOPE or PLAIN."""
    return _shape(NamedTypes(schema), schema)


def _shape(types: NamedTypes, record: Mapping[str, Any]) -> str:
    """Only an envelope has records under its names, and no metadata of a flattened row beside them.

    A table may have columns op, source, before and after.
    """
    written = {field.get("name"): field.get("type") for field in record.get("fields", ()) if isinstance(field, Mapping)}
    sides = {"before", "after"} & set(written)
    if (
        {"op", "source"} <= set(written)
        and sides
        and any(types.is_record(written[name]) for name in ("source", *sides))
        and _prefix(list(written)) is None
    ):
        return ENVELOPE
    return PLAIN if _prefix(list(written)) is None else FLATTENED


def metadata_names(names: Sequence[str]) -> frozenset[str]:
    """The fields that the connector added beside a flattened record's row; none for a plain record.

    A field is one by its company: by the position that tells the connector, or by two names that only it has.
    """
    prefix = _prefix(names)
    if prefix is None:
        return frozenset()
    present = {name[len(prefix) :] for name in names if name.startswith(prefix)}
    kind = detect(names, _under(prefix)).kind
    added = {*_META_NAMES, *_EVERY_SOURCE, "connector"}
    for connector, own in _OF_CONNECTOR.items():
        if kind == connector or kind == OFFSET_ONLY and len(own & present) > 1:
            added |= own
    if not present.isdisjoint(("connector", "source_connector")):
        added.update(_SELF_NAMED)
    if not present.isdisjoint(_OF_TRANSACTION):
        added.add("id")  # the transaction's
    return frozenset(
        name for name in names if name == _DELETED or name.startswith(prefix) and name[len(prefix) :] in added
    )


def _prefix(names: Sequence[Any]) -> str | None:
    """The prefix of the metadata fields, None when there are none.

    A prefix other than the default needs `op` and a whole log position, a field of the source by its struct, or
    Debezium's mark of deletions beside a time. An empty prefix (`add.fields.prefix`) isn't recognized: columns `id`,
    `name` or `table` would become metadata.
    """
    present = {name for name in names if isinstance(name, str)}
    if (
        any(DEFAULT_PREFIX + name in present for name in ("op", *_ALONE))
        or detect(present, _under(DEFAULT_PREFIX)).kind != OFFSET_ONLY
    ):
        return DEFAULT_PREFIX
    for prefix in sorted(name[:-2] for name in present if name.endswith("op") and len(name) > len("op")):
        if (
            detect(present, _under(prefix)).kind != OFFSET_ONLY
            or any(f"{prefix}source_{name}" in present for name in _SOURCE_NAMES)
            or _DELETED in present
            and any(prefix + name in present for name in _CLOCKS)
        ):
            return prefix
    return DEFAULT_PREFIX if _DELETED in present else None


def _under(prefix: str) -> tuple[str, str]:
    """The two prefixes of a field of the source block."""
    return (prefix, prefix + "source_")


def _is_text(types: NamedTypes, field: Mapping[str, Any]) -> bool:
    try:
        return types.non_null(field.get("type"), "")[0]["type"] in ("string", "bytes", "enum")
    except UnsupportedType:
        return False


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


def _source_fields(names: Any, prefixes: Sequence[str]) -> tuple[tuple[str, str], ...]:
    fields = ((word, next((at + word for at in prefixes if at + word in names), "")) for word in SOURCE_WORDS)
    return tuple((word, field) for word, field in fields if field)


# What the changes of a product lack where they bring types, by a field of their source.
_LACKING = {
    "value_capture_type": ("Cloud Spanner", "updates may lack columns"),
    "keyspace_name": ("ScyllaDB", "updates may lack columns"),
    "changefeed_sink": ("CockroachDB", "order, and deletions' key, lie in fields of its own"),
}


def _envelope(
    types: NamedTypes, fields: dict[str, Mapping[str, Any]], *, untyped: bool
) -> tuple[RowSchema, MetaFields]:
    """The row is the type of `after` or `before`: the first defines it, the other refers to it."""
    rows = []
    for mark, (product, lacking) in _LACKING.items():
        if not untyped and types.is_record(source := fields.get("source", {}).get("type")):
            if mark in _fields(types.non_null(source, "source")[0]):
                raise UnusableSchema(
                    f"The changes are {product}'s, whose {lacking}: only JSON without a schema is read",
                    column="source",
                    next_step="Let the connector write JSON without schemas (schemas.enable=false; of a changefeed "
                    "enriched_properties='source' alone), and upload the objects again",
                )
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
    if not rows or not {"source", "op"} <= fields.keys():
        raise UnusableSchema("The records are no envelopes: they lack `op`, `source`, or both `before` and `after`")
    source, _ = types.non_null(fields["source"].get("type"), "source")
    if source["type"] != "record":
        raise UnusableSchema(f"The envelope's source is {source['type']!r}, not a record", column="source")
    columns = [column for column in rows[0].columns if column.written_name not in RANGE]
    cells = ([field.name for field in column.fields if field.name != "deletion_ts"] for column in columns)
    if columns and all(names == ["value", "set"] for names in cells):
        raise UnusableSchema(
            "The columns of the rows are records of `value` and `set`, as YugabyteDB's and Cassandra's connectors "
            "write them: only their JSON without a schema is read",
            column="after",
            next_step=YUGABYTEDB_STEP,
        )
    names = _fields(source)
    time = "ts_ms" if "ts_ms" in names else None
    sent = SENT if SENT in names else None
    return rows[0], MetaFields("op", None, time, detect(names), _source_fields(names, ("",)), sent)


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
    fields_by_name: dict[str, Mapping[str, Any]] = {}
    for field in fields:
        if not isinstance(field, Mapping) or not isinstance(field.get("name"), str) or field["name"] in fields_by_name:
            raise UnusableSchema("A record's fields need unique names")
        fields_by_name[field["name"]] = field
    return fields_by_name


def _row(types: NamedTypes, fields: Sequence[Mapping[str, Any]]) -> RowSchema:
    fields = [field for field in fields if not is_null(field.get("type"))]  # such a column waits for its type
    names = [stored_name(field["name"]) for field in fields]
    taken = colliding(names)
    if taken:
        raise UnusableSchema(
            f"The source's columns {', '.join(taken)} have names that Sluice or Hudi uses", columns=list(taken)
        )
    for compared, wrong in (
        (names, "would have the same name: a column's name has letters, digits and _ only"),
        ([name.lower() for name in names], "differ in case only; Spark and Glue can't distinguish them"),
    ):
        counts = Counter(compared)
        written = sorted(field["name"][:100] for field, name in zip(fields, compared) if counts[name] > 1)
        if written:
            raise UnusableSchema(f"The source's columns {', '.join(map(repr, written))} {wrong}", columns=written)
    if not names:
        raise UnusableSchema("The record has no data column")
    columns = Columns(types)
    made = [(columns.column(field["name"], field.get("type")), name) for field, name in zip(fields, names)]
    return RowSchema(
        tuple(column if column.name == name else replace(column, name=name, field=column.name) for column, name in made)
    )
