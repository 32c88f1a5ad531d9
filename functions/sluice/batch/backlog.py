"""Measures how long the objects of a lane have waited, and by how much that exceeds the freshness of their tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sluice.batch.claim import PendingObject, TableState, configured_tables
from sluice.config.document import Configuration


@dataclass(frozen=True)
class Backlog:
    """`objects` that wait; seconds since the oldest of those was admitted that a run may claim sooner or later, or since the oldest
    batch was opened that isn't closed; seconds by which the most overdue table is older than its freshness allows."""

    objects: int = 0
    oldest_s: float = 0.0
    overdue_s: float = 0.0


def backlog(
    configuration: Configuration | None,
    lane: str,
    pending: Iterable[PendingObject],
    states: Mapping[str, TableState],
    now: int,
    opened: Iterable[int] = (),
) -> Backlog:
    """What waits in a lane at `now` (epoch ms). Objects of paused or unconfigured tables wait as somebody wants it: they count and have no age.

    `opened` is when each batch that isn't closed was opened (epoch ms): its objects are claimed, and no longer pending.
    """
    waiting = list(pending)
    configs = {} if configuration is None else configured_tables(configuration, lane, waiting)
    oldest = max((max(0.0, (now - at) / 1000) for at in opened), default=0.0)
    overdue = 0.0
    for item in waiting:
        config = configs.get(item.table)
        state = states.get(item.table)
        if config is None or config.paused or (state is not None and state.paused):
            continue
        waited = max(0.0, (now - item.admitted_at) / 1000)
        oldest = max(oldest, waited)
        overdue = max(overdue, waited - config.freshness_s)
    return Backlog(len(waiting), oldest, overdue)
