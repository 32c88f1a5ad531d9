"""Reads a table's bronze object versions again, newest batches first and within bounds, for the changes of one row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from sluice.claiming import PendingObject
from sluice.configuration import Configuration
from sluice.errors import SluiceError
from sluice.identity import ObjectId
from sluice.manifest import ManifestObject
from sluice.outcome import COMMITTED, Outcome
from sluice.row_errors import RowError
from sluice.table_config import TableConfig
from sluice_aws.objects import ObjectGone, Objects
from sluice_cli.failures import UsageError
from sluice_cli.object_changes import FoundChange, ObjectChanges, changes_in
from sluice_cli.past_batches import PastBatch, PastBatches
from sluice_cli.row_biography import MergedBatch

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
