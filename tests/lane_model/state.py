"""The state of the lane protocol's model: one lane, its objects, the queue, EMR, drivers, a table's timeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from sluice.batch.claim import Budget, ClaimPlan, PendingObject, TableState, plan_claim
from sluice.batch.isolation import TOGETHER, Resumption, resumption
from sluice.config.table import TableConfig
from sluice.lane import machine, supervision
from sluice.lane.machine import LaneRefusal, LaneState
from sluice.ledger import records as ledger_records
from sluice.objects import ObjectId

LANE = "main"
ABSENT, PENDING, CLAIMED, COMMITTED = "absent", "pending", "claimed", "committed"
QUARANTINED = "quarantined"
Batch = tuple[int, ...]  # the objects' numbers

#: Where a StartJobRun, a check and a commit stand relative to each other in a driver's write of one table.
CHECK_BEFORE_BEGIN, CHECK_BEFORE_COMPLETE = "before_begin", "before_complete"


class Left(NamedTuple):
    """How much of each kind of trouble the exploration may still use."""

    crashes: int = 0
    ticks: int = 0
    supervisions: int = 0
    runs: int = 3
    forgets: int = 0  # EMR makes a second job run for a token it knew
    late: int = 0  # a StartJobRun whose caller died arrives any time later
    zombies: int = 0  # EMR calls a job run terminal whose process goes on
    pauses: int = 0
    requests: int = 0  # somebody asks for a table service


class Invocation(NamedTuple):
    """One admit invocation: `at` is its next step; `written` how many of its objects are."""

    at: str = "queued"
    written: int = 0
    wakes: bool = False
    run: str | None = None
    job: str | None = None


class Driver(NamedTuple):
    """One job run at EMR and its process; `at` is the process's next step.

    `todo` holds the parts of its batch that are still to do, and how; `how` is the current one's. A take-over visits
    the unsettled batches once without suspects, which are `deferred` then until a batch of others was claimed.
    """

    run: str
    terminal: bool = False
    alive: bool = True
    at: str = "hold"
    seen: int = 0
    batch: Batch = ()
    part: int = 0
    takeover: bool = False
    due: int | None = None
    todo: tuple[tuple[int, str], ...] = ()
    how: str = TOGETHER
    visited: tuple[Batch, ...] = ()
    suspects: bool = False
    deferred: bool = False
    isolated_next: bool = False


class Supervise(NamedTuple):
    """The schedule's one invocation; it decides at `read` and acts after it."""

    at: str = "read"
    run: str | None = None
    job: str | None = None


class ModelState(NamedTuple):
    """Everything that outlives a step.

    `timeline` is what Hudi completed, `inflight` what it began: (job, batch, table). `attempts` counts those of later
    runs to finish a part; `cohorts` are those of objects, `claimed_as` those that open batches were claimed as.
    """

    lane: LaneState
    now: int
    objects: tuple[tuple[str, Batch], ...]
    invocations: tuple[Invocation, ...]
    drivers: tuple[Driver, ...]
    supervise: Supervise
    unsettled: tuple[Batch, ...]
    settled: frozenset[tuple[Batch, str]]
    timeline: tuple[tuple[Batch, str], ...]
    inflight: frozenset[tuple[str, Batch, str]]
    last_commits: tuple[int | None, ...]
    late: tuple[str, ...]
    runs: int
    left: Left
    attempts: tuple[tuple[Batch, str, int], ...] = ()
    cohorts: tuple[str | None, ...] = ()
    claimed_as: tuple[tuple[Batch, str], ...] = ()
    service: tuple[str, str] = ("", "")  # the request for a table service: its state, and the run of a slice that runs


