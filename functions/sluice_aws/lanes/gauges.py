"""Publishes the gauges that alarms watch: the backlog of each lane, and the cost of runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Callable

from botocore.exceptions import BotoCoreError, ClientError

from sluice.batch.backlog import Backlog, backlog
from sluice.config.document import Configuration
from sluice.errors import SluiceError
from sluice.lane.machine import PAUSED, LaneState
from sluice.ledger.ports import Ledger
from sluice.ports import Report
from sluice.prices import spark_usd
from sluice_aws.lanes.job_runs import JobRuns

COUNTED_PER_TABLE = 2_000  # pending objects; counting longer backlogs would take the schedule's whole time


class Gauges:
    """Backlog gauges by lane and over all lanes, and the cost of runs. Failures are logged and never raised."""

    def __init__(
        self, *, ledger: Ledger, job_runs: JobRuns, architecture: str, report: Report, now: Callable[[], int]
    ) -> None:
        self._ledger = ledger
        self._job_runs = job_runs
        self._architecture = architecture
        self._report = report
        self._now = now

    def publish(self, lanes: Iterable[LaneState], configuration: Configuration | None) -> None:
        """Measure every lane. Gauges are written even without lanes: an alarm watches that the schedule runs."""
        found = {state.lane: self._of(state, configuration) for state in lanes}
        self._publish(Backlog())
        for lane, measured in found.items():
            if measured is not None:
                self._publish(measured, lane=lane)

    def publish_cost(self, job_run_id: str) -> None:
        """Report a job run's cost once: at its end if it is billed by then, otherwise when EMR announces the bill."""
        try:
            billed = self._job_runs.billed(job_run_id)
            if billed is None:
                self._report.event("cost_unknown", job_run=job_run_id)
                return
            if not self._ledger.history.mark_billed(billed.name, self._now()):
                return
        except (ClientError, BotoCoreError, SluiceError) as error:
            self._report.warn("cost_unknown", job_run=job_run_id, error=str(error)[:500])
            return
        usd = spark_usd(
            self._architecture,
            vcpu_hours=billed.vcpu_hours,
            memory_gb_hours=billed.memory_gb_hours,
            storage_gb_hours=billed.storage_gb_hours,
        )
        self._report.event(
            "run_billed",
            job_run=job_run_id,
            run=billed.name,
            vcpu_hours=billed.vcpu_hours,
            memory_gb_hours=billed.memory_gb_hours,
            usd=round(usd, 6),
        )
        self._report.count("RunCostUsd", usd, unit="None")

    def _of(self, state: LaneState, configuration: Configuration | None) -> Backlog | None:
        try:
            pending = self._ledger.pending.oldest(state.lane, COUNTED_PER_TABLE)
            states = self._ledger.tables.get_many(sorted({item.table for item in pending}))
            # A batch whose table cannot be read, or whose run hangs, stays open, and none of its objects are pending.
            opened = (
                ()
                if state.state == PAUSED
                else tuple(pointer.created_at for pointer in self._ledger.batches.unsettled(state.lane))
            )
        except (ClientError, BotoCoreError, SluiceError) as error:
            self._report.warn("lane_not_measured", lane=state.lane, error=str(error)[:500])
            return None
        # A paused lane waits on purpose.
        return backlog(
            None if state.state == PAUSED else configuration, state.lane, pending, states, self._now(), opened
        )

    def _publish(self, measured: Backlog, **dimensions: str) -> None:
        self._report.count("ObjectsPending", measured.objects, **dimensions)
        self._report.count("OldestPendingSeconds", measured.oldest_s, unit="Seconds", **dimensions)
        self._report.count("OverdueSeconds", measured.overdue_s, unit="Seconds", **dimensions)
