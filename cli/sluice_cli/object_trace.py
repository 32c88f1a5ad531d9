"""The way of one object version in time, from its put to its rows being readable, out of what the ledger and S3 keep of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sluice.identity import ObjectId
from sluice.ledger_items import CLAIMED, COMMITTED, LISTED_STATES, PENDING
from sluice.ledger_records import RETRIED, Decision, ObjectRecord
from sluice.manifest import Manifest
from sluice.outcome import COMMIT_STAGE, SPARK_STAGE, Outcome

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


def told(trace: Trace) -> dict[str, Any]:
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
