"""The biography of one row: what each of its changes came to in the batch that merged it, by the definition that the merge follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sluice.folding import NEVER, Change, Row, folded
from sluice_cli.object_changes import FoundChange

WON, OVERTAKEN, LOST, REPEATED, TRUNCATED, IGNORED_DELETE, SUPPLIED = (
    "won",
    "overtaken",
    "lost",
    "repeated",
    "truncated",
    "ignored",
    "supplied",
)
NEWEST = "newest"  # of what was read: whether it won is not known, for what came before was not read


@dataclass(frozen=True)
class MergedBatch:
    """What one batch brought of the row. `committed_at` is epoch ms; `instant` None: nothing of the table changed."""

    batch: str
    instant: str | None
    committed_at: int
    changes: tuple[FoundChange, ...]
    truncates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judged:
    """A change with what became of it, and why."""

    change: FoundChange
    verdict: str
    why: str


@dataclass(frozen=True)
class Chapter:
    """One commit in the row's life. `row` is what the table holds of it from then on: None for nothing (yet), `deleted` for a hidden row."""

    batch: str
    instant: str | None
    committed_at: int
    judged: tuple[Judged, ...]
    row: Row | None
    changed: bool
    truncated_at: str | None = None


def biography(
    batches: Iterable[MergedBatch], *, columns: Sequence[str], ignore_deletes: bool = False, from_the_start: bool = True
) -> tuple[Chapter, ...]:
    """Fold the batches in the order of their commits. Only those that concern the row make a chapter.

    Without `from_the_start` something older was not read, and the first chapter says so of what looks like the winner.
    """
    row: Row | None = None
    floor = NEVER
    chapters: list[Chapter] = []
    for batch in sorted(batches, key=lambda item: (item.committed_at, item.batch)):
        raised = max([floor, *batch.truncates])
        if not batch.changes and (raised == floor or row is None):
            floor = raised
            continue
        after = folded(
            row,
            [_change(found) for found in batch.changes],
            columns=columns,
            floor=raised,
            ignore_deletes=ignore_deletes,
        )
        judged: Sequence[Judged] = tuple(
            _judged(found, row, after, batch.changes, raised, ignore_deletes)
            for found in sorted(batch.changes, key=lambda found: found.position)
        )
        if not from_the_start and not chapters:
            judged = [
                Judged(item.change, NEWEST, "what the table held before is not known: nothing older was read")
                if item.verdict == WON
                else item
                for item in judged
            ]
        truncated = raised if raised > floor else None
        chapters.append(
            Chapter(batch.batch, batch.instant, batch.committed_at, _once(judged), after, after != row, truncated)
        )
        row, floor = after, raised
    return tuple(chapters)


def _judged(
    found: FoundChange,
    before: Row | None,
    after: Row | None,
    together: Sequence[FoundChange],
    floor: str,
    ignore_deletes: bool,
) -> Judged:
    newest = max(change.position for change in together)
    if found.position <= floor:
        return Judged(found, TRUNCATED, "it is older than a truncate of the table")
    if before is not None and found.position == before.position:
        return Judged(found, REPEATED, "the table held this very change")
    if found.deleted and ignore_deletes:
        return Judged(found, IGNORED_DELETE, "the table ignores deletions; older changes lose to it all the same")
    if after is not None and found.position == after.position and (before is None or before.position < found.position):
        beaten = [change for change in together if floor < change.position < found.position]
        why = (
            "nothing of the row was known before"
            if before is None
            else f"newer than what the table held, {before.position}"
        )
        return Judged(found, WON, f"{why}{f'; newer than {len(beaten)} more in this batch' if beaten else ''}")
    supplied = _supplied(found, before, after)
    if supplied:
        return Judged(
            found,
            SUPPLIED,
            f"older than the row, and the newest that tells {', '.join(supplied)}, which the row's change came without",
        )
    if before is not None and found.position < before.position:
        return Judged(found, LOST, f"the table held a newer one, {before.position}")
    return Judged(found, OVERTAKEN, f"a newer one came in the same batch, {newest}")


def _supplied(found: FoundChange, before: Row | None, after: Row | None) -> list[str]:
    """The columns whose value in the row is known from this change, which isn't its newest."""
    if after is None or after.deleted or found.deleted:
        return []
    known = {name for name, position in after.owed.items() if position == found.position}
    was = {name for name, position in (before.owed if before is not None else {}).items() if position == found.position}
    # Of a change that is the stored row's predecessor, the row owes what it took over from there.
    return sorted(name for name in known - was if name in found.values)


def _once(judged: Sequence[Judged]) -> tuple[Judged, ...]:
    """Of a change that came several times in one batch, the first won and the others repeat it."""
    seen: set[str] = set()
    found = []
    for item in judged:
        again = item.change.position in seen
        seen.add(item.change.position)
        found.append(
            Judged(item.change, REPEATED, "it came more than once in this batch")
            if again and item.verdict != TRUNCATED
            else item
        )
    return tuple(found)


def _change(found: FoundChange) -> Change:
    return Change(found.position, found.op, found.deleted, found.values, found.unchanged)


def told(chapter: Chapter) -> dict[str, Any]:
    """A chapter as plain JSON values. Times are epoch ms."""
    return {
        "batch": chapter.batch,
        "instant": chapter.instant,
        "committed_at": chapter.committed_at,
        "changed": chapter.changed,
        "truncated_at": chapter.truncated_at,
        "changes": [{**_told_change(item.change), "verdict": item.verdict, "why": item.why} for item in chapter.judged],
        "row": told_row(chapter.row),
    }


def told_row(row: Row | None) -> dict[str, Any] | None:
    """What the table holds, as plain JSON values; None for nothing."""
    if row is None:
        return None
    return {"deleted": row.deleted, "position": row.position, "values": dict(row.values), "owed": dict(row.owed)}


def _told_change(change: FoundChange) -> dict[str, Any]:
    return {**asdict(change), "values": dict(change.values), "unchanged": sorted(change.unchanged)}
