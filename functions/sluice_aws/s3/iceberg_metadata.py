"""Reads the metadata of the Iceberg tables beside silver tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sluice.iceberg.metadata import FOLDER, METADATA, VERSION_HINT, metadata_name
from sluice_aws.s3.silver_files import SilverFiles
from sluice_aws.s3.timelines import table_prefix


def newest_metadata(files: SilverFiles, table: str) -> tuple[str, Mapping[str, Any]] | None:
    """Name and content of the newest metadata file of `database.table`; None where it has no Iceberg table."""
    folder = f"{table_prefix(table)}{FOLDER}/{METADATA}/"
    hint = files.read(folder + VERSION_HINT)
    name = None if hint is None else metadata_name(int(hint))
    body = None if name is None else files.read(folder + name)
    return None if name is None or body is None else (name, json.loads(body))
