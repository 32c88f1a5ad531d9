"""EMR Serverless job runs of one application: start, state, bill, search by name, cancel."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from botocore.exceptions import ClientError

from sluice.lane.supervision import GONE, is_terminal

CANCEL_GRACE_S = 120  # time for the driver to finish its commit


@dataclass(frozen=True)
class JobRun:
    """A job run as EMR Serverless reports it. `state` is GONE when EMR does not know it."""

    job_run_id: str
    name: str
    state: str
    details: str

    @property
    def terminal(self) -> bool:
        """True if the job run has ended for good."""
        return is_terminal(self.state)


@dataclass(frozen=True)
class Billed:
    """The billed resources of a job run that has ended, in vCPU hours and GB hours."""

    name: str
    vcpu_hours: float
    memory_gb_hours: float
    storage_gb_hours: float


class JobRuns:
    """Job runs through one client. Raises botocore's errors; the client retries throttled calls."""

    def __init__(self, emr_serverless: Any, application_id: str) -> None:
        self._emr = emr_serverless
        self._application = application_id

    def start(self, request: dict[str, Any]) -> str:
        """Start a job run and return its id. The same `clientToken` returns the same job run."""
        return str(self._emr.start_job_run(**request)["jobRunId"])

    def is_of(self, application_id: str | None) -> bool:
        """True for the application of these job runs, and for None: a lane of an earlier release doesn't name it."""
        return application_id in (None, self._application)

    def state(self, job_run_id: str) -> JobRun:
        """A job run's current state."""
        run = self._described(job_run_id)
        if run is None:
            return JobRun(job_run_id, "", GONE, "EMR Serverless does not know this job run")
        return JobRun(job_run_id, run.get("name", ""), run["state"], run.get("stateDetails") or "")

    def billed(self, job_run_id: str) -> Billed | None:
        """The bill of a job run; None until EMR reports it, some time after the end, or if EMR doesn't know the run."""
        run = self._described(job_run_id) or {}
        used = run.get("billedResourceUtilization")
        if not used:
            return None
        return Billed(
            run.get("name", ""),
            used.get("vCPUHour", 0.0),
            used.get("memoryGBHour", 0.0),
            used.get("storageGBHour", 0.0),
        )

    def seconds(self, job_run_id: str) -> float | None:
        """How long a job run that has ended was executed; None if EMR doesn't know the run."""
        run = self._described(job_run_id)
        return None if run is None else float(run.get("totalExecutionDurationSeconds", 0))

    def _described(self, job_run_id: str) -> dict[str, Any] | None:
        """The answer of GetJobRun; None if EMR doesn't know the run."""
        try:
            answer: dict[str, Any] = self._emr.get_job_run(applicationId=self._application, jobRunId=job_run_id)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "ResourceNotFoundException":
                return None
            raise
        return dict(answer["jobRun"])

    def find_by_name(self, name: str, *, since_ms: int) -> JobRun | None:
        """The job run of this name among those created since `since_ms` (epoch ms), or None.

        ListJobRuns cannot filter by name, so all pages are read. A forgotten clientToken may have started several:
        one that is still running is preferred, then the newest.
        """
        since = datetime.fromtimestamp(since_ms / 1000, timezone.utc)
        token: dict[str, str] = {}
        runs: list[tuple[bool, datetime, JobRun]] = []
        while True:
            page = self._emr.list_job_runs(
                applicationId=self._application, createdAtAfter=since, maxResults=50, **token
            )
            for summary in page.get("jobRuns", ()):
                if summary.get("name") == name:
                    run = JobRun(summary["id"], name, summary["state"], summary.get("stateDetails") or "")
                    runs.append((not run.terminal, summary["createdAt"], run))
            if not page.get("nextToken"):
                return max(runs, key=lambda candidate: candidate[:2])[2] if runs else None
            token = {"nextToken": page["nextToken"]}

    def cancel(self, job_run_id: str) -> None:
        """Ask a job run to end within CANCEL_GRACE_S. It has ended only when its state is terminal."""
        self._emr.cancel_job_run(
            applicationId=self._application,
            jobRunId=job_run_id,
            shutdownGracePeriodInSeconds=CANCEL_GRACE_S,
        )
