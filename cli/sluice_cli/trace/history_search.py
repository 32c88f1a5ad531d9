"""The search for the history of objects: the newest ones of a stack, or all versions of one key, within bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice

from sluice.errors import UsageError
from sluice.ledger.keys import DISCARDED, LISTED_STATES
from sluice.ledger.records import Decision, ObjectRecord
from sluice.objects import ObjectId
from sluice_aws.s3.objects import SkippedDocument
from sluice_aws.s3.past_batches import AT_ONCE, PastBatch
from sluice_aws.stack import Target
from sluice_cli.account.steps import NEWEST_OBJECTS, commits
from sluice_cli.account.window import Nearest
from sluice_cli.terminal.words import is_named
from sluice_cli.trace.object_history import Entry, by_object, claims_of
from sluice_cli.trace.tracking import Tracker
from sluice_read.moments import instant_of

MANIFESTS_AT_MOST = 5_000  # that one history reads
SET_ASIDE_AT_MOST = 10_000  # objects read of one listed state
PENDING_AT_MOST = 10_000  # pending objects read of one table, oldest first
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


@dataclass(frozen=True)
class Gathered:
    """The found objects, oldest first. `more`: there are older ones. `unread`: manifests beyond the limit.

    `skipped`: documents that can't be read. `of_batch`: they are those of one batch. `nearest` is known where no object
    was found.
    """

    entries: tuple[Entry, ...]
    batches: tuple[PastBatch, ...]
    more: bool = False
    unread: int = 0
    skipped: Sequence[SkippedDocument] = ()
    of_batch: bool = False
    nearest: Nearest | None = None


class Histories:
    """Gathers the history of one stack's objects."""

    def __init__(self, target: Target) -> None:
        self._ledger = target.ledger
        self._objects = target.objects
        self._past = target.past_batches()
        self._tracker = Tracker(target)

    def newest(self, query: HistoryQuery) -> Gathered:
        """Gather the newest objects: claimed ones by their manifests, the others by the ledger."""
        seen = _Seen(query)
        batches: list[PastBatch] = []
        for lane in self._ledger.lanes.all():
            pending = self._ledger.pending.oldest(lane.lane, max(query.limit, PENDING_AT_MOST))
            seen.add((item.id, item.admitted_at) for item in pending if query.table in (None, item.table))
        seen.add(self._set_aside(query.table, query.since))
        admitted = seen.admitted
        stopped = False
        for batch in self._past.newest(table=query.table, since=query.since, at_most=MANIFESTS_AT_MOST):
            # Nothing in a batch was admitted after its claim: once the newest are all younger than that, no older batch
            # has one of them. Batches come in the order of S3's whole seconds.
            claimed = batch.manifest.created_at + 1_000
            if len(admitted) > query.limit and sorted(admitted.values())[-query.limit] >= claimed:
                stopped = True
                break
            batches.append(batch)
            seen.add(_admitted(batch, query.table))
        unread = 0 if stopped else self._past.unread
        newest = sorted(admitted, key=lambda identity: (admitted[identity], identity))[-query.limit :]
        return Gathered(
            self._entries(newest, batches),
            tuple(batches),
            more=stopped or len(admitted) > len(newest),
            unread=unread,
            skipped=self._past.skipped,
            nearest=None if newest else self._nearest(seen, query),
        )

    def _nearest(self, seen: _Seen, query: HistoryQuery) -> Nearest:
        """The nearest admissions to a time without any: those that were seen, and of older batches the newest."""
        if query.since is not None:
            seen.add(self._set_aside(query.table))
            older = self._past.newest(table=query.table, until=query.since, at_most=AT_ONCE)
            seen.add(chain.from_iterable(_admitted(batch, query.table) for batch in older))
        return Nearest(seen.before, seen.after)

    def _set_aside(self, table: str | None, since: int | None = None) -> Iterator[tuple[ObjectId, int]]:
        """The objects of listed states, listed since a time (epoch ms), and when each was admitted."""
        for state in LISTED_STATES:
            for record in islice(self._ledger.objects.in_state(state, since=since), SET_ASIDE_AT_MOST):
                if table in (None, record.table):
                    yield record.id, record.admitted_at

    def of_key(self, key: str) -> Gathered:
        """Gather every version of one key (as `Tracker.named` takes it) and the batches that its records name.

        Raises UsageError.
        """
        _, versions = self._tracker.named(key)
        batches: dict[str, PastBatch] = {}
        entries = []
        for identity, record in versions.items():
            decisions = tuple(self._ledger.quarantine.decisions_about(identity)) if record else ()
            own_batches = (record.batch, record.first_batch) if record else ()
            batch_names = {name for name in (*own_batches, *(decision.batch for decision in decisions)) if name}
            for name in sorted(batch_names - set(batches)):
                stored = self._ledger.batches.get(name)
                batch_read = self._past.named(stored["lane"], name) if stored else None
                if batch_read is not None:
                    batches[name] = batch_read
            own = [batches[name] for name in batch_names if name in batches]
            entries.append(self._entry(identity, record, own, decisions))
        oldest_first = tuple(sorted(entries, key=lambda entry: (entry.since, entry.id)))
        return Gathered(oldest_first, tuple(batches.values()), skipped=self._past.skipped)

    def of_batch(self, prefix: str, limit: int) -> Gathered:
        """Gather the newest objects of one batch, open or finished, by its id, the beginning of it or its shown form.

        An instant names the batch that made this commit. Raises UsageError.
        """
        if _INSTANT.fullmatch(prefix):
            return self._of_batches(self._committed_at(prefix), limit)
        keys = [entry.key for entry in self._past.listed() if is_named(prefix, _batch_of(entry.key))]
        keys = [key for key in keys if _batch_of(key) == prefix] or keys
        if len(keys) > 1:
            raise UsageError(f"{len(keys):,} batches begin with {prefix!r}", next_step="Give more of the id")
        batches = tuple(self._past.read(keys))
        if not batches:
            raise UsageError(f"No batch begins with {prefix!r}", next_step=str(NEWEST_OBJECTS))
        return self._of_batches(batches, limit)

    def _committed_at(self, instant: str) -> tuple[PastBatch, ...]:
        """The batch with a commit of this instant, among those that were claimed before. Raises UsageError."""
        # Instants of this form are ordered as their times are.
        claimed = [entry for entry in self._past.listed() if instant_of(entry.put_at - CLOCKS_DIFFER_MS) <= instant]
        newest = sorted(claimed, key=lambda entry: (entry.put_at, entry.key), reverse=True)[:MANIFESTS_AT_MOST]
        for batch in self._past.read([entry.key for entry in newest]):
            if any(outcome.instant == instant for outcome in batch.outcomes.values()):
                return (batch,)
        among = f" among the {MANIFESTS_AT_MOST:,} batches before it" if len(claimed) > len(newest) else ""
        raise UsageError(
            f"No batch{among} made the commit {instant}",
            next_step=f"{commits('TABLE')} shows the batch of each commit; a service's commit has none",
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
        by_id = self._ledger.objects.get(ids)
        records = {identity: self._tracker.judged_now(record) for identity, record in by_id.items()}
        claimed = by_object(batches)

        def entry(identity: ObjectId) -> Entry:
            record: ObjectRecord | None = records.get(identity)
            # Whether somebody decided about the object; it spares a call for the others.
            decided = record and (record.attempt or record.discarded_rows or record.rule == DISCARDED)
            decisions = tuple(self._ledger.quarantine.decisions_about(identity)) if decided else ()
            return self._entry(identity, record, claimed.get(identity, ()), decisions)

        with ThreadPoolExecutor(THREADS, thread_name_prefix="history") as pool:
            return tuple(sorted(pool.map(entry, ids), key=lambda entry_: (entry_.since, entry_.id)))

    def _entry(
        self, id: ObjectId, record: ObjectRecord | None, batches: Iterable[PastBatch], decisions: tuple[Decision, ...]
    ) -> Entry:
        return Entry(id, record, self._objects.modified_at(id), claims_of(id, record, batches), decisions)


class _Seen:
    """The admissions (epoch ms) within a query's time, and the nearest ones before and after it."""

    def __init__(self, query: HistoryQuery) -> None:
        self._query = query
        self.admitted: dict[ObjectId, int] = {}
        self.before: int | None = None
        self.after: int | None = None

    def add(self, moments: Iterable[tuple[ObjectId, int]]) -> None:
        """Note objects and when each was admitted."""
        since, before = self._query.since, self._query.before
        for identity, at in moments:
            if since is not None and at < since:
                self.before = at if self.before is None else max(self.before, at)
            elif before is not None and at >= before:
                self.after = at if self.after is None else min(self.after, at)
            else:
                self.admitted[identity] = at


def _admitted(batch: PastBatch, table: str | None) -> Iterator[tuple[ObjectId, int]]:
    """The objects of a batch, or of one table's part of it, and when each was admitted (epoch ms)."""
    for name, part in batch.manifest.tables.items():
        if table in (None, name):
            yield from ((item.id, item.admitted_at) for item in part.objects)


def _batch_of(manifest_key: str) -> str:
    return manifest_key.rpartition("/")[2].removesuffix(".json")
