"""Undoes what somebody left unfinished on a table's timeline, which fences a writer that wakes up late (rule 4)."""

from __future__ import annotations

from typing import Any, Tuple

from sluice_spark.hudi_errors import StillUnfinished
from sluice_spark.hudi_jvm import instants
from sluice_spark.hudi_table import HudiTable

_COMMIT, _DELTA_COMMIT, _REPLACE, _COMPACTION = "commit", "deltacommit", "replacecommit", "compaction"
_CLEAN, _ROLLBACK, _REQUESTED = "clean", "rollback", "REQUESTED"


def roll_back_unfinished(hudi: HudiTable) -> Tuple[str, ...]:
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


def _unfinished(hudi: HudiTable) -> Tuple[Any, ...]:
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
