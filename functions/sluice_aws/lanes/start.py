"""Starts a run of an idle lane, and repeats a start whose answer was lost.

Wakes lanes after objects were written for them, and starts a run where the lane is idle.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Callable

from botocore.exceptions import BotoCoreError, ClientError

from sluice.config.document import Configuration
from sluice.config.lane import LaneConfig
from sluice.errors import SluiceError
from sluice.lane.job_policy import scope_of
from sluice.lane.job_request import JobEnvironment, start_job_run
from sluice.lane.machine import LaneState, wants_run
from sluice.lane.supervision import new_run_id
from sluice.ledger.ports import Ledger
from sluice_aws.clients import Clients
from sluice_aws.clock import epoch_ms
from sluice_aws.lanes.job_runs import JobRuns
from sluice_aws.settings import Settings
from sluice_aws.telemetry import Report


class Starter:
    """Asks the ledger for the lane first and EMR Serverless second, so that a lost answer can be asked for again."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        job_runs: JobRuns,
        environment: JobEnvironment,
        report: Any,
        now: Callable[[], int],
        entropy: Callable[[], str],
    ) -> None:
        """`now` gives epoch milliseconds, `entropy` at least 8 hexadecimal digits, new ones each time."""
        self._ledger = ledger
        self._job_runs = job_runs
        self._environment = environment
        self._report = report
        self._now = now
        self._entropy = entropy

    def start(self, lane: str, configuration: Configuration | None) -> str | None:
        """Start a run if the lane lets itself be taken. Returns the run id, None when another was quicker.

        A StartJobRun that fails leaves the lane `starting`: the schedule repeats it under the same token,
        and so it is not the caller's failure. Raises UnusableRequest before anything is written.
        """
        request = self.take(lane, configuration)
        if request is None:
            return None
        self._ask(lane, request["clientToken"], request)
        return str(request["clientToken"])

    def take(self, lane: str, configuration: Configuration | None) -> dict[str, Any] | None:
        """Take the idle lane for a new run, and give the StartJobRun that whoever called now makes. None when another was quicker.

        If it is never made, the schedule makes it: to the lane that is an answer which was lost.
        """
        now = self._now()
        run_id = new_run_id(lane, now, self._entropy())
        request = self._request(lane, run_id, configuration)
        if self._ledger.lanes.request_start(lane, run_id, now) is None:
            self._report.event("start_not_needed", lane=lane)
            return None
        self._ledger.history.run_started(run_id, lane, now)
        return request

    def repeat(self, state: LaneState, configuration: Configuration | None) -> None:
        """Ask again for the run that a `starting` lane waits for: the same token is the same run."""
        if state.run_id is None:
            return
        self._ask(state.lane, state.run_id, self._request(state.lane, state.run_id, configuration))

    def _request(self, lane: str, run_id: str, configuration: Configuration | None) -> Any:
        """The run may write the lane's tables, and those of batches that it will have to finish."""
        unfinished = {table for pointer in self._ledger.batches.unsettled(lane) for table in pointer.tables}
        return start_job_run(
            self._environment, lane_config(configuration, lane), run_id, scope_of(configuration, lane, unfinished)
        )

    def _ask(self, lane: str, run_id: str, request: Any) -> None:
        try:
            job_run_id = self._job_runs.start(request)
        except (ClientError, BotoCoreError) as error:
            self._report.warn("start_failed", lane=lane, run=run_id, error=str(error)[:500])
            self._report.count("StartsFailed", 1, lane=lane)
            return
        known = self._ledger.lanes.started(lane, run_id, job_run_id)
        self._report.event("run_started", lane=lane, run=run_id, job_run=job_run_id, first_answer=known)
        self._report.count("RunsStarted", 1, lane=lane)


def starter_of(settings: Settings, clients: Clients, *, ledger: Ledger, report: Any) -> Starter | None:
    """What starts runs in a deployment; None while no release of the Spark code is set: lanes are woken then, and none is started."""
    if not settings.starts_runs:
        return None
    job_runs = JobRuns(clients.emr_serverless, settings.application_id)
    return Starter(
        ledger=ledger,
        job_runs=job_runs,
        environment=settings.job_environment(),
        report=report,
        now=epoch_ms,
        entropy=new_entropy,
    )


def new_entropy() -> str:
    """32 hexadecimal digits that were never given before."""
    return uuid.uuid4().hex


def lane_config(configuration: Configuration | None, lane: str) -> LaneConfig:
    """The sizes of a lane; the defaults while there is no configuration."""
    return LaneConfig(name=lane) if configuration is None else configuration.lane(lane)


class Waker:
    """One wake per lane; a failure to wake is the caller's failure, a failure to start is the schedule's business."""

    def __init__(self, *, ledger: Ledger, starter: Starter | None, report: Report, now: Callable[[], int]) -> None:
        """`starter` is None while no release of the Spark code is set: lanes are woken and none is started."""
        self._ledger = ledger
        self._starter = starter
        self._report = report
        self._now = now

    def wake(self, lanes: Iterable[str], configuration: Configuration | None) -> None:
        """Count an arrival in each lane, and start what is idle.

        Raises what the ledger raises: then the objects are written and nobody was told, so whoever
        announced them must come again.
        """
        woken = [self._ledger.lanes.wake(lane) for lane in sorted(lanes)]
        for state in woken:
            self._report.event("lane_woken", lane=state.lane, state=state.state, arrivals=state.arrivals)
            if wants_run(state, self._now()):
                self._start(state, configuration)

    def _start(self, state: LaneState, configuration: Configuration | None) -> None:
        if self._starter is None:
            self._report.event("no_release", lane=state.lane)
            return
        try:
            self._starter.start(state.lane, configuration)
        except (SluiceError, ClientError, BotoCoreError) as error:
            # The wake is counted: the schedule sees an arrival that no run has looked at.
            self._report.warn("start_failed", lane=state.lane, error=str(error)[:500])
            self._report.count("StartsFailed", 1, lane=state.lane)
