"""`sluice doctor --job`: has one job try the engine, follows it, and says what came of it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from sluice.config.table import COW, MOR
from sluice.engine.report import (
    PASSED,
    RUNNING,
    EngineReport,
    TableTrial,
    TrialReport,
    new_trial_id,
    scratch_prefix,
    trial_report_key,
)
from sluice.lane.job_request import TRIAL_ENTRY_POINT, JobEnvironment, start_trial
from sluice_aws.clock import epoch_ms
from sluice_aws.lanes.job_runs import JobRun, JobRuns
from sluice_aws.s3.objects import Objects
from sluice_aws.settings import Settings
from sluice_aws.stack import LOCAL, Target
from sluice_cli.errors import NothingToAccept, NoTrial, TrialNotOver
from sluice_cli.terminal.findings import FAIL, OK, WARN, Finding
from sluice_cli.terminal.output import counted
from sluice_cli.terminal.stack import FUNCTION_OUTPUT

POLL_S, LOCAL_POLL_S = 3.0, 0.3
TOLD_ROWS = 3
_TYPES = {COW: "copy on write", MOR: "merge on read"}
_NEEDED = (
    "region",
    "silver_bucket",
    "bronze_bucket",
    "artifact_bucket",
    "ledger_table",
    "application_id",
    "job_role_arn",
    "release",
    "hudi_jars",
)

Progress = Callable[[str], None]


def job_environment(target: Target) -> JobEnvironment:
    """What the stack's own starts are made of, as the function that makes them has it. Raises SettingsMissing and NoTrial."""
    name = target.outputs.get(FUNCTION_OUTPUT)
    if name is None:
        raise NoTrial(f"The stack has no output {FUNCTION_OUTPUT}", next_step="Deploy the template again")
    variables = target.client("lambda").get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    environment = Settings.from_env({**variables, "AWS_REGION": target.region}, needed=_NEEDED).job_environment()
    manifest = Objects(target.client("s3")).get_json(
        environment.artifact_bucket, f"releases/{environment.release}/release.json"
    )
    if TRIAL_ENTRY_POINT not in ((manifest or {}).get("files") or {}):
        raise NoTrial(f"The release {environment.release} has no {TRIAL_ENTRY_POINT}", release=environment.release)
    return environment


class EngineTrial:
    """One trial: started, followed, told."""

    def __init__(self, target: Target, *, progress: Progress) -> None:
        """`progress` is told what the job does, whenever that changes."""
        self._target = target
        self._environment = job_environment(target)
        self._job_runs = JobRuns(target.client("emr-serverless"), self._environment.application_id)
        self._objects = Objects(target.client("s3"))
        self._progress = progress
        self.trial = new_trial_id(epoch_ms(), secrets.token_hex(4))
        self.report: TrialReport | None = None

    def run(self, timeout_s: float) -> list[Finding]:
        """Start the job and wait for its end; what it found. Raises TrialNotOver. Interrupted or too late, it asks EMR to end the job."""
        began = time.monotonic()
        job_run_id = self._job_runs.start(start_trial(self._environment, self.trial))
        try:
            run = self._follow(job_run_id, began + timeout_s)
        except BaseException:  # Ctrl-C too: nobody waits for the job any more
            self._job_runs.cancel(job_run_id)
            self._progress(
                f"asked EMR Serverless to end job run {job_run_id}; what it made lies under s3://{self._environment.silver_bucket}/{scratch_prefix(self.trial)}"
            )
            raise
        return list(self._findings(run, round(time.monotonic() - began, 1)))

    def accept(self, who: str) -> EngineReport:
        """Let runs go on though links are missing: for an engine on which both tables came out right. Raises NothingToAccept."""
        if self.report is None or self.report.state != PASSED:
            raise NothingToAccept(
                "The trial did not pass, so what is missing is not accepted",
                next_step="Mend what failed, and try again",
            )
        if self.report.links is None or not self.report.links.missing:
            raise NothingToAccept("Nothing is missing", next_step="Leave --accept-missing out")
        accepted = self.report.links.accept(who)
        self._objects.put(
            self._environment.silver_bucket,
            accepted.key,
            accepted.to_json().encode("ascii"),
            content_type="application/json",
        )
        return accepted

    def _follow(self, job_run_id: str, deadline: float) -> JobRun:
        said = ""
        while True:
            run = self._job_runs.state(job_run_id)  # before the report: of a run that is over it is the last one
            document = self._objects.get(self._environment.silver_bucket, trial_report_key(self.trial))
            self.report = (
                TrialReport.from_json(document.data.decode("utf-8", "replace")) if document is not None else None
            )
            if run.terminal:
                return run
            doing = f"job run {job_run_id}: {self.report.doing if self.report is not None and self.report.doing else run.state.lower()}"
            if doing != said:
                self._progress(doing)
                said = doing
            if time.monotonic() > deadline:
                raise TrialNotOver(
                    f"Job run {job_run_id} is still {run.state}",
                    next_step="Raise --timeout, or look at the job's log",
                    job_run=job_run_id,
                    state=run.state,
                )
            time.sleep(LOCAL_POLL_S if self._target.kind == LOCAL else POLL_S)

    def _findings(self, run: JobRun, seconds: float) -> Iterator[Finding]:
        report, artifacts = self.report, self._environment.artifact_bucket
        logs = f"The job's log is s3://{artifacts}/logs/applications/{self._environment.application_id}/jobs/{run.job_run_id}/SPARK_DRIVER/stderr.gz"
        facts = {"trial": self.trial, "job_run": run.job_run_id, "state": run.state, "seconds": seconds}
        if report is None or report.state == RUNNING:
            doing = f" during: {report.doing}" if report is not None else " before it reported anything"
            yield Finding("trial job", FAIL, f"{run.state}{doing}. {run.details.strip()[-600:]}", logs, facts)
        elif report.error is not None:
            yield Finding(
                "trial job",
                FAIL,
                f"{report.error.code} during: {report.doing}. {report.error.message[:600]}",
                logs,
                facts,
            )
        else:
            yield Finding(
                "trial job", OK, f"{run.state}, {seconds:.1f} s from the start's request to its end", facts=facts
            )
        if report is not None:
            yield from found_by(report, run.job_run_id)


