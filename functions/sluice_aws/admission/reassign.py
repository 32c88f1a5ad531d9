"""Moves parked objects to pending once a table takes their topic, or the generation of their table was raised.

Moves pending objects to the table and lane that take their topic now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Callable

from sluice.changes.log_restart import LOG_RESTARTED
from sluice.config.document import Configuration
from sluice.config.table import TableConfig
from sluice.ledger.keys import PARKED
from sluice.ledger.ports import Ledger
from sluice.ledger.records import ObjectRecord

# An admit that read the configuration just before a push parks by the old one just after it. The push can't
# see that object; whoever looks at what was parked in the last hour does, in four passes of reconcile.
RECENTLY_MS = 3_600_000


@dataclass(frozen=True)
class Unparked:
    """How many parked objects found a table, and the lanes to wake for them."""

    objects: int
    lanes: frozenset[str]


def unpark(
    ledger: Ledger, configuration: Configuration, now: Callable[[], int], *, since: int | None = None
) -> Unparked:
    """Move every parked object whose topic has a table now to pending; those parked from `since` (epoch ms) on.

    Objects that were parked because their source's log began again wait for a higher generation of their table;
    those of any other code stay.
    """
    moved = 0
    lanes: set[str] = set()
    for record in ledger.objects.in_state(PARKED, since=since):
        config = configuration.table_for_topic(record.topic) if record.topic is not None else None
        if config is None or not _free(record, config):
            continue
        lanes.add(config.lane)  # also when it was moved already: whoever did may have died before the wake
        moved += ledger.objects.unpark(record, config, now())
    return Unparked(moved, frozenset(lanes))


def _free(record: ObjectRecord, config: TableConfig) -> bool:
    if record.code == LOG_RESTARTED:
        return config.generation > (record.parked_generation or 0)
    return record.code is None


PER_TABLE = 200  # of the oldest of every table, a pass: what races a push is little, and the next pass comes soon


@dataclass(frozen=True)
class Rerouted:
    """How many pending objects found another table or lane, and the lanes to wake for them."""

    objects: int
    lanes: frozenset[str]


def reroute(
    ledger: Ledger, configuration: Configuration, lanes: Iterable[str], *, before: int, now: Callable[[], int]
) -> Rerouted:
    """Move what was admitted before that time (epoch ms) by a configuration that a push had just replaced.

    An admit that read the configuration before the push writes after it: the push sees nothing that
    waits, and no run claims an object whose topic goes elsewhere by now. `before` must be older than
    the caller's configuration: a younger object may have been admitted by a newer one.
    An object whose topic no table takes any more waits where it is, until a rule takes it again.
    """
    moved = 0
    woken: set[str] = set()
    for lane in lanes:
        for item in ledger.pending.oldest(lane, PER_TABLE):
            config = configuration.table_for_topic(item.topic)
            if config is None or item.admitted_at >= before or (config.table, config.lane) == (item.table, lane):
                continue
            record = ledger.objects.get([item.id]).get(item.id)
            if (
                record is not None
                and (record.table, record.lane) == (item.table, lane)
                and ledger.objects.reroute(record, config, now())
            ):
                moved += 1
                woken.add(config.lane)
    return Rerouted(moved, frozenset(woken))
