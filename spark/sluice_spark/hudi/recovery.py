"""Rolls back what a dead or failed writer left on a table, which also fences a writer that wakes up late.

A run does this before its first write to a table and after every failure (`resolve-before-write`).
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from sluice.errors import TableWentBack
from sluice.hudi import options as hudi_options
from sluice.hudi.timeline import CLEAN, COMPACTION, FOLDER, REQUESTED, ROLLBACK, WRITING, Instant
from sluice.ports import Log
from sluice_spark.engine.tasks import end_tasks
from sluice_spark.errors import StillUnfinished, TableDiffers
from sluice_spark.hudi.came_back import instants_that_came_back, undo_what_came_back
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.jvm import instants
from sluice_spark.hudi.late_files import remove_what_was_rolled_back
from sluice_spark.hudi.table import HudiTable


def roll_back_unfinished(hudi: HudiTable) -> tuple[str, ...]:
    """Undo every unfinished commit, delta commit and service instant. For the lane's holder.

    A late writer can't complete an instant that is gone. A requested compaction plan stays, and a running one becomes
    requested again. A running cleaning is finished, since deleted files can't be restored. Tasks that this driver's own
    failed write left are ended first, and what their Python workers still wrote is removed last. Returns the instants,
    oldest first. Raises StillUnfinished, TasksLeft.
    """
    unfinished = _unfinished(hudi)
    if not unfinished:
        return ()
    end_tasks(hudi.jvm.spark, hudi.config.table)
    with closing(hudi.client(hudi_options.ROLLBACK_OPTIONS)) as client:
        for instant in reversed(unfinished):  # newest first, as Hudi's own cleaning of failed writes does
            roll_back_one(hudi, client, instant)
    left = _unfinished(hudi)
    if left:
        raise StillUnfinished(
            f"{hudi.config.table} still has unfinished instants",
            table=hudi.config.table,
            instants=[f"{item.requestedTime()}.{item.getAction()}.{item.getState()}" for item in left],
        )
    if any(instant.getAction() in WRITING for instant in unfinished):
        remove_what_was_rolled_back(hudi)
    return tuple(str(instant.requestedTime()) for instant in unfinished)


def _unfinished(hudi: HudiTable) -> tuple[Any, ...]:
    pending = instants(hudi.meta_client().getActiveTimeline().filterInflightsAndRequested())
    return tuple(
        item for item in pending if not (item.getAction() == COMPACTION and str(item.getState()) == REQUESTED.upper())
    )


def roll_back_one(hudi: HudiTable, client: Any, instant: Any) -> None:
    """Undo one instant, by a client with ROLLBACK_OPTIONS. Not a compaction or cleaning that is completed."""
    action = instant.getAction()
    if action in WRITING:
        # A stopped writer puts its inflight file behind the roll-back that removed the requested one, and Hudi fails to
        # delete a file that is missing.
        requested = Instant(str(instant.requestedTime()), action, REQUESTED)
        hudi.jvm.create_if_missing(f"{hudi.path}/{FOLDER}{requested.file}")
        client.rollback(instant.requestedTime())
    elif action == COMPACTION:
        hudi.jvm.undo_compaction(client, instant)
    elif action == CLEAN:
        hudi.jvm.carry_out_cleaning(client, str(instant.requestedTime()))
    elif action == ROLLBACK:
        # The roll-back of the instant that it undoes completes it. Without that instant it has no purpose.
        timeline = hudi.meta_client().getActiveTimeline()
        if any(
            item.requestedTime() == instant.requestedTime() for item in instants(timeline.filterInflightsAndRequested())
        ):
            timeline.deletePending(instant)


def refuse_missing(hudi: HudiTable, last_instant: str | None) -> None:
    """Raise TableWentBack where the ledger has a commit of the table, and there is none."""
    if last_instant is not None and not hudi.exists():
        hudi.refuse_lost_properties()
        raise TableWentBack(
            f"{hudi.config.table} is gone: the ledger's last commit of it is {last_instant}",
            table=hudi.config.table,
            instant=last_instant,
        )


def _refuse_older(hudi: HudiTable, facts: TableFacts, last_instant: str | None) -> None:
    """Raise TableWentBack where a commit that the ledger has is not on the timeline, active or archived."""
    if last_instant is None:
        return
    commits = facts.meta_client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
    if not commits.containsOrBeforeTimelineStarts(last_instant):
        raise TableWentBack(
            f"{hudi.config.table} does not have commit {last_instant}, the ledger's last one of it; "
            f"its newest instant is {facts.newest or 'missing'}",
            table=hudi.config.table,
            instant=last_instant,
        )


def recovered_facts(hudi: HudiTable, log: Log, last_instant: str | None = None) -> TableFacts:
    """Check and repair a table that this run doesn't know. For the lane's holder, before it writes.

    `last_instant` is the table's last commit in the ledger: a table without it was deleted or restored, and is not
    touched. A service that died leaves no manifest for a take-over to resolve, so its unfinished instants are rolled
    back here, and what a stopped writer completed after its roll-back is undone again. Where a purge was cut off, the
    log files that it wrote are compacted first. Raises TableDiffers, TableWentBack, InstantCameBack, StillUnfinished,
    TasksLeft.
    """
    try:
        facts = hudi.look()
    except TableDiffers as differs:
        if not hudi.recreate_if_empty():
            raise
        log.event("table_made_anew", table=hudi.config.table, differences=differs.facts["differences"])
        facts = hudi.look()
    _refuse_older(hudi, facts, last_instant)
    if facts.properties_added:
        log.event("properties_added", table=hudi.config.table, properties=list(facts.properties_added))
    if facts.unfinished:
        undone = roll_back_unfinished(hudi)
        if undone:
            log.event("rolled_back", table=hudi.config.table, instants=list(undone))
            facts = hudi.look()
    came_back = instants_that_came_back(hudi, facts)
    if came_back:
        facts = undo_what_came_back(hudi, came_back, facts, log)
    if facts.purging:
        instant = hudi.compact_all()
        hudi.set_purging("")
        log.event("purge_finished", table=hudi.config.table, instant=instant)
        facts = hudi.look()
    return facts
