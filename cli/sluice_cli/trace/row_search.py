"""The search for the changes of one row: which of a table's objects must be opened, and what they hold of it.

The table shows the changes that won, as far back as time travel reads, and its history table, if it has one, all of
them. Objects are opened for the rest: for changes that lost, for records that were set aside, and for batches older
than what the table shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from sluice.batch.claim import PendingObject
from sluice.batch.dumps import as_merged
from sluice.batch.manifest import ManifestObject, TablePart
from sluice.batch.outcome import COMMITTED, Outcome
from sluice.batch.row_errors import RowError
from sluice.changes.outdated import OUTDATED
from sluice.config.table import IGNORE, TableConfig
from sluice.errors import SluiceError, UsageError
from sluice.ledger.keys import QUARANTINED
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_aws.errors import ObjectGone
from sluice_aws.s3.objects import SkippedDocument, SkippedDocuments
from sluice_aws.s3.past_batches import PastBatch
from sluice_aws.s3.past_rebuilds import PastRebuilds
from sluice_aws.stack import Target
from sluice_cli.account.steps import commits
from sluice_cli.account.table import objects_of
from sluice_cli.terminal.known_names import check_key
from sluice_cli.terminal.step import completed
from sluice_cli.trace.row_changes import (
    FoundChange,
    ObjectChanges,
    PlacedTruncate,
    changes_in,
    hash_keys_of,
    with_bodies,
)
from sluice_cli.trace.row_life import RowLife, refuse_history_table
from sluice_cli.trace.row_story import MergedBatch
from sluice_read.errors import UnknownTable
from sluice_read.moments import iso


@dataclass(frozen=True)
class Bounds:
    """The limits of a search: batches claimed since then (epoch ms), at most so many objects, newest batches first.

    Of the newest `checked` versions in the table the object that brought it is opened, too.
    """

    objects: int
    since: int | None = None
    checked: int = 0


@dataclass(frozen=True)
class Unread:
    """An object that could not be read, or was set aside whole. `committed_at` is its batch's, in epoch ms."""

    key: str
    version: str
    code: str
    reason: str
    committed_at: int | None = None


@dataclass
class Searched:
    """The result of a search.

    `opened` has the number of records of each object, which several batches may have merged. `left_out` counts objects
    that should have been opened and are beyond the bounds. `unkeyed` counts quarantined records that could not be
    decoded and have no known key. `rebuilt_at` is when the table was rebuilt (epoch ms).
    """

    config: TableConfig
    life: RowLife
    batches: list[MergedBatch] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    waiting: list[FoundChange] = field(default_factory=list)
    set_aside: list[tuple[str, RowError]] = field(default_factory=list)
    gone: list[Unread] = field(default_factory=list)
    quarantined: list[Unread] = field(default_factory=list)
    opened: dict[ObjectId, int] = field(default_factory=dict)
    left_out: int = 0
    unkeyed: int = 0
    rebuilt_at: tuple[int, ...] = ()
    skipped: Sequence[SkippedDocument] = ()

    @property
    def objects(self) -> int:
        """The number of objects that were opened, each once."""
        return len(self.opened)

    @property
    def complete(self) -> bool:
        """Says whether every object that had to be opened was read."""
        return not self.left_out and not self.gone and not self.skipped

    @property
    def from_the_start(self) -> bool:
        """Says whether nothing is missing of what the table was made of up to the first batch that concerns the row."""
        concerned = [batch for batch in self.batches if batch.changes != () or batch.truncates]
        first = min((batch.committed_at for batch in concerned), default=0)
        return not self.left_out and all((item.committed_at or 0) > first for item in self.gone)


