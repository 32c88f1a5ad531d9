"""Holds the lane for one driver: the first write of its run, the check before each commit, and the release."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from sluice.lane.machine import LaneState, holds
from sluice.ports import Clock
from sluice_aws.ledger.ledger import Ledger
from sluice_spark.errors import LaneLost, UnknownJobRun

SIGN_EVERY_MS = 10 * 60_000


class LaneHold:
    """One driver's hold of its lane. A hold that is lost stays lost: no thread of the process asks again."""

    def __init__(self, ledger: Ledger, identity: RunIdentity, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._lost = threading.Event()
        self._signed_at = clock.now_ms()
        self._idle_until: int | None = None
        self.identity = identity

    def take(self) -> LaneState | None:
        """Write this job run and attempt into the lane (`hold-before-write`). None where another one holds it."""
        me = self.identity
        return self._ledger.lanes.hold(me.lane, me.run, me.job_run_id, me.attempt, self._clock.now_ms())

    def read(self) -> LaneState:
        """The lane as it is now. Raises LaneLost where another job run holds it."""
        self.check()
        state = self._ledger.lanes.get(self.identity.lane)
        if not holds(state, self.identity.run, self.identity.job_run_id):
            self.lose()
            self.check()
        return state

    def still_held(self) -> bool:
        """True while this driver holds the lane. Ask right before every commit (`hold-before-write`)."""
        if self._lost.is_set():
            return False
        if not self._ledger.lanes.holds(self.identity.lane, self.identity.run, self.identity.job_run_id):
            self.lose()
            return False
        return True

    def give_sign(self) -> None:
        """Give a sign of life, at most every SIGN_EVERY_MS. Called between batches, so a run that hangs gives none."""
        now = self._clock.now_ms()
        if now - self._signed_at >= SIGN_EVERY_MS:
            self._sign(now)

    def write_idle_until(self, at: int | None) -> bool:
        """Write when this run ends unless objects arrive; None: it works. Returns whether a write was due."""
        if at == self._idle_until:
            return False
        self._idle_until = at
        self._sign(self._clock.now_ms())
        return True

    def at_work(self) -> None:
        """Remember that opening a batch or starting a slice has removed `idle_until` from the lane. Writes nothing."""
        self._idle_until = None

    def _sign(self, now: int) -> None:
        self._signed_at = now
        self._ledger.lanes.gave_sign(self.identity.lane, self.identity.run, now, self._idle_until)

    def check(self) -> None:
        """Raise LaneLost if the lane is known to be lost. Reads nothing."""
        if self._lost.is_set():
            raise LaneLost(
                f"Lane {self.identity.lane} is no longer held by run {self.identity.run}",
                lane=self.identity.lane,
                run=self.identity.run,
            )

    def lose(self) -> None:
        """Record that the lane is lost, so that every thread stops before its next write."""
        self._lost.set()

    def release(self, arrivals_seen: int, due_at: int | None) -> bool:
        """Release the lane. False where something arrived since `arrivals_seen` was read: the run continues."""
        me = self.identity
        return self._ledger.lanes.release(me.lane, me.run, arrivals_seen, due_at, self._clock.now_ms())


# EMR Serverless documents no way for a driver to learn its job run's id. Two work: the environment variable that
# its Spark images set, and Spark's application id, which is the job run's id there (event logs are named by it).
# The second needs a Spark context; with the first the lane can be held before there is one.
_ENVIRONMENT_NAMES = ("SERVERLESS_EMR_JOB_ID", "EMR_SERVERLESS_JOB_RUN_ID")
_JOB_RUN_ID = re.compile(r"[0-9a-z]{1,64}\Z")  # the pattern of JobRun.jobRunId in the service model


@dataclass(frozen=True)
class RunIdentity:
    """One attempt of one job run of one run of a lane."""

    lane: str
    run: str
    job_run_id: str
    attempt: int = 1


def job_run_id_from(given: str | None, environment: Mapping[str, str]) -> str | None:
    """The job run's id from the argument, else from the environment; None where neither has it."""
    for candidate in (given, *(environment.get(name) for name in _ENVIRONMENT_NAMES)):
        if candidate:
            return _checked(candidate)
    return None


def job_run_id_of_application(application_id: str) -> str:
    """The job run's id from Spark's application id. Raises UnknownJobRun for an id of another cluster manager."""
    return _checked(application_id)


def _checked(candidate: str) -> str:
    if not _JOB_RUN_ID.match(candidate):
        raise UnknownJobRun(f"{candidate[:100]!r} is not the id of an EMR Serverless job run", given=candidate[:100])
    return candidate
