"""Refuses the data files of Delta and Iceberg tables: they hold states, and a row deleted later would stay alive."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.admission.routing import PARQUET
from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import ObjectError
from sluice.config.table import TableConfig
from sluice_aws.s3.objects import Objects
from sluice_formats.errors import DeletionsUnmarked


def refused_files(s3: Objects, objects: Sequence[ManifestObject], config: TableConfig) -> list[ObjectError]:
    """The objects that lie in the folder of such a table, where the rule says nothing of deletions.

    Lists one prefix for each folder: for a table's first load, without which there is no second.
    """
    rule = config.marks_of_rows
    if config.append_only or not rule.on or rule.marks:
        return []
    owners: dict[tuple[str, str], str | None] = {}
    errors = []
    for item in objects:
        root = (item.bucket, _root(item.key))
        if item.format == PARQUET and root not in owners:
            owners[root] = _owner(s3, *root)
        owner = owners.get(root) if item.format == PARQUET else None
        if owner is not None:
            error = DeletionsUnmarked(
                f"The object is a data file of {owner} table: rows that are deleted there later would stay alive",
                next_step="Let the table's changes be written into the topic instead (Delta: its change data feed); or "
                "set `delete_when: off` if no row is ever deleted, push it, and retry",
                column="",
                values=[],
            )
            errors.append(ObjectError.of(item.id.hash, error))
    return errors


def _root(key: str) -> str:
    """The folder of a table's file: without folders of partition values."""
    folders = key.split("/")[:-1]
    while folders and "=" in folders[-1]:
        folders.pop()
    return "/".join(folders)


def _owner(s3: Objects, bucket: str, root: str) -> str | None:
    if next(s3.keys(bucket, f"{root}/_delta_log/"), None) is not None:
        return "a Delta"
    parent, _, last = root.rpartition("/")
    metadata = s3.keys(bucket, f"{parent}/metadata/") if last == "data" else ()
    return "an Iceberg" if any(key.endswith(".metadata.json") for key in metadata) else None
