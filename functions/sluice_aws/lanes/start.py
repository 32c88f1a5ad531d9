"""Wakes lanes after their objects are written, starts a run of an idle lane, and repeats unanswered starts."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from botocore.exceptions import BotoCoreError, ClientError

from sluice.batch.claim import first_due_at
from sluice.config.document import Configuration
from sluice.config.lane import LaneConfig
from sluice.config.table import kept_history
from sluice.errors import SluiceError
from sluice.lane.job_policy import scope_of
from sluice.lane.job_request import JobEnvironment, start_job_run
from sluice.lane.machine import IDLE, LaneState, wants_run
from sluice.lane.supervision import new_run_id
from sluice.ports import Report
from sluice_aws.clock import epoch_ms
from sluice_aws.lanes.job_runs import JobRuns
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.settings import Settings

if TYPE_CHECKING:
    from sluice_aws.clients import Clients


@dataclass(frozen=True)
class StartedRun:
    """A run for which a lane is reserved. Without an answer of EMR Serverless, `job_run_id` is None."""

    run_id: str
    job_run_id: str | None


@dataclass(frozen=True)
class Starter:
    """Reserves the lane in the ledger, then calls StartJobRun, so that an unanswered start can be repeated.

    `now` gives epoch ms; `entropy` gives at least 8 new hexadecimal digits with each call.
    """

    ledger: Ledger
    job_runs: JobRuns
    environment: JobEnvironment
    report: Report
    now: Callable[[], int]
    entropy: Callable[[], str]

    def start(self, lane: str, configuration: Configuration | None) -> StartedRun | None:
        """Start a run if the lane is idle; None if another start was first.

        A StartJobRun that fails leaves the lane `starting`. The schedule repeats it under the same token, so that it
        is no failure of the caller. Raises UnusableRequest before anything is written.
        """
        now = self.now()
        run_id = new_run_id(lane, now, self.entropy())
        request = self._request(lane, run_id, configuration)
        reserved = self.ledger.lanes.request_start(
            lane,
            run_id,
            now,
            application_id=request["applicationId"],
            time_limit_ms=request["executionTimeoutMinutes"] * 60_000,
        )
        if reserved is None:
            self.report.event("start_not_needed", lane=lane)
            return None
        self.ledger.history.run_started(run_id, lane, now)
        return StartedRun(run_id, self._ask(lane, run_id, request))

    def repeat(self, state: LaneState, configuration: Configuration | None) -> None:
        """Repeat the start that a `starting` lane waits for. The same token starts the same run of an application.

        A start that was requested of an application that has since been replaced is not repeated.
        """
        if state.run_id is None or state.application_id not in (None, self.environment.application_id):
            return
        self._ask(state.lane, state.run_id, self._request(state.lane, state.run_id, configuration))

    def _request(self, lane: str, run_id: str, configuration: Configuration | None) -> dict[str, Any]:
        """The StartJobRun request. The run may write the lane's tables and those of the lane's unfinished batches."""
        unfinished = {table for pointer in self.ledger.batches.unsettled(lane) for table in pointer.tables}
        states = self.ledger.tables.get_many(sorted(unfinished)) if unfinished else {}
        histories = ((table, kept_history(state.pinned)) for table, state in states.items())
        unfinished |= {f"{table.partition('.')[0]}.{name}" for table, name in histories if name}
        return start_job_run(
            self.environment, lane_config(configuration, lane), run_id, scope_of(configuration, lane, unfinished)
        )

    def _ask(self, lane: str, run_id: str, request: dict[str, Any]) -> str | None:
        try:
            job_run_id = self.job_runs.start(request)
        except (ClientError, BotoCoreError) as error:
            self.report.warn("start_failed", lane=lane, run=run_id, error=str(error)[:500])
            self.report.count("StartsFailed", 1, lane=lane)
            return None
        first_answer = self.ledger.lanes.started(lane, run_id, job_run_id)
        self.report.event("run_started", lane=lane, run=run_id, job_run=job_run_id, first_answer=first_answer)
        self.report.count("RunsStarted", 1, lane=lane)
        return job_run_id


def starter_of(settings: Settings, clients: Clients, *, ledger: Ledger, report: Report) -> Starter | None:
    """The Starter of a deployment; None while no release of the Spark code is set."""
    if not settings.starts_runs:
        return None
    job_runs = JobRuns(clients.emr_serverless, settings.application_id)
    return Starter(
        ledger=ledger, job_runs=job_runs, environment=settings, report=report, now=epoch_ms, entropy=new_entropy
    )


START_LEAD_MS = 60_000  # about what a start takes: a run that starts this much earlier claims what has just come due


def deferred_until(ledger: Ledger, state: LaneState, configuration: Configuration | None, now: int) -> int | None:
    """When (epoch ms) the first object of an idle lane may be claimed; None where a run should start now.

    A run that starts while all objects wait for their table's freshness would only wait too, and be paid for. Nothing
    is written: the lane's arrivals stay unseen, so the schedule asks again until a start is due.
    """
    if configuration is None or not any(
        rule.lane == state.lane and rule.freshness_s * 1000 > START_LEAD_MS for rule in configuration.rules
    ):
        return None
    if state.state != IDLE or (state.due_at is not None and state.due_at <= now + START_LEAD_MS):
        return None
    try:
        if ledger.batches.unsettled(state.lane) or any(one.open for one in ledger.services.of_lane(state.lane)):
            return None
        pending = ledger.pending.oldest(state.lane, 1)
        states = {table: ledger.tables.get(table) for table in sorted({item.table for item in pending})}
    except (SluiceError, ClientError, BotoCoreError):
        return None  # a run too many is only dear
    at = first_due_at(configuration, state.lane, pending, states)
    return at if at is not None and at > now + START_LEAD_MS else None


def new_entropy() -> str:
    """32 random hexadecimal digits."""
    return uuid.uuid4().hex


def lane_config(configuration: Configuration | None, lane: str) -> LaneConfig:
    """The configuration of a lane; the defaults while there is none."""
    return LaneConfig(name=lane) if configuration is None else configuration.lane(lane)


@dataclass(frozen=True)
class Waker:
    """Wakes lanes and starts their runs. The caller handles a failed wake; the schedule handles a failed start.

    `starter` is None where supervise starts the runs, and while no release is set: lanes are only woken.
    """

    ledger: Ledger
    starter: Starter | None
    report: Report
    now: Callable[[], int]

    def wake(self, lanes: Iterable[str], configuration: Configuration | None) -> None:
        """Count an arrival in each lane, and start a run of each idle one in which something may be claimed.

        Raises the ledger's errors. The objects are written then, but their lane may not know: their notice must be
        delivered again.
        """
        woken = [self.ledger.lanes.wake(lane) for lane in sorted(lanes)]
        for state in woken:
            self.report.event("lane_woken", lane=state.lane, state=state.state, arrivals=state.arrivals)
            if self.starter is None or not self._waits(state, configuration):
                self.start(state, configuration)

    def _waits(self, state: LaneState, configuration: Configuration | None) -> bool:
        if not wants_run(state, self.now()):
            return False
        until = deferred_until(self.ledger, state, configuration, self.now())
        if until is not None:
            self.report.event("start_deferred", lane=state.lane, until=until)
        return until is not None

    def start(self, state: LaneState, configuration: Configuration | None) -> StartedRun | None:
        """Start a run if the lane is idle and wants one; None if there is none to start, or none could be started."""
        if not wants_run(state, self.now()):
            return None
        if self.starter is None:
            self.report.event("start_left_to_supervise", lane=state.lane)
            return None
        try:
            return self.starter.start(state.lane, configuration)
        except (SluiceError, ClientError, BotoCoreError) as error:
            # The wake is counted, so the schedule sees an arrival that no run has looked at.
            self.report.warn("start_failed", lane=state.lane, error=str(error)[:500])
            self.report.count("StartsFailed", 1, lane=state.lane)
            return None
