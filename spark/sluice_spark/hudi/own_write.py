"""A write that this driver began: other writers' instants are looked for, and it is undone once the lane is lost.

The look at the lane before the write and Hudi's first instant are two requests. A driver that is held up between them
goes on when another run has taken over, resolved the batch and merged it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Callable

from sluice.config.table import MOR
from sluice.hudi import options as hudi_options
from sluice.hudi.stopped_writers import UNDO, verdict
from sluice.hudi.timeline import COMPACTION, COMPLETED, REQUESTED, WRITING, Instant, Timeline
from sluice_spark.errors import LaneLost, WriteUndone
from sluice_spark.hudi.came_back import written_since
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.jvm import completion_times, instants
from sluice_spark.hudi.recovery import roll_back_one
from sluice_spark.hudi.table import HudiTable


@contextmanager
def own_write(hudi: HudiTable, instant: str) -> Iterator[None]:
    """Undo the begun write where LaneLost is raised inside: its run's successor may be past its own roll-back."""
    try:
        yield
    except LaneLost as lost:
        try:
            undo(hudi, instant)
        except Exception as failure:  # the successor's look finds it; this run ends, whatever else fails
            raise lost from failure
        raise


def refuse_others(
    hudi: HudiTable, meta_client: Any, facts: TableFacts, instant: str, check_held: Callable[[], None]
) -> None:
    """Compare the timeline behind the begun `instant` with `facts`, from which the write's rows were decided.

    `meta_client` was read after the instant began. Raises LaneLost, or WriteUndone where the lane is still held.
    """
    others = [item.time for item in _unknown(meta_client, facts) if item.time != instant]
    if not others:
        return
    check_held()
    raise WriteUndone(
        f"{hudi.config.table}: {others[-1]} was begun or completed while rows for {instant} were decided",
        table=hudi.config.table,
        instant=others[-1],
    )


def refuse_other_writers(hudi: HudiTable, facts: TableFacts, check_held: Callable[[], None]) -> None:
    """The same right before Hudi's data source completes a write, whose instant only Hudi knows."""
    check_held()
    new = _unknown(hudi.meta_client(), facts)
    pending = [item.time for item in new if item.state != COMPLETED]
    others = [item.time for item in new if item.state == COMPLETED] or pending[:-1]
    if others:
        raise WriteUndone(
            f"{hudi.config.table}: {others[-1]} was begun or completed beside this run's own write",
            table=hudi.config.table,
            instant=others[-1],
        )


def _unknown(meta_client: Any, facts: TableFacts) -> list[Instant]:
    """The writes of rows on the timeline that `facts` don't have, oldest first. A requested compaction writes none."""
    times_before = {item.time for item in facts.timeline.instants}
    new = [
        item
        for item in Timeline.of(completion_times(meta_client.getActiveTimeline())).instants
        if item.action in (*WRITING, COMPACTION) and item.time not in times_before
    ]
    return [item for item in new if (item.action, item.state) != (COMPACTION, REQUESTED)]


def undo(hudi: HudiTable, instant: str) -> None:
    """Undo a write of this driver's own, whether or not it is completed. Nothing where another one has undone it."""
    timeline = hudi.meta_client().getActiveTimeline()
    own = [item for item in instants(timeline) if str(item.requestedTime()) == instant]
    if not own:
        return
    with closing(hudi.client(hudi_options.ROLLBACK_OPTIONS)) as client:
        for item in own:
            roll_back_one(hudi, client, item)


def give_way(hudi: HudiTable, before: TableFacts, attempt: str) -> str | None:
    """Undo this attempt's commit where a run that took over merged its batch again; its instant, None where it stays.

    For a driver that has lost its lane after it committed. `before` is what its rows were decided from. A commit that
    the other run may have found, and settled, stays.
    """
    facts = hudi.look()
    times_before = {item.time for item in before.timeline.commits}
    new = [item.time for item in facts.timeline.commits if item.time not in times_before]
    commits = written_since(facts, since=min(new)) if new else []
    own = next((item for item in commits if item.attempt == attempt), None)
    if own is None or verdict(own, commits, merge_on_read=hudi.config.table_type == MOR) != UNDO:
        return None
    undo(hudi, own.time)
    return own.time
