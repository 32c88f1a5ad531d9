"""Decides which partitions of a catalog table to add, drop or correct. Their values follow from their folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.catalog.tables import TableInput
from sluice.errors import UnexpectedPartition
from sluice.hudi.timeline import Commit

# The most items that one call of the Glue API accepts.
CREATE_BATCH, UPDATE_BATCH, DELETE_BATCH, GET_BATCH = 100, 100, 25, 1000

Values = tuple[str, ...]
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class PartitionChange:
    """The partitions to add (values to folder), to drop (values) and to correct (partitions as Glue returns them)."""

    add: Mapping[Values, str]
    drop: tuple[Values, ...] = ()
    update: tuple[Mapping[str, Any], ...] = ()

    @property
    def nothing(self) -> bool:
        return not (self.add or self.drop or self.update)


def values_of(table: str, path: str, fields: Sequence[str]) -> Values:
    """The values of a partition: `nationality=C%2FD` gives ("C/D",). Raises UnexpectedPartition.

    Null and empty text are `__HIVE_DEFAULT_PARTITION__`, which engines read as null. Hudi escapes like Hive: a percent
    sign and the two digits of an ASCII character (PartitionPathEncodeUtils).
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
        _ESCAPED.sub(lambda match: chr(int(match[1], 16)), part[len(field) + 1 :]) for part, field in zip(parts, fields)
    )


def touched(commits: Iterable[Commit]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The partitions that these commits (oldest first) wrote, and those that they left empty, each sorted."""
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
    listed: Iterable[Mapping[str, Any]],
    whole: bool,
) -> PartitionChange:
    """The difference between the catalog's partitions and the table's.

    The catalog must have the folders in `stored` and must not have those in `gone`; `listed` are the partitions it has
    of these. With `whole`, `listed` holds all partitions of the catalog, and those not in `stored` are dropped.
    """
    wanted = {values_of(table, path, fields): path for path in stored}
    unwanted = {values_of(table, path, fields) for path in gone}
    partitions = {tuple(partition["Values"]): partition for partition in listed}
    add = {values: path for values, path in wanted.items() if values not in partitions}
    drop = tuple(values for values in partitions if (values in unwanted or whole) and values not in wanted)
    moved = []
    for values, partition in partitions.items():
        storage = partition.get("StorageDescriptor") or {}
        place = partition_location(location, wanted[values]) if values in wanted else None
        if place is not None and storage.get("Location", "").rstrip("/") != place:
            moved.append({**partition, "StorageDescriptor": {**storage, "Location": place}})
    return PartitionChange(add, drop, tuple(moved))


def partition_location(location: str, path: str) -> str:
    """The location of a partition. The folder's name stays escaped: a `%2F` is part of the key."""
    return f"{location}/{path}"


def partition_input(table: TableInput, values: Values, path: str) -> dict[str, Any]:
    """A new partition in the form of the Glue API: the columns and formats of the table, and its own location."""
    storage = table["StorageDescriptor"]
    return {
        "Values": list(values),
        "StorageDescriptor": {**storage, "Location": partition_location(storage["Location"], path)},
    }


def retyped(table: TableInput, partition: Mapping[str, Any]) -> dict[str, Any]:
    """A partition of the catalog in the form of the Glue API, with the columns of the table.

    Athena refuses a partition that has another type for a column than the table.
    """
    described = {
        name: partition[name]
        for name in ("Values", "LastAccessTime", "Parameters", "LastAnalyzedTime")
        if partition.get(name) is not None
    }
    return {
        **described,
        "StorageDescriptor": {
            **(partition.get("StorageDescriptor") or {}),
            "Columns": table["StorageDescriptor"]["Columns"],
        },
    }


def batches(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
