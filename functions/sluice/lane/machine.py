"""The lane as a lock: its states, and every transition between them as a pure function.

A transition takes a state and returns the next one, or a LaneRefusal. It reads no clock and writes nothing.
The ledger writes the result on the condition that the lane is still in the state the transition started from.

    transition     from               to                 meaning
    wake           any                the same           counts an arrival
    request_start  idle, halted       starting           a run id is chosen; StartJobRun follows
    started        starting           starting           StartJobRun answered with the job run's id
    hold           starting, running  running            the driver's first act
    accept_ledger  running            running            the ledger knows of the manifests in S3
    gave_sign      running            running            the holder lives; with idle_until, it waits for objects
    progressed     running            running            something was committed; failures are reset to 0
    release        running            idle, paused       nothing arrived since the run last looked
    lapse          starting, running  idle, halted,      the job run is terminal at EMR, or never existed,
                                      paused             and the lane was not released
    pause          any but paused     paused, or the     no new run starts; a running one is asked to end
                                      same with a request
    resume         any                idle, or the same  counts an arrival; ends a pause or a halt
                                      without a request

A model test explores every state with crashes. It fails on a transition that is not listed, and on a listed one
that never happens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Union

IDLE, STARTING, RUNNING, HALTED, PAUSED = "idle", "starting", "running", "halted", "paused"
STATES = (IDLE, STARTING, RUNNING, HALTED, PAUSED)

FIRST_BACKOFF_MS = 30_000  # after one failed run; doubles with every further one
LONGEST_BACKOFF_MS = 15 * 60_000
HALT_AFTER_FAILURES = 5  # runs in a row that made no progress
#: A halted lane tries again, one run at a time: most causes lie outside of it, and pass.
RETRY_HALTED_MS = 60 * 60_000
#: The reason of a pause: merging everything anew under the present configuration is for an operator to decide.
LEDGER_LOST = "the ledger knows of no batch, and the silver bucket has manifests of this lane"
#: How long StartJobRun is repeated under its clientToken while no answer is known. Then the run is looked up by name:
#: AWS does not document how long a token is remembered.
UNANSWERED_START_MS = 5 * 60_000


@dataclass(frozen=True)
class LaneState:
    """One lane's item. Times are epoch milliseconds.

    `arrivals` only grows. `arrivals_seen` is its value when a run last released the lane: an idle lane with more
    arrivals has work that no run has looked at. `failures` counts the runs in a row that neither released the lane
    nor committed anything. `capacity_failures` counts those that found no capacity or were never started; they cause a
    back-off, but never a halt. `progressed` is True once the run that holds the lane has committed something.
    `application_id` is the EMR Serverless application that the run was requested of, `time_limit_ms` the time after
    which EMR ends it. `alive_at` is the holder's last sign of life; it gives one between batches. `ledger_accepted` is
    True once a run found that the ledger knows of the lane's manifests, or an operator resumed the lane all the same.
    `idle_until` is when a holder that waits for objects ends if none arrive; None while it works. Only people read it.
    """

    lane: str
    state: str = IDLE
    run_id: str | None = None
    job_run_id: str | None = None
    attempt: int | None = None
    arrivals: int = 0
    arrivals_seen: int = 0
    due_at: int | None = None
    failures: int = 0
    capacity_failures: int = 0
    backoff_until: int | None = None
    start_requested_at: int | None = None
    held_at: int | None = None
    progressed: bool = False
    pause_requested: bool = False
    last_run_id: str | None = None
    reason: str | None = None
    application_id: str | None = None
    time_limit_ms: int | None = None
    alive_at: int | None = None
    ledger_accepted: bool = False
    idle_until: int | None = None


@dataclass(frozen=True)
class LaneRefusal:
    """A transition that the lane's state does not allow, and the reason."""

    transition: str
    reason: str
    state: LaneState


Result = Union[LaneState, LaneRefusal]


def wake(state: LaneState) -> LaneState:
    """Count an arrival: once per admit invocation, after its writes, even if all objects were pending already."""
    return replace(state, arrivals=state.arrivals + 1)


def wants_run(state: LaneState, now: int) -> bool:
    """True if a run should start now: the lane is idle, not in back-off, and has unseen arrivals or due work."""
    at = wanted_at(state)
    return at is not None and at <= now


