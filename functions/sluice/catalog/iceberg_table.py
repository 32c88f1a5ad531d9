"""Makes the Glue table of the Iceberg table beside a Hudi table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.catalog.tables import EXTERNAL, LAST_COMMIT, METADATA_LOCATION, OWNER, TableInput
from sluice.config.table import TableConfig
from sluice.iceberg.columns import glue_columns
from sluice.iceberg.metadata import instant_shown


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
