"""The stages of one object's path, from its put to its rows being readable, by the records in the ledger and S3.

Each stage is a `Stretch` of time; `sluice trace` shows them as a waterfall, and docs/tracing.md explains their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from sluice.batch.manifest import Manifest
from sluice.batch.outcome import (
    COMMIT_STAGE,
    HISTORY_CHANGES,
    HISTORY_STAGE,
    HOUSEKEEPING_STAGE,
    READ_STAGE,
    SCHEMAS_STAGE,
    SPARK_STAGE,
    TABLE_STAGE,
    Outcome,
)
from sluice.ledger.keys import CLAIMED, COMMITTED, LISTED_STATES, PENDING, SUPERSEDED
from sluice.ledger.records import RETRIED, SAME_BYTES, Decision, ObjectRecord
from sluice.objects import ObjectId
from sluice_cli.account.object import next_step
from sluice_cli.ingest.entry import reason_of
from sluice_cli.terminal.words import counted

UNSEEN = "unseen"  # in bronze, and not in the ledger: its notice is still on the way
# The kinds of stretches, each drawn in its own colour.
ARRIVAL, WAITING, SPARK, LEDGER = "arrival", "waiting", "spark", "ledger"
# The stages of a batch, as its outcome names them, and their notes.
BATCH_STAGES: Mapping[str, str] = {
    SPARK_STAGE: "Spark's start",
    TABLE_STAGE: "read the table's timeline",
    SCHEMAS_STAGE: "find the objects' schemas",
    READ_STAGE: "read, decode, compare with the table",
    HISTORY_STAGE: "commit the changes to the history table",
    COMMIT_STAGE: "write files and commit",
    HOUSEKEEPING_STAGE: "clean and archive",
}


_WITHOUT_SET_ASIDE = frozenset({HISTORY_STAGE, COMMIT_STAGE, HOUSEKEEPING_STAGE})  # they know nothing of such objects
BETWEEN = "between"
# The time between two stretches that no record names: name, kind and note.
_CLOSE = ("close", WAITING, "other tables of the batch")
_BETWEEN_STAGES = (BETWEEN, SPARK, "the driver, between two stages")


@dataclass(frozen=True)
class TraceFacts:
    """The records of one version. `batch`, `part` and `run` are the ledger's items as stored; times are epoch ms.

    `put_at` is S3's LastModified, in whole seconds, or None when the version is gone. Of a version that was replayed,
    `first` has the records as of the batch that first committed it, and the others are those of the replay.
    `set_aside_at` has the times at which batches set it aside, or rows of it, before it was retried. `finished_by` is
    the run that merged it, where it took the batch over from `run`. `died_before` are the runs of the lane that ended
    without releasing it while the version waited for `run`. `held_up` says why the lane of a pending version starts no
    run, and what ends that.
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
    first: TraceFacts | None = None
    set_aside_at: Mapping[str, int] = field(default_factory=dict, hash=False)
    finished_by: str | None = None
    died_before: Sequence[str] = ()
    held_up: str | None = None


@dataclass(frozen=True)
class Moment:
    """Something that happened to the object, at a time (epoch ms)."""

    name: str
    at: int
    note: str = ""


@dataclass(frozen=True)
class Stretch:
    """A stretch of the object's path. `kind` says what the time went to; times are epoch ms."""

    name: str
    kind: str
    began_at: int
    ended_at: int
    note: str = ""

    @property
    def ms(self) -> int:
        """Its length. Never negative, although the clocks of several machines are compared."""
        return max(0, self.ended_at - self.began_at)


