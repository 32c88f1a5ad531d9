"""Refuses objects of an append-only table that hold Kafka records which an object of another key has brought already.

Offset ranges follow from objects' names and record counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.changes.log_restart import SeenObject
from sluice.errors import Overlap

RANGES_KEPT = 256  # the newest of a table: after a crash, a sink rewrites only what it wrote shortly before


@dataclass(frozen=True)
class OffsetRange:
    """The offsets of a merged object. Folder and key are hashes of eight hexadecimal digits."""

    partition: int
    folder: str
    key: str
    first: int
    last: int

    def to_list(self) -> list[Any]:
        """Plain JSON values."""
        return [self.partition, self.folder, self.key, self.first, self.last]


def ranges_of(values: Iterable[Sequence[Any]]) -> tuple[OffsetRange, ...]:
    """Read results of `to_list`."""
    return tuple(OffsetRange(*value) for value in values)


def overlapping(
    ranges: Sequence[OffsetRange], seen: Iterable[SeenObject]
) -> tuple[tuple[OffsetRange, ...], dict[str, Overlap]]:
    """The ranges after the accepted objects, newest last, and the refused objects by hash.

    `seen` is in the order of admission. Only objects of one folder are compared: a partitioner spreads consecutive
    records over folders, and a range from a name and a count then spans offsets that lie in other folders. Records that
    a sink leaves out make a range shorter, never longer, so objects without a common record don't overlap
    (`overlapping-offsets`).
    """
    known = list(ranges)
    refused: dict[str, Overlap] = {}
    for item in seen:
        if item.partition is None:
            continue
        folder = item.key.rpartition("/")[0]
        mine = OffsetRange(item.partition, _short(folder), _short(item.key), item.first, item.last)
        other = next((each for each in reversed(known) if _overlap(each, mine)), None)
        if other is not None:
            refused[item.object] = Overlap(
                f"Offsets {mine.first} to {mine.last} of Kafka partition {mine.partition} overlap "
                f"{other.first} to {other.last}, which another object of the folder brought",
                offsets=f"{mine.first}-{mine.last}",
                other=f"{other.first}-{other.last}",
            )
        else:
            known.append(mine)
    return tuple(known[-RANGES_KEPT:]), refused


def _overlap(one: OffsetRange, other: OffsetRange) -> bool:
    same_place = (one.partition, one.folder) == (other.partition, other.folder)
    return same_place and one.key != other.key and one.first <= other.last and other.first <= one.last


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
