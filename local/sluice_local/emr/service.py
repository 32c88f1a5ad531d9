"""The operations of EMR Serverless on applications and job runs in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from sluice_local.emr.job_runs import Application, LocalJobRun, new_id
from sluice_local.emr.submission import InvalidRequest, read_submission

_STATUS = {
    "ValidationException": 400,
    "ResourceNotFoundException": 404,
    "ConflictException": 409,
    "ThrottlingException": 429,
    "ServiceQuotaExceededException": 402,
}


class ApiRefusal(Exception):
    """An error answer: the service's error code and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = _STATUS.get(code, 500)


class Runner(Protocol):
    """Runs the jobs. `launch` and `cancel` return at once; the job's own thread does the work."""

    def launch(self, run: LocalJobRun) -> None: ...


@dataclass(frozen=True)
class Behaviour:
    """Deliberate misbehaviour, for tests of what the cloud may do."""

    forget_tokens: bool = False  # a repeated clientToken starts a second run, as after the service's time window
    drop_events: bool = False  # state changes are not delivered: they are best effort
    throttle: int = 0  # how many calls of StartJobRun are refused
    no_quota: int = 0  # how many calls of StartJobRun are refused for the account's quota
    no_capacity: int = 0  # how many runs fail for lack of workers before their driver starts
    never_begin: int = 0  # how many runs stay SCHEDULED until they are cancelled
    lose_answers: int = 0  # how many calls of StartJobRun start the run and then answer with an error
    endpoint: str = ""  # the address at which drivers reach S3, DynamoDB and the rest: a proxy's
    environment: Mapping[str, str] = field(default_factory=dict)  # of drivers, beside their own


