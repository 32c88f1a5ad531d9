"""Measures how long the objects of a lane have waited, and by how much that exceeds the freshness of their tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sluice.batch.claim import PendingObject, configured_tables
from sluice.config.document import Configuration


@dataclass(frozen=True)
class TableBacklog:
    """Pending objects of a table, and the seconds by which the oldest exceeds the table's freshness (or 0)."""

    table: str
    objects: int
    freshness_s: int
    overdue_s: float


@dataclass(frozen=True)
class Backlog:
    """The backlog of a lane.

    - `objects`: pending objects.
    - `oldest_s`: seconds since the oldest claimable object was admitted or replayed, or the oldest unclosed batch was
      opened.
    - `overdue_s`: seconds by which the most overdue table exceeds its freshness.
    - `tables`: the same for each table with pending objects that don't wait on purpose.
    """

    objects: int = 0
    oldest_s: float = 0.0
    overdue_s: float = 0.0
    tables: tuple[TableBacklog, ...] = field(default=(), compare=False)


def backlog(
    configuration: Configuration | None,
    lane: str,
    pending: Iterable[PendingObject],
    now: int,
    opened: Iterable[int] = (),
) -> Backlog:
    """Measure the backlog of a lane at `now` (epoch ms).

    Objects of paused and unconfigured tables are counted, but have no age: they wait on purpose. `opened` holds the
    times (epoch ms) at which the unclosed batches were opened; their objects are no longer pending.
    """
    waiting = list(pending)
    configs = {} if configuration is None else configured_tables(configuration, lane, waiting)
    oldest = max((max(0.0, (now - at) / 1000) for at in opened), default=0.0)
    tables: dict[str, TableBacklog] = {}
    for item in waiting:
        config = configs.get(item.table)
        if config is None or config.paused:
            continue
        waited = max(0.0, (now - item.waits_since) / 1000)
        oldest = max(oldest, waited)
        tally = tables.get(item.table, TableBacklog(item.table, 0, config.freshness_s, 0.0))
        overdue = max(tally.overdue_s, waited - config.freshness_s)
        tables[item.table] = replace(tally, objects=tally.objects + 1, overdue_s=overdue)
    most = max((table.overdue_s for table in tables.values()), default=0.0)
    return Backlog(len(waiting), oldest, most, tuple(tables.values()))
