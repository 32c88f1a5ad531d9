"""Where a large merge writes: which file takes the rows of a place, in a log or not, and in which task. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sluice.hudi.file_slices import FileSlice
from sluice.hudi.write_choices import MIB, small_file_bytes
from sluice_spark.merge.by_arrow.covers import MOST_FILES, check_rewritten
from sluice_spark.merge.by_arrow.placement import SMALL_FILE_BYTES, file_for_new_rows, size_of
from sluice_spark.merge.rows import LeftToSpark

NEW = -1  # in place of a slice's number, of rows that the partition doesn't hold
Place = tuple[str, int]
K = TypeVar("K", bound=Collection[object])

# New rows of so many bytes in Arrow join a small file; more of them make files of their own.
JOINING_BYTES = 32 * MIB
# A row takes 4 us in a file that is rewritten, and 20 us in a log: from one changed row in so many a file is rewritten.
ROWS_PER_LOGGED = 5
_ARROW_BYTES = 4  # of a byte of a base file
_LOGGED_BYTES = 400  # of a row


@dataclass(frozen=True)
class PlacedRows:
    """What a large merge writes: bytes of rows in Arrow by the partition that is to take them as new ones.

    By the number of a slice: how many rows it holds, how many of them are `updated` or `removed`.
    """

    new_bytes: Mapping[str, int]
    updated: Mapping[int, int]
    removed: Mapping[int, int]
    held: Mapping[int, int]


@dataclass(frozen=True)
class Destination:
    """A file that takes rows: slice `number` of a partition, its log or its base file, or NEW ones of several tasks."""

    partition: str
    number: int
    logs: bool
    tasks: range


def destinations(
    placed: PlacedRows, slices: Sequence[FileSlice], *, in_logs: bool, rows_stored: int | None, parts: int
) -> dict[Place, Destination]:
    """The destination of the rows of each place: a partition and the slice of it that holds them, or NEW.

    Raises LeftToSpark for too many files, or too large ones.
    """
    there: dict[str, list[int]] = {}
    for number, item in enumerate(slices):
        there.setdefault(item.partition, []).append(number)
    touched = {*placed.updated, *placed.removed}
    below = small_file_bytes(rows_stored, partitions=len(placed.new_bytes)) if in_logs else SMALL_FILE_BYTES
    joined: dict[str, int | None] = {}
    for partition, size in placed.new_bytes.items():
        small = {number: size_of(slices[number]) for number in there.get(partition, ()) if not slices[number].logs}
        joined[partition] = file_for_new_rows(small, touched, below=below) if size <= JOINING_BYTES else None
    rewritten = set(joined.values())
    logs = {
        number
        for number in touched - rewritten
        if in_logs and (slices[number].logs or _changed(placed, number) * ROWS_PER_LOGGED < placed.held[number])
    }
    sizes: dict[Place, int] = {}
    for number in touched:
        size = _LOGGED_BYTES * _changed(placed, number) if number in logs else _ARROW_BYTES * size_of(slices[number])
        sizes[slices[number].partition, number] = size
    for partition, size in placed.new_bytes.items():
        number_of = joined[partition]
        place = (partition, NEW if number_of is None else number_of)
        base = 0 if number_of is None else _ARROW_BYTES * size_of(slices[number_of])
        sizes[place] = max(sizes.get(place, 0), base) + size
    check_rewritten([size_of(slices[number]) for _, number in sizes if number != NEW and number not in logs])
    tasks = tasks_of(sizes, parts, whole=[place for place in sizes if place[1] != NEW])
    made = {place: Destination(*place, place[1] in logs, own) for place, own in tasks.items()}
    for partition, number_of in joined.items():
        if number_of is not None:
            made[partition, NEW] = made[partition, number_of]
    return made


def _changed(placed: PlacedRows, number: int) -> int:
    return placed.updated.get(number, 0) + placed.removed.get(number, 0)


def tasks_of(sizes: Mapping[K, int], parts: int, *, whole: Collection[K] = ()) -> dict[K, range]:
    """The tasks that write each place, of some `parts` in all: several share a task, or a large one has several.

    `sizes` are the bytes of rows by place; those in `whole` aren't divided. Raises LeftToSpark for more files than a
    commit should have.
    """
    most, held, next_task = max(1, -(-sum(sizes.values()) // parts)), 0, 0
    tasks = {}
    for place, size in sorted(sizes.items()):
        if held and held + size > most:
            held, next_task = 0, next_task + 1
        last = next_task if place in whole else next_task + max(0, size - 1) // most
        tasks[place] = range(next_task, last + 1)
        held, next_task = (0, last + 1) if size > most else (held + size, next_task)
    files = sum(map(len, tasks.values()))
    if files > MOST_FILES:
        raise LeftToSpark("partitions", f"{files:,} files")
    return tasks
