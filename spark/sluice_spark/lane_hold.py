"""Holding the lane: the first write of a run, the check before each commit, and the release."""

from __future__ import annotations

import threading
from typing import Optional

from sluice.lane import LaneState, holds

from sluice_spark.lane_lost import LaneLost
from sluice_spark.ports import Clock, Ledger
from sluice_spark.run_identity import RunIdentity


class LaneHold:
    """One driver's hold of its lane. Once lost it stays lost: no thread of this process asks again."""

    def __init__(self, ledger: Ledger, identity: RunIdentity, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._lost = threading.Event()
        self.identity = identity

    def take(self) -> Optional[LaneState]:
        """Write this job run and attempt into the lane (rule 3). None: refused, another one holds it."""
        me = self.identity
        return self._ledger.hold(me.lane, me.run, me.job_run_id, me.attempt, self._clock.now_ms())

    def read(self) -> LaneState:
        """The lane as it is now. Raises LaneLost when it is not this job run's."""
        self.check()
        state = self._ledger.lane(self.identity.lane)
        if not holds(state, self.identity.run, self.identity.job_run_id):
            self.lose()
            self.check()
        return state

    def still_held(self) -> bool:
        """Whether this driver holds the lane now: asked right before every commit (rule 3)."""
        if self._lost.is_set():
            return False
        if not self._ledger.holds(self.identity.lane, self.identity.run, self.identity.job_run_id):
            self.lose()
            return False
        return True

    def check(self) -> None:
        """Raise LaneLost if an earlier answer said so. Asks nobody."""
        if self._lost.is_set():
            raise LaneLost(
                f"Lane {self.identity.lane} is no longer held by run {self.identity.run}",
                lane=self.identity.lane,
                run=self.identity.run,
            )

    def lose(self) -> None:
        """Remember that the lane is lost, so that every thread stops before its next write."""
        self._lost.set()

    def release(self, arrivals_seen: int, due_at: Optional[int]) -> bool:
        """Give the lane back. False: something arrived since `arrivals_seen` was read, so the run goes on."""
        me = self.identity
        return self._ledger.release(me.lane, me.run, arrivals_seen, due_at, self._clock.now_ms())
