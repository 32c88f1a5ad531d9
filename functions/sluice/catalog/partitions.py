"""The partitions of a table in the catalog: their values by their folders, and which to add, to drop or to correct."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.catalog.tables import TableInput
from sluice.errors import UnexpectedPartition
from sluice.hudi.timeline import Commit

# What one call of the Glue API takes.
CREATE_BATCH, UPDATE_BATCH, DELETE_BATCH, GET_BATCH = 100, 100, 25, 1000

Values = tuple[str, ...]
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class PartitionChange:
    """The partitions to add, to drop and to correct, by their values; `paths` are their folders under the table's."""

    add: Mapping[Values, str]
    drop: tuple[Values, ...] = ()
    update: tuple[Mapping[str, Any], ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether there is none."""
        return not (self.add or self.drop or self.update)


def values_of(table: str, path: str, fields: Sequence[str]) -> Values:
    """A partition's values: `nationality=C%2FD` is ("C/D",). Null and empty text are `__HIVE_DEFAULT_PARTITION__`, which engines read as null.

    Hudi escapes as Hive does: a percent sign and the two digits of an ASCII character (PartitionPathEncodeUtils). Raises UnexpectedPartition.
    """
    parts = path.split("/")
    if len(parts) != len(fields) or not all(
        part.startswith(f"{field}=") and len(part) > len(field) + 1 for part, field in zip(parts, fields)
    ):
        raise UnexpectedPartition(
            f"{table} has a partition {path!r} and is partitioned by {', '.join(fields) or 'nothing'}",
            table=table,
            partition=path,
        )
    return tuple(
        _ESCAPED.sub(lambda found: chr(int(found[1], 16)), part[len(field) + 1 :]) for part, field in zip(parts, fields)
    )


def touched(commits: Iterable[Commit]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The partitions that commits, oldest first, wrote, and those that hold nothing after them; in order, each in one of both."""
    there: dict[str, bool] = {}
    for commit in commits:
        there.update({path: False for path in commit.emptied})
        there.update({path: True for path in commit.partitions})
    return tuple(sorted(path for path, held in there.items() if held)), tuple(
        sorted(path for path, held in there.items() if not held)
    )


def partition_change(
    table: str,
    fields: Sequence[str],
    location: str,
    *,
    stored: Iterable[str],
    gone: Iterable[str] = (),
    found: Iterable[Mapping[str, Any]],
    whole: bool,
) -> PartitionChange:
    """What the catalog's partitions lack.

    `stored` are the folders that must be there, `gone` those that must not, `found` what the catalog has of them. With `whole`,
    `found` are all partitions of the catalog, and what isn't stored goes.
    """
    wanted = {values_of(table, path, fields): path for path in stored}
    unwanted = {values_of(table, path, fields) for path in gone}
    had = {tuple(partition["Values"]): partition for partition in found}
    add = {values: path for values, path in wanted.items() if values not in had}
    drop = tuple(values for values in had if (values in unwanted or whole) and values not in wanted)
    moved = tuple(
        _moved(partition, partition_location(location, wanted[values]))
        for values, partition in had.items()
        if values in wanted
        and (partition.get("StorageDescriptor") or {}).get("Location", "").rstrip("/")
        != partition_location(location, wanted[values])
    )
    return PartitionChange(add, drop, moved)


def partition_location(location: str, path: str) -> str:
    """Where a partition lies. The folder's name as it is: an escaped `%2F` is part of the key."""
    return f"{location}/{path}"


def partition_input(table: TableInput, values: Values, path: str) -> dict[str, Any]:
    """A new partition as the Glue API takes it: the table's columns and formats, its own place."""
    storage = table["StorageDescriptor"]
    return {
        "Values": list(values),
        "StorageDescriptor": {**storage, "Location": partition_location(storage["Location"], path)},
    }


def retyped(table: TableInput, partition: Mapping[str, Any]) -> dict[str, Any]:
    """A partition of the catalog, as the Glue API takes it, with the table's columns: Athena refuses one whose column has another type than the table's."""
    kept = {
        name: partition[name]
        for name in ("Values", "LastAccessTime", "Parameters", "LastAnalyzedTime")
        if partition.get(name) is not None
    }
    return {
        **kept,
        "StorageDescriptor": {
            **(partition.get("StorageDescriptor") or {}),
            "Columns": table["StorageDescriptor"]["Columns"],
        },
    }


def batches(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """The items in lists of at most `size`."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def _moved(partition: Mapping[str, Any], location: str) -> Mapping[str, Any]:
    return {**partition, "StorageDescriptor": {**(partition.get("StorageDescriptor") or {}), "Location": location}}
