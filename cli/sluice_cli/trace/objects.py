"""The history of objects: every claim of each with what came of it, oldest first, and sums in which every part of a batch counts once.

The way of one object version in time, from its put to its rows being readable, out of what the ledger and S3 keep of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sluice.batch.manifest import Manifest
from sluice.batch.outcome import COMMIT_STAGE, SPARK_STAGE, Outcome
from sluice.ledger.keys import CLAIMED, COMMITTED, LISTED_STATES, PENDING, QUARANTINED, RETURNED
from sluice.ledger.records import RETRIED, Decision, ObjectRecord
from sluice.objects import ObjectId
from sluice_cli.status.past import PastBatch


@dataclass(frozen=True)
class Claim:
    """One batch that had an object: `state` is claimed, committed, quarantined or returned (to pending, without a trace in the table).

    `part` are the counts of the table's whole part, of which the object was one of `part_objects`. Times are epoch ms.
    """

    batch: str
    table: str
    run: str
    claimed_at: int
    state: str
    part_objects: int
    part_bytes: int
    readable_at: int | None = None
    instant: str | None = None
    no_change: bool = False
    code: str | None = None
    reason: str | None = None
    quarantined_rows: int = 0
    part: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Entry:
    """One object version: where it is and how it got there. `put_at` None: it is gone from bronze."""

    id: ObjectId
    record: ObjectRecord | None
    put_at: int | None
    claims: tuple[Claim, ...] = ()
    decisions: tuple[Decision, ...] = ()

    @property
    def state(self) -> str:
        """As the ledger has it."""
        return UNSEEN if self.record is None else self.record.state

    @property
    def since(self) -> int:
        """What histories are ordered by: when it was admitted, or put if it has not been."""
        return self.record.admitted_at if self.record else self.put_at or 0

    @property
    def last_claim(self) -> Claim | None:
        """The claim that its state is of."""
        return next(
            (claim for claim in reversed(self.claims) if self.record is not None and claim.batch == self.record.batch),
            None,
        )


def claims_of(identity: ObjectId, record: ObjectRecord | None, batches: Iterable[PastBatch]) -> tuple[Claim, ...]:
    """The claims of an object, oldest first, among these batches."""
    found = []
    for batch in sorted(batches, key=lambda item: (item.manifest.created_at, item.manifest.batch)):
        for table, part in batch.manifest.tables.items():
            if any(item.id == identity for item in part.objects):
                found.append(_claim(identity, record, batch, table))
    return tuple(found)


def by_object(batches: Iterable[PastBatch]) -> dict[ObjectId, list[PastBatch]]:
    """Which batches had each object."""
    found: dict[ObjectId, list[PastBatch]] = {}
    for batch in batches:
        for item in batch.manifest.objects:
            found.setdefault(item.id, []).append(batch)
    return found


def _claim(identity: ObjectId, record: ObjectRecord | None, batch: PastBatch, table: str) -> Claim:
    manifest, part, outcome = batch.manifest, batch.manifest.tables[table], batch.outcomes.get(table)
    ours = record is not None and record.batch == manifest.batch
    claim = Claim(
        manifest.batch,
        table,
        manifest.run,
        manifest.created_at,
        CLAIMED if ours else RETURNED,
        part_objects=outcome.counts.get("objects", len(part.objects)) if outcome else len(part.objects),
        part_bytes=part.bytes,
    )
    if outcome is None:
        return claim
    error = next((item for item in outcome.quarantined if item.object == identity.hash), None)
    rows = next((item.rows for item in outcome.quarantined_rows if item.object == identity.hash), 0)
    described_entry = {
        **asdict(claim),
        "part": dict(outcome.counts),
        "instant": outcome.instant,
        "no_change": outcome.no_change,
        "quarantined_rows": rows,
    }
    if error is not None or outcome.state == QUARANTINED:
        return Claim(
            **{
                **described_entry,
                "state": QUARANTINED,
                "code": error.code if error else "table_quarantined",
                "reason": error.reason if error else outcome.reason,
            }
        )
    if not ours and not _was_decided(record):
        return Claim(
            **described_entry
        )  # listed in the manifest, and taken by nobody or by something else before the claim
    return Claim(**{**described_entry, "state": COMMITTED, "readable_at": outcome.readable_at})


def _was_decided(record: ObjectRecord | None) -> bool:
    """Whether it was taken back in after a batch had settled it: what that batch committed of it stays."""
    return record is None or record.attempt > 0


def moments(entry: Entry) -> list[Moment]:
    """Everything that happened to it, oldest first."""
    found = []
    if entry.put_at is not None:
        found.append(Moment("put", entry.put_at))
    record = entry.record
    if record is not None:
        if record.noticed_at is not None:
            found.append(Moment("noticed", record.noticed_at, record.via or ""))
        found.append(Moment("admitted", record.admitted_at))
        if record.unparked_at is not None:
            found.append(Moment("unparked", record.unparked_at))
        if record.state in LISTED_STATES and record.listed_at and entry.last_claim is None:
            found.append(Moment(record.state, int(record.listed_at), record.reason or record.rule or record.code or ""))
    for claim in entry.claims:
        found.append(Moment(CLAIMED, claim.claimed_at, claim.batch))
        if claim.state == COMMITTED and claim.readable_at is not None:
            found.append(Moment(COMMITTED, claim.readable_at, claim.instant or "no change"))
        elif claim.state == QUARANTINED:
            found.append(
                Moment(
                    QUARANTINED,
                    int(record.listed_at) if record and record.listed_at else claim.claimed_at,
                    claim.code or "",
                )
            )
    found += [Moment(decision.verb, decision.at, decision.command) for decision in entry.decisions]
    return sorted(found, key=lambda moment: moment.at)


def totals(entries: Sequence[Entry], batches: Iterable[PastBatch]) -> dict[str, Any]:
    """Sums over what is shown: objects by state, and the counts of every part (batch and table) that has one of the objects, once."""
    shown = {entry.id for entry in entries}
    parts: dict[tuple[str, str], Mapping[str, int]] = {}
    for batch in batches:
        for table, outcome in batch.outcomes.items():
            if any(item.id in shown for item in batch.manifest.tables[table].objects):
                parts[(batch.manifest.batch, table)] = outcome.counts
    counts: Counter[str] = Counter()
    for part in parts.values():
        counts.update(part)
    return {
        "objects": len(entries),
        "bytes": sum(entry.record.size for entry in entries if entry.record),
        "states": dict(Counter(entry.state for entry in entries)),
        "batches": len({batch for batch, _ in parts}),
        "parts": len(parts),
        "counts": dict(counts),
    }


def described_entry(entry: Entry) -> dict[str, Any]:
    """An entry as plain JSON values. Times are epoch ms."""
    record = entry.record
    return {
        "bucket": entry.id.bucket,
        "key": entry.id.key,
        "version": entry.id.version,
        "id": entry.id.hash,
        "gone": entry.put_at is None,
        "state": entry.state,
        "table": record.table if record else None,
        "topic": record.topic if record else None,
        "lane": record.lane if record else None,
        "bytes": record.size if record else None,
        "attempt": record.attempt if record else 0,
        "code": record.code if record else None,
        "reason": (record.reason or record.rule) if record else None,
        "quarantined_rows": record.quarantined_rows if record else 0,
        "put_at": entry.put_at,
        "noticed_at": record.noticed_at if record else None,
        "admitted_at": record.admitted_at if record else None,
        "moments": [asdict(moment) for moment in moments(entry)],
        "claims": [asdict(claim) for claim in entry.claims],
    }


def is_waiting(entry: Entry) -> bool:
    """Whether something is still to happen to it."""
    return entry.state in (UNSEEN, PENDING, CLAIMED)


UNSEEN = "unseen"  # in bronze, not in the ledger: its notice is still on the way
# What a stretch of time was spent on, which is how it is drawn.
ARRIVAL, WAITING, SPARK, LEDGER = "arrival", "waiting", "spark", "ledger"
_TOLD: Mapping[str, str] = {
    SPARK_STAGE: "Spark's start",
    "table": "look at the table's timeline",
    "schemas": "find the objects' schemas",
    "read": "read, decode, compare with the table",
    COMMIT_STAGE: "write files and commit",
    "housekeeping": "clean and archive",
}


@dataclass(frozen=True)
class TraceFacts:
    """What is kept of one version. `batch` and `run` are the ledger's items as stored; times are epoch ms.

    `put_at` is S3's LastModified, in whole seconds, and None when the version is gone.
    """

    id: ObjectId
    put_at: int | None
    record: ObjectRecord | None = None
    decisions: Sequence[Decision] = ()
    manifest: Manifest | None = None
    outcome: Outcome | None = None
    batch: Mapping[str, Any] | None = None
    part: Mapping[str, Any] | None = None
    run: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Moment:
    """Something that happened to the object, at a time (epoch ms)."""

    name: str
    at: int
    note: str = ""


@dataclass(frozen=True)
class Span:
    """A stretch of its way. `kind` is what the time was spent on; times are epoch ms."""

    name: str
    kind: str
    began_at: int
    ended_at: int
    note: str = ""

    @property
    def ms(self) -> int:
        """How long it was; clocks of several machines are compared, so never less than nothing."""
        return max(0, self.ended_at - self.began_at)


@dataclass(frozen=True)
class Trace:
    """The way of one version: `moments` and `spans` oldest first, `readable_at` None while readers don't see what it brought.

    `put_at` is when S3 had it, as exactly as is known (epoch ms).
    """

    id: ObjectId
    state: str
    moments: tuple[Moment, ...]
    spans: tuple[Span, ...]
    put_at: int | None = None
    readable_at: int | None = None
    table: str | None = None
    lane: str | None = None
    batch: str | None = None
    run: str | None = None
    instant: str | None = None
    reason: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def to_readable_ms(self) -> int | None:
        """From its put until readers saw its rows."""
        return None if self.readable_at is None or self.put_at is None else max(0, self.readable_at - self.put_at)


def trace_of(facts: TraceFacts) -> Trace:
    """Put the facts in order."""
    record, outcome, manifest = facts.record, facts.outcome, facts.manifest
    committed = record is not None and record.state == COMMITTED and outcome is not None and outcome.state == COMMITTED
    return Trace(
        id=facts.id,
        state=UNSEEN if record is None else record.state,
        moments=tuple(sorted(_moments(facts), key=lambda moment: moment.at)),
        spans=tuple(_spans(facts)),
        put_at=put_time(facts),
        readable_at=outcome.readable_at if committed and outcome is not None else None,
        table=record.table if record else None,
        lane=record.lane if record else None,
        batch=record.batch if record else None,
        run=manifest.run if manifest else None,
        instant=outcome.instant if outcome else None,
        reason=_reason(record),
        counts=dict(outcome.counts) if outcome else {},
    )


def put_time(facts: TraceFacts) -> int | None:
    """When S3 had the object: its event's time, in ms, before LastModified, in whole seconds."""
    noticed = facts.record.noticed_at if facts.record else None
    return noticed if noticed is not None else facts.put_at


