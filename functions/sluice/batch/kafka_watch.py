"""What is known of a table's Kafka partitions, and what it says of the objects that a batch has read: which wait, which are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.changes.log_restart import Mark, OffsetRange, SeenObject, judge, overlapping, ranges_of
from sluice.config.table import TableConfig
from sluice.errors import Overlap

# Of all marks as JSON: they stand in the table's item of the ledger, which DynamoDB lets have 400 KB. About a thousand partitions.
MOST_CHARACTERS = 200_000


@dataclass(frozen=True)
class KafkaWatch:
    """A table's high-water per Kafka partition, and of an append-only table the offsets that its objects brought last."""

    marks: Mapping[int, Mark] = field(default_factory=dict, hash=False)
    ranges: tuple[OffsetRange, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for the table's ledger item, manifests and outcomes."""
        summary: dict[str, Any] = {}
        if self.marks:
            summary["marks"] = {str(partition): mark.to_dict() for partition, mark in sorted(self.marks.items())}
        if self.ranges:
            summary["ranges"] = [each.to_list() for each in self.ranges]
        return summary

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> KafkaWatch:
        """Read what `to_dict` gave."""
        marks = {int(partition): Mark.from_dict(mark) for partition, mark in values.get("marks", {}).items()}
        return cls(marks, ranges_of(values.get("ranges", ())))


@dataclass(frozen=True)
class Watched:
    """The watch after a batch; objects (by hash) that are to be parked, with the reason, and those that are refused."""

    watch: KafkaWatch
    parked: Mapping[str, str] = field(default_factory=dict, hash=False)
    refused: Mapping[str, Overlap] = field(default_factory=dict, hash=False)


def watched(watch: KafkaWatch, seen: Sequence[SeenObject], config: TableConfig) -> Watched:
    """Judge what a batch has read, before anything of it is committed. `seen` is in the order of admission.

    Rows of an append-only table, and those that a column orders, have no log whose positions could fall. What is taken back in of an
    earlier generation is of a log that ended: the one that is watched is that of the table's present one.
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
    """The one Kafka partition that a table's objects of a generation came from; None where there were several, and where none was told."""
    return (
        next((partition for partition, mark in watch.marks.items() if mark.generation == generation), None)
        if len(watch.marks) == 1
        else None
    )


def bounded(marks: Mapping[int, Mark]) -> Mapping[int, Mark]:
    """The marks that fit: those of logs that began again, then the newest.

    Objects' names tell Kafka partitions, so whoever may write objects could name any number of them. A partition that is
    forgotten is known again by its next object; until then a log that begins again there isn't noticed.
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