def wanted_at(state: LaneState) -> int | None:
    """When a run should start if nothing more arrives (epoch ms); 0 for now, None for never."""
    if state.state == HALTED:
        return state.backoff_until
    if state.state != IDLE:
        return None
    if state.arrivals > state.arrivals_seen:
        return state.backoff_until or 0
    if state.due_at is not None:
        return max(state.due_at, state.backoff_until or 0)
    return None


def request_start(
    state: LaneState, run_id: str, now: int, *, application_id: str | None = None, time_limit_ms: int | None = None
) -> Result:
    """Reserve the idle or halted lane for a run that is about to be started. `run_id` is new for every attempt."""
    if state.state not in (IDLE, HALTED):
        return LaneRefusal("request_start", f"the lane is {state.state}", state)
    if state.backoff_until is not None and now < state.backoff_until:
        return LaneRefusal("request_start", "the lane is in back-off", state)
    return replace(
        state,
        state=STARTING,
        run_id=run_id,
        job_run_id=None,
        attempt=None,
        start_requested_at=now,
        application_id=application_id,
        time_limit_ms=time_limit_ms,
        held_at=None,
        progressed=False,
        due_at=None,
        reason=None,
    )


def started(state: LaneState, run_id: str, job_run_id: str) -> Result:
    """Store the job run that StartJobRun answered. No other job run can hold the lane under this run id after that."""
    if state.state != STARTING or state.run_id != run_id:
        return LaneRefusal("started", f"the lane is {state.state} under run {state.run_id}", state)
    if state.job_run_id not in (None, job_run_id):
        return LaneRefusal("started", f"job run {state.job_run_id} is the one that may hold", state)
    return replace(state, job_run_id=job_run_id)


def hold(state: LaneState, run_id: str, job_run_id: str, attempt: int, now: int) -> Result:
    """Acquire the lane for a driver. The stored job run and attempt must be absent or equal to the driver's own.

    Repeatable by the same attempt, since the answer to the first write can be lost.
    """
    if state.state not in (STARTING, RUNNING) or state.run_id != run_id:
        return LaneRefusal("hold", f"the lane is {state.state} under run {state.run_id}", state)
    if state.job_run_id not in (None, job_run_id) or state.attempt not in (None, attempt):
        return LaneRefusal("hold", f"job run {state.job_run_id}, attempt {state.attempt}, holds it or will", state)
    held_at = state.held_at if state.held_at is not None else now
    return replace(state, state=RUNNING, job_run_id=job_run_id, attempt=attempt, held_at=held_at, capacity_failures=0)


def holds(state: LaneState, run_id: str, job_run_id: str) -> bool:
    """True if this job run holds the lane. The driver checks it before every commit."""
    return state.state == RUNNING and state.run_id == run_id and state.job_run_id == job_run_id


def gave_sign(state: LaneState, run_id: str, now: int, idle_until: int | None = None) -> Result:
    """Note a sign of life of the holder, and until when it waits for objects; None while it works."""
    if state.state != RUNNING or state.run_id != run_id:
        return LaneRefusal("gave_sign", f"the lane is {state.state} under run {state.run_id}", state)
    return replace(state, alive_at=now, idle_until=idle_until)


def accept_ledger(state: LaneState, run_id: str) -> Result:
    if state.state != RUNNING or state.run_id != run_id:
        return LaneRefusal("accept_ledger", f"the lane is {state.state} under run {state.run_id}", state)
    return replace(state, ledger_accepted=True)


def progressed(state: LaneState, run_id: str) -> Result:
    if state.state != RUNNING or state.run_id != run_id:
        return LaneRefusal("progressed", f"the lane is {state.state} under run {state.run_id}", state)
    return replace(state, progressed=True, failures=0, capacity_failures=0)