def _moments(facts: TraceFacts) -> Iterator[Moment]:
    record, outcome = facts.record, facts.outcome
    if facts.put_at is not None:
        yield Moment("put", facts.put_at, "S3's LastModified, in whole seconds")
    if record is None:
        return
    if record.noticed_at is not None:
        yield Moment(
            "noticed", record.noticed_at, f"the time in S3's notice{f', by {record.via}' if record.via else ''}"
        )
    yield Moment("admitted", record.admitted_at)
    if record.unparked_at is not None:
        yield Moment("unparked", record.unparked_at)
    if record.replayed_at is not None:
        yield Moment("replayed", record.replayed_at, "to rebuild its table")
    for decision in facts.decisions:
        yield Moment(
            decision.verb,
            decision.at,
            f"{decision.code or decision.reason or decision.state}, by {decision.by}: {decision.command}",
        )
    if record.state in LISTED_STATES and record.listed_at:
        yield Moment(record.state, int(record.listed_at), record.reason or record.rule or record.code or "")
    if facts.manifest is not None:
        yield Moment(CLAIMED, facts.manifest.created_at, facts.manifest.batch)
    if outcome is not None:
        if outcome.instant is not None:
            yield Moment("readable", outcome.readable_at, f"instant {outcome.instant}")
        settled = (facts.part or {}).get("settled_at")
        yield Moment(
            outcome.state if record.state != COMMITTED else COMMITTED,
            settled or outcome.committed_at,
            "no change of the table" if outcome.no_change else "",
        )
    announced = (facts.batch or {}).get("announced_at")
    if announced is not None:
        yield Moment("announced", announced)


