"""Whether objects of an append-only table hold the same Kafka records under different keys: by the offsets that their names and lengths give."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Sequence, Tuple

from sluice.errors import SluiceError
from sluice.log_restart import SeenObject

RANGES_KEPT = 256  # the newest of a table: what a sink writes again after a crash, it wrote shortly before


class Overlap(SluiceError):
    """An object whose Kafka offsets overlap another's under a different key; facts: `offsets`, `other`."""

    code = "overlap"
    next_step = "Look at both objects: `sluice quarantine discard` if its records are the other's again, else give the table `coordinates`"


@dataclass(frozen=True)
class OffsetRange:
    """The offsets of one object that was merged. Folder and key are kept as hashes of eight hexadecimal digits."""

    partition: int
    folder: str
    key: str
    first: int
    last: int

    def to_list(self) -> List[Any]:
        """Plain values."""
        return [self.partition, self.folder, self.key, self.first, self.last]


def ranges_of(values: Iterable[Sequence[Any]]) -> Tuple[OffsetRange, ...]:
    """Read what `to_list` gave."""
    return tuple(OffsetRange(*value) for value in values)


def overlapping(
    ranges: Sequence[OffsetRange], seen: Iterable[SeenObject]
) -> Tuple[Tuple[OffsetRange, ...], Dict[str, Overlap]]:
    """The ranges after the objects that go on, newest last, and why which others (by hash) don't. `seen` is in the order of admission.

    Only objects of one folder are compared: a partitioner that sorts records into folders takes them from among each
    other, and a name and a count then span offsets that lie in other folders. The records that a sink left out make a
    range shorter than it is and never longer, so objects that share no record don't overlap. (Rule 16.)
    """
    known = list(ranges)
    refused: Dict[str, Overlap] = {}
    for item in seen:
        if item.partition is None:
            continue
        folder = item.key.rpartition("/")[0]
        mine = OffsetRange(item.partition, _short(folder), _short(item.key), item.first, item.last)
        other = next((each for each in reversed(known) if _overlap(each, mine)), None)
        if other is not None:
            refused[item.object] = Overlap(
                f"Offsets {mine.first} to {mine.last} of Kafka partition {mine.partition} overlap {other.first} to {other.last}, which another object of the folder brought",
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
