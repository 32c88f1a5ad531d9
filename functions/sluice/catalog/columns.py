"""Describes a table's columns for the catalog: its newest commit's Avro schema in types of Glue, Spark and Trino."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.changes import hidden_columns as hidden
from sluice.errors import UnsupportedType, UnusableCommitSchema
from sluice.names import stored_name
from sluice.schema.avro import ENVELOPE, shape_of
from sluice.schema.avro_types import Columns, NamedTypes

COMMENT_CHARACTERS = 255  # Glue's limit; a longer comment fails the whole update
_NOT_IN_COMMENTS = re.compile(r"[^\t\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")

# Hudi's own columns, the first ones of every file (HoodieRecord.HOODIE_META_COLUMNS of 0.15 and 1.0.2).
META_COLUMNS = tuple(
    f"_hoodie_{name}" for name in "commit_time commit_seqno record_key partition_path file_name".split()
)

_COMMENTS: Mapping[str, str] = {
    hidden.DELETED: "Whether the source deleted the row",
    hidden.POSITION: "The change's place in the source's log; orders the changes of a row",
    hidden.OP: "The change: c created, u updated, d deleted, r read by a snapshot",
    hidden.SOURCE_TS_MS: "When the source made the change, milliseconds since 1970 UTC",
    hidden.OBJECT: "The bronze object that holds the change",
    hidden.OFFSET: "The change's offset in its Kafka partition",
    hidden.PARTITION: "The change's Kafka partition",
    hidden.OWED: "Columns whose value is still missing, and up to which position",
    hidden.BATCH: "The batch that merged the change",
    hidden.SOURCE: "The source table of the change: database, schema and table",
    hidden.ROW: "The row's identity: its object and its number in it",
}

_SPARK_JSON: Mapping[str, str] = {"int": "integer", "bigint": "long"}  # all other types have one name in SQL and JSON
_TRINO: Mapping[str, str] = {
    "boolean": "boolean",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double",
    "string": "varchar",
    "binary": "varbinary",
    "date": "date",
    "timestamp": "timestamp(3)",
}
_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")
_ARRAY = re.compile(r"array<(.*)>")


@dataclass(frozen=True)
class CatalogColumn:
    """A column with its stored name and its type as Spark and Hive name it ("bigint", "array<string>")."""

    name: str
    type: str
    nullable: bool = True
    comment: str = ""

    @property
    def glue_name(self) -> str:
        """The name in Glue, whose engines fold case."""
        return self.name.lower()


def columns_of_commit(table: str, schema: str, docs: Mapping[str, str] | None = None) -> tuple[CatalogColumn, ...]:
    """The columns of a table, Hudi's own first, from the Avro schema of a commit (JSON text).

    `docs` holds comments of the source by column; a field's own `doc` precedes them. Raises UnusableCommitSchema.
    """
    try:
        written: Any = json.loads(schema)
        maker = Columns(NamedTypes(written))
        made = [(maker.column(field["name"], field["type"]), field.get("doc")) for field in written["fields"]]
    except (ValueError, KeyError, TypeError, UnsupportedType) as error:
        raise UnusableCommitSchema(
            f"The newest commit of {table} has a schema that can't be read: {error}", table=table
        ) from error
    comments = {**(docs or {}), **_COMMENTS}
    data = [
        CatalogColumn(
            column.name,
            column.spark_type,
            column.nullable,
            comment_text(doc if isinstance(doc, str) and doc else comments.get(column.name, "")),
        )
        for column, doc in made
    ]
    folded = [column.glue_name for column in data]
    if len(set(folded)) < len(folded):
        raise UnusableCommitSchema(
            f"Two columns of {table} differ in case only, which the catalog can't tell apart", table=table
        )
    meta = tuple(CatalogColumn(name, "string", True, "") for name in META_COLUMNS if name not in folded)
    return meta + tuple(data)


def comment_text(text: str) -> str:
    """A comment that Glue accepts: at most 255 characters, no line breaks."""
    return _NOT_IN_COMMENTS.sub(" ", text).strip()[:COMMENT_CHARACTERS]


def spark_schema(columns: tuple[CatalogColumn, ...], partition_by: tuple[str, ...]) -> str:
    """Spark's JSON of the columns, partition columns last and without comments, as Hudi 1.0.2 writes it."""
    ordered = [column for column in columns if column.name not in partition_by]
    by_name = {column.name: column for column in columns}
    ordered += [by_name.get(name, CatalogColumn(name, "string", False)) for name in partition_by]
    fields = [
        {"name": column.name, "type": _spark_json(column.type), "nullable": column.nullable, "metadata": {}}
        for column in ordered
    ]
    return json.dumps({"type": "struct", "fields": fields}, ensure_ascii=False, separators=(",", ":"))


def trino_type(name: str) -> str:
    """The name of a type in Trino and Athena: `array<string>` becomes `array(varchar)`."""
    items = _ARRAY.fullmatch(name)
    if items:
        return f"array({trino_type(items[1])})"
    return name if _DECIMAL.fullmatch(name) else _TRINO[name]


def counted_timestamps(name: str) -> str:
    """The type with timestamps as files hold them: microseconds since 1970 UTC."""
    return name.replace("timestamp", "bigint")


def shown_columns(columns: tuple[CatalogColumn, ...]) -> tuple[CatalogColumn, ...]:
    """The columns that a view shows: the source's own."""
    technical = (*META_COLUMNS, *hidden.NAMES, hidden.ROW)
    return tuple(column for column in columns if column.name not in technical)


def _spark_json(name: str) -> Any:
    items = _ARRAY.fullmatch(name)
    if items:
        element: dict[str, Any] = {"type": "array", "elementType": _spark_json(items[1]), "containsNull": True}
        return element
    return _SPARK_JSON.get(name, name)


def source_comments(schema: Any) -> dict[str, str]:
    """The comments in a writer schema (JSON values), by column; none for a schema that can't be read.

    Debezium sends column comments with `include.schema.comments`. Confluent's converter writes them as the field's
    `doc` or its type's `connect.doc` (AvroData of the schema registry's converter).
    """
    if not isinstance(schema, Mapping):
        return {}
    types = NamedTypes(schema)
    comments: dict[str, str] = {}
    try:
        record = types.resolve(schema, "")
        if shape_of(record) == ENVELOPE:
            sides = {
                field["name"]: field["type"] for field in record["fields"] if field.get("name") in ("after", "before")
            }
            record, _ = types.non_null(sides.get("after", sides.get("before")), "after")
        for field in record.get("fields", ()):
            kind, _ = types.non_null(field.get("type"), str(field.get("name")))
            summary = field.get("doc") or kind.get("connect.doc")
            if isinstance(summary, str):
                comments[stored_name(str(field.get("name")))] = summary
    except (UnsupportedType, AttributeError, KeyError, TypeError):
        return {}  # admission reports an unusable schema
    return comments