def _spans(facts: TraceFacts) -> Iterator[Span]:
    record, manifest, outcome = facts.record, facts.manifest, facts.outcome
    put = put_time(facts)
    if record is None:
        return
    if put is not None:
        yield Span("notice", ARRIVAL, put, record.admitted_at, "S3's notice, the queue, admit")
    since = record.admitted_at
    if record.unparked_at is not None:
        yield Span("parked", WAITING, since, record.unparked_at, "no table took it")
        since = record.unparked_at
    if record.replayed_at is not None:
        yield Span("merged before", WAITING, since, record.replayed_at, "until its table was rebuilt")
        since = max(since, record.replayed_at)
    retried = max((decision.at for decision in facts.decisions if decision.verb == RETRIED), default=None)
    if retried is not None:
        yield Span("set aside", WAITING, since, retried, "in quarantine")
        since = max(since, retried)
    if manifest is None:
        return
    yield from _until_claimed(since, manifest.created_at, facts.run or {})
    if outcome is None:
        return
    yield from _until_committed(manifest.created_at, outcome)
    settled = (facts.part or {}).get("settled_at")
    if settled is not None:
        yield Span("settle", LEDGER, outcome.committed_at, settled, "outcome to S3, states to the ledger")
    closed, announced = (facts.batch or {}).get("committed_at"), (facts.batch or {}).get("announced_at")
    if closed is not None and announced is not None:
        yield Span("announce", LEDGER, closed, announced, "the event “batch committed”")


