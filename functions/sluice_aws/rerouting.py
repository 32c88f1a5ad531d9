"""Moves pending objects to the table and lane that take their topic now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, FrozenSet, Iterable, Set

from sluice.configuration import Configuration

PER_TABLE = 200  # of the oldest of every table, a pass: what races a push is little, and the next pass comes soon


@dataclass(frozen=True)
class Rerouted:
    """How many pending objects found another table or lane, and the lanes to wake for them."""

    objects: int
    lanes: FrozenSet[str]


def reroute(
    ledger: Any, configuration: Configuration, lanes: Iterable[str], *, before: int, now: Callable[[], int]
) -> Rerouted:
    """Move what was admitted before that time (epoch ms) by a configuration that a push had just replaced.

    An admit that read the configuration before the push writes after it: the push sees nothing that
    waits, and no run claims an object whose topic goes elsewhere by now. `before` must be older than
    the caller's configuration: a younger object may have been admitted by a newer one.
    An object whose topic no table takes any more waits where it is, until a rule takes it again.
    """
    moved = 0
    woken: Set[str] = set()
    for lane in lanes:
        for item in ledger.pending(lane, PER_TABLE):
            config = configuration.table_for_topic(item.topic)
            if config is None or item.admitted_at >= before or (config.table, config.lane) == (item.table, lane):
                continue
            record = ledger.get_objects([item.id]).get(item.id)
            if (
                record is not None
                and (record.table, record.lane) == (item.table, lane)
                and ledger.reroute(record, config, now())
            ):
                moved += 1
                woken.add(config.lane)
    return Rerouted(moved, frozenset(woken))
