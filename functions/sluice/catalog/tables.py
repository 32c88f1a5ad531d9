"""The Glue table of a Hudi table: what Hudi's own Hive and Glue sync would say of it, and what marks it as Sluice's.

Read in Hudi 1.0.2 and 0.15: HiveSyncTool, AWSGlueCatalogSyncClient, SparkDataSourceTableUtils, HoodieInputFormatUtils.

The columns that the catalog tells of a table: from the Avro schema of its newest commit, in the words of Glue, Spark and Trino.

What a source says of its columns: the comments that came with a writer schema.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.changes import hidden_columns as hidden
from sluice.config.catalog import READ_OPTIMIZED, REAL_TIME, CatalogNames, CatalogRule, catalog_names
from sluice.config.setting import differences
from sluice.config.table import MOR, TableConfig
from sluice.errors import UnsupportedType, UnusableCommitSchema
from sluice.hudi.options import QUERY_AS_READ_OPTIMIZED
from sluice.names import stored_name
from sluice.schema.avro import ENVELOPE, shape_of
from sluice.schema.avro_types import Columns, NamedTypes

FORMAT = 1  # of what is written here: another number makes every table be looked at anew

EXTERNAL, VIEW = "EXTERNAL_TABLE", "VIRTUAL_VIEW"  # table types
INPUT_FORMAT = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
REAL_TIME_INPUT_FORMAT = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"

SPARK = "spark.sql."
LAST_COMMIT = "last_commit_time_sync"  # Hudi's name: another tool's sync goes on from it
OWNER, DEFINITION = "sluice.table", "sluice.definition"
PART_CHARACTERS = (
    4000  # of one part of Spark's schema; the metastore of Hive holds no longer value, and Hudi's default is the same
)

TableInput = dict[str, Any]  # as the Glue API takes it


@dataclass(frozen=True)
class Wish:
    """What the catalog should hold of one table. `location` is where it lies, `instant` the commit whose columns these are."""

    config: TableConfig
    names: CatalogNames
    location: str
    columns: tuple[CatalogColumn, ...]
    instant: str


def names_of(config: TableConfig) -> CatalogNames:
    """The catalog's names of a configured table. Raises InvalidConfiguration."""
    return catalog_names(config.catalog, config.database, config.name, merge_on_read=config.table_type == MOR)


def wished_table(wish: Wish, name: str, kind: str, *, synced: str | None) -> TableInput:
    """The Glue table of one kind. `synced` is the commit up to which its partitions are told, None before they are."""
    partition_by = wish.config.partition_by
    by_name = {column.name: column for column in wish.columns}
    keys = [by_name.get(field, CatalogColumn(field, "string")) for field in partition_by]
    parameters = {"EXTERNAL": "TRUE", OWNER: wish.config.table, **spark_properties(wish.columns, partition_by)}
    if synced is not None:
        parameters[LAST_COMMIT] = synced
    return {
        "Name": name,
        "TableType": EXTERNAL,
        "Parameters": parameters,
        "PartitionKeys": [_glue_column(column, kind) for column in keys],
        "StorageDescriptor": {
            "Columns": [_glue_column(column, kind) for column in wish.columns if column.name not in partition_by],
            "Location": wish.location,
            "InputFormat": REAL_TIME_INPUT_FORMAT if kind == REAL_TIME else INPUT_FORMAT,
            "OutputFormat": OUTPUT_FORMAT,
            "SerdeInfo": {
                "SerializationLibrary": SERDE,
                "Parameters": {
                    QUERY_AS_READ_OPTIMIZED: "true" if kind == READ_OPTIMIZED else "false",
                    "path": wish.location,
                    "serialization.format": "1",
                },
            },
        },
    }


