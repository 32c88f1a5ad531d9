"""What to do with an instant that a stopped writer completed after it was rolled back.

Hudi looks at an instant's file and then puts the next one, in several requests. A writer that was stopped between them
and wakes up completes an instant that is no longer on the timeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sluice.hudi.timeline import COMMIT, REPLACE_COMMIT

KEEP, UNDO, TOO_LATE = "keep", "undo", "too_late"


@dataclass(frozen=True)
class Written:
    """A completed commit: its batch (None for a table service), and the instants of the files that it built upon.

    `attempt` names the merge that made it; None for one of a release that recorded none.
    """

    time: str
    action: str
    batch: str | None = None
    built_on: frozenset[str] = frozenset()
    attempt: str | None = None


def verdict(came_back: Written, commits: Iterable[Written], *, merge_on_read: bool) -> str:
    """KEEP a commit that is the only one of its batch's rows, UNDO one that repeats them, or TOO_LATE for that.

    A batch is merged again after the roll-back. If that merge saw the commit, it has no commit of its own, or it
    updated the rows that it found. Otherwise each row of a new file group is there twice. It is too late once another
    commit built on the files, or a service may have rewritten them. A clustering that came back hides what was written
    since, so it isn't kept.
    """
    others = [other for other in commits if other.time != came_back.time]
    twins = [other for other in others if came_back.batch is not None and other.batch == came_back.batch]
    clustering = came_back.action == REPLACE_COMMIT and came_back.batch is None
    if not clustering and (not twins or any(came_back.time in twin.built_on for twin in twins)):
        return KEEP
    rewriting = (REPLACE_COMMIT, COMMIT) if merge_on_read else (REPLACE_COMMIT,)
    rewritten = any(other.action in rewriting and other.time > came_back.time for other in others)
    built_on = any(came_back.time in other.built_on for other in others)
    return TOO_LATE if rewritten or built_on else UNDO


def suspects(completed: Sequence[tuple[str, str]], rolled_back: Iterable[str], *, merge_on_read: bool) -> list[str]:
    """The completed instants, each (time, action), that were rolled back; oldest first.

    A compaction isn't among them: after its roll-back it is carried out again at the same instant.
    """
    undone = set(rolled_back)
    return sorted(time for time, action in completed if time in undone and not (merge_on_read and action == COMMIT))
