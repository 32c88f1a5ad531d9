"""Counts what a part merged again, so that objects and changes that came twice count once.

Objects come again where they were replayed, or retried for rows that were set aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sluice.batch.manifest import ManifestObject
from sluice.changes.log_restart import SeenObject

# Counts of a part: of its `objects` those that an earlier batch had committed, and of the changes `read` those of
# replayed objects. A retry for rows has no such count: how many of its changes are new is not known.
OBJECTS_AGAIN, READ_AGAIN = "objects_again", "read_again"


def merged_again(objects: Iterable[ManifestObject], seen: Iterable[SeenObject]) -> dict[str, int]:
    """The counts of the objects that came again, among those that were read; empty where there are none."""
    before = {item.id.hash: item for item in objects if item.was_readable}
    found = [each for each in seen if each.object in before]
    if not found:
        return {}
    replayed = (each for each in found if before[each.object].first_batch is not None)
    return {OBJECTS_AGAIN: len(found), READ_AGAIN: sum(each.changes for each in replayed)}


def new_changes(counts: Mapping[str, int]) -> int:
    """The changes that were read, without those that were read before. `counts` are a part's, or sums of parts."""
    return max(0, counts.get("read", 0) - counts.get(READ_AGAIN, 0))


def new_objects(counts: Mapping[str, int]) -> int:
    """The objects of a part that no batch had committed before, without those that were set aside."""
    aside = counts.get("quarantined_objects", 0) + counts.get("parked_objects", 0)
    return max(0, counts.get("objects", 0) - counts.get(OBJECTS_AGAIN, 0) - aside)