class RowSearch:
    """Searches the objects of one stack. `tick` gets the number of objects that were read so far."""

    def __init__(self, target: Target, *, tick: Callable[[int], None]) -> None:
        self._target = target
        self._ledger = target.ledger
        self._objects = target.objects
        self._hash_keys = hash_keys_of(target)
        self._configuration = target.configuration()
        self._tick = tick

    def search(
        self, table: str, key: Sequence[str], bounds: Bounds, read_life: Callable[[TableConfig, list[str]], RowLife]
    ) -> Searched:
        """Find the changes of a row in the table's merged batches, and in the objects that wait.

        `read_life` reads the row's versions from the table, given the instants of its batches. Raises
        UnknownTable, and UsageError for a key of another length and for a history table.
        """
        past = self._target.past_batches()
        newest = past.newest(table=table, since=bounds.since)
        merged = [batch for batch in newest if table in batch.outcomes and batch.outcomes[table].state == COMMITTED]
        waiting = [
            item
            for lane in self._ledger.lanes.all()
            for item in self._ledger.pending.oldest(lane.lane, bounds.objects)
            if item.table == table
        ]
        config = self._config(table, merged, waiting, bounds.since)
        check_key(table, config.record_key, key)
        instants = [batch.outcomes[table].instant for batch in merged]
        life = read_life(config, [instant for instant in instants if instant is not None])
        unread = SkippedDocuments()
        rebuilds = PastRebuilds.read(self._objects, self._target.silver, unread, table=table)
        result = Searched(config, life, rebuilt_at=rebuilds.times(table), skipped=(*past.skipped, *unread.found))
        checked = {version.instant for version in result.life.versions[-bounds.checked :]} if bounds.checked else set()
        for batch in merged:
            self._search_batch(batch, table, key, bounds, checked, result)
        own = self._configuration
        for item in waiting[: max(0, bounds.objects - result.objects)]:
            routed = (own.table_for_topic(item.topic, item.also_for) if own else None) or config
            for read in self._read([item.in_manifest()], routed, key, result, None):
                result.waiting += read.changes
        return result

    def _config(
        self, table: str, merged: Sequence[PastBatch], waiting: Sequence[PendingObject], since: int | None
    ) -> TableConfig:
        if merged:
            return merged[0].manifest.tables[table].table_config
        config = (
            next((self._configuration.table_for_topic(item.topic, item.also_for) for item in waiting), None)
            if self._configuration
            else None
        )
        if config is None and since is not None:
            raise UsageError(
                f"No batch of {table} was claimed since {iso(since)}",
                next_step=f"Give an earlier --since, or none; {commits(table)} has the times",
            )
        if config is None:
            with suppress(UnknownTable):
                refuse_history_table(self._target, table)
            raise UnknownTable(
                f"Nothing of {table} has been merged yet",
                table=table,
                next_step=str(objects_of(table, "shows what became of its objects")),
            )
        return config

    def _search_batch(
        self, batch: PastBatch, table: str, key: Sequence[str], bounds: Bounds, checked: set[str], result: Searched
    ) -> None:
        part, outcome = batch.manifest.tables[table], batch.outcomes[table]
        by_hash = {item.id.hash: item for item in part.objects}
        aside = {
            item.id: item for item in (by_hash.get(error.object) for error in outcome.quarantined) if item is not None
        }
        wanted = objects_to_open(part.objects, outcome, part.table_config, result.life, checked)
        concerned = list(dict.fromkeys([*aside, *(item.id for item in wanted)]))
        of_ledger = self._ledger.objects.get(concerned) if concerned else {}
        for error in outcome.quarantined:
            item = by_hash.get(error.object)
            record = None if item is None else of_ledger.get(item.id)
            # A retried or discarded object is no longer in quarantine, or there by a later batch.
            here = record is None or (record.state, record.batch) == (QUARANTINED, batch.manifest.batch)
            if item is not None and here:
                reason = completed(error.reason, TABLE=table)
                result.quarantined.append(Unread(item.key, item.version, error.code, reason, outcome.committed_at))
        items = _merged_here(batch, wanted, outcome, of_ledger)
        new = sum(item.id not in result.opened for item in items)
        if new and result.objects + new > bounds.objects and result.objects:
            result.left_out += len(items)
            items = []
        version = result.life.written(outcome.instant)
        brought = version.change if version is not None else None
        changes = self._kept(batch, part, outcome, result.life, items)
        result.columns += [name for change in changes for name in change.values if name not in result.columns]
        if brought is not None and any(change.position == brought.position for change in changes):
            brought = None  # in the history table, too
        truncates: list[PlacedTruncate] = []
        for read in self._read(items, part.table_config, key, result, outcome):
            if brought is not None and (brought.key, brought.version) == (read.item.key, read.item.version):
                brought = None  # among the object's own changes
            changes += read.changes
            truncates += read.truncates
            if _has_rows_aside(batch, of_ledger.get(read.item.id)):
                result.unkeyed += read.unkeyed
                result.set_aside += [(read.item.key, error) for error in read.set_aside]
            result.columns += [name for name in read.columns if name not in result.columns]
        if brought is not None and changes:
            changes.append(brought)
        own = None if brought is not None and not changes else tuple(changes)
        made = (batch.manifest.batch, outcome.instant, outcome.readable_at)
        result.batches.append(MergedBatch(*made, own, tuple(truncates), outcome.counts.get(OUTDATED, 0)))

    def _kept(
        self, batch: PastBatch, part: TablePart, outcome: Outcome, life: RowLife, opened: Sequence[ManifestObject]
    ) -> list[FoundChange]:
        """The changes that the history table has from a batch, but for those from objects that are `opened`."""
        if not part.table_config.history or not life.changes:
            return []
        brought = {(change.key, change.version) for change in life.changes}
        held = [item for item in part.objects if (item.key, item.version) in brought and item not in opened]
        records = self._ledger.objects.get([item.id for item in held]) if held else {}
        here = {(item.key, item.version) for item in _merged_here(batch, held, outcome, records)}
        return [change for change in life.changes if (change.key, change.version) in here]

    def _read(
        self,
        items: Sequence[ManifestObject],
        config: TableConfig,
        key: Sequence[str],
        result: Searched,
        outcome: Outcome | None,
    ) -> Iterator[ObjectChanges]:
        hash_key = self._hash_keys.of(config)
        limit = config.limits.object_bytes
        for item, body in with_bodies(self._objects, items, lambda item: (item.id, limit)):
            result.opened.setdefault(item.id, 0)
            self._tick(result.objects)
            try:
                read = changes_in(body(), item, config, key, hash_key=hash_key)
            except ObjectGone:
                readable_at = outcome.readable_at if outcome else None
                result.gone.append(
                    Unread(item.key, item.version, "gone", "the version is no longer in bronze", readable_at)
                )
                continue
            except SluiceError as error:
                result.quarantined.append(Unread(item.key, item.version, error.code, error.message))
                continue
            result.opened[item.id] = read.records
            yield read


