"""Watches a table's Kafka partitions: decides which objects of a batch are parked or refused before it is committed.

Parked are objects of a log that restarted. Refused are objects of an append-only table whose Kafka records came already
under another key; offset ranges follow from objects' names and record counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.changes.log_restart import Mark, SeenObject, judge
from sluice.config.table import TableConfig
from sluice.errors import Overlap

# Of all marks as JSON, which is about a thousand partitions. The table's ledger item holds them, and DynamoDB limits an
# item to 400 KB.
MOST_CHARACTERS = 200_000

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


@dataclass(frozen=True)
class KafkaWatch:
    """A table's high-water mark per Kafka partition and, for an append-only table, its latest offset ranges."""

    marks: Mapping[int, Mark] = field(default_factory=dict, hash=False)
    ranges: tuple[OffsetRange, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values for the table's ledger item, manifests and outcomes."""
        summary: dict[str, Any] = {}
        if self.marks:
            summary["marks"] = {str(partition): mark.to_dict() for partition, mark in sorted(self.marks.items())}
        if self.ranges:
            summary["ranges"] = [each.to_list() for each in self.ranges]
        return summary

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> KafkaWatch:
        """Read the result of `to_dict`."""
        marks = {int(partition): Mark.from_dict(mark) for partition, mark in values.get("marks", {}).items()}
        return cls(marks, ranges_of(values.get("ranges", ())))


@dataclass(frozen=True)
class Watched:
    """The watch after a batch, and the objects (by hash) to park or refuse, with the reason."""

    watch: KafkaWatch
    parked: Mapping[str, str] = field(default_factory=dict, hash=False)
    refused: Mapping[str, Overlap] = field(default_factory=dict, hash=False)


def watched(watch: KafkaWatch, seen: Sequence[SeenObject], config: TableConfig) -> Watched:
    """Judge the objects of a batch before it is committed. `seen` is in the order of admission.

    An append-only table, or one ordered by a column, has no log whose positions could fall. Only the log of the table's
    present generation is watched: retried objects of an earlier one belong to a log that ended.
    """
    if config.append_only:
        if config.coordinates:
            return Watched(watch)
        ranges, refused = overlapping(watch.ranges, seen)
        return Watched(KafkaWatch(watch.marks, ranges), refused=refused)
    if config.position is not None:
        return Watched(watch)
    if any(mark.generation > config.generation for mark in watch.marks.values()):
        return Watched(watch)
    judged = judge(watch.marks, seen, generation=config.generation)
    return Watched(KafkaWatch(bounded(judged.marks), watch.ranges), parked=judged.parked)


def only_partition(watch: KafkaWatch, *, generation: int) -> int | None:
    """The only Kafka partition of a table's objects of a generation; None for several, or if it is unknown."""
    return (
        next((partition for partition, mark in watch.marks.items() if mark.generation == generation), None)
        if len(watch.marks) == 1
        else None
    )


def bounded(marks: Mapping[int, Mark]) -> Mapping[int, Mark]:
    """The marks that fit into the ledger's item: first those of restarted logs, then the newest.

    Partitions come from objects' names, so a writer of objects can make up any number of them. The next object of a
    dropped partition makes it known again; a restart of its log before that goes unnoticed.
    """
    sizes = {partition: len(json.dumps({str(partition): mark.to_dict()})) for partition, mark in marks.items()}
    if sum(sizes.values()) <= MOST_CHARACTERS:
        return marks
    kept: dict[int, Mark] = {}
    room = MOST_CHARACTERS
    for partition, mark in sorted(
        marks.items(), key=lambda each: (each[1].restarted_at is None, -(each[1].newest_ms or 0), each[0])
    ):
        room -= sizes[partition]
        if room < 0:
            break
        kept[partition] = mark
    return kept


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
