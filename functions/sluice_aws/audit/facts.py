"""Reads what an audit compares: manifests and outcomes, records of the ledger, and the commits of timelines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Callable

from sluice.errors import UnreadableCommit
from sluice.hudi.own_metadata import BATCH_KEY
from sluice.hudi.timeline import Instant, Timeline
from sluice.ledger.audit import (
    EXTRA_COMMIT,
    AuditedPart,
    Contradiction,
    Membership,
    ObjectVerdict,
    TableCommits,
    judge_object,
    judge_part,
    memberships,
    place_of,
    without_outcome,
)
from sluice.ledger.records import ObjectRecord
from sluice.ledger.recovery import EndState, end_states
from sluice.objects import ObjectId
from sluice_aws.errors import NoSuchCommit
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.objects import Objects, SkippedDocument, SkippedDocuments
from sluice_aws.s3.past_batches import PastBatch, PastBatches
from sluice_aws.s3.past_rebuilds import PastRebuilds
from sluice_aws.s3.timelines import TimelineReader

AT_ONCE = 16  # documents and commits that are read at the same time
Tick = Callable[[str, int], None]
Judged = tuple[ObjectVerdict, "ObjectRecord | None"]
Judge = Callable[..., ObjectVerdict]


class AuditFacts:
    """The facts of one stack, read while it works.

    The batches come first, by `read_batches` or `add`. An object that seems wrong is looked up once more, and a
    timeline is read again for a batch that was read after it, so that what happens meanwhile is no contradiction.
    With `only`, of all batches just what they say about these objects is kept, however large they are.
    """

    def __init__(
        self,
        ledger: Ledger,
        objects: Objects,
        silver: str,
        timelines: TimelineReader,
        *,
        only: Collection[ObjectId] | None = None,
    ) -> None:
        self._ledger = ledger
        self._objects = objects
        self._silver = silver
        self._timelines = timelines
        self._only = only
        self._past = PastBatches(objects, silver)
        self._marks = SkippedDocuments()
        self._members: dict[ObjectId, tuple[Membership, ...]] = {}
        self._parts: dict[tuple[str, str], AuditedPart] = {}
        self._commits: dict[str, TableCommits] = {}
        self._reads = 0  # of batches by name and of timelines, to tell which came first
        self._read_at: dict[str, int] = {}  # by batch id and by table

    @property
    def skipped(self) -> Sequence[SkippedDocument]:
        """The documents that were left out, since they can't be read."""
        return (*self._past.skipped, *self._marks.found)

    @property
    def parts(self) -> Collection[AuditedPart]:
        """Every part of every batch that was read."""
        return self._parts.values()

    def read_batches(self, tick: Tick) -> None:
        """Read every manifest and outcome."""
        for number, batch in enumerate(self._past.newest(), 1):
            self.add(batch)
            tick("Batches", number)

    def add(self, batch: PastBatch) -> None:
        """Take the parts of a batch and their objects."""
        self._keep(self._memberships(batch))

    def verdicts(
        self, page: Collection[ObjectId], is_young: Callable[[ObjectId], bool], judge: Judge = judge_object
    ) -> dict[ObjectId, Judged]:
        """Judge objects by the batches that list them, all of them once and those that seem wrong once more."""
        judged_by_id = self._judged(page, is_young, judge, again=False)
        suspects = [identity for identity, (verdict, _) in judged_by_id.items() if verdict.code is not None]
        if suspects:
            judged_by_id.update(self._judged(suspects, is_young, judge, again=True))
        return judged_by_id

    def end_of(self, record: ObjectRecord) -> EndState | None:
        """An object's end state by the outcome of its batch; None without one."""
        outcome = self._past.outcome(record.batch or "", record.table or "")
        return None if outcome is None else end_states(outcome, [record.id])[record.id]

    def place(self, part: AuditedPart) -> str:
        """Where a committed part is."""
        return place_of(part, self._commits_for(part))

    def of_parts(self, tick: Tick) -> Iterator[Contradiction]:
        """Compare all outcomes with the timelines of their tables."""
        tables = {part.table for part in self._parts.values()} | {state.table for state in self._ledger.tables.all()}
        for number, table in enumerate(sorted(tables), 1):
            tick("Timelines", number)
            own = [part for part in self._parts.values() if part.table == table]
            judged = [judge_part(part, self._commits_for(part)) for part in own]
            yield from (contradiction for contradiction in judged if contradiction is not None)
            yield from self._without_outcome(table, own)

    def of_named_commits(
        self, batches: Collection[str], timeline_of: Callable[[str], Timeline]
    ) -> Iterator[Contradiction]:
        """Compare the outcomes of these batches with the commits that they name, and no others.

        `timeline_of` may be older than the outcomes: a part that seems wrong is compared with the newest once more.
        """
        parts = [part for part in self._parts.values() if part.batch in batches and part.instant is not None]
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="commits") as pool:
            judged = list(pool.map(lambda part: self._judge_named(part, timeline_of(part.table)), parts))
        for part, suspect in zip(parts, judged):
            if suspect is not None:
                contradiction = self._judge_named(part, self._timelines.timeline(part.table))
                rebuilds = PastRebuilds.read(self._objects, self._silver, self._marks)
                if (
                    rebuilds.last_at.get(part.table) == self._rebuilds.last_at.get(part.table)
                    and contradiction is not None
                ):
                    yield contradiction

    def of_table(self, table: str) -> Iterator[Contradiction]:
        """Compare every commit of a table's timeline with the outcome of its batch."""
        extra = self._extra(table)
        if extra:
            extra = self._extra(table)  # a commit may have been rolled back meanwhile
        yield from extra
        outcomes = self._outcomes(table, self._commits[table])
        yield from self._without_outcome(table, outcomes)

    def _judged(
        self, page: Collection[ObjectId], is_young: Callable[[ObjectId], bool], judge: Judge, *, again: bool
    ) -> dict[ObjectId, Judged]:
        # A batch may be opened or closed while records are read, so its pointer counts before and after.
        unsettled = self._unsettled() if again else self._first_unsettled
        records = self._ledger.objects.get(page)
        if again:
            unsettled |= self._unsettled()
        self._read_missing(records, again=again)
        unlisted = self._ledger.objects.unlisted(records.values())
        judged_by_id: dict[ObjectId, Judged] = {}
        for identity in page:
            record = records.get(identity)
            verdict = judge(
                record,
                self._members.get(identity, ()),
                young=is_young(identity),
                open_batches=unsettled,
                rebuilding=self._rebuilding,
                unlisted=identity in unlisted,
            )
            judged_by_id[identity] = verdict, record
        return judged_by_id

    def _read_missing(self, records: Mapping[ObjectId, ObjectRecord], *, again: bool) -> None:
        """Read the batches of records that were opened, or got an outcome, since the last read."""
        wanted = {
            (record.lane or "", record.batch, record.table or "")
            for record in records.values()
            if record.batch is not None and (again or (record.batch, record.table) not in self._parts)
        }
        unread = sorted(one for one in wanted if again or "/".join(one) not in self._read_at)
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="audit") as pool:
            for start in range(0, len(unread), AT_ONCE):
                chunk = unread[start : start + AT_ONCE]
                for (lane, batch, table), past_members in zip(
                    chunk, list(pool.map(lambda one: self._named(*one), chunk))
                ):
                    self._read_at["/".join((lane, batch, table))] = self._read_at[batch] = self._next()
                    self._keep(past_members)

    def _named(self, lane: str, batch: str, table: str) -> list[tuple[ObjectId, Membership]]:
        past_batch = self._past.named(lane, batch, table)
        members = [] if past_batch is None else self._memberships(past_batch)
        return [(identity, member) for identity, member in members if member.part.table == table]

    def _memberships(self, batch: PastBatch) -> list[tuple[ObjectId, Membership]]:
        return [
            (identity, member)
            for identity, member in memberships(batch.manifest, batch.outcomes, self._rebuilds.last_at)
            if self._only is None or identity in self._only
        ]

    def _keep(self, members: Sequence[tuple[ObjectId, Membership]]) -> None:
        for identity, member in members:
            self._parts[member.part.batch, member.part.table] = member.part
            others = tuple(
                other
                for other in self._members.get(identity, ())
                if (other.part.batch, other.part.table) != (member.part.batch, member.part.table)
            )
            self._members[identity] = (*others, member)

    def _extra(self, table: str) -> list[Contradiction]:
        commits = self._read_commits(table)
        judged = [judge_part(part, commits) for part in self._outcomes(table, commits)]
        return [one for one in judged if one is not None and one.code == EXTRA_COMMIT]

    def _outcomes(self, table: str, commits: TableCommits) -> list[AuditedPart]:
        """The parts by the outcomes of all batches that have a commit."""
        batches = sorted(set(commits.batches.values()))
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="outcomes") as pool:
            outcomes = list(pool.map(lambda batch: self._past.outcome(batch, table), batches))
        return [
            AuditedPart(one.batch, table, "", one.counts.get("objects", 0), one.state, one.instant)
            for one in outcomes
            if one is not None
        ]

    def _judge_named(self, part: AuditedPart, timeline: Timeline) -> Contradiction | None:
        instants = [instant for instant in timeline.commits if instant.time == part.instant]
        try:
            batches = {instant.time: self._batch_of(part.table, instant) for instant in instants}
        except NoSuchCommit:
            return None  # archived meanwhile
        return judge_part(part, TableCommits(timeline, {at: batch for at, batch in batches.items() if batch}))

    def _without_outcome(self, table: str, own: Sequence[AuditedPart]) -> Iterator[Contradiction]:
        commits = self._commits.get(table) or self._read_commits(table)
        settled = [part.batch for part in own if part.state is not None]
        if not without_outcome(table, commits, settled):
            return
        # The outcome is written before the batch is closed: pointers are read first.
        unsettled = self._unsettled()
        yield from (
            contradiction
            for contradiction in without_outcome(table, commits, {*settled, *unsettled})
            if self._past.outcome(contradiction.batch or "", table) is None
        )

    def _commits_for(self, part: AuditedPart) -> TableCommits:
        """The table's commits, read after the part."""
        commits = self._commits.get(part.table)
        if commits is None or self._read_at.get(part.batch, 0) > self._read_at[part.table]:
            return self._read_commits(part.table)
        return commits

    def _read_commits(self, table: str) -> TableCommits:
        while True:
            self._read_at[table] = self._next()
            timeline = self._timelines.timeline(table)
            batches_known = self._commits[table].batches if table in self._commits else {}
            unread = [instant for instant in timeline.commits if instant.time not in batches_known]
            with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="commits") as pool:
                try:
                    batches = list(pool.map(lambda instant: self._batch_of(table, instant), unread))
                except NoSuchCommit:  # archived meanwhile
                    continue
            read = {instant.time: batch for instant, batch in zip(unread, batches) if batch is not None}
            there = {instant.time for instant in timeline.commits}
            batches_kept = {time: batch for time, batch in batches_known.items() if time in there}
            self._commits[table] = TableCommits(timeline, {**batches_kept, **read})
            return self._commits[table]

    def _batch_of(self, table: str, instant: Instant) -> str | None:
        try:
            return self._timelines.commit(table, instant).extra.get(BATCH_KEY)
        except UnreadableCommit:
            return None  # an outcome that names it contradicts it

    def _unsettled(self) -> frozenset[str]:
        lanes = [state.lane for state in self._ledger.lanes.all()]
        return frozenset(pointer.batch for lane in lanes for pointer in self._ledger.batches.unsettled(lane))

    @cached_property
    def _first_unsettled(self) -> frozenset[str]:
        return self._unsettled()

    @cached_property
    def _rebuilds(self) -> PastRebuilds:
        return PastRebuilds.read(self._objects, self._silver, self._marks)

    @cached_property
    def _rebuilding(self) -> frozenset[str]:
        return frozenset(self._rebuilds.unfinished())

    def _next(self) -> int:
        self._reads += 1
        return self._reads
