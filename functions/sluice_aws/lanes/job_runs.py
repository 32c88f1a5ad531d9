"""Starts, finds and follows EMR Serverless job runs of one application."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from botocore.exceptions import ClientError

from sluice.lane.supervision import GONE, is_terminal

CANCEL_GRACE_S = 120  # the driver finishes the commit it is in


@dataclass(frozen=True)
class JobRun:
    """One job run as EMR Serverless tells it. `state` is GONE when EMR no longer knows it."""

    job_run_id: str
    name: str
    state: str
    details: str

    @property
    def terminal(self) -> bool:
        """Whether nothing of it lives any more."""
        return is_terminal(self.state)


@dataclass(frozen=True)
class Billed:
    """What EMR Serverless charges for a job run that is over, in hours of a vCPU and of a GB."""

    name: str
    vcpu_hours: float
    memory_gb_hours: float
    storage_gb_hours: float


class JobRuns:
    """Job runs through one client. Errors are botocore's own; throttling is retried by the client."""

    def __init__(self, emr_serverless: Any, application_id: str) -> None:
        self._emr = emr_serverless
        self._application = application_id

    def start(self, request: dict[str, Any]) -> str:
        """Ask for a run; the same `clientToken` gives the same run. Returns its job run id."""
        return str(self._emr.start_job_run(**request)["jobRunId"])

    def state(self, job_run_id: str) -> JobRun:
        """Where a job run is now."""
        try:
            run = self._emr.get_job_run(applicationId=self._application, jobRunId=job_run_id)["jobRun"]
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "ResourceNotFoundException":
                return JobRun(job_run_id, "", GONE, "EMR Serverless does not know this job run")
            raise
        return JobRun(job_run_id, run.get("name", ""), run["state"], run.get("stateDetails") or "")

    def billed(self, job_run_id: str) -> Billed | None:
        """What a job run is billed for; None while EMR doesn't say (it is told some time after the end) or no longer knows the run."""
        try:
            run = self._emr.get_job_run(applicationId=self._application, jobRunId=job_run_id)["jobRun"]
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "ResourceNotFoundException":
                return None
            raise
        used = run.get("billedResourceUtilization")
        if not used:
            return None
        return Billed(
            run.get("name", ""),
            used.get("vCPUHour", 0.0),
            used.get("memoryGBHour", 0.0),
            used.get("storageGBHour", 0.0),
        )

    def find_by_name(self, name: str, *, since_ms: int) -> JobRun | None:
        """The job run of this name among those created since `since_ms` (epoch), or None.

        ListJobRuns can't ask for a name, so the pages are read through. Of several (a token that was
        forgotten starts a second run) one that still goes is preferred, then the newest.
        """
        since = datetime.fromtimestamp(since_ms / 1000, timezone.utc)
        token: dict[str, str] = {}
        found: list[tuple[bool, datetime, JobRun]] = []
        while True:
            page = self._emr.list_job_runs(
                applicationId=self._application, createdAtAfter=since, maxResults=50, **token
            )
            for summary in page.get("jobRuns", ()):
                if summary.get("name") == name:
                    run = JobRun(summary["id"], name, summary["state"], summary.get("stateDetails") or "")
                    found.append((not run.terminal, summary["createdAt"], run))
            if not page.get("nextToken"):
                return max(found, key=lambda each: each[:2])[2] if found else None
            token = {"nextToken": page["nextToken"]}

    def cancel(self, job_run_id: str) -> None:
        """Ask a run to end within two minutes; it is over only when its state says so."""
        self._emr.cancel_job_run(
            applicationId=self._application, jobRunId=job_run_id, shutdownGracePeriodInSeconds=CANCEL_GRACE_S
        )