def spark_properties(columns: tuple[CatalogColumn, ...], partition_by: tuple[str, ...]) -> dict[str, str]:
    """The properties by which Spark takes the table for a Hudi table with these columns."""
    schema = spark_schema(columns, partition_by)
    parts = [schema[start : start + PART_CHARACTERS] for start in range(0, len(schema), PART_CHARACTERS)]
    found = {"spark.sql.sources.provider": "hudi", "spark.sql.sources.schema.numParts": str(len(parts))}
    found.update({f"spark.sql.sources.schema.part.{number}": part for number, part in enumerate(parts)})
    if partition_by:
        found["spark.sql.partitionProvider"] = "catalog"
        found["spark.sql.sources.schema.numPartCols"] = str(len(partition_by))
        found.update({f"spark.sql.sources.schema.partCol.{number}": field for number, field in enumerate(partition_by)})
    return found


def owned(parameter: str) -> bool:
    """Whether a table's property is kept by the sync; all others are the user's."""
    return parameter in ("EXTERNAL", LAST_COMMIT, OWNER, DEFINITION, "presto_view") or parameter.startswith(
        ("spark.sql.sources.", "spark.sql.partitionProvider")
    )


def definition(table: Mapping[str, Any], config: TableConfig) -> str:
    """A hash of what the sync keeps of a table or view, and of the configuration that it follows from.

    Written with the table as a property: as long as it agrees with what is found, and no commit came, nothing is to be done.
    """
    storage = table.get("StorageDescriptor") or {}
    serde = storage.get("SerdeInfo") or {}
    parameters = table.get("Parameters") or {}
    kept = {
        "format": FORMAT,
        "table": config.table,
        "type": config.table_type,
        "partition_by": list(config.partition_by),
        "catalog": differences(config.catalog, CatalogRule()),
        "columns": [[column.get("Name"), column.get("Type")] for column in storage.get("Columns") or ()],
        "keys": [[column.get("Name"), column.get("Type")] for column in table.get("PartitionKeys") or ()],
        "storage": [
            storage.get("Location"),
            storage.get("InputFormat"),
            storage.get("OutputFormat"),
            serde.get("SerializationLibrary"),
        ],
        "serde": {
            name: value
            for name, value in (serde.get("Parameters") or {}).items()
            if name in (QUERY_AS_READ_OPTIMIZED, "path", "serialization.format")
        },
        "parameters": {
            name: value for name, value in parameters.items() if owned(name) and name not in (LAST_COMMIT, DEFINITION)
        },
        "view": table.get("ViewOriginalText"),
    }
    return hashlib.sha256(json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]


def _glue_column(column: CatalogColumn, kind: str) -> dict[str, str]:
    """Athena can't read a timestamp of a real-time table, so there it is the number that the files hold, and the view makes a timestamp of it."""
    made = {"Name": column.glue_name, "Type": counted_timestamps(column.type) if kind == REAL_TIME else column.type}
    return {**made, "Comment": column.comment} if column.comment else made


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


def columns_of_commit(table: str, schema: str, docs: Mapping[str, str] | None = None) -> tuple[CatalogColumn, ...]:
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


def spark_schema(columns: tuple[CatalogColumn, ...], partition_by: tuple[str, ...]) -> str:
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


def shown_columns(columns: tuple[CatalogColumn, ...]) -> tuple[CatalogColumn, ...]:
    """What a view shows: the source's own columns."""
    kept = (*META_COLUMNS, *hidden.NAMES, hidden.ROW)
    return tuple(column for column in columns if column.name not in kept)


def _spark_json(name: str) -> Any:
    items = _ARRAY.fullmatch(name)
    if items:
        element: dict[str, Any] = {"type": "array", "elementType": _spark_json(items[1]), "containsNull": True}
        return element
    return _SPARK_JSON.get(name, name)


def source_comments(schema: Any) -> dict[str, str]:
    """Comments by column of a writer schema (as JSON values); empty where it has none, or can't be understood.

    Debezium sends a column's comment with `include.schema.comments`; Confluent's converter writes it as the field's `doc` or as
    `connect.doc` of its type (AvroData of the schema registry's converter).
    """
    if not isinstance(schema, Mapping):
        return {}
    types = NamedTypes(schema)
    found: dict[str, str] = {}
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
                found[stored_name(str(field.get("name")))] = summary
    except (UnsupportedType, AttributeError, KeyError, TypeError):
        return {}  # admission says what is wrong with a schema; here it has no comments, no more
    return found
