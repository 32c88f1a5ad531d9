"""Moves parked objects to pending once a table takes their topic, or the generation of their table was raised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, FrozenSet, Optional, Set

from sluice.configuration import Configuration
from sluice.ledger_items import PARKED
from sluice.ledger_records import ObjectRecord
from sluice.log_restart import LOG_RESTARTED
from sluice.table_config import TableConfig

# An admit that read the configuration just before a push parks by the old one just after it. The push can't
# see that object; whoever looks at what was parked in the last hour does, in four passes of reconcile.
RECENTLY_MS = 3_600_000


@dataclass(frozen=True)
class Unparked:
    """How many parked objects found a table, and the lanes to wake for them."""

    objects: int
    lanes: FrozenSet[str]


def unpark(
    ledger: Any, configuration: Configuration, now: Callable[[], int], *, since: Optional[int] = None
) -> Unparked:
    """Move every parked object whose topic has a table now to pending; those parked from `since` (epoch ms) on.

    Objects that were parked because their source's log began again wait for a higher generation of their table;
    those of any other code stay.
    """
    moved = 0
    lanes: Set[str] = set()
    for record in ledger.objects_in_state(PARKED, since=since):
        config = configuration.table_for_topic(record.topic) if record.topic is not None else None
        if config is None or not _free(record, config):
            continue
        lanes.add(config.lane)  # also when it was moved already: whoever did may have died before the wake
        moved += ledger.unpark(record, config, now())
    return Unparked(moved, frozenset(lanes))


def _free(record: ObjectRecord, config: TableConfig) -> bool:
    if record.code == LOG_RESTARTED:
        return config.generation > (record.parked_generation or 0)
    return record.code is None
