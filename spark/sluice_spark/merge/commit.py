"""Commits a part's rows: raises the floor for a truncate, writes, and does the housekeeping that is due."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Callable

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from sluice.batch.outcome import HOUSEKEEPING_STAGE
from sluice.config.table import MOR
from sluice.errors import TableWentBack
from sluice.hudi import write_choices
from sluice_spark.errors import CleaningUnfinished, CommitNotNewest, LaneLost
from sluice_spark.hudi.came_back import strangers, undo_what_came_back
from sluice_spark.hudi.facts import CommitResult, TableFacts
from sluice_spark.hudi.housekeeping import keep_house
from sluice_spark.hudi.own_write import give_way
from sluice_spark.iceberg.keep_up import before_cleaning, keep_up_or_log
from sluice_spark.log import describe
from sluice_spark.merge.context import PartContext
from sluice_spark.merge.schemas import remember_columns


def raise_floors(part: PartContext, facts: TableFacts, truncates: Iterable[tuple[str | None, str]]) -> TableFacts:
    """Raise the table's floors to a batch's truncates (source table, position); the facts with the floors that hold.

    Comes before the commit: even if this attempt fails, the batch is merged in the end, so changes older than the
    truncates have lost already.
    """
    positions = sorted(truncates, key=lambda truncate: truncate[1])
    if facts.floor.raised(positions) == facts.floor:
        return facts
    part.check_held()
    floors = part.hudi.raise_floors(positions)
    part.event("floor_raised", positions={source or "": position for source, position in positions})
    return replace(facts, floor=floors)


def write_alone(part: PartContext, facts: TableFacts, write: Callable[[], CommitResult]) -> CommitResult:
    """The commit that `write` makes, compared with what others committed; undone for a driver that lost its lane."""
    try:
        return looked_at_again(part, write(), facts)
    except (CommitNotNewest, LaneLost):
        if not part.still_held():
            undone = give_way(part.hudi, facts, part.attempt)
            part.event("gave_way", level="warning", instant=undone)
            part.check_held()
        raise


def follow_up(part: PartContext, result: CommitResult) -> CommitResult:
    """The commit, after its columns are recorded and the housekeeping that is due is done."""
    if result.facts is not None:
        remember_columns(part.services.history, part.config, result.facts.schema)
        if keep_up_or_log(part.hudi, result.facts, part.services, part.check_held):
            _keep_house(part, result.facts)
    return result


def wait_for_turn(part: PartContext, facts: TableFacts) -> None:
    """Wait until the commit's instant will be the newest, and look at the lane for the last time before it."""
    clock = part.services.clock
    part.hudi.wait_until_past_newest(facts.newest, now_ms=clock.now_ms, wait=clock.wait)
    part.check_held()


def looked_at_again(part: PartContext, result: CommitResult, before: TableFacts) -> CommitResult:
    """Compare the timeline with the one before the write: only this commit may be new, and none may be gone.

    Raises TableWentBack, and InstantCameBack where another writer's commit repeats rows and can't be undone.
    """
    after = result.facts
    if after is None:
        return result
    gone = [item.time for item in before.timeline.commits if not after.timeline.holds(item.time)]
    if gone:
        raise TableWentBack(
            f"{part.config.table} has lost commit {gone[-1]} during a write", table=part.config.table, instant=gone[-1]
        )
    others = strangers(before, after, result.instant, merge_on_read=part.config.table_type == MOR)
    if not others:
        return result
    part.check_held()
    return replace(result, facts=undo_what_came_back(part.hudi, others, after, part.services.log))


def _keep_house(part: PartContext, committed: TableFacts) -> None:
    """Do the housekeeping that is due, and keep the table's facts for the next batch.

    The rows are committed, so a failure is logged and does not fail the part: the work is due again with a later
    commit, and the table's facts are forgotten.
    """
    known_tables = part.services.tables
    if not write_choices.housekeeping_due(part.config, committed.commits):
        known_tables.keep(part.config, committed)
        return
    part.check_held()
    try:
        with part.stages.timed(HOUSEKEEPING_STAGE):
            done = keep_house(
                part.hudi,
                now_ms=part.services.clock.now_ms(),
                tables=known_tables,
                check_held=part.check_held,
                before_delete=before_cleaning(part.hudi, part.services, part.check_held),
            )
            known_tables.keep(part.config, part.hudi.look())
    # Java's exceptions come as Py4J's or under Spark's own names.
    except (Py4JJavaError, PySparkException, CleaningUnfinished) as failure:
        part.event("housekeeping_failed", level="error", error=describe(failure))
        return
    if done.late_files:
        part.event("late_files_removed", level="warning", files=list(done.late_files))
    part.event("housekept", cleaning=done.cleaning, files=done.files, archived=done.archived, compacted=done.compacted)