def found_by(report: TrialReport, job_run_id: str) -> Iterator[Finding]:
    """What a trial's report says about the engine. `job_run_id` is the one that EMR Serverless answered."""
    if report.versions:
        named = report.versions
        summary = f"Spark {named['spark']}, Hadoop {named['hadoop']}, Scala {named['scala']}, Java {named['java']}, Python {named['python']}, Hudi {named.get('hudi', 'unknown')}"
        yield Finding("engine", OK, summary, facts=named)
        yield _identity(report, job_run_id)
        if report.doing != "links of the Hudi bundle":
            yield links_finding(report.links)
    yield from map(_table, report.tables)
    if report.left is not None:
        yield Finding("scratch tables", WARN, f"could not be removed: {report.left}", "Delete the folder by hand")


def links_finding(links: EngineReport | None) -> Finding:
    """Whether the engine has what the Hudi bundle links to."""
    about = "hudi bundle"
    if links is None:
        return Finding(
            about,
            WARN,
            "what it links to could not be checked: the job's log says why",
            "Give HudiJars as a file of the image or an object in S3",
        )
    facts = {**asdict(links), "fits": links.fits}
    if links.missing and links.accepted is None:
        return Finding(
            about,
            FAIL,
            str(links.refusal().message),
            "Set HudiJars to the bundle built for this Spark, or EmrRelease to one that it fits",
            facts,
        )
    if links.missing:
        return Finding(
            about,
            WARN,
            f"{counted(len(links.missing) + links.more_missing, 'link')} of it are missing, accepted by {links.accepted}",
            facts=facts,
        )
    summary = f"Hudi {links.hudi or 'of no version'} ({links.jar}): the engine has all {links.links:,} classes and members that it links to"
    if links.unknown or links.unchecked:
        return Finding(
            about,
            WARN,
            f"{summary}, but {counted(len(links.unknown), 'class')} that Sluice doesn't know; {links.unchecked:,} could not be asked for",
            "Nothing, if the trial's tables are right: such classes belong to parts that Sluice doesn't use",
            facts,
        )
    return Finding(about, OK, summary, facts=facts)


def _identity(report: TrialReport, job_run_id: str) -> Finding:
    if report.job_run_id == job_run_id:
        return Finding("job run id", OK, "a driver learns the one that EMR Serverless gave it")
    return Finding(
        "job run id",
        FAIL,
        f"a driver takes {report.job_run_id} for its own, and EMR Serverless says {job_run_id}",
        "Runs can't hold their lane like this: please report it",
    )


def _table(table: TableTrial) -> Finding:
    about = _TYPES.get(table.table_type, table.table_type)
    facts: dict[str, Any] = {
        "rows": table.rows,
        "seconds": {step.name: step.seconds for step in table.steps},
        "differences": list(table.differences),
    }
    if table.differences:
        return Finding(
            about,
            FAIL,
            f"the table isn't what it should be: {'; '.join(table.differences[:TOLD_ROWS])}",
            "Don't load data with this engine: please report it",
            facts,
        )
    steps = ", ".join(f"{step.name} {step.seconds:.1f} s" for step in table.steps)
    return Finding(about, OK, f"{counted(table.rows, 'row')} as they should be: {steps}", facts=facts)
