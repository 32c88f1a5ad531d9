"""Data files that arrive after their write has ended.

After its roll-back no reader sees them, until archival passes their instant: then Hudi's views take them for committed,
since an instant older than the active timeline counts as completed. After its commit readers see them at once, though
the commit doesn't name them: a task that was given up for lost wrote what another attempt had written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.hudi.file_slices import Committed, DataFile
from sluice.hudi.timeline import Timeline

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
