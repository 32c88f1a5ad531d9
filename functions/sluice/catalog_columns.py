"""The columns that the catalog tells of a table: from the Avro schema of its newest commit, in the words of Glue, Spark and Trino."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

from sluice import hidden_columns as hidden
from sluice.avro_columns import Columns
from sluice.avro_types import NamedTypes
from sluice.errors import SluiceError, UnsupportedType

COMMENT_CHARACTERS = 255  # of Glue; an update with a longer one fails as a whole
_NOT_IN_COMMENTS = re.compile(r"[^\t\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")

# Hudi's own columns, first in every file (HoodieRecord.HOODIE_META_COLUMNS of 0.15 and 1.0.2).
META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)

_COMMENTS: Mapping[str, str] = {
    hidden.DELETED: "Whether the source deleted the row", hidden.POSITION: "Where the change stands in the source's log; orders the changes of a row",
    hidden.OP: "The change: c created, u updated, d deleted, r read by a snapshot", hidden.SOURCE_TS_MS: "When the source made the change, milliseconds since 1970 UTC",
    hidden.OBJECT: "The bronze object that brought the change", hidden.OFFSET: "The change's offset in its Kafka partition", hidden.PARTITION: "The change's Kafka partition",
    hidden.OWED: "Columns whose value never came, and up to which position", hidden.BATCH: "The batch that merged the change",
    hidden.ROW: "The row's identity: its object and its number in it",
}  # fmt: skip

_SPARK_JSON: Mapping[str, str] = {"int": "integer", "bigint": "long"}  # the others have one name in SQL and in JSON
_TRINO: Mapping[str, str] = {
    "boolean": "boolean", "int": "integer", "bigint": "bigint", "float": "real", "double": "double", "string": "varchar",
    "binary": "varbinary", "date": "date", "timestamp": "timestamp(3)",
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")
_ARRAY = re.compile(r"array<(.*)>")


class UnusableCommitSchema(SluiceError):
    """A commit tells a schema that the catalog can't; facts: `table`."""

    code = "unusable_commit_schema"
    next_step = "Was the table written by something else? Sluice's own commits tell the schema of every column"


@dataclass(frozen=True)
class CatalogColumn:
    """A column: its name as stored, its type as Spark and Hive name it ("bigint", "array<string>"), and what is said of it."""

    name: str
    type: str
    nullable: bool = True
    comment: str = ""

    @property
    def glue_name(self) -> str:
        """Glue and its engines fold case."""
        return self.name.lower()


def columns_of_commit(table: str, schema: str, docs: Optional[Mapping[str, str]] = None) -> Tuple[CatalogColumn, ...]:
    """The columns of a table, Hudi's own first, from the Avro schema that a commit tells as JSON text.

    `docs` are comments by column that the source gives; a field's own `doc` comes before. Raises UnusableCommitSchema.
    """
    try:
        written: Any = json.loads(schema)
        maker = Columns(NamedTypes(written))
        made = [(maker.column(field["name"], field["type"]), field.get("doc")) for field in written["fields"]]
    except (ValueError, KeyError, TypeError, UnsupportedType) as error:
        raise UnusableCommitSchema(
            f"The newest commit of {table} has a schema that can't be read: {error}", table=table
        ) from error
    known = {**(docs or {}), **_COMMENTS}
    data = [
        CatalogColumn(
            column.name,
            column.spark_type,
            column.nullable,
            comment_text(doc if isinstance(doc, str) and doc else known.get(column.name, "")),
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
    """A comment as Glue takes it: 255 characters, no line breaks."""
    return _NOT_IN_COMMENTS.sub(" ", text).strip()[:COMMENT_CHARACTERS]


def spark_schema(columns: Tuple[CatalogColumn, ...], partition_by: Tuple[str, ...]) -> str:
    """Spark's JSON of the columns, those of the partition last, as Hudi's sync orders them. Without comments, as in Hudi 1.0.2."""
    ordered = [column for column in columns if column.name not in partition_by]
    by_name = {column.name: column for column in columns}
    ordered += [by_name.get(name, CatalogColumn(name, "string", False)) for name in partition_by]
    fields = [
        {"name": column.name, "type": _spark_json(column.type), "nullable": column.nullable, "metadata": {}}
        for column in ordered
    ]
    return json.dumps({"type": "struct", "fields": fields}, ensure_ascii=False, separators=(",", ":"))


def trino_type(name: str) -> str:
    """Trino's (and Athena's) name of a type: array<string> is array(varchar)."""
    items = _ARRAY.fullmatch(name)
    if items:
        return f"array({trino_type(items[1])})"
    return name if _DECIMAL.fullmatch(name) else _TRINO[name]


def counted_timestamps(name: str) -> str:
    """The type with timestamps as what files hold: microseconds since 1970 UTC."""
    return name.replace("timestamp", "bigint")


def shown_columns(columns: Tuple[CatalogColumn, ...]) -> Tuple[CatalogColumn, ...]:
    """What a view shows: the source's own columns."""
    kept = (*META_COLUMNS, *hidden.NAMES, hidden.ROW)
    return tuple(column for column in columns if column.name not in kept)


def _spark_json(name: str) -> Any:
    items = _ARRAY.fullmatch(name)
    if items:
        element: Dict[str, Any] = {"type": "array", "elementType": _spark_json(items[1]), "containsNull": True}
        return element
    return _SPARK_JSON.get(name, name)
