"""Data files that arrive after the roll-back of their write: no reader sees them, until archival passes their instant.

Then Hudi's views take them for committed, since an instant older than the active timeline counts as completed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.hudi.file_slices import Committed
from sluice.hudi.timeline import Timeline


@dataclass(frozen=True)
class Undone:
    """Instants that were rolled back: those that are gone for good, and those of which the archived timeline decides.

    A compaction that was rolled back is carried out later at the same instant, which may have been archived since.
    """

    gone: frozenset[str] = frozenset()
    perhaps_archived: frozenset[str] = frozenset()


def undone_for_good(rolled_back: Iterable[str], timeline: Timeline) -> Undone:
    """Sort the rolled-back instants by what the active timeline says of them now; those that it has are left out."""
    known = {instant.time for instant in timeline.instants}
    first = Committed.of(timeline).first_active
    missing = frozenset(rolled_back) - known
    older = frozenset(time for time in missing if first is not None and time < first)
    return Undone(missing - older, older)
