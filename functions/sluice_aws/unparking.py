"""Moves parked objects to pending once a table takes their topic."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, FrozenSet, Optional, Set

from sluice.ledger_items import PARKED
from sluice.table_config import Configuration

# An admit that read the configuration just before a push parks by the old one just after it. The push can't
# see that object; whoever looks at what was parked in the last hour does, in four passes of reconcile.
RECENTLY_MS = 3_600_000


@dataclass(frozen=True)
class Unparked:
    """How many parked objects found a table, and the lanes to wake for them."""

    objects: int
    lanes: FrozenSet[str]


def unpark(ledger: Any, configuration: Configuration, now: Callable[[], int], *, since: Optional[int] = None) -> Unparked:
    """Move every parked object whose topic has a table now to pending; those parked from `since` (epoch ms) on.

    Objects that were parked for another reason than the want of a table carry a code and stay.
    """
    moved = 0
    lanes: Set[str] = set()
    for record in ledger.objects_in_state(PARKED, since=since):
        if record.code is not None or record.topic is None:
            continue
        config = configuration.table_for_topic(record.topic)
        if config is None:
            continue
        lanes.add(config.lane)  # also when it was moved already: whoever did may have died before the wake
        moved += ledger.unpark(record, config, now())
    return Unparked(moved, frozenset(lanes))
