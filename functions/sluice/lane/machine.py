"""The lane as a lock: its states, every transition between them as a pure function, and what the schedule does next.

A transition takes the state and gives the next one, or a Refused; it never reads a clock or writes
anything. The ledger applies one by writing its result on condition that the lane is still what the
transition was computed from, so these functions are the protocol and not a description of it.

One table for the eye; the explorer under tests/property walks all of it and fails on a row that
never happens and on a step that isn't listed:

    transition     from               to                 what it is
    wake           any                the same           an arrival; raises `arrivals`
    request_start  idle               starting           a run id is chosen; StartJobRun follows
    started        starting           starting           the job run that StartJobRun made is known
    hold           starting, running  running            the driver's first act
    progressed     running            running            a batch was closed; failures start again at 0
    release        running            idle, paused       nothing arrived since the run last looked
    lapse          starting, running  idle, halted,      EMR says the job run is terminal (or that it
                                      paused             never was) and the lane was not released
    pause          any but paused     paused, or the     no new run starts; a living one is asked to end
                                      same with a request
    resume         any                idle, or the same  counts as an arrival; also un-halts
                                      without a request
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Union

IDLE, STARTING, RUNNING, HALTED, PAUSED = "idle", "starting", "running", "halted", "paused"
STATES = (IDLE, STARTING, RUNNING, HALTED, PAUSED)

#: (transition, from) -> the states it can lead to.
TRANSITIONS: dict[tuple[str, str], frozenset[str]] = {
    ("wake", IDLE): frozenset({IDLE}),
    ("wake", STARTING): frozenset({STARTING}),
    ("wake", RUNNING): frozenset({RUNNING}),
    ("wake", HALTED): frozenset({HALTED}),
    ("wake", PAUSED): frozenset({PAUSED}),
    ("request_start", IDLE): frozenset({STARTING}),
    ("started", STARTING): frozenset({STARTING}),
    ("hold", STARTING): frozenset({RUNNING}),
    ("hold", RUNNING): frozenset({RUNNING}),
    ("progressed", RUNNING): frozenset({RUNNING}),
    ("release", RUNNING): frozenset({IDLE, PAUSED}),
    ("lapse", STARTING): frozenset({IDLE, HALTED, PAUSED}),
    ("lapse", RUNNING): frozenset({IDLE, HALTED, PAUSED}),
    ("pause", IDLE): frozenset({PAUSED}),
    ("pause", HALTED): frozenset({PAUSED}),
    ("pause", STARTING): frozenset({STARTING}),
    ("pause", RUNNING): frozenset({RUNNING}),
    ("resume", IDLE): frozenset({IDLE}),
    ("resume", PAUSED): frozenset({IDLE}),
    ("resume", HALTED): frozenset({IDLE}),
    ("resume", STARTING): frozenset({STARTING}),
    ("resume", RUNNING): frozenset({RUNNING}),
}

BACKOFF_MS = 30_000  # after the first failure, doubling
BACKOFF_LIMIT_MS = 15 * 60_000
HALT_AFTER = 5  # runs without progress
TOKEN_REPEAT_MS = 5 * 60_000  # EMR documents no window for clientToken; after this a start is looked up by name


@dataclass(frozen=True)
class LaneState:
    """One lane's item. Times are epoch milliseconds.

    `arrivals` only grows; `arrivals_seen` is its value when a run last released the lane, so an idle
    lane with more arrivals than that has work that nobody looked at. `failures` counts runs in a row
    that ended without releasing and without closing a batch, `capacity_failures` those of them that
    failed for want of capacity or never came to be: they back off and never halt. `progressed` is about the run that holds.
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


@dataclass(frozen=True)
class Refused:
    """A transition that the lane's state doesn't allow, and why."""

    transition: str
    reason: str
    state: LaneState


Result = Union[LaneState, Refused]


def wake(state: LaneState) -> LaneState:
    """Count an arrival: once per admit invocation, after its object writes, also when all were pending already."""
    return replace(state, arrivals=state.arrivals + 1)


def wants_run(state: LaneState, now: int) -> bool:
    """Whether a run should be started now: idle, out of back-off, and something arrived unseen or came due."""
    at = wanted_at(state)
    return at is not None and at <= now


def wanted_at(state: LaneState) -> int | None:
    """When a run should start if nothing more arrives; None for never, and 0 for at once."""
    if state.state != IDLE:
        return None
    if state.arrivals > state.arrivals_seen:
        return state.backoff_until or 0
    if state.due_at is not None:
        return max(state.due_at, state.backoff_until or 0)
    return None


def request_start(state: LaneState, run_id: str, now: int) -> Result:
    """Take the idle lane for a run that is about to be started; `run_id` is new for every attempt."""
    if state.state != IDLE:
        return Refused("request_start", f"the lane is {state.state}", state)
    if state.backoff_until is not None and now < state.backoff_until:
        return Refused("request_start", "the lane is in back-off", state)
    return replace(
        state,
        state=STARTING,
        run_id=run_id,
        job_run_id=None,
        attempt=None,
        start_requested_at=now,
        held_at=None,
        progressed=False,
        due_at=None,
        reason=None,
    )


