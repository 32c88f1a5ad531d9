"""Supervises lanes: starts due runs, repeats and looks up starts, and takes lanes from dead runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Callable

from botocore.exceptions import BotoCoreError, ClientError

from sluice.batch.claim import claimable_tables
from sluice.config.document import Configuration
from sluice.errors import SluiceError
from sluice.lane.machine import HALT_AFTER_FAILURES, HALTED, IDLE, LEDGER_LOST, PAUSED, STARTING, LaneState, wanted_at
from sluice.lane.supervision import (
    ASK_STATE,
    GONE,
    LOOK_UP,
    NOTHING,
    REPEAT_START,
    START,
    LaneStep,
    lacks_capacity,
    lapse_reason,
    may_live,
    next_step,
    why_cancel,
)
from sluice.ports import Report
from sluice_aws.errors import LanesFailed
from sluice_aws.lanes.job_runs import JobRun, JobRuns
from sluice_aws.lanes.start import Starter, deferred_until
from sluice_aws.ledger.ledger import Ledger

# Enough to repeat a start, ask for its state, lapse it and start anew. The next schedule does the rest.
MAX_STEPS = 4
# The clocks of Lambda and EMR may differ, so a run is searched from a minute before its start was requested.
LOOK_BACK_MS = 60_000


@dataclass(frozen=True)
class Supervisor:
    """One pass over lanes. Every write is conditional on the lane's state that was read.

    `starter` is None while no release of the Spark code is set: lanes are supervised, but no run starts.
    """

    ledger: Ledger
    job_runs: JobRuns
    starter: Starter | None
    report: Report
    now: Callable[[], int]

    def lanes(self, configuration: Configuration | None) -> tuple[LaneState, ...]:
        """Every lane: those with an item in the ledger, and those that are only configured."""
        states = list(self.ledger.lanes.all())
        names = {state.lane for state in states}
        configured = () if configuration is None else configuration.lane_names()
        return tuple(states) + tuple(self.ledger.lanes.get(name) for name in configured if name not in names)

    def supervise(self, lanes: Sequence[LaneState], configuration: Configuration | None) -> int:
        """Supervise each lane; returns the number of steps taken.

        A lane that fails does not stop the others. Raises LanesFailed after all lanes.
        """
        steps = 0
        failed = []
        for state in lanes:
            try:
                steps += self._look_after(state, configuration)
            except (ClientError, BotoCoreError, SluiceError) as error:
                failed.append(state.lane)
                self.report.warn("lane_failed", lane=state.lane, state=state.state, error=str(error)[:500])
        if failed:
            raise LanesFailed(f"Supervision failed for {', '.join(failed)}", lanes=failed)
        return steps

    def wake_forgotten(self, lanes: Iterable[LaneState], configuration: Configuration | None) -> tuple[str, ...]:
        """Wake idle lanes that have claimable work but no unseen arrival.

        Every writer of pending objects wakes the lane afterwards. This covers writers that died in between, and
        manifests of a run whose lane was released by hand.
        """
        woken = []
        for state in lanes:
            if state.state != IDLE or wanted_at(state) is not None:
                continue
            if self.ledger.batches.unsettled(state.lane) or self._claimable_tables(state.lane, configuration):
                self.ledger.lanes.wake(state.lane)
                self.report.warn("lane_was_forgotten", lane=state.lane)
                self.report.count("LanesForgotten", 1, lane=state.lane)
                woken.append(state.lane)
        return tuple(woken)

    def _claimable_tables(self, lane: str, configuration: Configuration | None) -> tuple[str, ...]:
        if configuration is None:
            return ()
        pending = self.ledger.pending.oldest(lane, 1)
        states = self.ledger.tables.get_many(sorted({item.table for item in pending}))
        return claimable_tables(configuration, lane, pending, states, self.now())

    def _look_after(self, state: LaneState, configuration: Configuration | None) -> int:
        # Also while a halted lane tries again: the alarm shouldn't flap.
        if state.failures >= HALT_AFTER_FAILURES or (state.state == PAUSED and state.reason == LEDGER_LOST):
            self.report.warn(
                "lane_halted",
                lane=state.lane,
                state=state.state,
                failures=state.failures,
                reason=state.reason,
                last_run=state.last_run_id,
            )
            self.report.count("LanesHalted", 1, lane=state.lane)
        for taken in range(MAX_STEPS):
            step = next_step(state, self.now())
            if step.action == NOTHING:
                return taken
            if not self._take(step, state, configuration):
                return taken + 1
            state = self.ledger.lanes.get(state.lane)
        return MAX_STEPS

    def _take(self, step: LaneStep, state: LaneState, configuration: Configuration | None) -> bool:
        """Take one step; True if the lane may need another one at once."""
        if step.action == ASK_STATE:
            return self._ask_state(state)
        if step.action == LOOK_UP:
            return self._look_up(state)
        if self.starter is None:
            self.report.event("no_release", lane=state.lane)
            return False
        if step.action == START:
            until = deferred_until(self.ledger, state, configuration, self.now())
            if until is None:
                self.starter.start(state.lane, configuration)
            else:
                self.report.event("start_deferred", lane=state.lane, until=until)
            return False
        assert step.action == REPEAT_START, step
        self.starter.repeat(state, configuration)
        return True

    def _ask_state(self, state: LaneState) -> bool:
        if not self.job_runs.is_of(state.application_id):
            # To the present application its job run is unknown, as one that is long over would be.
            self.report.warn("application_replaced", lane=state.lane, run=state.run_id, was=state.application_id)
            if may_live(state, self.now()):
                return False
            return self._lapse(state, JobRun(state.job_run_id or "", "", GONE, "its application was replaced"))
        run = self.job_runs.state(state.job_run_id or "")
        if run.terminal:
            return self._lapse(state, run)
        why = why_cancel(state, self.now())
        if why is not None and run.state != "CANCELLING":
            self.report.warn("run_cancelled", lane=state.lane, run=state.run_id, job_run=run.job_run_id, why=why)
            self.report.count("RunsCancelled", 1, lane=state.lane)
            self.job_runs.cancel(run.job_run_id)
        return False

    def _look_up(self, state: LaneState) -> bool:
        if not self.job_runs.is_of(state.application_id):
            # Its application was replaced. Should a driver come to life there, it can't hold the lane any more.
            return self._lapse(state, None)
        since = (state.start_requested_at or self.now()) - LOOK_BACK_MS
        run = self.job_runs.find_by_name(state.run_id or "", since_ms=since)
        if run is None:
            return self._lapse(state, None)
        self.report.event("run_adopted", lane=state.lane, run=state.run_id, job_run=run.job_run_id, state=run.state)
        return self.ledger.lanes.started(state.lane, state.run_id or "", run.job_run_id)

    def _lapse(self, state: LaneState, run: JobRun | None) -> bool:
        """Take the lane from a job run that has ended; None for one that was never started."""
        unheld = state.state == STARTING and run is not None and run.state == "CANCELLED"
        capacity = unheld or (run is not None and lacks_capacity(run.state, run.details))
        reason = "the job run was never started" if run is None else lapse_reason(run.state, run.details)
        run_id, now = state.run_id or "", self.now()
        left = self.ledger.lanes.lapse(
            state.lane,
            run_id,
            now,
            job_run_id=state.job_run_id,
            # A run that was never started says nothing about the lane's work, so it must not lead to a halt: the lane
            # resumes by itself once EMR Serverless accepts starts again.
            capacity=capacity or run is None,
            reason=reason,
        )
        if left is None:  # released, held or lapsed by someone else in the meantime
            return True
        batches = int((self.ledger.history.run(run_id) or {}).get("batches", 0))  # that it closed
        self.ledger.history.run_ended(run_id, "lapsed", reason, batches, now)
        self.report.warn(
            "run_lapsed",
            lane=state.lane,
            run=state.run_id,
            job_run=state.job_run_id,
            reason=reason,
            failures=left.failures,
            capacity=capacity,
        )
        self.report.count("CapacityFailures" if capacity else "RunsLapsed", 1, lane=state.lane)
        if left.state == HALTED:
            self.report.warn(
                "lane_halted", lane=state.lane, failures=left.failures, reason=reason, last_run=state.run_id
            )
            self.report.count("LanesHalted", 1, lane=state.lane)
        return True
