"""Where the rows of a small part are written: into logs, into base files that are rewritten, or into new ones. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from sluice.hudi.file_slices import FileSlice
from sluice.hudi.write_choices import MIB, small_file_bytes
from sluice_spark.hudi.logs import RECORD_KEY
from sluice_spark.merge.by_arrow.keyed_rows import StoredRow, as_counts
from sluice_spark.merge.by_arrow.rewrite import FileRows, LogRows

# New rows of a copy-on-write table go into a file below this size, and into a new one where there is none.
SMALL_FILE_BYTES = 64 * MIB


@dataclass(frozen=True)
class Placed:
    """The rows to write, each with the stored row of its key and the partition that it belongs to.

    `slices` are the table's, by whose numbers stored rows name theirs, and `root` is the URI of its folder.
    """

    rows: pa.Table
    held: Sequence[StoredRow | None]
    partitions: Sequence[str]
    slices: Sequence[FileSlice]
    root: str

    @property
    def stays(self) -> list[bool]:
        """Of each row, whether its partition is that of its stored row."""
        pairs = zip(self.held, self.partitions)
        return [row is not None and self.slices[row.file].partition == place for row, place in pairs]


@dataclass(frozen=True)
class RowsPlace:
    """Where rows are written: a slice by its number, None for a new file of the partition; a log or the base file.

    `rows` are the numbers of the rows and `keys` Hudi's texts of theirs, `updates` how many of them the slice holds,
    `removed` the keys of those that leave it. `starts`: the partition is new.
    """

    number: int | None
    partition: str
    logs: bool
    rows: Sequence[int]
    keys: Sequence[str]
    updates: int
    removed: Sequence[str]
    starts: bool


def places_of_rows(placed: Placed, texts: Sequence[str], *, rows_stored: int | None, in_logs: bool) -> list[RowsPlace]:
    """Where each row is written. `texts` are the rows' keys, needed where some are new.

    A row stays in its slice, unless it leaves the partition. What a merge-on-read table holds goes into logs
    (`in_logs`); new rows go into a small base file without logs, all of whose rows are then written there, or into a
    new one.
    """
    held, partitions, slices, stays = placed.held, placed.partitions, placed.slices, placed.stays
    there: dict[str, list[int]] = {}
    for number, item in enumerate(slices):
        there.setdefault(item.partition, []).append(number)
    touched = {row.file for row in held if row is not None}
    leaving: dict[int, list[str]] = {}
    for row, stayed in zip(held, stays):
        if row is not None and not stayed:
            leaving.setdefault(row.file, []).append(row.record_key)
    taking = {partition for partition, stayed in zip(partitions, stays) if not stayed}
    below = small_file_bytes(rows_stored, partitions=len(taking)) if in_logs else SMALL_FILE_BYTES
    for_new = {
        partition: file_for_new_rows(
            {number: size_of(slices[number]) for number in there.get(partition, ()) if not slices[number].logs},
            touched,
            below=below,
        )
        for partition in taking
    }
    rewritten = set(for_new.values())
    own: dict[tuple[str, int | None], list[int]] = {(slices[number].partition, number): [] for number in leaving}
    for place, (partition, row, stayed) in enumerate(zip(partitions, held, stays)):
        number_of = row.file if row is not None and stayed else for_new[partition]
        own.setdefault((partition, number_of), []).append(place)
    return [
        RowsPlace(
            number,
            partition,
            in_logs and number is not None and number not in rewritten,
            rows,
            [_key(held[place], texts, place) for place in rows],
            sum(stays[place] for place in rows),
            () if number is None else leaving.get(number, ()),
            partition not in there,
        )
        for (partition, number), rows in own.items()
    ]


def file_for_new_rows(sizes: Mapping[int, int], touched: Collection[int], *, below: int) -> int | None:
    """The number of the file that takes new rows of a partition; None for a new file. `sizes` are those by number.

    The smallest of those that are rewritten anyway, else the smallest, if it has fewer bytes than `below`.
    """
    small = [number for number, size in sizes.items() if size < below]
    return min(small, key=lambda number: (number not in touched, sizes[number], number), default=None)


def size_of(item: FileSlice) -> int:
    """Bytes of a slice's base file."""
    return 0 if item.base is None else item.base.size


def file_rows(place: RowsPlace, placed: Placed) -> FileRows:
    """The rows of a place for its base file."""
    base = None if place.number is None else placed.slices[place.number].base
    return FileRows(
        None if base is None else f"{placed.root}/{base.path}",
        placed.rows.take(pa.array(place.rows, pa.int64())),
        pa.array(place.keys, pa.string()),
        place.updates,
        place.partition,
        place.removed,
        starts=place.starts,
    )


def log_rows(places: Sequence[RowsPlace], placed: Placed) -> list[LogRows]:
    """The rows of each place for a log of its slice. All are taken at once: a table of many files has many places."""
    numbers = pa.array([row for place in places for row in place.rows], pa.int64())
    values = iter(log_values(placed.rows.take(numbers), [key for place in places for key in place.keys]))
    return [
        LogRows(placed.slices[place.number or 0], list(islice(values, len(place.rows))), place.removed)
        for place in places
    ]


def _key(row: StoredRow | None, texts: Sequence[str], place: int) -> str:
    return texts[place] if row is None else row.record_key


def log_values(rows: pa.Table, keys: Sequence[str]) -> list[dict[str, Any]]:
    """The rows as logs take them: column -> value, with their keys."""
    columns = {name: as_counts(rows.column(name).combine_chunks()).to_pylist() for name in rows.schema.names}
    columns[RECORD_KEY] = list(keys)
    return [dict(zip(columns, row)) for row in zip(*columns.values())]
