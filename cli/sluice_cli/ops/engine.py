"""`sluice doctor --job`: starts a job that tries the engine, follows it, and turns its report into findings."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

from sluice.config.table import COW, MOR
from sluice.lane.job_request import JobEnvironment, start_trial
from sluice.lane.trial import RUNNING, TableTrial, TrialReport, scratch_prefix, trial_report_key
from sluice.names import timed_id
from sluice_aws.clock import epoch_ms
from sluice_aws.lanes.job_runs import JobRun, JobRuns
from sluice_aws.settings import Settings
from sluice_aws.stack import LOCAL, Target
from sluice_cli.errors import NoTrial, TrialNotOver
from sluice_cli.ops.findings import FAIL, OK, WARN, Finding
from sluice_cli.terminal.stack import FUNCTION_OUTPUT
from sluice_cli.terminal.words import counted

POLL_S, LOCAL_POLL_S = 3.0, 0.3
SHOWN_DIFFERENCES = 3
_PARTS = ("spark", "hadoop", "scala", "java", "python", "hudi")
_TYPES = {COW: "copy on write", MOR: "merge on read"}
_BUCKETS = ("silver_bucket", "bronze_bucket", "artifact_bucket")
_NEEDED = ("region", *_BUCKETS, "ledger_table", "application_id", "job_role_arn", "release", "hudi_jars")

Progress = Callable[[str], None]


def job_environment(target: Target) -> JobEnvironment:
    """Settings that the stack starts its runs with, read from the function that starts them.

    Raises SettingsMissing and NoTrial.
    """
    name = target.outputs.get(FUNCTION_OUTPUT)
    if name is None:
        raise NoTrial(f"The stack has no output {FUNCTION_OUTPUT}")
    variables = target.client("lambda").get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    return Settings.from_env({**variables, "AWS_REGION": target.region}, needed=_NEEDED)


class EngineTrial:
    """One trial: starts its job, follows it, and collects the findings."""

    def __init__(self, target: Target, *, progress: Progress) -> None:
        """`progress` gets a line whenever the job begins something else."""
        self._target = target
        self._environment = job_environment(target)
        self._job_runs = JobRuns(target.client("emr-serverless"), self._environment.application_id)
        self._progress = progress
        self.trial = timed_id("trial", epoch_ms(), secrets.token_hex(4))
        self.report: TrialReport | None = None

    def run(self, timeout_s: float) -> list[Finding]:
        """Start the job, wait for its end, and return its findings.

        Cancels the job when interrupted, or after `timeout_s` seconds. Raises TrialNotOver.
        """
        began = time.monotonic()
        job_run_id = self._job_runs.start(start_trial(self._environment, self.trial))
        try:
            run = self._follow(job_run_id, began + timeout_s)
        except BaseException:  # Ctrl-C too: nobody is waiting for the job
            self._job_runs.cancel(job_run_id)
            folder = f"s3://{self._environment.silver_bucket}/{scratch_prefix(self.trial)}"
            self._progress(f"asked EMR Serverless to cancel job run {job_run_id}; its files are under {folder}")
            raise
        return list(self._findings(run, round(time.monotonic() - began, 1)))

    def _follow(self, job_run_id: str, deadline: float) -> JobRun:
        said = ""
        while True:
            run = self._job_runs.state(job_run_id)  # first: once the run has ended, the report read after it is final
            document = self._target.objects.get(self._environment.silver_bucket, trial_report_key(self.trial))
            self.report = (
                TrialReport.from_json(document.data.decode("utf-8", "replace")) if document is not None else None
            )
            if run.terminal:
                return run
            step = self.report.doing if self.report is not None else ""
            doing = f"job run {job_run_id}: {step or run.state.lower()}"
            if doing != said:
                self._progress(doing)
                said = doing
            if time.monotonic() > deadline:
                raise TrialNotOver(f"Job run {job_run_id} is still {run.state}", job_run=job_run_id, state=run.state)
            time.sleep(LOCAL_POLL_S if self._target.kind == LOCAL else POLL_S)

    def _findings(self, run: JobRun, seconds: float) -> Iterator[Finding]:
        report, artifacts = self.report, self._environment.artifact_bucket
        job = f"applications/{self._environment.application_id}/jobs/{run.job_run_id}"
        logs = f"The job's log is s3://{artifacts}/logs/{job}/SPARK_DRIVER/stderr.gz"
        facts = {"trial": self.trial, "job_run": run.job_run_id, "state": run.state, "seconds": seconds}
        if report is None or report.state == RUNNING:
            doing = f" during: {report.doing}" if report is not None else " before it reported anything"
            yield Finding("trial job", FAIL, f"{run.state}{doing}. {run.details.strip()[-600:]}", logs, facts)
        elif report.error is not None:
            text = f"{report.error.code} during: {report.doing}. {report.error.message[:600]}"
            yield Finding("trial job", FAIL, text, logs, facts)
        else:
            yield Finding("trial job", OK, f"{run.state}, {seconds:.1f} s from StartJobRun to the end", facts=facts)
        if report is not None:
            yield from found_by(report, run.job_run_id)


def found_by(report: TrialReport, job_run_id: str) -> Iterator[Finding]:
    """Findings from a trial's report. `job_run_id` is the id that EMR Serverless returned."""
    if report.versions:
        versions = report.versions
        summary = ", ".join(f"{part.capitalize()} {versions[part]}" for part in _PARTS)
        yield Finding("engine", OK, summary, facts=versions)
        yield _identity(report, job_run_id)
    yield from map(_table, report.tables)
    if report.left is not None:
        yield Finding("scratch tables", WARN, f"could not be removed: {report.left}", "Delete the folder by hand")


def _identity(report: TrialReport, job_run_id: str) -> Finding:
    if report.job_run_id == job_run_id:
        return Finding("job run id", OK, "the driver finds the id that EMR Serverless gave it")
    other = f"the driver found {report.job_run_id}, but EMR Serverless assigned {job_run_id}"
    return Finding("job run id", FAIL, other, "Runs can't hold their lane without their own id: please report this")


def _table(table: TableTrial) -> Finding:
    about = _TYPES.get(table.table_type, table.table_type)
    facts: dict[str, Any] = {
        "rows": table.rows,
        "seconds": {step.name: step.seconds for step in table.steps},
        "differences": list(table.differences),
    }
    if table.differences:
        wrong = f"rows are not as expected: {'; '.join(table.differences[:SHOWN_DIFFERENCES])}"
        return Finding(about, FAIL, wrong, "Don't load data with this engine; please report this", facts)
    steps = ", ".join(f"{step.name} {step.seconds:.1f} s" for step in table.steps)
    return Finding(about, OK, f"{counted(table.rows, 'row')} as expected: {steps}", facts=facts)
