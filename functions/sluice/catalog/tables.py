"""Makes the Glue tables of a Hudi table and of the Iceberg table beside it.

The first is what Hudi's own Hive and Glue sync would write, and Sluice's marks.

Follows HiveSyncTool, AWSGlueCatalogSyncClient, SparkDataSourceTableUtils and HoodieInputFormatUtils of Hudi 0.15 and
1.0.2.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.catalog.columns import CatalogColumn, counted_timestamps, spark_schema
from sluice.config.catalog import READ_OPTIMIZED, REAL_TIME, SNAPSHOT, CatalogNames, CatalogRule, catalog_names
from sluice.config.setting import differences
from sluice.config.table import MOR, TableConfig
from sluice.hudi.options import QUERY_AS_READ_OPTIMIZED
from sluice.iceberg.columns import glue_columns
from sluice.iceberg.metadata import instant_shown

FORMAT = 1  # of the definition; another number makes the next sync check every table

EXTERNAL, VIEW = "EXTERNAL_TABLE", "VIRTUAL_VIEW"  # table types
INPUT_FORMAT = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
REAL_TIME_INPUT_FORMAT = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"

SPARK = "spark.sql."
ATHENA_NATIVE = "athena_enable_native_hudi_connector_implementation"  # Athena's own connector, of Hudi 0.15.0
LAST_COMMIT = "last_commit_time_sync"  # Hudi's name, from which another tool's sync continues
OWNER, DEFINITION = "sluice.table", "sluice.definition"
METADATA_LOCATION = "metadata_location"  # Iceberg's name
_OWNED = ("EXTERNAL", LAST_COMMIT, OWNER, DEFINITION, "presto_view", "table_type", METADATA_LOCATION)
PART_CHARACTERS = 4000  # of a part of Spark's schema: the longest value in Hive's metastore, and Hudi's default

TableInput = dict[str, Any]  # in the form of the Glue API


@dataclass(frozen=True)
class Wish:
    """The state of a table that the catalog should show. `columns` are those of the commit `instant`."""

    config: TableConfig
    names: CatalogNames
    location: str
    columns: tuple[CatalogColumn, ...]
    instant: str


def names_of(config: TableConfig) -> CatalogNames:
    """The names of a configured table in the catalog. Raises InvalidConfiguration."""
    merge_on_read = config.table_type == MOR
    return catalog_names(
        config.catalog,
        config.database,
        config.name,
        merge_on_read=merge_on_read,
        iceberg=config.iceberg and not merge_on_read,
    )


def wished_table(wish: Wish, name: str, kind: str, *, synced: str | None) -> TableInput:
    """The Glue table of one kind. `synced` is the commit up to which its partitions are synced, None before that."""
    partition_by = wish.config.partition_columns
    by_name = {column.name: column for column in wish.columns}
    keys = [by_name.get(field, CatalogColumn(field, "string")) for field in partition_by]
    parameters = {"EXTERNAL": "TRUE", OWNER: wish.config.table, **spark_properties(wish.columns, partition_by)}
    if synced is not None:
        parameters[LAST_COMMIT] = synced
    if wish.config.catalog.athena_native is not None:
        parameters[ATHENA_NATIVE] = str(wish.config.catalog.athena_native).lower()
    return {
        "Name": name,
        "TableType": EXTERNAL,
        "Parameters": parameters,
        "PartitionKeys": [glue_column(column, kind) for column in keys],
        "StorageDescriptor": {
            "Columns": [glue_column(column, kind) for column in wish.columns if column.name not in partition_by],
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
    """The properties that make Spark read the table as a Hudi table with these columns."""
    schema = spark_schema(columns, partition_by)
    parts = [schema[start : start + PART_CHARACTERS] for start in range(0, len(schema), PART_CHARACTERS)]
    properties = {"spark.sql.sources.provider": "hudi", "spark.sql.sources.schema.numParts": str(len(parts))}
    properties.update({f"spark.sql.sources.schema.part.{number}": part for number, part in enumerate(parts)})
    if partition_by:
        properties["spark.sql.partitionProvider"] = "catalog"
        properties["spark.sql.sources.schema.numPartCols"] = str(len(partition_by))
        properties.update(
            {f"spark.sql.sources.schema.partCol.{number}": field for number, field in enumerate(partition_by)}
        )
    return properties


def owned(parameter: str) -> bool:
    """True for a table property that the sync maintains. All others are the user's."""
    return parameter in _OWNED or parameter.startswith(("spark.sql.sources.", "spark.sql.partitionProvider"))


def definition(table: Mapping[str, Any], config: TableConfig) -> str:
    """A hash of the parts of a table or view that the sync maintains, and of their configuration.

    It is a property of the table. As long as it matches the table and no commit is new, nothing needs to change.
    """
    storage = table.get("StorageDescriptor") or {}
    serde = storage.get("SerdeInfo") or {}
    parameters = table.get("Parameters") or {}
    defined = {
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
            name: value
            for name, value in parameters.items()
            if owned(name)
            and name not in (LAST_COMMIT, DEFINITION)
            or name == ATHENA_NATIVE
            and config.catalog.athena_native is not None
        },
        "view": table.get("ViewOriginalText"),
    }
    return hashlib.sha256(json.dumps(defined, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]


def glue_column(column: CatalogColumn, kind: str = SNAPSHOT) -> dict[str, str]:
    """A column in Glue's form.

    Athena can't read timestamps of a real-time table. There the column is the number that the files hold, and the view
    converts it.
    """
    made = {"Name": column.glue_name, "Type": counted_timestamps(column.type) if kind == REAL_TIME else column.type}
    return {**made, "Comment": column.comment} if column.comment else made


def iceberg_table(
    config: TableConfig, name: str, *, location: str, metadata_location: str, metadata: Mapping[str, Any]
) -> TableInput:
    """The Glue table of the Iceberg table whose metadata is at `metadata_location`, as Iceberg's own catalog has it."""
    columns = [{"Name": column.lower(), "Type": kind} for column, kind in glue_columns(metadata)]
    return {
        "Name": name,
        "TableType": EXTERNAL,
        "Parameters": {
            "EXTERNAL": "TRUE",
            OWNER: config.table,
            "table_type": "ICEBERG",
            METADATA_LOCATION: metadata_location,
            LAST_COMMIT: str(instant_shown(metadata)),
        },
        "PartitionKeys": [],
        "StorageDescriptor": {"Columns": columns, "Location": location},
    }
