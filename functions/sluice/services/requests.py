"""A requested table service: its states, and every transition between them as a pure function.

    transition   from                 to                  what it is
    opened       none, done, failed   requested           the service is due, or somebody requests it
    start        requested            running             the lane's holder begins a slice
    slice_done   running              requested           the slice is on the table's timeline, and more is left
    finish       running              done                nothing is left
    fail         running              requested, failed   the slice failed: retried after a back-off, or given up
    interrupt    running              requested, failed   likewise, after the run died during the slice
    withdraw     requested            failed              impossible: the table left the lane or the configuration

A table has at most one open request of a service. It is stored under their names, where the next one replaces it. Like
the lane's transitions, these return the next state or a RequestRefusal. The ledger writes the state on condition that
the item is still the one that the transition was computed from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Union

from sluice.lane.machine import backoff_ms

COMPACTION, CLUSTERING, CLEANING, ARCHIVAL, PURGE = "compaction", "clustering", "cleaning", "archival", "purge"
# Also the order of requests that have waited equally long: removing log files goes before rewriting base files, and
# deleting old files and archiving come after what makes files old.
SERVICES = (COMPACTION, PURGE, CLUSTERING, CLEANING, ARCHIVAL)
# Never due by themselves: a command requests them, some with arguments. ICEBERG makes the Iceberg table anew.
ADOPTION, FORGETTING, ICEBERG = "adoption", "forgetting", "iceberg"
ON_COMMAND = (FORGETTING, ADOPTION, ICEBERG)
IN_TURN = (*ON_COMMAND, *SERVICES)

REQUESTED, RUNNING, DONE, FAILED = "requested", "running", "done", "failed"
STATES = (REQUESTED, RUNNING, DONE, FAILED)
OPEN: frozenset[str] = frozenset({REQUESTED, RUNNING})

MIN_INTERVAL_MS = 10 * 60_000  # between the end of a service and the next of its kind on a table
MAX_WAIT_MS = 24 * 3_600_000  # afterwards a slice goes before claimable work
GIVEN_UP_AFTER = 5  # failures of one request in a row
GIVEN_UP_AFTER_DEATHS = 3  # of runs: fewer than halt a lane, so that no service stops merging
MESSAGE_CHARACTERS = 2_000


@dataclass(frozen=True)
class ServiceReport:
    """The work of a service: files and bytes replaced or removed (`..._before`), and their replacements (`..._after`).

    `rows` are those written (by a purge: removed), `ms` the duration, `instant` the last on the timeline (None: there
    was nothing to do). `more` are further counts by name. Slices are added.
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
        return self.ms / 1000

    def plus(self, other: ServiceReport) -> ServiceReport:
        more = {name: self.more.get(name, 0) + other.more.get(name, 0) for name in sorted({*self.more, *other.more})}
        counts = {of.name: getattr(self, of.name) + getattr(other, of.name) for of in fields(self) if of.default == 0}
        return ServiceReport(**counts, instant=other.instant or self.instant, more=more)

    def to_dict(self) -> dict[str, Any]:
        """The form of the ledger and the log; `from_dict` reads it."""
        return {**asdict(self), "more": dict(self.more)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ServiceReport:
        """Read the values of `to_dict`, also of a release with other fields."""
        field_names = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in field_names})


@dataclass(frozen=True)
class SliceDone:
    """The work of one slice, and whether more is left."""

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
    """One request for a service on a table. Times are epoch ms.

    `request` is its unique id; `run` is the run that last began a slice. `not_before` is the earliest time of a slice
    (minimum interval, back-off); from `overdue_at` on ingest waits for a slice. `slices` counts those done, `failures`
    those that failed in a row; `slice_at` is when the last one ended. `seen` are the table's totals when the request
    began: later changes are the next request's work. `arguments` are those of a service of ON_COMMAND.
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
    arguments: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def open(self) -> bool:
        """Whether it is still work of its lane."""
        return self.state in OPEN


@dataclass(frozen=True)
class RequestRefusal:
    """A transition that the state doesn't allow, and the reason. `request` is the current one, if any."""

    transition: str
    reason: str
    request: ServiceRequest | None


Result = Union[ServiceRequest, RequestRefusal]


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
    arguments: Mapping[str, str] = MappingProxyType({}),
) -> Result:
    """A new request, at the earliest the minimum interval (or back-off) after the last of its kind.

    RequestRefusal while one is open. Raises ValueError for an unknown service.
    """
    if service not in IN_TURN:
        raise ValueError(f"{service!r} is none of {', '.join(IN_TURN)}")
    if before is not None and before.open:
        return RequestRefusal("opened", f"request {before.request} is {before.state}", before)
    earliest = now
    if before is not None and before.ended_at is not None:
        backs_off = before.state == FAILED and min_interval_ms
        pause = max(min_interval_ms, backoff_ms(before.failures)) if backs_off else min_interval_ms
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
        arguments=dict(arguments),
    )


def start(state: ServiceRequest, run: str, now: int, seen: Mapping[str, int]) -> Result:
    """The lane's holder begins a slice. The same run may repeat it, since the answer to the first write can be lost."""
    if state.state != REQUESTED and not (state.state == RUNNING and state.run == run):
        return RequestRefusal("start", f"the request is {state.state}", state)
    if now < state.not_before:
        return RequestRefusal("start", "the request waits", state)
    first = state.started_at is None
    return replace(
        state,
        state=RUNNING,
        run=run,
        started_at=now if first else state.started_at,
        seen=dict(seen) if first else state.seen,
    )


def slice_done(state: ServiceRequest, run: str, report: ServiceReport, now: int) -> Result:
    if state.state != RUNNING or state.run != run:
        return RequestRefusal("slice_done", f"the request is {state.state} under run {state.run}", state)
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
    after = slice_done(state, run, report, now)
    if isinstance(after, RequestRefusal):
        return replace(after, transition="finish")
    return replace(after, state=DONE, ended_at=now)


def fail(state: ServiceRequest, run: str, error: ServiceError, now: int) -> Result:
    """A slice failed: retried after a back-off, unless retrying can't help or it failed too often in a row."""
    if state.state != RUNNING or state.run != run:
        return RequestRefusal("fail", f"the request is {state.state} under run {state.run}", state)
    return _failed(state, error, now, GIVEN_UP_AFTER)


def interrupt(state: ServiceRequest, run: str, now: int) -> Result:
    """The lane's new holder found a slice that a dead run had begun. The next write to the table rolls it back."""
    if state.state != RUNNING or state.run == run:
        return RequestRefusal("interrupt", f"the request is {state.state} under run {state.run}", state)
    return _failed(state, ServiceError("run_died", f"run {state.run} ended during a slice"), now, GIVEN_UP_AFTER_DEATHS)


def _failed(state: ServiceRequest, error: ServiceError, now: int, limit: int) -> ServiceRequest:
    failures = state.failures + 1
    shortened = replace(error, message=error.message[:MESSAGE_CHARACTERS])
    after = replace(state, failures=failures, error=shortened, slice_at=now)
    if not error.retriable or failures >= limit:
        return replace(after, state=FAILED, ended_at=now)
    return replace(after, state=REQUESTED, not_before=now + backoff_ms(failures))


def withdraw(state: ServiceRequest, error: ServiceError, now: int) -> Result:
    if state.state != REQUESTED:
        return RequestRefusal("withdraw", f"the request is {state.state}", state)
    return replace(state, state=FAILED, ended_at=now, error=replace(error, message=error.message[:MESSAGE_CHARACTERS]))