def release(state: LaneState, run_id: str, arrivals_seen: int, due_at: int | None, now: int) -> Result:
    """Release the lane. LaneRefusal when something arrived after the run read `arrivals_seen`.

    The run reads `arrivals_seen` before the query that finds nothing claimable. `due_at` is when objects that are
    left become claimable; it is now when the run leaves claimable work to the next run.
    """
    if state.state != RUNNING or state.run_id != run_id:
        return LaneRefusal("release", f"the lane is {state.state} under run {state.run_id}", state)
    if state.arrivals != arrivals_seen:
        return LaneRefusal("release", f"{state.arrivals - arrivals_seen} arrivals since the run last looked", state)
    return replace(
        _without_run(state),
        state=PAUSED if state.pause_requested else IDLE,
        pause_requested=False,
        arrivals_seen=arrivals_seen,
        due_at=due_at,
        failures=0,
        capacity_failures=0,
        backoff_until=None,
        reason=state.reason if state.pause_requested else None,
    )


def lapse(
    state: LaneState,
    run_id: str,
    now: int,
    *,
    job_run_id: str | None,
    progressed: bool = False,
    capacity: bool = False,
    reason: str | None = None,
) -> Result:
    """Take the lane from a run whose job run is terminal at EMR, or was never started.

    `job_run_id` is the job run that was found terminal. None means that a start stayed unanswered and EMR knows no
    job run of its name. It must equal the lane's own: otherwise a driver that acquired the lane meanwhile would lose
    it while it is alive. Counts as an arrival, since the dead run may have left claimed and unseen work.
    `capacity`: EMR had no capacity, or there was no job run to fail. That causes a back-off only.
    """
    if state.state not in (STARTING, RUNNING) or state.run_id != run_id:
        return LaneRefusal("lapse", f"the lane is {state.state} under run {state.run_id}", state)
    if state.job_run_id != job_run_id:
        return LaneRefusal("lapse", f"the lane's job run is {state.job_run_id}, not {job_run_id}", state)
    left = replace(_without_run(state), arrivals=state.arrivals + 1, pause_requested=False, reason=reason)
    if progressed or state.progressed:
        after, backoff_until = replace(left, failures=0, capacity_failures=0), None
    elif capacity:
        after = replace(left, capacity_failures=state.capacity_failures + 1)
        backoff_until = now + backoff_ms(after.failures + after.capacity_failures)
    else:
        after = replace(left, failures=state.failures + 1)
        backoff_until = now + backoff_ms(after.failures + after.capacity_failures)
    if state.pause_requested:
        next_state = PAUSED
    elif after.failures >= HALT_AFTER_FAILURES:
        next_state, backoff_until = HALTED, now + RETRY_HALTED_MS
    else:
        next_state = IDLE
    return replace(after, state=next_state, backoff_until=backoff_until)


def backoff_ms(failures: int) -> int:
    """The back-off of a lane or a table after a number of failures in a row, in milliseconds."""
    doublings = min(max(failures - 1, 0), 16)
    return min(FIRST_BACKOFF_MS << doublings, LONGEST_BACKOFF_MS)


def pause(state: LaneState, reason: str | None = None) -> Result:
    """Start no new run, and ask a running one to end after its batch. `reason` is why, if no operator decided it."""
    if state.state == PAUSED:
        return LaneRefusal("pause", "the lane is paused already", state)
    if state.state in (STARTING, RUNNING):
        return replace(state, pause_requested=True, reason=reason or state.reason)
    return replace(state, state=PAUSED, reason=reason or state.reason)


def resume(state: LaneState) -> LaneState:
    """End a pause or a halt, and count an arrival, so that a run looks at the pending objects.

    Whoever resumes a lane that was paused over its ledger has decided about the ledger.
    """
    state = replace(state, ledger_accepted=state.ledger_accepted or state.reason == LEDGER_LOST)
    if state.state in (STARTING, RUNNING):
        return replace(state, pause_requested=False, arrivals=state.arrivals + 1)
    return replace(
        state,
        state=IDLE,
        pause_requested=False,
        arrivals=state.arrivals + 1,
        failures=0,
        capacity_failures=0,
        backoff_until=None,
        reason=None,
    )


_OF_RUN = (
    *("run_id", "job_run_id", "attempt", "start_requested_at", "held_at", "progressed"),
    *("application_id", "time_limit_ms", "alive_at", "idle_until"),
)


def _without_run(state: LaneState) -> LaneState:
    unset = {name: getattr(LaneState(state.lane), name) for name in _OF_RUN}
    return replace(state, **{**unset, "last_run_id": state.run_id})