def _until_claimed(since: int, claimed: int, run: Mapping[str, Any]) -> Iterator[Span]:
    """A run that was living when the object came makes no start; one that was started for it, or was starting, does."""
    requested, started = run.get("requested_at"), run.get("started_at")
    if started is None or started <= since or started > claimed:
        yield Span("wait", WAITING, since, claimed, "the batch before, freshness, the next look")
        return
    if requested is not None and requested > since:
        yield Span("wait", WAITING, since, requested, "until a run was asked for")
        since = requested
    yield Span("start", WAITING, since, started, "the job run's start")
    yield Span("claim", LEDGER, started, claimed, "configuration, take-over, plan")


def _until_committed(claimed: int, outcome: Outcome) -> Iterator[Span]:
    if not outcome.stages:  # written by a release that kept none, or found on the timeline after a crash
        yield Span("merge", SPARK, claimed, outcome.committed_at, "stages were not kept")
        return
    yield Span("open", LEDGER, claimed, outcome.stages[0].began_at, "manifest, objects claimed, tables before it")
    for stage in outcome.stages:
        yield Span(
            stage.name,
            WAITING if stage.name == SPARK_STAGE else SPARK,
            stage.began_at,
            stage.ended_at,
            _TOLD.get(stage.name, ""),
        )


def _reason(record: ObjectRecord | None) -> str | None:
    if record is None or record.state in (PENDING, CLAIMED):
        return None
    if record.quarantined_rows:
        return f"{record.quarantined_rows} of its rows are in quarantine: {', '.join(sorted(record.row_codes))}"
    return record.reason or record.rule or record.code


def described_trace(trace: Trace) -> dict[str, Any]:
    """A trace as plain JSON values. Times are epoch ms, durations ms."""
    return {
        "bucket": trace.id.bucket,
        "key": trace.id.key,
        "version": trace.id.version,
        "id": trace.id.hash,
        "state": trace.state,
        "reason": trace.reason,
        "table": trace.table,
        "lane": trace.lane,
        "batch": trace.batch,
        "run": trace.run,
        "instant": trace.instant,
        "put_at": trace.put_at,
        "readable_at": trace.readable_at,
        "to_readable_ms": trace.to_readable_ms,
        "counts": dict(trace.counts),
        "moments": [asdict(moment) for moment in trace.moments],
        "spans": [{**asdict(span), "ms": span.ms} for span in trace.spans],
    }
