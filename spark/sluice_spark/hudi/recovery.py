"""Undoes what somebody left unfinished on a table's timeline, which fences a writer that wakes up late (rule 4).

The look at a table before a run's first write to it: created, checked, and rid of what a dead or failed writer left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sluice_spark.errors import StillUnfinished, TableDiffers
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.jvm import instants
from sluice_spark.hudi.table import HudiTable

_COMMIT, _DELTA_COMMIT, _REPLACE, _COMPACTION = "commit", "deltacommit", "replacecommit", "compaction"
_CLEAN, _ROLLBACK, _REQUESTED = "clean", "rollback", "REQUESTED"


def roll_back_unfinished(hudi: HudiTable) -> tuple[str, ...]:
    """Undo every commit, delta commit and service instant that somebody left unfinished. For the lane's holder.

    A late writer's instant is gone, so it can't complete it. A requested compaction plan stays; one that was running goes
    back to requested. A cleaning that was running is finished, since what it deleted can't come back. Returns the
    instants, oldest first. Raises StillUnfinished.
    """
    found = _unfinished(hudi)
    if not found:
        return ()
    client = hudi.client()
    try:
        for instant in reversed(found):  # newest first, as Hudi's own cleaning of failed writes does
            _roll_back(hudi, client, instant)
    finally:
        client.close()
    left = _unfinished(hudi)
    if left:
        raise StillUnfinished(
            f"{hudi.config.table} still has unfinished instants",
            table=hudi.config.table,
            instants=[_text(item) for item in left],
        )
    return tuple(str(instant.requestedTime()) for instant in found)


def _unfinished(hudi: HudiTable) -> tuple[Any, ...]:
    pending = instants(hudi.jvm.meta_client(hudi.path).getActiveTimeline().filterInflightsAndRequested())
    return tuple(
        item for item in pending if not (item.getAction() == _COMPACTION and str(item.getState()) == _REQUESTED)
    )


def _roll_back(hudi: HudiTable, client: Any, instant: Any) -> None:
    action = instant.getAction()
    if action in (_COMMIT, _DELTA_COMMIT, _REPLACE):
        client.rollback(instant.requestedTime())
    elif action == _COMPACTION:
        hudi.jvm.hudi_table(client).rollbackInflightCompaction(instant)
    elif action == _CLEAN:
        # Only what is pending: a plan of Hudi's own would take the active timeline for all there is.
        client.clean(instant.requestedTime(), False, False)
    elif action == _ROLLBACK:
        # Carried on by the rollback of the instant that it undoes; alone, that instant is gone and so is its purpose.
        timeline = hudi.jvm.meta_client(hudi.path).getActiveTimeline()
        if any(
            item.requestedTime() == instant.requestedTime() for item in instants(timeline.filterInflightsAndRequested())
        ):
            timeline.deletePending(instant)


def _text(instant: Any) -> str:
    return f"{instant.requestedTime()}.{instant.getAction()}.{instant.getState()}"


@dataclass(frozen=True)
class FirstLook:
    """The table's facts, and what this look changed."""

    facts: TableFacts
    rolled_back: tuple[str, ...] = ()


def first_look(hudi: HudiTable, log: Any) -> FirstLook:
    """Look at a table of which nothing is known. For the lane's holder, before it writes.

    A service that died leaves no manifest that a take-over would resolve, so what it left unfinished is undone
    here (rule 4); and where a purge was cut off, the log files that it wrote are compacted before anything else is.
    """
    try:
        facts = hudi.look()
    except TableDiffers as differs:
        if not hudi.make_anew():
            raise
        log.event("table_made_anew", table=hudi.config.table, differences=differs.facts["differences"])
        facts = hudi.look()
    if facts.properties_added:
        log.event("properties_added", table=hudi.config.table, properties=list(facts.properties_added))
    undone: tuple[str, ...] = ()
    if facts.unfinished:
        undone = roll_back_unfinished(hudi)
        if undone:
            log.event("rolled_back", table=hudi.config.table, instants=list(undone))
            facts = hudi.look()
    if facts.purging:
        instant = hudi.compact_all()
        hudi.set_purging("")
        log.event("purge_finished", table=hudi.config.table, instant=instant)
        facts = hudi.look()
    return FirstLook(facts, undone)
