"""The story of one row: the verdict on each of its changes, and the row after each commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sluice.changes.outdated import LATER, REWOUND, ChangePlace, suspicion
from sluice.changes.position import begins_dump
from sluice.changes.row_history import Change, Row, row_after
from sluice.changes.source_tables import Floors
from sluice_cli.trace.row_changes import FoundChange, PlacedTruncate
from sluice_cli.trace.row_life import UNKNOWN, RowLife, RowVersion

WON, OVERTAKEN, LOST, REPEATED, TRUNCATED = "won", "overtaken", "lost", "repeated", "truncated"
# Since when a change is the first one of its row.
_EVER, _AFTER_REBUILD, _AFTER_FORGETTING = "", " since the table was rebuilt", " since it was forgotten"


@dataclass(frozen=True)
class MergedBatch:
    """What one batch brought of the row. `committed_at` is epoch ms; `instant` is None where the table got no commit.

    `changes` come from the batch's objects; None: none were opened, since the table shows what the batch brought.
    `outdated` keys of the batch lost a later change.
    """

    batch: str
    instant: str | None
    committed_at: int
    changes: tuple[FoundChange, ...] | None = None
    truncates: tuple[PlacedTruncate, ...] = ()
    outdated: int = 0


@dataclass(frozen=True)
class JudgedChange:
    """A change with its verdict and the reason for it."""

    change: FoundChange
    verdict: str
    why: str


@dataclass(frozen=True)
class Chapter:
    """One batch in the row's life. `row` is the row after it: None for nothing (yet), `deleted` for a hidden row.

    `rebuilt_at` (epoch ms) is when a rebuild emptied the table since the chapter before.
    """

    batch: str
    instant: str | None
    committed_at: int
    judged: tuple[JudgedChange, ...]
    row: Row | None
    changed: bool
    truncated_at: str | None = None
    rebuilt_at: int | None = None


def story(
    batches: Iterable[MergedBatch],
    *,
    columns: Sequence[str],
    life: RowLife = UNKNOWN,
    ignore_deletes: bool = False,
    from_the_start: bool = True,
    rebuilt_at: Iterable[int] = (),
    topic: str = "",
) -> tuple[Chapter, ...]:
    """Tell the row's life batch by batch, in the order of the commits. Batches that don't concern the row are left out.

    The row before a batch is what the table shows in `life`, or else what the batches before it make of it. `columns`
    are all but the key's. Without `from_the_start` an older batch was not read. Each rebuild (epoch ms) emptied the
    table, and the row was gone when it was forgotten.
    """
    row: Row | None = None
    floors, first_since, since = Floors(topic=topic), _EVER, -1
    rebuilt: int | None = None
    removed = life.forgotten.at if life.forgotten is not None else None
    chapters: list[Chapter] = []
    places = {item.change.position: item.change.place for item in life.versions if item.change is not None}
    names = tuple(dict.fromkeys([*columns, *(name for item in life.versions for name in item.row.values)]))
    for batch in sorted(batches, key=lambda item: (item.committed_at, item.batch)):
        emptied = max((at for at in rebuilt_at if since < at <= batch.committed_at), default=None)
        if emptied is not None:
            row, floors = None, Floors(topic=topic)
            rebuilt, first_since = (emptied, _AFTER_REBUILD) if chapters else (None, _EVER)
        gone = removed is not None and removed < batch.committed_at
        if gone and since <= (removed or 0):
            row, first_since = None, _AFTER_FORGETTING
        since = batch.committed_at
        raised = floors.raised(() if ignore_deletes else batch.truncates)
        is_known = life.knows_before(batch.instant)
        before = _row(life.before(batch.instant)) if is_known and batch.instant is not None else row
        version = life.written(batch.instant)
        brought = batch.changes
        if brought is None:
            brought = (version.change,) if version is not None and version.change is not None else ()
        places.update((item.position, item.place) for item in brought)
        out = [item for item in brought if gone and life.forgotten and item.position <= life.forgotten.until]
        changes = [item for item in brought if item not in out]
        if batch.changes is None:
            after = before if version is None else version.row
        elif changes or raised != floors:
            plain = [_change(item, names) for item in changes]
            after = row_after(before, plain, columns=names, floor=raised, ignore_deletes=ignore_deletes)
        else:
            after = before
        own = next((known_row.source for known_row in (before, after, *changes) if known_row is not None), None)
        truncated_at = raised.of(own) if raised.of(own) > floors.of(own) else None
        if brought or (truncated_at is not None and before is not None):
            judged = [
                _judged(change, before, after, changes, raised, ignore_deletes, first_since)
                for change in sorted(changes, key=lambda change: change.position)
            ]
            held = places.get(after.position) if after is not None else None
            judged = [_with_order(item, held, batch.outdated) for item in judged]
            if not from_the_start and not chapters and not is_known:
                judged = [_without_the_past(item) for item in judged]
            judged = [*(JudgedChange(item, "forgotten", "the row was forgotten before") for item in out), *judged]
            made = (batch.batch, batch.instant, batch.committed_at)
            chapters.append(Chapter(*made, _once(judged), after, after != before, truncated_at, rebuilt))
            rebuilt = None
        row, floors = after, raised
        if life.knows(batch.instant) and batch.instant is not None:
            row = _row(life.at(batch.instant))
    return tuple(chapters)


def _row(version: RowVersion | None) -> Row | None:
    return None if version is None else version.row


def _judged(
    own: FoundChange,
    before: Row | None,
    after: Row | None,
    together: Sequence[FoundChange],
    floors: Floors,
    ignore_deletes: bool,
    first_since: str,
) -> JudgedChange:
    newest = max(change.position for change in together)
    if own.position <= floors.of(own.source):
        what = "full dump that replaced" if begins_dump(floors.of(own.source)) else "truncate of"
        return JudgedChange(own, TRUNCATED, f"older than a {what} the table")
    if before is not None and own.position == before.position:
        return JudgedChange(own, REPEATED, "the table already has this change")
    if own.deleted and ignore_deletes:
        return JudgedChange(own, "ignored", "the table ignores deletes; older changes still lose to it")
    if after is not None and own.position == after.position and (before is None or before.position < own.position):
        older = [change for change in together if floors.of(change.source) < change.position < own.position]
        if before is not None:
            others = f"; newer than {len(older)} more in this batch" if older else ""
            return JudgedChange(own, WON, f"newer than the stored row, {before.position}{others}")
        why = f"the newest of {len(older) + 1} changes in the first batch with this row"
        return JudgedChange(own, WON, f"{why if older else 'the first change of this row'}{first_since}")
    supplied = _supplied(own, before, after)
    if supplied:
        why = f"older than the row, but supplies {', '.join(supplied)}, which the row's change left unchanged"
        return JudgedChange(own, "supplied", why)
    if before is not None and own.position < before.position:
        return JudgedChange(own, LOST, f"the table has a newer change, {before.position}")
    return JudgedChange(own, OVERTAKEN, f"the batch has a newer change, {newest}")


def _with_order(item: JudgedChange, held: ChangePlace | None, outdated: int) -> JudgedChange:
    """The verdict, and what to do where the change is later than the one that the row `held` after its batch is from.

    What the objects of the batch told when they were merged is in its count of `outdated` keys.
    """
    sign = suspicion(item.change.place, held) if held is not None else None
    lost = item.verdict in (LOST, OVERTAKEN) or sign == REWOUND and item.verdict == REPEATED
    if not lost or sign is None or not (sign == LATER or outdated):
        return item
    return replace(item, why=f"{item.why}, though this one is later: raise the table's `generation`")


def _supplied(change: FoundChange, before: Row | None, after: Row | None) -> list[str]:
    """The columns whose value in the row comes from this change, which is not the row's newest."""
    if after is None or after.deleted or change.deleted:
        return []
    supplied = {name for name, position in after.owed.items() if position == change.position}
    was = {
        name for name, position in (before.owed if before is not None else {}).items() if position == change.position
    }
    # Of a change that is the stored row's predecessor, the row owes what it took over from there.
    return sorted(name for name in supplied - was if name in change.values)


