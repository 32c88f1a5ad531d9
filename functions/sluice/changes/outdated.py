"""Finds changes that lost to a row although they are later than it: positions fell, in a way that parks nothing.

PostgreSQL's log may fall a little, by a restore or a failover. Where the Kafka offset alone orders, a key may move to
another Kafka partition, and a topic made anew begins at offset zero. Late and repeated objects, snapshots and replays
lose as well, and none of them is later.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sluice.changes.hidden_columns import SNAPSHOT_READ
from sluice.changes.position import BEFORE_THE_LOG, BY_ARRIVAL, BY_OFFSET_ALONE, OFFSET_DIGITS

OUTDATED = "outdated"  # the count of a part

# How a change that lost may be later than what it lost to. LATER is so by itself; the batch decides about the others.
LATER = "later"  # by the source's time, and by its offset or its partition
UNTIMED = "untimed"  # by its offset, at no later time
REWOUND = "rewound"  # by the source's time, at a lower offset of its partition
MOVED = "moved"  # of another partition, at an unknown time
BELOW = "below"  # at a lower offset of its partition, at an unknown time

# PostgreSQL gives the rows of some snapshots the place up to which the log was confirmed, a little back.
SNAPSHOT_BYTES = 16 * 1024**2
POSTGRES_PLACE = r"^[0-9]{4}\.[0-9]{20}\.[0-9]{20}$"


@dataclass(frozen=True)
class ChangePlace:
    """A change's stored position, its Kafka partition and its source's time (epoch ms), None where it is unknown."""

    position: str
    partition: int | None
    source_ts_ms: int | None
    op: str | None = None

    @property
    def offset(self) -> int:
        """The Kafka offset, with which every position ends."""
        return int(self.position[-OFFSET_DIGITS:])

    @property
    def latest_last(self) -> tuple[int, int]:
        """Sort key: by the source's time, then by offset."""
        return (-1 if self.source_ts_ms is None else self.source_ts_ms, self.offset)


def suspicion(lost: ChangePlace, winner: ChangePlace) -> str | None:
    """How `lost` may be later than `winner`, by whose position it lost; None if it isn't. The rule of every merge.

    Changes of two generations don't compare, nor do those of objects whose names tell no Kafka partition.
    """
    if lost.partition is None or winner.partition is None:
        return None
    if lost.position[:4] != winner.position[:4] or lost.position > winner.position:
        return None
    if re.match(BY_ARRIVAL, lost.position) or re.match(BY_ARRIVAL, winner.position):  # places in objects are no offsets
        return None
    times = lost.source_ts_ms, winner.source_ts_ms
    timed = None not in times
    if timed and times[0] < times[1]:  # type: ignore[operator]  # neither is None
        return None
    later = timed and times[0] != times[1]
    if re.match(BY_OFFSET_ALONE, lost.position) and re.match(BY_OFFSET_ALONE, winner.position):
        if lost.partition != winner.partition:
            return LATER if later else None if timed else MOVED
        return REWOUND if later else None if timed else BELOW
    if lost.partition != winner.partition or lost.offset <= winner.offset or re.match(BEFORE_THE_LOG, lost.position):
        return None
    if (
        lost.op == SNAPSHOT_READ
        and re.match(POSTGRES_PLACE, lost.position)
        and re.match(POSTGRES_PLACE, winner.position)
    ):
        if int(winner.position[5:25]) - int(lost.position[5:25]) < SNAPSHOT_BYTES:
            return None
    return LATER if later else UNTIMED


@dataclass(frozen=True)
class BatchSigns:
    """What a batch's objects tell of those of its changes that may be later than what they lost to.

    - `rewound`: an object brings later times than all before it in its partition, at offsets below them.
    - `all_follow`: the offsets of every object follow what was merged of its partition.
    - `anew`: an object's first record isn't the one that the topic had at its offset.
    """

    rewound: bool = False
    all_follow: bool = False
    anew: bool = False

    def outdated(self, suspicions: Mapping[str, int], *, keys: int) -> int:
        """How many of a batch's `keys` lost a change that is later. `suspicions` counts them by `suspicion`.

        Without a time, a higher offset tells only where most keys lost: a connector that restarts sends changes again.
        """
        confirmed = {
            LATER: True,
            REWOUND: self.rewound or self.anew,
            MOVED: self.all_follow,
            BELOW: self.anew,
            UNTIMED: 2 * (suspicions.get(UNTIMED, 0) + suspicions.get(LATER, 0)) > keys,
        }
        return sum(count for name, count in suspicions.items() if confirmed[name])


def suspicions_in(pairs: Iterable[tuple[ChangePlace, ChangePlace]]) -> dict[str, int]:
    """How many of the pairs of a lost change and what it lost to are suspicious, by `suspicion`."""
    return dict(Counter(filter(None, (suspicion(lost, winner) for lost, winner in pairs))))


def latest(places: Iterable[ChangePlace]) -> ChangePlace | None:
    """The latest of some changes by the source's time, then by offset; None of none."""
    return max(places, key=lambda place: place.latest_last, default=None)


_LOST = "lost to older rows, since positions began again lower"


def is_outdated_note(note: str) -> bool:
    return _LOST in note


def outdated_note(table: str, changes: int) -> str:
    """What to tell operators of a table that has lost changes."""
    return (
        f"{changes:,} later {'change' if changes == 1 else 'changes'} {_LOST} (a restore, a failover, a topic made "
        "anew or with more partitions): raise the `generation` of "
        f"{table} in tables.yaml, run `sluice config push`, and let the connector read a new snapshot"
    )