@dataclass(frozen=True)
class ReplayTrace:
    """The last replay of a version whose rows were readable before: what came of it, and its stretches, oldest first.

    `at` is when the version became pending again (epoch ms).
    """

    at: int
    result: str
    batch: str | None = None
    run: str | None = None
    instant: str | None = None
    spans: tuple[Stretch, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Trace:
    """The way of one version; `moments` and `spans` are sorted, oldest first.

    `readable_at` is None until readers see its rows. `put_at` is as exact as the records allow (epoch ms). Where the
    version was replayed, the way ends with the batch that first committed it, and `replay` is apart; `state`, `code`
    and `reason` are the present ones.
    """

    id: ObjectId
    state: str
    moments: tuple[Moment, ...]
    spans: tuple[Stretch, ...]
    put_at: int | None = None
    readable_at: int | None = None
    table: str | None = None
    lane: str | None = None
    batch: str | None = None
    run: str | None = None
    instant: str | None = None
    code: str | None = None
    reason: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    replay: ReplayTrace | None = None
    next_step: str | None = None

    @property
    def to_readable_ms(self) -> int | None:
        """The time from its put until readers saw its rows."""
        return None if self.readable_at is None or self.put_at is None else max(0, self.readable_at - self.put_at)


def trace_of(facts: TraceFacts) -> Trace:
    """Order the records of a version by time."""
    if facts.first is not None and facts.record is not None and facts.record.replayed_at is not None:
        return _replayed(trace_of(facts.first), facts, facts.record, facts.record.replayed_at)
    record, outcome, manifest = facts.record, facts.outcome, facts.manifest
    readable_at = None
    if outcome is not None and record is not None and record.state == outcome.state == COMMITTED:
        item = next((item for item in manifest.objects if item.id == facts.id), None) if manifest is not None else None
        readable_at = outcome.readable_at if item is None else outcome.readable_with(item)
    return Trace(
        id=facts.id,
        state=state_of(record),
        moments=tuple(sorted(_moments(facts), key=lambda moment: moment.at)),
        spans=tuple(_without_holes(_spans(facts))),
        put_at=put_time(facts),
        readable_at=readable_at,
        table=record.table if record else None,
        lane=record.lane if record else None,
        batch=record.batch if record else None,
        run=manifest.run if manifest else None,
        instant=_instant(record, outcome),
        code=record.code if record else None,
        reason=_reason(record),
        counts=dict(outcome.counts) if outcome else {},
        next_step=facts.held_up if record is None or facts.held_up is not None else next_step(record),
    )


def state_of(record: ObjectRecord | None) -> str:
    """The ledger's state of an object, or `unseen`."""
    return UNSEEN if record is None else record.state


def described_id(id: ObjectId) -> dict[str, str]:
    """The JSON form of an object version."""
    return {"bucket": id.bucket, "key": id.key, "version": id.version, "id": id.hash}


def _instant(record: ObjectRecord | None, outcome: Outcome | None) -> str | None:
    """The commit with the object's rows. A batch commits without the objects that it sets aside."""
    return None if record is None or record.state in LISTED_STATES or outcome is None else outcome.instant


def _replayed(first: Trace, facts: TraceFacts, record: ObjectRecord, at: int) -> Trace:
    outcome, manifest = facts.outcome, facts.manifest
    replay = ReplayTrace(
        at,
        _result(record, outcome),
        batch=record.batch,
        run=manifest.run if manifest else None,
        instant=outcome.instant if outcome else None,
        spans=tuple(_without_holes(_of_batch(facts, at))),
        counts=dict(outcome.counts) if outcome else {},
    )
    since = (Moment("replayed", at, replay.result), *map(_decided, facts.decisions))
    moments = sorted((*first.moments, *since), key=lambda moment: moment.at)
    return replace(
        first,
        state=record.state,
        code=record.code,
        reason=_reason(record),
        moments=tuple(moments),
        replay=replay,
        next_step=facts.held_up,
    )


def _result(record: ObjectRecord, outcome: Outcome | None) -> str:
    if record.state == PENDING:
        return "it waits to be merged again"
    if record.state == CLAIMED:
        return "a run merges it again"
    if record.state != COMMITTED or outcome is None:
        return record.state
    changed = "no change of the table" if outcome.instant is None else f"instant {outcome.instant}"
    history = outcome.counts.get(HISTORY_CHANGES, 0)
    return f"{changed}, {counted(history, 'change')} in its history table" if history else changed


def put_time(facts: TraceFacts) -> int | None:
    """The time of the put: that of S3's event, in ms, or else LastModified, in whole seconds."""
    noticed = facts.record.noticed_at if facts.record else None
    return noticed if noticed is not None else facts.put_at


def _moments(facts: TraceFacts) -> Iterator[Moment]:
    record, outcome = facts.record, facts.outcome
    if facts.put_at is not None:
        yield Moment("put", facts.put_at, "S3's LastModified, in whole seconds")
    if record is None:
        return
    if record.noticed_at is not None:
        by = f", by {record.via}" if record.via else ""
        yield Moment("noticed", record.noticed_at, f"the time in S3's notice{by}")
    yield Moment("admitted", record.admitted_at)
    if record.unparked_at is not None:
        yield Moment("unparked", record.unparked_at)
    if record.replayed_at is not None:
        yield Moment("rebuilt", record.replayed_at, "its table was rebuilt, and the object is merged again")
    yield from map(_decided, facts.decisions)
    if record.state in LISTED_STATES and record.listed_at:
        yield Moment(record.state, int(record.listed_at), reason_now(record) or "")
    if facts.manifest is not None:
        yield Moment(CLAIMED, facts.manifest.created_at, facts.manifest.batch)
    if outcome is not None:
        if (instant := _instant(record, outcome)) is not None:
            yield Moment("readable", outcome.readable_at, f"instant {instant}")
        settled = (facts.part or {}).get("settled_at") or outcome.committed_at
        state = outcome.state if record.state != COMMITTED else COMMITTED
        yield Moment(state, settled, "no change of the table" if outcome.no_change else "")
    announced = (facts.batch or {}).get("announced_at")
    if announced is not None:
        yield Moment("announced", announced)


def _decided(decision: Decision) -> Moment:
    why = decision.code or decision.reason or decision.state
    return Moment(decision.verb, decision.at, f"{why}, by {decision.by}: {decision.command}")


def _spans(facts: TraceFacts) -> Iterator[Stretch]:
    record, put = facts.record, put_time(facts)
    if record is None:
        return
    if put is not None:
        yield Stretch("notice", ARRIVAL, put, record.admitted_at, "S3's notice, the queue, admit")
    since = record.admitted_at
    for stretch in _until_pending(facts, record):
        yield stretch
        since = max(since, stretch.ended_at)
    yield from _of_batch(facts, since)


def _until_pending(facts: TraceFacts, record: ObjectRecord) -> Iterator[Stretch]:
    """The stretches from its admission until it last became pending, oldest first; none overlaps another."""
    since = record.admitted_at
    if record.unparked_at is not None:
        yield Stretch("parked", WAITING, since, record.unparked_at, "no table took it")
        since = record.unparked_at
    retries = sorted((item for item in facts.decisions if item.verb == RETRIED), key=lambda item: item.at)
    rebuilt = record.replayed_at
    merged_since = "until its table was rebuilt"
    for retry in retries:
        if rebuilt is not None and rebuilt <= retry.at:
            yield Stretch("merged before", WAITING, since, rebuilt, merged_since)
            since, rebuilt = max(since, rebuilt), None
        for stretch in _set_aside(since, retry, facts.set_aside_at):
            yield stretch
            since = max(since, stretch.ended_at)
        merged_since = "retried and merged, until its table was rebuilt"
    if rebuilt is not None:
        yield Stretch("merged before", WAITING, since, rebuilt, merged_since)


def _set_aside(since: int, retry: Decision, settled: Mapping[str, int]) -> Iterator[Stretch]:
    """Until its retry: the wait for the batch that set it aside, and its time in quarantine."""
    rows = retry.state == COMMITTED  # of an object whose other rows were merged
    in_quarantine = "rows of it in quarantine: the others were readable" if rows else "in quarantine"
    if retry.batch is None:  # set aside as it was admitted
        yield Stretch("set aside", WAITING, since, retry.at, in_quarantine)
        return
    at = settled.get(retry.batch)
    if at is None:
        yield Stretch("set aside", WAITING, since, retry.at, f"a wait for a batch, then {in_quarantine}")
        return
    at = min(max(since, at), retry.at)
    if at > since:
        yield Stretch("wait", WAITING, since, at, f"until a batch set {'rows of it' if rows else 'it'} aside")
    yield Stretch("set aside", WAITING, at, retry.at, in_quarantine)


def _of_batch(facts: TraceFacts, since: int) -> Iterator[Stretch]:
    """The stretches of the last batch: from when it could be claimed (epoch ms) to its announcement."""
    manifest, outcome = facts.manifest, facts.outcome
    if manifest is None:
        return
    yield from _until_claimed(since, manifest.created_at, facts)
    if outcome is None:
        return
    yield from _until_committed(manifest.created_at, outcome, facts)
    settled = (facts.part or {}).get("settled_at")
    if settled is not None:
        yield Stretch("settle", LEDGER, outcome.committed_at, settled, "outcome to S3, states to the ledger")
    closed, announced = (facts.batch or {}).get("committed_at"), (facts.batch or {}).get("announced_at")
    if closed is not None and announced is not None:
        yield Stretch("announce", LEDGER, closed, announced, "the event “batch committed”")


def _without_holes(spans: Iterable[Stretch]) -> Iterator[Stretch]:
    """The stretches, with one for each time that none of them covers, so that they add up to the whole way."""
    until: int | None = None
    before = ""
    for span in spans:
        if until is not None and span.began_at > until:
            name, kind, note = _CLOSE if (before, span.name) == ("settle", "announce") else _BETWEEN_STAGES
            yield Stretch(name, kind, until, span.began_at, note)
        yield span
        until, before = max(span.ended_at, until or span.ended_at), span.name


def _until_claimed(since: int, claimed: int, facts: TraceFacts) -> Iterator[Stretch]:
    """Shows the start of a run that was asked for or still starting when the object came; a live run has none."""
    run = facts.run or {}
    requested, started = run.get("requested_at"), run.get("started_at")
    if started is None or started <= since or started > claimed:
        yield Stretch("wait", WAITING, since, claimed, "previous batch, freshness, next poll")
        return
    if requested is not None and requested > since:
        after = f" after {', '.join(facts.died_before)} died" if facts.died_before else ""
        yield Stretch("wait", WAITING, since, requested, f"until a run was requested{after}")
        since = requested
    yield Stretch("start", WAITING, since, started, "start of the job run")
    yield Stretch("claim", LEDGER, started, claimed, "configuration, take-over, plan")


def taken_over_at(outcome: Outcome, run: Mapping[str, Any]) -> int | None:
    """When the run that claimed the batch ended (epoch ms), if another one merged this part, or found it committed."""
    ended = run.get("ended_at")
    if ended is None or not outcome.stages:
        return None
    return ended if ended <= (outcome.committed_at if _was_found(outcome) else outcome.stages[0].began_at) else None


def _was_found(outcome: Outcome) -> bool:
    """Says whether the commit was found on the timeline, after what recorded its stages had died."""
    return bool(outcome.stages) and outcome.stages[0].name == COMMIT_STAGE


def _until_committed(claimed: int, outcome: Outcome, facts: TraceFacts) -> Iterator[Stretch]:
    if not outcome.stages:  # an older release wrote it
        yield Stretch("merge", SPARK, claimed, outcome.committed_at, "stages were not recorded")
        return
    began, ended = outcome.stages[0].began_at, taken_over_at(outcome, facts.run or {})
    finished_by = facts.finished_by or "another run"
    set_aside = any(error.object == facts.id.hash for error in outcome.quarantined)
    if _was_found(outcome):
        yield Stretch("merge", SPARK, claimed, began, "until the commit began: its stages were not recorded")
    elif ended is None:
        yield Stretch("open", LEDGER, claimed, began, "manifest, claims, earlier tables of the batch")
    else:
        yield Stretch("open", LEDGER, claimed, ended, "its run, which ended before it merged this table")
        yield Stretch("take-over", WAITING, max(claimed, ended), began, f"until {finished_by} took the batch over")
    for name, same in groupby(outcome.stages, lambda stage: stage.name):
        first, *others = same  # what a driver leaves to Spark begins its stage again
        ends_at = max(stage.ended_at for stage in (first, *others))
        kind = WAITING if name == SPARK_STAGE else SPARK
        note = BATCH_STAGES.get(name, "")
        if set_aside and name in _WITHOUT_SET_ASIDE:
            note = f"{note}: the batch's other objects"
        yield Stretch(name, kind, first.began_at, ends_at, note)
    if _was_found(outcome) and ended is not None:
        note = f"its run ended before it recorded the commit, until {finished_by} found it"
        yield Stretch("take-over", WAITING, outcome.stages[-1].ended_at, outcome.committed_at, note)


def _reason(record: ObjectRecord | None) -> str | None:
    if record is None or record.state in (PENDING, CLAIMED):
        return None
    if record.quarantined_rows:
        return f"{counted(record.quarantined_rows, 'row')} of it in quarantine: {', '.join(sorted(record.row_codes))}"
    return reason_now(record)


def reason_now(record: ObjectRecord) -> str | None:
    """The reason of its state."""
    return reason_of(record) or record.rule or record.code or (SAME_BYTES if record.state == SUPERSEDED else None)