def _without_the_past(item: JudgedChange) -> JudgedChange:
    """It looks like the winner, but what the table held before was not read."""
    if item.verdict != WON:
        return item
    return replace(item, verdict="newest", why="the newest of the changes that were read; older objects were not")


def _once(judged: Sequence[JudgedChange]) -> tuple[JudgedChange, ...]:
    """Of a change that came several times in one batch the first keeps its verdict, and the others repeat it."""
    seen: set[str] = set()
    marked = []
    for item in judged:
        again = item.change.position in seen and item.verdict != TRUNCATED
        seen.add(item.change.position)
        marked.append(replace(item, verdict=REPEATED, why="repeated in this batch") if again else item)
    return tuple(marked)


def _change(change: FoundChange, columns: Collection[str] = ()) -> Change:
    unchanged = change.unchanged.union(set(columns).difference(change.values) if change.partial else ())
    return Change(change.position, change.op, change.deleted, change.values, unchanged, change.source)


def describe(chapter: Chapter) -> dict[str, Any]:
    """The JSON form of a chapter. Times are epoch ms."""
    row = chapter.row
    return {
        "batch": chapter.batch,
        "instant": chapter.instant,
        "committed_at": chapter.committed_at,
        "changed": chapter.changed,
        "truncated_at": chapter.truncated_at,
        "rebuilt_at": chapter.rebuilt_at,
        "changes": [
            {**describe_change(item.change), "verdict": item.verdict, "why": item.why} for item in chapter.judged
        ],
        "row": None
        if row is None
        else {"deleted": row.deleted, "position": row.position, "values": dict(row.values), "owed": dict(row.owed)},
    }


def describe_change(change: FoundChange) -> dict[str, Any]:
    """The JSON form of a change."""
    described = {**asdict(change), "values": dict(change.values), "unchanged": sorted(change.unchanged)}
    del described["source_clock"], described["partial"]
    return described
