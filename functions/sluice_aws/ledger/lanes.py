"""Lane items: each transition of the lane machine is written on the condition that the lane has not changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Callable

from sluice.lane import machine
from sluice.lane.machine import LaneRefusal, LaneState, Result
from sluice.ledger.keys import LANES_LISTED_AS, lane_key, listed_at, standstill_key
from sluice_aws.errors import LedgerBusy
from sluice_aws.ledger.expressions import Condition, when
from sluice_aws.ledger.table import LedgerTable, Values

FIELDS = tuple(item.name for item in fields(LaneState) if item.name not in ("lane", "arrivals"))
LISTED = {"listed_as": LANES_LISTED_AS, "listed_at": listed_at(0)}  # the schedule finds every lane by the index
ATTEMPTS = 50  # few transitions race on one lane; each failed attempt means that another one succeeded


class LaneLedger:
    """The lanes of one ledger.

    Every transition except a wake raises `revision`, and is written only if `revision` is what was read. A wake only
    adds to `arrivals`, so arrivals never block a transition. `release` depends on `arrivals` and tests it, too. The
    transactions that open a batch or start a slice remove `idle_until`, which no transition depends on.
    """

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def wake(self, lane: str) -> LaneState:
        """Count an arrival, and give the lane after it. One write."""
        stored, _ = self._table.update(lane_key(lane), LISTED, add={"arrivals": 1})
        return _state(lane, stored)

    def get(self, lane: str) -> LaneState:
        """The lane's state; a lane without an item is idle."""
        return _state(lane, self._table.get(lane_key(lane)) or {})

    def all(self) -> list[LaneState]:
        """Every lane that was ever woken or changed, by name. The index may lag for a new lane's name."""
        keys = [key for page in self._table.query_index(LANES_LISTED_AS) for key in page]
        states = [_state(stored["pk"].partition("#")[2], stored) for stored in self._table.get_many(keys)]
        return sorted(states, key=lambda state: state.lane)

    def request_start(
        self,
        lane: str,
        run_id: str,
        now: int,
        *,
        application_id: str | None = None,
        time_limit_ms: int | None = None,
    ) -> LaneState | None:
        """idle -> starting. None when the lane is not idle or is in back-off."""
        return self._changed(
            lane,
            lambda state: machine.request_start(
                state, run_id, now, application_id=application_id, time_limit_ms=time_limit_ms
            ),
        )

    def started(self, lane: str, run_id: str, job_run_id: str) -> bool:
        """Store the job run that StartJobRun answered. False when the lane belongs to another one."""
        return self._changed(lane, lambda state: machine.started(state, run_id, job_run_id)) is not None

    def hold(self, lane: str, run_id: str, job_run_id: str, attempt: int, now: int) -> LaneState | None:
        """starting -> running: the driver's first act. On None the driver exits without effect."""
        return self._changed(lane, lambda state: machine.hold(state, run_id, job_run_id, attempt, now))

    def holds(self, lane: str, run_id: str, job_run_id: str) -> bool:
        """True if this job run holds the lane. One read."""
        return machine.holds(self.get(lane), run_id, job_run_id)

    def accept_ledger(self, lane: str, run_id: str) -> bool:
        """Note that the ledger knows of the lane's manifests. False when the run no longer holds the lane."""
        return self._changed(lane, lambda state: machine.accept_ledger(state, run_id)) is not None

    def gave_sign(self, lane: str, run_id: str, now: int, idle_until: int | None = None) -> bool:
        """Note that the holder lives, and until when it waits for objects. False when the run has lost the lane."""
        return self._changed(lane, lambda state: machine.gave_sign(state, run_id, now, idle_until)) is not None

    def progressed(self, lane: str, run_id: str) -> bool:
        """Note that the holder closed a batch. False when the run no longer holds the lane."""
        return self._changed(lane, lambda state: machine.progressed(state, run_id)) is not None

    def release(self, lane: str, run_id: str, arrivals_seen: int, due_at: int | None, now: int) -> bool:
        """running -> idle. False when something arrived since `arrivals_seen`, or the lane was lost."""
        unseen = when(arrivals=arrivals_seen or None)
        released = self._changed(lane, lambda state: machine.release(state, run_id, arrivals_seen, due_at, now), unseen)
        return released is not None

    def lapse(
        self,
        lane: str,
        run_id: str,
        now: int,
        *,
        job_run_id: str | None,
        progressed: bool = False,
        capacity: bool = False,
        reason: str | None = None,
    ) -> LaneState | None:
        """Take the lane from a run that is over at EMR Serverless. None when the lane is no longer that run's."""
        return self._changed(
            lane,
            lambda state: machine.lapse(
                state, run_id, now, job_run_id=job_run_id, progressed=progressed, capacity=capacity, reason=reason
            ),
        )

    def pause(self, lane: str, reason: str | None = None) -> LaneState:
        """Start no new run, and ask a running one to end. `reason` is why, if no operator decided it."""
        return _whichever(self._apply(lane, lambda state: machine.pause(state, reason)))

    def resume(self, lane: str) -> LaneState:
        """Undo a pause or a halt; counts as an arrival."""
        return _whichever(self._apply(lane, machine.resume))

    def paused_for_standstill(self) -> list[str]:
        """The lanes that a standstill paused and that were not resumed since."""
        return list((self._table.get(standstill_key()) or {}).get("lanes", ()))

    def note_standstill(self, lanes: Sequence[str]) -> None:
        """Replace the list of lanes that a standstill paused."""
        self._table.update(standstill_key(), {"lanes": list(lanes) or None})

    def _changed(
        self, lane: str, transition: Callable[[LaneState], Result], also: Condition | None = None
    ) -> LaneState | None:
        """The lane after a transition; None where that is refused."""
        result = self._apply(lane, transition, also)
        return None if isinstance(result, LaneRefusal) else result

    def _apply(self, lane: str, transition: Callable[[LaneState], Result], also: Condition | None = None) -> Result:
        tried: tuple[int, LaneState] | None = None
        for _ in range(ATTEMPTS):
            stored = self._table.get(lane_key(lane)) or {}
            before = _state(lane, stored)
            if (stored.get("revision"), before) == tried:
                return before  # the write was made, and its answer lost: the client's repetition was refused
            after = transition(before)
            if isinstance(after, LaneRefusal) or after == before:
                return after
            condition, tried = when(revision=stored.get("revision")), (stored.get("revision", 0) + 1, after)
            if also is not None:
                condition = Condition((condition.any_of[0] + also.any_of[0],))
            arrived = after.arrivals - before.arrivals
            add = {"revision": 1, **({"arrivals": arrived} if arrived else {})}
            written, refusal = self._table.update(
                lane_key(lane), {**_changes(before, after), **LISTED}, add=add, condition=condition
            )
            if refusal is None:
                return _state(lane, written)
        raise LedgerBusy("The lane kept changing", operation="lane", cause=lane)


def held_by(run_id: str, job_run_id: str) -> Condition:
    """The condition on a lane's item that a job run holds it: `sluice.lane.machine.holds` for a transaction."""
    return when(state=machine.RUNNING, run_id=run_id, job_run_id=job_run_id)


def at_work(table: LedgerTable, lane: str, run_id: str, job_run_id: str) -> Values:
    """The action by which a transaction of the lane's holder begins work: refused unless the job run holds the lane.

    It takes the place of a mere check, so that the end of a wait for objects costs no request.
    """
    return table.update_action(lane_key(lane), {"idle_until": None}, condition=held_by(run_id, job_run_id))


def _changes(before: LaneState, after: LaneState) -> dict[str, Any]:
    was, is_now = asdict(before), asdict(after)
    return {name: is_now[name] for name in FIELDS if is_now[name] != was[name]}


def _state(lane: str, stored: Mapping[str, Any]) -> LaneState:
    values = {name: stored[name] for name in FIELDS if name in stored}
    return LaneState(lane, arrivals=stored.get("arrivals", 0), **values)


def _whichever(result: Result) -> LaneState:
    return result.state if isinstance(result, LaneRefusal) else result
