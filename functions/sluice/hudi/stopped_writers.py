"""What a stopped writer leaves that wakes up after its write has ended: data files, and instants that it completes.

After a roll-back no reader sees the files, until archival passes their instant: then Hudi's views take them for
committed, since an instant older than the active timeline counts as completed. After its commit readers see them at
once, though the commit doesn't name them: a task that was given up for lost wrote what another attempt had written.

Hudi looks at an instant's file and then puts the next one, in several requests. A writer that was stopped between them
and wakes up completes an instant that is no longer on the timeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.hudi.file_slices import Committed, DataFile
from sluice.hudi.timeline import COMMIT, REPLACE_COMMIT, Timeline

NEWEST_LOOKED_AT = 20  # commits, each of which takes a request; cleaning looks every ten or so


@dataclass(frozen=True)
class Undone:
    """Instants that were rolled back: those that are gone for good, and those of which the archived timeline decides.

    A compaction that was rolled back is carried out later at the same instant, which may have been archived since.
    """

    gone: frozenset[str] = frozenset()
    perhaps_archived: frozenset[str] = frozenset()


def undone_for_good(rolled_back: Iterable[str], timeline: Timeline) -> Undone:
    """Sort the rolled-back instants by what the active timeline says of them now; those that it has are left out."""
    times = {instant.time for instant in timeline.instants}
    first = Committed.of(timeline).first_active
    missing = frozenset(rolled_back) - times
    older = frozenset(time for time in missing if first is not None and time < first)
    return Undone(missing - older, older)


def looked_at(commits: Sequence[str]) -> tuple[str, ...]:
    """The completed instants, of all active ones in order, whose files are compared with what they name.

    The oldest is the first load of a young table.
    """
    return (*commits[: max(0, min(1, len(commits) - NEWEST_LOOKED_AT))], *commits[-NEWEST_LOOKED_AT:])


def unnamed(files: Iterable[DataFile], paths_by_instant: Mapping[str, Iterable[str]]) -> tuple[DataFile, ...]:
    """The base files of completed instants that their commit doesn't name, as `paths_by_instant` has its paths.

    A commit that names nothing isn't judged: Hudi writes some without metadata.
    """
    names = {instant: {path.rpartition("/")[2] for path in paths} for instant, paths in paths_by_instant.items()}
    return tuple(
        file
        for file in files
        if not file.is_log and names.get(file.instant) and file.path.rpartition("/")[2] not in names[file.instant]
    )


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
