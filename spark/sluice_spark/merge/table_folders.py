"""Refuses the data files of Delta and Iceberg tables: they hold states, and a row deleted later would stay alive."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from sluice.admission.routing import PARQUET
from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import ObjectError
from sluice.config.table import TableConfig
from sluice_aws.s3.objects import Objects
from sluice_formats.errors import DeletionsUnmarked

LISTS_AT_ONCE = 16
MOST_METADATA = 1_000  # keys of a page


# In the names that writers of such tables give their data files. Others beside a table's log aren't its files.
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def refused_files(
    s3: Objects, objects: Sequence[ManifestObject], config: TableConfig, *, first: bool
) -> list[ObjectError]:
    """The objects that lie in the folder of such a table, where the rule says nothing of deletions.

    Lists one prefix or two for each folder. Past a table's `first` commit it looks at folders of files that are named
    as such tables name theirs: a folder may become one, and most batches have no such file.
    """
    rule = config.marks_of_rows
    if config.append_only or not rule.on or rule.marks:
        return []
    files = {
        item: _root(item.key)
        for item in objects
        if item.format == PARQUET and (first or _UUID.search(item.key.rpartition("/")[2]))
    }
    roots = {(item.bucket, root) for item, root in files.items()}
    with ThreadPoolExecutor(min(LISTS_AT_ONCE, len(roots) or 1), thread_name_prefix="folders") as pool:
        owners = dict(zip(roots, pool.map(lambda place: _owner(s3, *place), roots)))
    errors = []
    for item, root in files.items():
        owner = owners[item.bucket, root]
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
    """The folder of a table's file with its slash: without folders of partition values, empty for the bucket's root."""
    folders = key.split("/")[:-1]
    while folders and "=" in folders[-1]:
        folders.pop()
    return "".join(f"{folder}/" for folder in folders)


def _owner(s3: Objects, bucket: str, root: str) -> str | None:
    if next(s3.keys(bucket, f"{root}_delta_log/"), None) is not None:
        return "a Delta"
    if root.endswith("/data/") or root == "data/":
        metadata = islice(s3.keys(bucket, f"{root[: -len('data/')]}metadata/"), MOST_METADATA)
        return "an Iceberg" if any(key.endswith(".metadata.json") for key in metadata) else None
    return None
