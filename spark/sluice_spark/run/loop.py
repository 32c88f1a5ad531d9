"""Runs a lane: hold it, finish what was left, run batches and service slices, release it.

`decide` is the pure part: whether an idle run looks again, waits, or releases the lane.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.batch.manifest import Manifest
from sluice.lane.job_request import run_age_s
from sluice.lane.machine import LEDGER_LOST, LaneState
from sluice.services.requests import ServiceRequest
from sluice_spark.errors import LaneLost
from sluice_spark.run.batch import BatchEnd, BatchStep
from sluice_spark.run.claim import Claimed, ClaimStep, ConfigurationInForce
from sluice_spark.run.hold import LaneHold
from sluice_spark.run.services import ServiceStep
from sluice_spark.run.step import Ports, RunStep
from sluice_spark.run.takeover import Takeover

REFUSED = "refused"  # another job run holds the lane, or the run was abandoned: nothing was done
RELEASED = "released"
MANIFESTS_LOOKED_AT = 5  # of a lane whose ledger was never compared with its manifests
LOST = "lost"  # another run took the lane over: this one stopped without another write


@dataclass(frozen=True)
class RunEnd:
    """How a run ended, and how many batches it closed, including those it took over."""

    how: str
    batches: int


class RunLoop(RunStep):
    """One run of one lane. `run` is called once."""

    def __init__(self, ports: Ports, hold: LaneHold, *, poll_s: float, scope: str = "") -> None:
        """`scope` names the tables that the run's policy lets it write; empty for all.

        `poll_s`: seconds between two reads of the lane while nothing is claimable.
        """
        super().__init__(ports, hold)
        self._configuration = ConfigurationInForce(
            ports.configurations, ports.log, lane=hold.identity.lane, scope=scope
        )
        self._batches = BatchStep(ports, hold)
        self._takeover = Takeover(ports, hold, self._batches)
        self._claims = ClaimStep(ports, hold, self._configuration)
        self._services = ServiceStep(ports, hold, self._configuration)
        self._poll_s = poll_s
        self._began = self._clock.now_ms()
        self._idle_since = self._began
        self._idle: IdleLane | None = None
        self._unresolved: dict[tuple[str, str], int] = {}
        self._closed = 0
        # Parts that may have killed a run wait until the lane's other work had a turn.
        self._others_first = False
        # A slice was done since the last claim: no second overdue service comes before claimable objects.
        self._ingest_next = False

    def run(self) -> RunEnd:
        """Hold the lane and work until it is released, refused or lost. Other errors are raised: the run died."""
        held = self._hold.take()
        if held is None:
            self._log.event("hold_refused")
            return RunEnd(REFUSED, 0)
        me = self._hold.identity
        self._log.event("held", arrivals=held.arrivals)
        self._ledger.history.run_started(me.run, me.lane, self._clock.now_ms(), me.job_run_id)
        try:
            if held.ledger_accepted or self._accepts_ledger():
                self._merger.prepare()
                self._work()
            else:
                self._leave_paused()
        except LaneLost as lost:
            self._hold.lose()
            self._merger.abandon()
            self._log.failure("lane_lost", lost)
            return RunEnd(LOST, self._closed)
        self._ledger.history.run_ended(me.run, RELEASED, None, self._closed, self._clock.now_ms())
        self._log.event("released", batches=self._closed, seconds=(self._clock.now_ms() - self._began) / 1000)
        return RunEnd(RELEASED, self._closed)

    def _accepts_ledger(self) -> bool:
        """Whether the ledger knows of the batches in S3: an empty one beside manifests was lost."""
        me = self._hold.identity
        manifests = self._manifests.some_of(me.lane, MANIFESTS_LOOKED_AT)
        if manifests and not any(self._knows(manifest) for manifest in manifests):
            return False
        self._ledger.lanes.accept_ledger(me.lane, me.run)
        return True

    def _knows(self, manifest: Manifest) -> bool:
        if self._ledger.batches.get(manifest.batch) is not None:
            return True
        return any(state.last_batch for state in self._ledger.tables.get_many(sorted(manifest.tables)).values())

    def _leave_paused(self) -> None:
        """Give the lane back paused, without a look at its objects."""
        self._log.event("ledger_lost", level="error", reason=LEDGER_LOST)
        self._ledger.lanes.pause(self._hold.identity.lane, LEDGER_LOST)
        while not self._hold.release(self._hold.read().arrivals, None):
            pass

    def _work(self) -> None:
        self._configuration.refresh()
        self._finish_unsettled(suspects=False)
        self._idle_since = self._clock.now_ms()
        while True:
            lane = self._hold.read()
            self._hold.give_sign()
            now = self._clock.now_ms()
            staying = self._staying()
            decision = decide(
                self._idle, staying, arrivals=lane.arrivals, pause_requested=lane.pause_requested, now=now
            )
            if decision == LOOK:
                self._look(lane)
            elif decision == RELEASE:
                if self._release(lane, now):
                    return
            else:
                assert self._idle is not None  # decide() says LOOK to a run that has not looked
                self._merger.keep_warm()
                # The write takes the place of a wait, so that the next look at the lane comes no later for it.
                if not self._hold.write_idle_until(idle_end(self._idle, staying, now=now)):
                    self._clock.wait(wait_seconds(self._idle, staying, poll_s=self._poll_s, now=now))

    def _look(self, lane: LaneState) -> None:
        """Run one batch, else one slice of a service; else remember `lane.arrivals`, at which there was neither.

        Batches come first. Only a service that has waited its maximum time comes before claimable objects, and then in
        turns with them.
        """
        if self._others_first:
            self._others_first = False
        elif any(at <= self._clock.now_ms() for at in self._unresolved.values()):
            self._hold.write_idle_until(None)
            self._finish_unsettled(suspects=True)
        unresolved = frozenset(table for _, table in self._unresolved)
        overdue = None if self._ingest_next else self._services.overdue(unresolved)
        if overdue is not None:
            return self._serve(overdue)
        taken = self._claims.take(unresolved)
        self._ingest_next = False
        if isinstance(taken, Claimed):
            self._hold.at_work()
            self._idle = None
            if self._run_batch(taken).settled:
                self._idle_since = (
                    self._clock.now_ms()
                )  # a batch of which nothing was settled doesn't extend the linger
            return
        plan = self._services.look(unresolved)
        if plan.now is not None:
            return self._serve(plan.now)
        due = [at for at in (taken.next_due_at, plan.next_at, *self._unresolved.values()) if at is not None]
        idle = IdleLane(self._idle_since, lane.arrivals, min(due) if due else None, taken.keep_alive_until)
        if idle != self._idle:
            self._log.event("nothing_claimable", arrivals=lane.arrivals, next_due_at=idle.next_due_at)
        self._idle = idle

    def _serve(self, request: ServiceRequest) -> None:
        self._hold.at_work()
        self._idle = None
        self._ingest_next = True
        self._services.serve(request)

    def _run_batch(self, taken: Claimed) -> BatchEnd:
        waited_ms = self._clock.now_ms() - taken.oldest_admitted_at
        end = self._batches.run(taken.manifest, taken.objects, taken.profile)
        for table, retry_at in end.unresolved.items():
            self._unresolved[end.batch, table] = retry_at
        self._closed += end.closed
        self._log.event(
            "profile",
            batch=end.batch,
            objects=len(taken.objects),
            seconds=taken.profile.seconds(),
            oldest_waited_s=waited_ms / 1000,
        )
        return end

    def _finish_unsettled(self, *, suspects: bool) -> None:
        taken_over = self._takeover.finish_unsettled(suspects=suspects)
        self._unresolved = dict(taken_over.unresolved)
        self._others_first = taken_over.deferred
        self._closed += taken_over.closed

    def _release(self, lane: LaneState, now: int) -> bool:
        # Objects that this run can't claim may be claimable under the configuration that outgrew it.
        due_at = now if self._configuration.outgrown else due_at_release(self._idle, arrivals=lane.arrivals, now=now)
        released = self._hold.release(lane.arrivals, due_at)
        if not released:
            self._log.event("release_refused", arrivals=lane.arrivals)
        return released

    def _staying(self) -> Staying:
        lane = self._configuration.current.lane(self._hold.identity.lane)
        longest_s = 0 if self._configuration.outgrown else run_age_s(lane)
        return Staying(linger_s=lane.linger_s, ends_at=self._began + longest_s * 1000)


LOOK = "look"  # query the pending objects: some may have arrived or come due
WAIT = "wait"
RELEASE = "release"
# An idle run writes its end only then, so that one with objects every second sends no further request per batch.
IDLE_WRITTEN_AFTER_MS = 2_000


@dataclass(frozen=True)
class IdleLane:
    """The lane as an idle run found it. Times are epoch milliseconds.

    `found_nothing_at_arrivals` is the arrivals counter as read before the query that found nothing claimable.
    `next_due_at` is when the first object or service request that waits comes due. Until `keep_alive_until` the run
    stays for objects that wait only for their table's freshness, and not for long.
    """

    idle_since: int
    found_nothing_at_arrivals: int
    next_due_at: int | None = None
    keep_alive_until: int | None = None


@dataclass(frozen=True)
class Staying:
    """How long a run may stay: the seconds it lingers, and the time (epoch ms) at which it must end."""

    linger_s: int
    ends_at: int


def decide(idle: IdleLane | None, staying: Staying, *, arrivals: int, pause_requested: bool, now: int) -> str:
    """Decide whether an idle run looks again, waits or releases the lane: LOOK, WAIT or RELEASE.

    `idle` is None when the run has not looked since its last batch. A pause and the maximum age end a run even when
    more could be claimed.
    """
    if pause_requested or now >= staying.ends_at:
        return RELEASE
    if idle is None or arrivals != idle.found_nothing_at_arrivals:
        return LOOK
    if idle.next_due_at is not None and now >= idle.next_due_at:
        return LOOK
    if now < stays_until(idle, staying):
        return WAIT
    return RELEASE


def stays_until(idle: IdleLane, staying: Staying) -> int:
    """When (epoch ms) this run releases the lane if nothing changes: after its linger, or its keep-alive."""
    lingers_until = idle.idle_since + staying.linger_s * 1000
    return min(staying.ends_at, max(lingers_until, idle.keep_alive_until or 0))


def idle_end(idle: IdleLane, staying: Staying, *, now: int) -> int | None:
    """The end (epoch ms) that an idle run writes to its lane; None before IDLE_WRITTEN_AFTER_MS."""
    return stays_until(idle, staying) if now >= idle.idle_since + IDLE_WRITTEN_AFTER_MS else None


def due_at_release(idle: IdleLane | None, *, arrivals: int, now: int) -> int | None:
    """The lane's `due_at` at a release: now, where something arrived since the last look."""
    if idle is None or idle.found_nothing_at_arrivals != arrivals:
        return now
    return idle.next_due_at


def wait_seconds(idle: IdleLane, staying: Staying, *, poll_s: float, now: int) -> float:
    """Seconds until the next read of the lane: the poll interval, or less where something comes due earlier."""
    moments = [stays_until(idle, staying)]
    if idle.next_due_at is not None:
        moments.append(idle.next_due_at)
    return max(0.0, min(poll_s, (min(moments) - now) / 1000))
