"""The Glue table of a Hudi table: what Hudi's own Hive and Glue sync would say of it, and what marks it as Sluice's.

Read in Hudi 1.0.2 and 0.15: HiveSyncTool, AWSGlueCatalogSyncClient, SparkDataSourceTableUtils, HoodieInputFormatUtils.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

from sluice.catalog_columns import CatalogColumn, counted_timestamps, spark_schema
from sluice.catalog_names import READ_OPTIMIZED, REAL_TIME, CatalogNames, catalog_names
from sluice.hudi_options import QUERY_AS_READ_OPTIMIZED
from sluice.table_config import MOR, TableConfig

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

TableInput = Dict[str, Any]  # as the Glue API takes it


@dataclass(frozen=True)
class Wish:
    """What the catalog should hold of one table. `location` is where it lies, `instant` the commit whose columns these are."""

    config: TableConfig
    names: CatalogNames
    location: str
    columns: Tuple[CatalogColumn, ...]
    instant: str


def names_of(config: TableConfig) -> CatalogNames:
    """The catalog's names of a configured table. Raises InvalidConfiguration."""
    return catalog_names(config.catalog, config.database, config.name, merge_on_read=config.table_type == MOR)


def wished_table(wish: Wish, name: str, kind: str, *, synced: Optional[str]) -> TableInput:
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


def spark_properties(columns: Tuple[CatalogColumn, ...], partition_by: Tuple[str, ...]) -> Dict[str, str]:
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
        "catalog": config.catalog.changed(),
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


def _glue_column(column: CatalogColumn, kind: str) -> Dict[str, str]:
    """Athena can't read a timestamp of a real-time table, so there it is the number that the files hold, and the view makes a timestamp of it."""
    made = {"Name": column.glue_name, "Type": counted_timestamps(column.type) if kind == REAL_TIME else column.type}
    return {**made, "Comment": column.comment} if column.comment else made