@dataclass(frozen=True)
class Protocol:
    """The project's own functions that the model calls. A test can break one to see that the explorer finds it."""

    release: Callable[..., Any] = machine.release
    hold: Callable[..., Any] = machine.hold
    lapse: Callable[..., Any] = machine.lapse
    wants_run: Callable[..., bool] = machine.wants_run
    wakes: Callable[[str], bool] = ledger_records.wakes
    next_step: Callable[..., supervision.LaneStep] = supervision.next_step
    resumption: Callable[..., Resumption] = resumption
    suspects_in_the_end: bool = True
    write_before_wake: bool = True
    arrivals_before_query: bool = True
    takeover_first: bool = True
    rollback_first: bool = True
    look_on_timeline: bool = True
    check_before_commit: bool = True
    terminal_before_lapse: bool = True
    due_at_on_release: bool = True
    request_wakes: bool = True
    services_before_release: bool = True
    interrupts_what_died: bool = True
    defers: bool = False  # a start waits for freshness, as it does where that is longer than a start


@dataclass(frozen=True)
class Scenario:
    """What arrives and how much goes wrong: each object's table, and which objects each invocation brings.

    A run that merges an object of `poison` dies.
    """

    tables: tuple[str, ...]
    invocations: tuple[tuple[int, ...], ...]
    left: Left
    freshness_s: int = 0
    check_at: str = CHECK_BEFORE_BEGIN
    batch_objects: int = 10
    protocol: Protocol = field(default_factory=Protocol)
    poison: frozenset[int] = frozenset()
    service_table: str | None = None  # the table of which a service is asked for, as often as `left.requests` says

    @property
    def table_names(self) -> tuple[str, ...]:
        """Every table once."""
        return tuple(sorted(set(self.tables)))

    def start(self) -> ModelState:
        """Nothing has happened; every invocation's notices are queued."""
        return ModelState(
            lane=LaneState(LANE),
            now=0,
            objects=((ABSENT, ()),) * len(self.tables),
            invocations=(Invocation(),) * len(self.invocations),
            drivers=(),
            supervise=Supervise(),
            unsettled=(),
            settled=frozenset(),
            timeline=(),
            inflight=frozenset(),
            last_commits=(None,) * len(self.table_names),
            late=(),
            runs=0,
            left=self.left,
            cohorts=(None,) * len(self.tables),
        )

    def tables_of(self, batch: Batch) -> tuple[str, ...]:
        """The parts of a batch in order."""
        return tuple(sorted({self.tables[number] for number in batch}))


@cache
def applied(transition: Callable[..., Any], lane: LaneState, *arguments: Any, **more: Any) -> LaneState | None:
    """A transition's result without what nothing is decided by any more; None when it was refused."""
    result = transition(lane, *arguments, **more)
    if isinstance(result, LaneRefusal):
        return None
    requested_at = result.start_requested_at if result.job_run_id is None else None
    return replace(result, held_at=None, last_run_id=None, reason=None, start_requested_at=requested_at)


def job_name(number: int) -> str:
    """The n-th job run's id."""
    return f"j{number}"


def job_number(name: str) -> int:
    """Where a job run stands among the drivers."""
    return int(name[1:])


@cache
def planned(
    pending: Batch,
    tables: tuple[str, ...],
    last_commits: tuple[tuple[str, int | None], ...],
    freshness_s: int,
    objects: int,
    now: int,
    cohorts: tuple[str | None, ...],
    isolated_next: bool,
) -> ClaimPlan:
    """The project's plan for these pending objects."""
    waiting = [
        PendingObject(
            *astuple(identity(number))[:3],
            *(1, None, "avro", "t", None, None, number),
            table=tables[number],
            shard=0,
            cohort=cohorts[number],
        )
        for number in pending
    ]
    configs = {
        table: TableConfig(table, *table.split("."), topic="t", record_key=("id",), freshness_s=freshness_s)
        for table in tables
    }
    states = {table: TableState(table, last_commit_at=at) for table, at in last_commits}
    return plan_claim(waiting, configs, states, Budget(objects, 1 << 30), now, isolated_next=isolated_next)


def identity(number: int) -> ObjectId:
    """An object as the project knows it."""
    return ObjectId("bronze", str(number), "v")
