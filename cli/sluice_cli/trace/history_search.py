"""The search for the history of objects: the newest ones of a stack, or all versions of one key, within bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from sluice.errors import UsageError
from sluice.ledger.keys import DISCARDED, LISTED_STATES
from sluice.ledger.ports import Ledger
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_aws.ledger.ledger import DynamoDbLedger
from sluice_aws.s3.objects import Objects, SkippedDocument
from sluice_aws.s3.past_batches import PastBatch, PastBatches
from sluice_aws.stack import Target
from sluice_cli.terminal.output import is_named
from sluice_cli.trace.object_history import Entry, by_object, claims_of
from sluice_cli.trace.tracking import Tracker, tracker
from sluice_read.moments import instant_of

MANIFESTS_AT_MOST = 5_000  # that one history reads
SET_ASIDE_AT_MOST = 10_000  # objects read of one listed state
CLOCKS_DIFFER_MS = 60_000  # at most, between S3, which dates manifests, and the job, which dates commits
_INSTANT = re.compile(r"[0-9]{17}")
THREADS = 16


@dataclass(frozen=True)
class HistoryQuery:
    """The newest `limit` objects of a table (None: all), admitted within [since, before) (epoch ms)."""

    limit: int
    table: str | None = None
    since: int | None = None
    before: int | None = None

    def matches(self, admitted_at: int) -> bool:
        """Says whether an object admitted at that time belongs to the answer."""
        return (self.since is None or admitted_at >= self.since) and (self.before is None or admitted_at < self.before)


@dataclass(frozen=True)
class Gathered:
    """The found objects, oldest first. `more`: there are older ones. `unread`: manifests beyond the limit.

    `skipped`: documents that can't be read. `of_batch`: they are those of one batch.
    """

    entries: tuple[Entry, ...]
    batches: tuple[PastBatch, ...]
    more: bool = False
    unread: int = 0
    skipped: Sequence[SkippedDocument] = ()
    of_batch: bool = False


class Histories:
    """Gathers the history of one stack's objects."""

    def __init__(self, *, ledger: Ledger, objects: Objects, silver: str, tracker: Tracker) -> None:
        self._ledger = ledger
        self._objects = objects
        self._past = PastBatches(objects, silver)
        self._tracker = tracker

    def newest(self, query: HistoryQuery) -> Gathered:
        """Gather the newest objects: claimed ones by their manifests, the others by the ledger."""
        admitted: dict[ObjectId, int] = {}
        batches: list[PastBatch] = []
        for lane in self._ledger.lanes.all():
            self._add(
                admitted,
                query,
                (
                    (item.id, item.admitted_at)
                    for item in self._ledger.pending.oldest(lane.lane, query.limit)
                    if query.table in (None, item.table)
                ),
            )
        for state in LISTED_STATES:
            records = islice(self._ledger.objects.in_state(state, since=query.since), SET_ASIDE_AT_MOST)
            self._add(
                admitted,
                query,
                ((record.id, record.admitted_at) for record in records if query.table in (None, record.table)),
            )
        stopped = False
        for batch in self._past.newest(table=query.table, since=query.since, at_most=MANIFESTS_AT_MOST):
            # Nothing in a batch was admitted after its claim: once the newest are all younger than that, no older batch
            # has one of them. Batches come in the order of S3's whole seconds.
            if len(admitted) > query.limit and _nth_newest(admitted, query.limit) >= batch.manifest.created_at + 1_000:
                stopped = True
                break
            batches.append(batch)
            parts = [part for table, part in batch.manifest.tables.items() if query.table in (None, table)]
            self._add(admitted, query, ((item.id, item.admitted_at) for part in parts for item in part.objects))
        newest = sorted(admitted, key=lambda identity: (admitted[identity], identity))[-query.limit :]
        return Gathered(
            self._entries(newest, batches),
            tuple(batches),
            more=stopped or len(admitted) > len(newest),
            unread=0 if stopped else self._past.unread,
            skipped=self._past.skipped,
        )

    def of_key(self, key: str) -> Gathered:
        """Gather every version of one key (as `Tracker.named` takes it) and the batches that its records name.

        Raises UsageError.
        """
        versions = self._tracker.named(key).versions
        batches: dict[str, PastBatch] = {}
        entries = []
        for identity, record in versions.items():
            decisions = tuple(self._ledger.quarantine.decisions_about(identity)) if record else ()
            own_batches = (record.batch, record.first_batch) if record else ()
            named = {name for name in (*own_batches, *(decision.batch for decision in decisions)) if name}
            for name in sorted(named - set(batches)):
                stored = self._ledger.batches.get(name)
                found = self._past.named(stored["lane"], name) if stored else None
                if found is not None:
                    batches[name] = found
            own = [batches[name] for name in named if name in batches]
            entries.append(
                Entry(
                    identity, record, self._objects.modified_at(identity), claims_of(identity, record, own), decisions
                )
            )
        oldest_first = tuple(sorted(entries, key=lambda entry: (entry.since, entry.id)))
        return Gathered(oldest_first, tuple(batches.values()), skipped=self._past.skipped)

    def of_batch(self, named: str, limit: int) -> Gathered:
        """Gather the newest objects of one batch, open or finished, by its id, the beginning of it or its shown form.

        An instant names the batch that made this commit. Raises UsageError.
        """
        if _INSTANT.fullmatch(named):
            return self._of_batches(self._committed_at(named), limit)
        keys = [each.key for each in self._past.listed() if is_named(named, _batch_of(each.key))]
        keys = [key for key in keys if _batch_of(key) == named] or keys
        if len(keys) > 1:
            raise UsageError(f"{len(keys):,} batches begin with {named!r}", next_step="Give more of the id")
        batches = tuple(self._past.read(keys))
        if not batches:
            raise UsageError(
                f"No batch begins with {named!r}", next_step="`sluice history` names the batches of the newest objects"
            )
        return self._of_batches(batches, limit)

    def _committed_at(self, instant: str) -> tuple[PastBatch, ...]:
        """The batch with a commit of this instant, among those that were claimed before. Raises UsageError."""
        # Instants of this form are ordered as their times are.
        claimed = [each for each in self._past.listed() if instant_of(each.put_at - CLOCKS_DIFFER_MS) <= instant]
        newest = sorted(claimed, key=lambda each: (each.put_at, each.key), reverse=True)[:MANIFESTS_AT_MOST]
        for batch in self._past.read([each.key for each in newest]):
            if any(outcome.instant == instant for outcome in batch.outcomes.values()):
                return (batch,)
        among = f" among the {MANIFESTS_AT_MOST:,} batches before it" if len(claimed) > len(newest) else ""
        raise UsageError(
            f"No batch{among} made the commit {instant}",
            next_step="`sluice table commits TABLE` shows the batch of each commit; a table service's commit has none",
        )

    def _of_batches(self, batches: tuple[PastBatch, ...], limit: int) -> Gathered:
        objects = sorted(batches[0].manifest.objects, key=lambda item: (item.admitted_at, item.id))
        newest = [item.id for item in objects[-limit:]]
        return Gathered(
            self._entries(newest, batches),
            batches,
            more=len(objects) > limit,
            skipped=self._past.skipped,
            of_batch=True,
        )

    def _entries(self, ids: list[ObjectId], batches: Iterable[PastBatch]) -> tuple[Entry, ...]:
        found = self._ledger.objects.get(ids)
        records = {identity: self._tracker.judged_now(record) for identity, record in found.items()}
        claimed = by_object(batches)

        def entry(identity: ObjectId) -> Entry:
            record: ObjectRecord | None = records.get(identity)
            decisions = (
                tuple(self._ledger.quarantine.decisions_about(identity))
                if record is not None and _decided_about(record)
                else ()
            )
            return Entry(
                identity,
                record,
                self._objects.modified_at(identity),
                claims_of(identity, record, claimed.get(identity, ())),
                decisions,
            )

        with ThreadPoolExecutor(THREADS, thread_name_prefix="history") as pool:
            return tuple(sorted(pool.map(entry, ids), key=lambda found: (found.since, found.id)))

    @staticmethod
    def _add(admitted: dict[ObjectId, int], query: HistoryQuery, found: Iterable[tuple[ObjectId, int]]) -> None:
        admitted.update({identity: at for identity, at in found if query.matches(at)})


def histories(target: Target) -> Histories:
    """The histories of a stack's objects."""
    return Histories(
        ledger=DynamoDbLedger(target.client("dynamodb"), target.ledger_table),
        objects=Objects(target.client("s3")),
        silver=target.silver,
        tracker=tracker(target),
    )


def _decided_about(record: ObjectRecord) -> bool:
    """Says whether somebody decided about the object; it spares a call for the others."""
    return bool(record.attempt or record.discarded_rows or record.rule == DISCARDED)


def _batch_of(manifest_key: str) -> str:
    return manifest_key.rpartition("/")[2].removesuffix(".json")


def _nth_newest(admitted: dict[ObjectId, int], n: int) -> int:
    return sorted(admitted.values(), reverse=True)[n - 1]