def _merged_here(
    batch: PastBatch, items: Sequence[ManifestObject], outcome: Outcome, records: Mapping[ObjectId, ObjectRecord]
) -> list[ManifestObject]:
    """Leaves out objects that were set aside whole, and those that another batch merged in place of this one."""
    aside = {error.object for error in outcome.quarantined}
    taken = []
    for item in items:
        record = records.get(item.id)
        merged = record is None or record.batch == batch.manifest.batch or record.attempt > item.attempt
        if merged and item.id.hash not in aside:
            taken.append(as_merged(item, outcome))
    return taken


def _has_rows_aside(batch: PastBatch, record: ObjectRecord | None) -> bool:
    """Says whether rows that this batch set aside are in quarantine still: neither retried nor discarded."""
    return record is None or (record.batch == batch.manifest.batch and record.quarantined_rows > 0)


def objects_to_open(
    items: Sequence[ManifestObject], outcome: Outcome, config: TableConfig, life: RowLife, checked: set[str]
) -> Sequence[ManifestObject]:
    """The objects of one batch that may hold more of a row than its table shows.

    All of them where the table doesn't show the batch, or a change of it lost; else those with records that were set
    aside, and the one that brought the row where its version is to be `checked` (instants) or its object is among many.
    Where a history table has the batch's changes, only a truncate needs all of them.
    """
    version = life.written(outcome.instant)
    shown = outcome.instant is None or life.knows(outcome.instant)
    if config.history and life.changes is not None:
        if outcome.counts.get("truncates"):
            return items
    elif not shown or may_have_lost(outcome) or config.delete_mode == IGNORE or (version and version.change is None):
        return items
    hashes = {rows.object for rows in outcome.quarantined_rows}
    if version is not None and version.change is not None and (hashes or version.instant in checked):
        brought = (version.change.key, version.change.version)
        hashes.update(item.id.hash for item in items if (item.key, item.version) == brought)
    return [item for item in items if item.id.hash in hashes]


def may_have_lost(outcome: Outcome) -> bool:
    """Says whether a change of the part may not have become a row, by the counts that the merge left."""
    counts = outcome.counts
    if not {"overtaken", "losing"} <= set(counts):
        return True
    return any(counts.get(name) for name in ("overtaken", "losing", "supplied", "truncates", "truncated"))
