"""Counts of a part: what it merged again, and rows that were merged though they aren't as the table's `expect` says.

Objects come again where they were replayed, retried for rows that were set aside, or merged for a rebuilt table. They
and their changes count once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from sluice.batch.manifest import ManifestObject
from sluice.changes.log_restart import SeenObject

# Counts of a part: of its `objects` those that an earlier batch had committed, and of the changes `read` those of
# replayed objects, and those of objects of a rebuilt table. A retry for rows has no such count: how many of its changes
# are new is not known.
OBJECTS_AGAIN, READ_AGAIN, READ_REBUILT = "objects_again", "read_again", "read_rebuilt"


def merged_again(objects: Iterable[ManifestObject], seen: Iterable[SeenObject]) -> dict[str, int]:
    """The counts of the objects that came again, among those that were read; empty where there are none."""
    before = {item.id.hash: item for item in objects if item.came_before}
    repeated = [item for item in seen if item.object in before]
    if not repeated:
        return {}
    replayed = (item for item in repeated if before[item.object].first_batch is not None)
    rebuilt = [item for item in repeated if not before[item.object].was_readable]
    counts = {OBJECTS_AGAIN: len(repeated), READ_AGAIN: sum(item.changes for item in replayed)}
    return {**counts, READ_REBUILT: sum(item.changes for item in rebuilt)} if rebuilt else counts


def new_changes(counts: Mapping[str, int]) -> int:
    """The changes that were read, without those that were read before. `counts` are a part's, or sums of parts."""
    return max(0, changes_of_table(counts) - counts.get(READ_REBUILT, 0))


def changes_of_table(totals: Mapping[str, int]) -> int:
    """The changes that a table is made of, by its totals, which a rebuild empties: those of replays count once."""
    return max(0, totals.get("read", 0) - totals.get(READ_AGAIN, 0))


def new_objects(counts: Mapping[str, int]) -> int:
    """The objects of a part that no batch had committed before, without those that were set aside."""
    aside = counts.get("quarantined_objects", 0) + counts.get("parked_objects", 0)
    return max(0, counts.get("objects", 0) - counts.get(OBJECTS_AGAIN, 0) - aside)


_NAMED = 5  # rules of a note


def unexpected_in(seen: Iterable[SeenObject]) -> Mapping[str, int]:
    """How many rows of the objects failed each rule, by `column rule`."""
    totals: Counter[str] = Counter()
    for item in seen:
        totals.update(dict(item.unexpected))
    return dict(totals)


def unexpected_note(rows_by_rule: Mapping[str, int], batch: str) -> str:
    """What to tell operators, the rules that most rows failed first."""
    most = sorted(rows_by_rule.items(), key=lambda entry: (-entry[1], entry[0]))
    rules = ", ".join(f"{rule}: {rows:,}" for rule, rows in most[:_NAMED])
    more = f", and {len(most) - _NAMED} more rules" if len(most) > _NAMED else ""
    return f"rows of batch {batch} aren't as the table's `expect` says: {rules}{more}"
