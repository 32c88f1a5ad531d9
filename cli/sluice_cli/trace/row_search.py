"""Reads a table's bronze object versions again, newest batches first and within bounds, for the changes of one row.

The biography of one row: what each of its changes came to in the batch that merged it, by the definition that the merge follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from sluice.batch.claim import PendingObject
from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import COMMITTED, Outcome, RowError
from sluice.changes.row_history import NEVER, Change, Row, folded
from sluice.config.document import Configuration
from sluice.config.table import TableConfig
from sluice.errors import SluiceError, UsageError
from sluice.objects import ObjectId
from sluice_aws.errors import ObjectGone
from sluice_aws.s3.objects import Objects
from sluice_cli.status.past import PastBatch, PastBatches
from sluice_cli.trace.row_changes import FoundChange, ObjectChanges, changes_in

AT_ONCE = 8  # objects fetched ahead of the one that is decoded


@dataclass(frozen=True)
class Bounds:
    """How far back a search goes: batches claimed since then (epoch ms), and at most so many objects."""

    objects: int
    since: int | None = None


@dataclass(frozen=True)
class Unread:
    """An object that could not be read, or whose content was set aside whole, and why. `committed_at` (epoch ms): of the batch that had it."""

    key: str
    version: str
    code: str
    reason: str
    committed_at: int | None = None


@dataclass
class Searched:
    """What a search found. `left_out` counts objects of batches that were beyond the bounds: the biography then begins in the middle."""

    config: TableConfig
    batches: list[MergedBatch] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    waiting: list[FoundChange] = field(default_factory=list)
    set_aside: list[tuple[str, RowError]] = field(default_factory=list)
    gone: list[Unread] = field(default_factory=list)
    quarantined: list[Unread] = field(default_factory=list)
    objects: int = 0
    records: int = 0
    left_out: int = 0

    @property
    def complete(self) -> bool:
        """Whether every object that the table was made of was read."""
        return not self.left_out and not self.gone

    @property
    def from_the_start(self) -> bool:
        """Whether nothing is missing of what the table was made of up to the first batch that concerns the row."""
        first = min((batch.committed_at for batch in self.batches), default=0)
        return not self.left_out and all((item.committed_at or 0) > first for item in self.gone)


class RowSearch:
    """Searches in one stack. `tick` is told how many objects were read so far."""

    def __init__(
        self,
        *,
        ledger: Any,
        objects: Objects,
        silver: str,
        configuration: Configuration | None,
        tick: Callable[[int], None],
    ) -> None:
        self._ledger = ledger
        self._objects = objects
        self._silver = silver
        self._configuration = configuration
        self._tick = tick

    def search(self, table: str, key: Sequence[str], bounds: Bounds) -> Searched:
        """Every change of the row in objects of the table that were merged, and in those that wait. Raises UsageError."""
        merged = [
            batch
            for batch in PastBatches(self._objects, self._silver).newest(table=table, since=bounds.since)
            if self._is_merged(batch, table)
        ]
        waiting = [
            item
            for lane in self._ledger.lanes()
            for item in self._ledger.pending(lane.lane, bounds.objects)
            if item.table == table
        ]
        config = self._config(table, merged, waiting)
        if len(key) != len(config.record_key):
            raise UsageError(
                f"The key of {table} is {', '.join(config.record_key)}: {len(config.record_key)} and not {len(key)}",
                next_step="Give a value for each, in this order",
            )
        found = Searched(config)
        for batch in merged:
            items = self._items(batch, table, found)
            if found.objects + len(items) > bounds.objects and found.objects:
                found.left_out += len(items)
                continue
            self._read_batch(batch, table, items, key, found)
        own = self._configuration
        for item in waiting[: max(0, bounds.objects - found.objects)]:
            routed = (own.table_for_topic(item.topic) if own else None) or config
            for read in self._read([_as_in_a_manifest(item)], routed, key, found, None):
                found.waiting += read.changes
        return found

    def _config(self, table: str, merged: Sequence[PastBatch], waiting: Sequence[PendingObject]) -> TableConfig:
        if merged:
            return merged[0].manifest.tables[table].table_config
        config = (
            next((self._configuration.table_for_topic(item.topic) for item in waiting), None)
            if self._configuration
            else None
        )
        if config is None:
            raise UsageError(
                f"No batch of a table {table!r} is kept",
                next_step="`sluice status` lists the tables; names are database.table",
            )
        return config

    @staticmethod
    def _is_merged(batch: PastBatch, table: str) -> bool:
        outcome = batch.outcomes.get(table)
        return outcome is not None and outcome.state == COMMITTED

    def _items(self, batch: PastBatch, table: str, found: Searched) -> list[ManifestObject]:
        """The part's objects that were really merged."""
        aside = {error.object: error for error in batch.outcomes[table].quarantined}
        items = batch.manifest.tables[table].objects
        records = self._ledger.get_objects([item.id for item in items])
        taken = []
        for item in items:
            error = aside.get(item.id.hash)
            record = records.get(item.id)
            if error is not None:
                found.quarantined.append(
                    Unread(item.key, item.version, error.code, error.reason, batch.outcomes[table].committed_at)
                )
            elif record is None or record.batch == batch.manifest.batch or record.attempt > item.attempt:
                taken.append(item)
        return taken

    def _read_batch(
        self, batch: PastBatch, table: str, items: Sequence[ManifestObject], key: Sequence[str], found: Searched
    ) -> None:
        outcome = batch.outcomes[table]
        changes: list[FoundChange] = []
        truncates: list[str] = []
        for read in self._read(items, batch.manifest.tables[table].table_config, key, found, outcome):
            changes += read.changes
            truncates += read.truncates
            found.set_aside += [(read.item.key, error) for error in read.set_aside]
            found.columns += [name for name in read.columns if name not in found.columns]
        if changes or truncates:
            found.batches.append(
                MergedBatch(
                    batch.manifest.batch, outcome.instant, outcome.readable_at, tuple(changes), tuple(truncates)
                )
            )

    def _read(
        self,
        items: Sequence[ManifestObject],
        config: TableConfig,
        key: Sequence[str],
        found: Searched,
        outcome: Outcome | None,
    ) -> Iterator[ObjectChanges]:
        for item, body in self._bodies(items, config.limits.object_bytes):
            found.objects += 1
            self._tick(found.objects)
            try:
                read = changes_in(body(), item, config, key)
            except ObjectGone:
                found.gone.append(
                    Unread(
                        item.key,
                        item.version,
                        "gone",
                        "the version is no longer in bronze",
                        outcome.readable_at if outcome else None,
                    )
                )
                continue
            except SluiceError as error:
                found.quarantined.append(Unread(item.key, item.version, error.code, error.message))
                continue
            found.records += read.records
            yield read

    def _bodies(
        self, items: Sequence[ManifestObject], limit: int
    ) -> Iterator[tuple[ManifestObject, Callable[[], bytes]]]:
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="row") as pool:
            for start in range(0, len(items), AT_ONCE):
                chunk = items[start : start + AT_ONCE]
                yield from zip(
                    chunk, [pool.submit(self._objects.whole, item.id, limit).result for item in chunk], strict=True
                )


