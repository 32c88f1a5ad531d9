"""A requested table service: its states, and every transition between them as a pure function.

    transition   from                 to                  what it is
    opened       none, done, failed   requested           somebody found the service due, or asked for it
    start        requested            running             the lane's holder begins a slice of it
    slice_done   running              requested           that bounded piece is on the table's timeline, and there is more
    finish       running              done                nothing of it is left
    fail         running              requested, failed   the slice failed: tried again after a back-off, or given up
    interrupt    running              requested, failed   likewise, for a run that died in the slice: the next one finds it
    withdraw     requested            failed              it can't be done at all: the table left the lane or the configuration

A table and a service have at most one open request: it stands under their names, and the next one takes its
place. Like the lane's transitions these give the next state or a Refused; the ledger writes it on
condition that the item is still what the transition was computed from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Union

from sluice.lane.machine import backoff_ms

COMPACTION, CLUSTERING, CLEANING, ARCHIVAL, PURGE = "compaction", "clustering", "cleaning", "archival", "purge"
#: Also their order where several of a table wait equally long: what makes log files vanish goes before what rewrites
#: base files, and what deletes old files and shortens the timeline comes behind what makes files old.
SERVICES = (COMPACTION, PURGE, CLUSTERING, CLEANING, ARCHIVAL)

REQUESTED, RUNNING, DONE, FAILED = "requested", "running", "done", "failed"
STATES = (REQUESTED, RUNNING, DONE, FAILED)
OPEN: frozenset[str] = frozenset({REQUESTED, RUNNING})

MIN_INTERVAL_MS = 10 * 60_000  # between the end of a service and the next of its kind on a table
MAX_WAIT_MS = 24 * 3_600_000  # behind ingest; after it a slice goes before claimable work
GIVEN_UP_AFTER = 5  # failures in a row of one request
GIVEN_UP_AFTER_DEATHS = 3  # of runs: fewer than halt a lane, so that no service keeps a table from being merged
MESSAGE_CHARACTERS = 2_000


@dataclass(frozen=True)
class ServiceReport:
    """What a service did: `files_before` and `bytes_before` are what it replaced or removed, `..._after` what it put in their place.

    `rows` are those it wrote (of a purge: removed), `ms` how long it took, `instant` its last on the timeline (None: nothing
    was to do). `more` are counts of its own, by name. Slices add up.
    """

    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    rows: int = 0
    ms: int = 0
    instant: str | None = None
    more: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ms / 1000

    def plus(self, other: ServiceReport) -> ServiceReport:
        """This and a later slice together."""
        return ServiceReport(
            self.files_before + other.files_before,
            self.files_after + other.files_after,
            self.bytes_before + other.bytes_before,
            self.bytes_after + other.bytes_after,
            self.rows + other.rows,
            self.ms + other.ms,
            other.instant or self.instant,
            {name: self.more.get(name, 0) + other.more.get(name, 0) for name in sorted({*self.more, *other.more})},
        )

    def to_dict(self) -> dict[str, Any]:
        """As the ledger and the log have it; `from_dict` gives the same report back."""
        return {**asdict(self), "more": dict(self.more)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ServiceReport:
        """Read what `to_dict` wrote, also by a release that knew other fields."""
        known = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})


@dataclass(frozen=True)
class SliceDone:
    """What one slice did, and whether something is left for another."""

    report: ServiceReport
    more: bool = False


@dataclass(frozen=True)
class ServiceError:
    """Why the last slice of a request failed."""

    code: str
    message: str
    retriable: bool = True


@dataclass(frozen=True)
class ServiceRequest:
    """One request for a service on a table. Times are epoch milliseconds.

    `request` is its id, new for each; `run` the run that last began a slice of it. `not_before` is when a slice may be done at the
    earliest (the minimum interval, a back-off), `overdue_at` from when on ingest waits for a slice of it. `slices` are
    those done, `failures` those that failed in a row, `slice_at` when the last one ended. `seen` are the table's
    totals when it began: what comes after is the next service's work.
    """

    lane: str
    table: str
    service: str
    request: str
    state: str = REQUESTED
    requested_at: int = 0
    requested_by: str = ""
    not_before: int = 0
    overdue_at: int = 0
    run: str | None = None
    started_at: int | None = None
    slice_at: int | None = None
    ended_at: int | None = None
    slices: int = 0
    failures: int = 0
    report: ServiceReport = field(default_factory=ServiceReport)
    error: ServiceError | None = None
    seen: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def open(self) -> bool:
        """Whether it still counts as work of its lane."""
        return self.state in OPEN


@dataclass(frozen=True)
class Refused:
    """A transition that a request's state doesn't allow, and why; `found` is what is there, None for nothing."""

    transition: str
    reason: str
    found: ServiceRequest | None


Result = Union[ServiceRequest, Refused]


def opened(
    before: ServiceRequest | None,
    *,
    lane: str,
    table: str,
    service: str,
    request: str,
    requested_by: str,
    now: int,
    min_interval_ms: int = MIN_INTERVAL_MS,
    max_wait_ms: int = MAX_WAIT_MS,
) -> Result:
    """A new request, no earlier than the minimum interval after the last of its kind (and its back-off, if that failed).

    Refused while one is open. Raises ValueError for a service that isn't one.
    """
    if service not in SERVICES:
        raise ValueError(f"{service!r} is none of {', '.join(SERVICES)}")
    if before is not None and before.open:
        return Refused("opened", f"request {before.request} is {before.state}", before)
    earliest = now
    if before is not None and before.ended_at is not None:
        pause = (
            max(min_interval_ms, backoff_ms(before.failures))
            if before.state == FAILED and min_interval_ms
            else min_interval_ms
        )
        earliest = max(now, before.ended_at + pause)
    return ServiceRequest(
        lane,
        table,
        service,
        request,
        requested_at=now,
        requested_by=requested_by,
        not_before=earliest,
        overdue_at=max(earliest, now + max_wait_ms),
    )


def start(state: ServiceRequest, run: str, now: int, seen: Mapping[str, int]) -> Result:
    """The holder of the lane begins a slice. Repeatable by the same run, since the answer to the first write can be lost."""
    if state.state != REQUESTED and not (state.state == RUNNING and state.run == run):
        return Refused("start", f"the request is {state.state}", state)
    if now < state.not_before:
        return Refused("start", "the request waits", state)
    first = state.started_at is None
    return replace(
        state,
        state=RUNNING,
        run=run,
        started_at=now if first else state.started_at,
        seen=dict(seen) if first else state.seen,
    )


def slice_done(state: ServiceRequest, run: str, report: ServiceReport, now: int) -> Result:
    """A slice ended well and there is more to do."""
    if state.state != RUNNING or state.run != run:
        return Refused("slice_done", f"the request is {state.state} under run {state.run}", state)
    return replace(
        state,
        state=REQUESTED,
        slices=state.slices + 1,
        failures=0,
        error=None,
        slice_at=now,
        report=state.report.plus(report),
    )


def finish(state: ServiceRequest, run: str, report: ServiceReport, now: int) -> Result:
    """The last slice ended well."""
    after = slice_done(state, run, report, now)
    return (
        replace(after, transition="finish") if isinstance(after, Refused) else replace(after, state=DONE, ended_at=now)
    )


def fail(state: ServiceRequest, run: str, error: ServiceError, now: int) -> Result:
    """A slice failed: tried again after a back-off, unless no repetition helps or it failed too often in a row."""
    if state.state != RUNNING or state.run != run:
        return Refused("fail", f"the request is {state.state} under run {state.run}", state)
    return _failed(state, error, now, GIVEN_UP_AFTER)


def interrupt(state: ServiceRequest, run: str, now: int) -> Result:
    """The run that now holds the lane found a slice that a dead one had begun. What it left on the timeline is undone before the table is next written."""
    if state.state != RUNNING or state.run == run:
        return Refused("interrupt", f"the request is {state.state} under run {state.run}", state)
    return _failed(
        state, ServiceError("run_died", f"run {state.run} ended in the middle of a slice"), now, GIVEN_UP_AFTER_DEATHS
    )


def _failed(state: ServiceRequest, error: ServiceError, now: int, limit: int) -> ServiceRequest:
    failures = state.failures + 1
    summary = replace(error, message=error.message[:MESSAGE_CHARACTERS])
    after = replace(state, failures=failures, error=summary, slice_at=now)
    if not error.retriable or failures >= limit:
        return replace(after, state=FAILED, ended_at=now)
    return replace(after, state=REQUESTED, not_before=now + backoff_ms(failures))


def withdraw(state: ServiceRequest, error: ServiceError, now: int) -> Result:
    """End a request that nobody will ever do."""
    if state.state != REQUESTED:
        return Refused("withdraw", f"the request is {state.state}", state)
    return replace(state, state=FAILED, ended_at=now, error=replace(error, message=error.message[:MESSAGE_CHARACTERS]))