def started(state: LaneState, run_id: str, job_run_id: str) -> Result:
    """Remember the job run that StartJobRun answered. From then on no other job run can hold under this run id."""
    if state.state != STARTING or state.run_id != run_id:
        return Refused("started", f"the lane is {state.state} under run {state.run_id}", state)
    if state.job_run_id not in (None, job_run_id):
        return Refused("started", f"job run {state.job_run_id} is the one that may hold", state)
    return replace(state, job_run_id=job_run_id)


def hold(state: LaneState, run_id: str, job_run_id: str, attempt: int, now: int) -> Result:
    """The driver takes the lane under its run id: its own job run and attempt must be absent or equal.

    Repeatable by the same attempt, since the answer to the first write can be lost.
    """
    if state.state not in (STARTING, RUNNING) or state.run_id != run_id:
        return Refused("hold", f"the lane is {state.state} under run {state.run_id}", state)
    if state.job_run_id not in (None, job_run_id) or state.attempt not in (None, attempt):
        return Refused("hold", f"job run {state.job_run_id}, attempt {state.attempt}, holds or will", state)
    held_at = state.held_at if state.held_at is not None else now
    return replace(state, state=RUNNING, job_run_id=job_run_id, attempt=attempt, held_at=held_at, capacity_failures=0)


def holds(state: LaneState, run_id: str, job_run_id: str) -> bool:
    """Whether this job run holds the lane: asked before every commit."""
    return state.state == RUNNING and state.run_id == run_id and state.job_run_id == job_run_id


def progressed(state: LaneState, run_id: str) -> Result:
    """The holder closed a batch: a failure after this is the first one again."""
    if state.state != RUNNING or state.run_id != run_id:
        return Refused("progressed", f"the lane is {state.state} under run {state.run_id}", state)
    return replace(state, progressed=True, failures=0, capacity_failures=0)


def release(state: LaneState, run_id: str, arrivals_seen: int, due_at: int | None, now: int) -> Result:
    """Give the lane back. Refused when something arrived after `arrivals_seen` was read.

    `arrivals_seen` is what the run read before the query that found nothing claimable (or that it
    leaves to the next run: then `due_at` is now). `due_at` is when what is left becomes claimable.
    """
    if state.state != RUNNING or state.run_id != run_id:
        return Refused("release", f"the lane is {state.state} under run {state.run_id}", state)
    if state.arrivals != arrivals_seen:
        return Refused("release", f"{state.arrivals - arrivals_seen} arrivals since the run last looked", state)
    return replace(
        _without_run(state),
        state=PAUSED if state.pause_requested else IDLE,
        pause_requested=False,
        arrivals_seen=arrivals_seen,
        due_at=due_at,
        failures=0,
        capacity_failures=0,
        backoff_until=None,
        reason=None,
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
    """Take the lane from a run whose job run is terminal at EMR, or that never came to be one.

    `job_run_id` is the job run that was seen terminal; None says that StartJobRun's window is over
    and EMR knows no job run of this name. Either must be what the lane says, or a driver that held
    in the meantime would lose the lane alive. Counts as an arrival, since the dead run may have left
    claimed and unseen work. `capacity`: the failure named capacity, or there was no run to fail, which only backs off.
    """
    if state.state not in (STARTING, RUNNING) or state.run_id != run_id:
        return Refused("lapse", f"the lane is {state.state} under run {state.run_id}", state)
    if state.job_run_id != job_run_id:
        return Refused("lapse", f"the lane's job run is {state.job_run_id}, not {job_run_id}", state)
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
    else:
        next_state = HALTED if after.failures >= HALT_AFTER else IDLE
    return replace(after, state=next_state, backoff_until=backoff_until)


def backoff_ms(failures: int) -> int:
    """How long a lane or a table waits after so many failures in a row, in milliseconds."""
    return min(BACKOFF_MS * 2 ** min(max(failures - 1, 0), 16), BACKOFF_LIMIT_MS)


def pause(state: LaneState) -> Result:
    """Let no new run start; ask a living one to end after its batch."""
    if state.state == PAUSED:
        return Refused("pause", "the lane is paused already", state)
    if state.state in (STARTING, RUNNING):
        return replace(state, pause_requested=True)
    return replace(state, state=PAUSED)


def resume(state: LaneState) -> LaneState:
    """Take a pause or a halt back, and count an arrival, so that what waited is looked at."""
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


def _without_run(state: LaneState) -> LaneState:
    return replace(
        state,
        run_id=None,
        job_run_id=None,
        attempt=None,
        start_requested_at=None,
        held_at=None,
        progressed=False,
        last_run_id=state.run_id,
    )