def _as_in_a_manifest(item: PendingObject) -> ManifestObject:
    identity: ObjectId = item.id
    return ManifestObject(
        bucket=identity.bucket,
        key=identity.key,
        version=identity.version,
        size=item.size,
        schema=item.schema,
        format=item.format,
        topic=item.topic,
        kafka_partition=item.kafka_partition,
        offset=item.offset,
        admitted_at=item.admitted_at,
        attempt=item.attempt,
    )


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


def describe(chapter: Chapter) -> dict[str, Any]:
    """A chapter as plain JSON values. Times are epoch ms."""
    return {
        "batch": chapter.batch,
        "instant": chapter.instant,
        "committed_at": chapter.committed_at,
        "changed": chapter.changed,
        "truncated_at": chapter.truncated_at,
        "changes": [
            {**_describe_change(item.change), "verdict": item.verdict, "why": item.why} for item in chapter.judged
        ],
        "row": describe_row(chapter.row),
    }


def describe_row(row: Row | None) -> dict[str, Any] | None:
    """What the table holds, as plain JSON values; None for nothing."""
    if row is None:
        return None
    return {"deleted": row.deleted, "position": row.position, "values": dict(row.values), "owed": dict(row.owed)}


def _describe_change(change: FoundChange) -> dict[str, Any]:
    return {**asdict(change), "values": dict(change.values), "unchanged": sorted(change.unchanged)}
