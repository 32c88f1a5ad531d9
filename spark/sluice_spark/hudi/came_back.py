"""Finds commits that a stopped writer completed after their roll-back, and undoes those that repeat rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from sluice.config.table import MOR
from sluice.hudi import options as hudi_options
from sluice.hudi import own_metadata
from sluice.hudi.stopped_writers import TOO_LATE, UNDO, Written, suspects, verdict
from sluice.hudi.timeline import ROLLBACK, instant_ms, instant_of_ms
from sluice.ports import Log
from sluice_spark.errors import InstantCameBack
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.jvm import instants, written_files
from sluice_spark.hudi.table import HudiTable

# Nobody knows how long a stopped process can sleep; after this the next look of a run finds what it did.
LATE_WRITER_MS = 3_600_000
# Another commit of the same batch lies no further away: a part is merged again soon after its roll-back.
NEAR_MS = 24 * 3_600_000


def rolled_back_lately(facts: TableFacts, now_ms: int) -> bool:
    """Whether a writer that was rolled back may still wake up: such a table is looked at before each commit."""
    since = instant_of_ms(max(0, now_ms - LATE_WRITER_MS))
    return any(item.action == ROLLBACK and item.time >= since for item in facts.timeline.instants)


def strangers(before: TableFacts, after: TableFacts, own: str, *, merge_on_read: bool) -> list[str]:
    """The instants that were completed between two looks beside the run's own; oldest first. Costs no request."""
    times_before = {item.time for item in before.timeline.commits}
    new = [
        (item.time, item.action)
        for item in after.timeline.commits
        if item.time not in times_before and item.time != own
    ]
    return suspects(new, [time for time, _ in new], merge_on_read=merge_on_read)


def instants_that_came_back(hudi: HudiTable, facts: TableFacts) -> list[str]:
    """The completed instants that a completed roll-back names; oldest first. A request for each roll-back."""
    if not any(item.action == ROLLBACK for item in facts.timeline.instants):
        return []
    rolled_back = rolled_back_instants(facts.meta_client)
    completed = [(item.time, item.action) for item in facts.timeline.commits]
    return suspects(completed, rolled_back, merge_on_read=hudi.config.table_type == MOR)


def rolled_back_instants(meta_client: Any) -> frozenset[str]:
    """The instants that the completed roll-backs of the active timeline name."""
    timeline = meta_client.getActiveTimeline().getRollbackTimeline().filterCompletedInstants()
    reports = [timeline.readRollbackMetadata(instant) for instant in instants(timeline)]
    return frozenset(str(time) for report in reports for time in report.getCommitsRollback().toArray())


def undo_what_came_back(hudi: HudiTable, stranger_times: Sequence[str], facts: TableFacts, log: Log) -> TableFacts:
    """Roll back again those of the instants that repeat rows; the table's facts after that.

    For the lane's holder, before it writes. Raises InstantCameBack where it is too late for that, and for a table with
    a record index, whose own timeline isn't looked into.
    """
    commits = written_since(facts, since=stranger_times[0])
    by_time = {commit.time: commit for commit in commits}
    undone = []
    for time in reversed(stranger_times):
        decided = verdict(by_time[time], commits, merge_on_read=hudi.config.table_type == MOR)
        if decided == TOO_LATE or (decided == UNDO and facts.record_index):
            raise InstantCameBack(
                f"{hudi.config.table}: instant {time} was completed after its roll-back, and later commits build on it",
                table=hudi.config.table,
                instant=time,
            )
        level = "warning" if decided == UNDO else "info"
        log.event("instant_came_back", level=level, table=hudi.config.table, instant=time, verdict=decided)
        if decided == UNDO:
            undone.append(time)
    if not undone:
        return facts
    with closing(hudi.client(hudi_options.ROLLBACK_OPTIONS)) as client:
        for time in undone:
            client.rollback(time)
    return hudi.look()


def written_since(facts: TableFacts, *, since: str) -> list[Written]:
    """The completed commits from a day before an instant on. A request for each."""
    timeline = facts.meta_client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
    near = timeline.findInstantsAfter(instant_of_ms(max(0, instant_ms(since) - NEAR_MS)))
    commits = []
    for instant in instants(near):
        metadata = near.readCommitMetadata(instant)
        extra = metadata.getExtraMetadata()
        batch, attempt = (extra.get(key) for key in (own_metadata.BATCH_KEY, own_metadata.ATTEMPT_KEY))
        previous = {str(file["prevCommit"]) for file in written_files(metadata) if file.get("prevCommit")}
        commits.append(
            Written(
                str(instant.requestedTime()),
                str(instant.getAction()),
                None if batch is None else str(batch),
                frozenset(previous),
                None if attempt is None else str(attempt),
            )
        )
    return commits
