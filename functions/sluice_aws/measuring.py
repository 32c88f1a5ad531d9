"""Measures what alarms watch and no single event tells: what waits in each lane, and what a job run cost."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional

from botocore.exceptions import BotoCoreError, ClientError

from sluice.backlog import Backlog, backlog
from sluice.configuration import Configuration
from sluice.errors import SluiceError
from sluice.lane import PAUSED, LaneState
from sluice.prices import spark_usd
from sluice_aws.job_runs import JobRuns
from sluice_aws.telemetry import Report

COUNTED_PER_TABLE = 2_000  # objects: beyond that a backlog is long, and counting it would be all that the schedule does


class Measures:
    """Gauges by lane and over all lanes, and the cost of runs. A failure here keeps nothing else from being done."""

    def __init__(
        self, *, ledger: Any, job_runs: JobRuns, architecture: str, report: Report, now: Callable[[], int]
    ) -> None:
        self._ledger = ledger
        self._job_runs = job_runs
        self._architecture = architecture
        self._report = report
        self._now = now

    def lanes(self, lanes: Iterable[LaneState], configuration: Optional[Configuration]) -> None:
        """Measure every lane; with none there is nothing that waits, which is told too: an alarm sees the schedule live."""
        found = {state.lane: self._of(state, configuration) for state in lanes}
        self._gauges(Backlog())
        for lane, measured in found.items():
            if measured is not None:
                self._gauges(measured, lane=lane)

    def ended(self, job_run_id: str) -> None:
        """Tell once what a job run cost that is over: at its end where the bill is there by then, else when EMR says that it is."""
        try:
            billed = self._job_runs.billed(job_run_id)
            if billed is None:
                self._report.event("cost_unknown", job_run=job_run_id)
                return
            if not self._ledger.billed(billed.name, self._now()):
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

    def _of(self, state: LaneState, configuration: Optional[Configuration]) -> Optional[Backlog]:
        try:
            pending = self._ledger.pending(state.lane, COUNTED_PER_TABLE)
            states = self._ledger.table_states(sorted({item.table for item in pending}))
            # A batch whose table can't be read, or whose run hangs, is left open: nothing of it is pending any more.
            opened = (
                ()
                if state.state == PAUSED
                else tuple(pointer.created_at for pointer in self._ledger.unsettled(state.lane))
            )
        except (ClientError, BotoCoreError, SluiceError) as error:
            self._report.warn("lane_not_measured", lane=state.lane, error=str(error)[:500])
            return None
        # A paused lane waits as somebody wants it.
        return backlog(
            None if state.state == PAUSED else configuration, state.lane, pending, states, self._now(), opened
        )

    def _gauges(self, measured: Backlog, **dimensions: str) -> None:
        self._report.count("ObjectsPending", measured.objects, **dimensions)
        self._report.count("OldestPendingSeconds", measured.oldest_s, unit="Seconds", **dimensions)
        self._report.count("OverdueSeconds", measured.overdue_s, unit="Seconds", **dimensions)