class Service:
    """Thread-safe. Every change of a run's state goes through `move`."""

    def __init__(
        self,
        runner: Callable[[Service], Runner],
        *,
        account: str,
        region: str,
        changed: Callable[[LocalJobRun, str], None],
    ) -> None:
        """`changed(run, previous_state)` is called for every state of every run, without a lock held."""
        self.account, self.region = account, region
        self._changed = changed
        self._lock = threading.RLock()
        self._applications: dict[str, Application] = {}
        self._runs: dict[str, LocalJobRun] = {}
        self._tokens: dict[tuple[str, str], tuple[str, Mapping[str, Any]]] = {}
        self._behaviour = Behaviour()
        self._runner = runner(self)

    # ------------------------------------------------------------------ applications
    def create_application(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """CreateApplication."""
        if not body.get("releaseLabel") or str(body.get("type", "")).upper() != "SPARK":
            raise ApiRefusal("ValidationException", "releaseLabel and type SPARK are required")
        # The same token gives the same application, and the same id after a restart, which the deployed template names.
        now, key = time.time(), new_id(str(body.get("clientToken") or ""))
        application = Application(
            key,
            f"arn:aws:emr-serverless:{self.region}:{self.account}:/applications/{key}",
            str(body.get("name") or ""),
            str(body["releaseLabel"]),
            str(body.get("architecture") or "X86_64"),
            now,
            now,
            tags=body.get("tags") or {},
            request=body,
        )
        with self._lock:
            application = self._applications.setdefault(key, application)
        return {"applicationId": key, "arn": application.arn, "name": application.name}

    def get_application(self, application: str) -> Mapping[str, Any]:
        """GetApplication."""
        return {"application": self._application(application).describe()}

    def list_applications(self, *, states: list[str]) -> Mapping[str, Any]:
        """ListApplications, on one page."""
        with self._lock:
            return {
                "applications": [a.summarize() for a in self._applications.values() if not states or a.state in states]
            }

    def start_application(self, application: str) -> Mapping[str, Any]:
        """StartApplication."""
        self._application(application).state = "STARTED"
        return {}

    def stop_application(self, application: str) -> Mapping[str, Any]:
        """StopApplication; refused while runs are active."""
        with self._lock:
            app = self._application(application)
            if any(run.application is app and not run.ended for run in self._runs.values()):
                raise ApiRefusal("ConflictException", f"Application {application} has active job runs")
            app.state = "STOPPED"
        return {}

    def delete_application(self, application: str) -> Mapping[str, Any]:
        """DeleteApplication; refused unless it is created or stopped."""
        with self._lock:
            app = self._application(application)
            if app.state not in ("CREATED", "STOPPED"):
                raise ApiRefusal(
                    "ConflictException", f"Application {application} must be CREATED or STOPPED, not {app.state}"
                )
            del self._applications[application]
        return {}

    # ------------------------------------------------------------------ job runs
    def start_job_run(self, application: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """StartJobRun. The same clientToken and body give the same run."""
        token = str(body.get("clientToken") or "")
        if not token or not body.get("executionRoleArn"):
            raise ApiRefusal("ValidationException", "clientToken and executionRoleArn are required")
        try:
            submission = read_submission(body)
        except InvalidRequest as error:
            raise ApiRefusal("ValidationException", str(error)) from error
        with self._lock:
            app = self._application(application)
            if self._spent("throttle"):
                raise ApiRefusal("ThrottlingException", "Rate exceeded")
            if self._spent("no_quota"):
                raise ApiRefusal("ServiceQuotaExceededException", "The account's quota of concurrent vCPUs is exceeded")
            earlier = None if self._behaviour.forget_tokens else self._tokens.get((application, token))
            if earlier is not None:
                if earlier[1] != body:
                    raise ApiRefusal("ConflictException", "clientToken was used with other parameters")
                return self._started(self._runs[earlier[0]])
            now, key = time.time(), new_id()
            arn, user = f"{app.arn}/jobruns/{key}", f"arn:aws:iam::{self.account}:user/local"
            run = LocalJobRun(key, arn, app, body, submission, user, now, now)
            self._runs[key] = run
            self._tokens[application, token] = (key, body)
            app.state = "STARTED"  # autoStart
            lose = self._spent("lose_answers")
        self._runner.launch(run)
        if lose:
            raise ApiRefusal("InternalServerException", "the answer is lost on purpose")
        return self._started(run)

    def get_job_run(self, application: str, run: str) -> Mapping[str, Any]:
        """GetJobRun."""
        with self._lock:
            return {"jobRun": self._run(application, run).describe()}

    def list_job_runs(
        self, application: str, *, states: list[str], created_after: str, created_before: str, most: int, token: str
    ) -> Mapping[str, Any]:
        """ListJobRuns, newest first; an empty time is none."""
        after = _epoch(created_after) if created_after else float("-inf")
        before = _epoch(created_before) if created_before else float("inf")
        with self._lock:
            self._application(application)
            runs = [
                run
                for run in self._runs.values()
                if run.application.id == application and (not states or run.state in states)
            ]
            runs = sorted(
                (run for run in runs if after <= run.created_at <= before), key=lambda run: run.created_at, reverse=True
            )
            start = int(token or 0)
            page = {"jobRuns": [run.summarize() for run in runs[start : start + most]]}
        return page if start + most >= len(runs) else {**page, "nextToken": str(start + most)}

    def cancel_job_run(self, application: str, run: str, *, grace: float) -> Mapping[str, Any]:
        """CancelJobRun. The driver gets SIGTERM, and SIGKILL after `grace` seconds."""
        with self._lock:
            job_run = self._run(application, run)
            if job_run.ended:
                raise ApiRefusal("ValidationException", f"Job run {run} is in the terminal state {job_run.state}")
            if job_run.cancel_grace is None:
                job_run.cancel_grace = grace
        if job_run.state != "CANCELLING":
            self.move(job_run, "CANCELLING", "Cancelled by request")
        return {"applicationId": application, "jobRunId": run}

    def list_tags(self, arn: str) -> Mapping[str, Any]:
        """ListTagsForResource."""
        with self._lock:
            for application in self._applications.values():
                if application.arn == arn:
                    return {"tags": dict(application.tags)}
            for run in self._runs.values():
                if run.arn == arn:
                    return {"tags": dict(run.request.get("tags") or {})}
        raise ApiRefusal("ResourceNotFoundException", f"{arn} does not exist")

    def behave(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Misbehave as `body` says from now on. An empty body ends it."""
        try:
            self._behaviour = Behaviour(**body)
        except TypeError as error:
            raise ApiRefusal("ValidationException", str(error)) from error
        return {}

    # ------------------------------------------------------------------ for the runner
    def behaviour_of_next(self) -> Behaviour:
        """The misbehaviour that applies to a run whose driver is about to start; each is counted once."""
        with self._lock:
            behaviour = self._behaviour
            if not self._spent("no_capacity"):
                self._spent("never_begin")
            return behaviour

    def _spent(self, name: str) -> bool:
        """Whether a misbehaviour that is counted applies now; it is one less then."""
        left = getattr(self._behaviour, name)
        if left:
            self._behaviour = replace(self._behaviour, **{name: left - 1})
        return bool(left)

    def move(self, run: LocalJobRun, state: str, details: str = "") -> bool:
        """Put a run into a state unless it has ended; returns whether it is in it now. A cancelled run can only end."""
        with self._lock:
            if run.ended or (run.state == "CANCELLING" and state not in ("CANCELLED", "FAILED", "SUCCESS")):
                return False
            previous, run.state, run.updated_at = run.state, state, time.time()
            run.details = details
            if state == "RUNNING":
                run.started_at = run.updated_at
            if run.ended:
                run.ended_at = run.updated_at
            quiet = self._behaviour.drop_events
        if not quiet:
            self._changed(run, previous)
        return True

    def active_runs(self) -> list[LocalJobRun]:
        """The runs that have not ended."""
        with self._lock:
            return [run for run in self._runs.values() if not run.ended]

    # ------------------------------------------------------------------
    def _application(self, key: str) -> Application:
        with self._lock:
            if key not in self._applications:
                raise ApiRefusal("ResourceNotFoundException", f"Application {key} does not exist")
            return self._applications[key]

    def _run(self, application: str, key: str) -> LocalJobRun:
        self._application(application)
        if key not in self._runs or self._runs[key].application.id != application:
            raise ApiRefusal("ResourceNotFoundException", f"Job run {key} does not exist")
        return self._runs[key]

    def _started(self, run: LocalJobRun) -> Mapping[str, Any]:
        return {"applicationId": run.application.id, "jobRunId": run.id, "arn": run.arn}


def _epoch(value: str) -> float:
    """A time of a query string: ISO 8601, or seconds."""
    try:
        return float(value)
    except ValueError:
        return datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp()
