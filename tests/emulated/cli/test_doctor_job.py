"""`sluice doctor --job` on an emulated stack: it starts one job, follows it and prints a line for each step."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from emulation.stack import cloudformation
from support.trial_reports import GOOD

from sluice.lane.trial import FAILED, RUNNING, TrialError, scratch_prefix, trial_report_key
from sluice_aws.s3.objects import Objects
from sluice_aws.stack import Target
from sluice_cli.ops import engine as engine_trial


class Emr:
    """EMR Serverless with one job, which reports as the test says and ends after two looks."""

    def __init__(self, objects, report, state):
        self.objects, self.report, self.state = objects, report, state
        self.started, self.cancelled, self.looks = [], [], 0
        self.label = "emr-7.14.0"

    def start_job_run(self, **request):
        self.started.append(request)
        return {"jobRunId": "00f1"}

    def get_job_run(self, applicationId, jobRunId):
        self.looks += 1
        if self.report is not None:
            trial = self.started[0]["name"]
            state = {} if self.looks > 1 else {"state": RUNNING, "doing": "mor: upsert"}
            report = replace(self.report, trial=trial, **state).to_json()
            self.objects.put("s-silver", trial_report_key(trial), report.encode())
        state = self.state if self.looks > 1 else "RUNNING"
        return {"jobRun": {"name": self.started[0]["name"], "state": state, "stateDetails": "because"}}

    def cancel_job_run(self, **request):
        self.cancelled.append(request["jobRunId"])

    def get_application(self, applicationId):
        about = {"releaseLabel": self.label, "type": "Spark", "state": "STARTED"}
        return {"application": {"applicationId": applicationId, **about}}


@pytest.fixture
def emr(stack, monkeypatch):
    """A deployed release that has trials; gives the application that runs them."""

    def made(report=GOOD, state="SUCCESS"):
        objects = Objects(stack.s3)
        emr = Emr(objects, report, state)
        names = {
            "LEDGER_TABLE": "s-ledger",
            "BRONZE_BUCKET": "s-bronze",
            "SILVER_BUCKET": "s-silver",
            "ARTIFACT_BUCKET": "s-artifacts",
            "APPLICATION_ID": "00a",
            "JOB_ROLE_ARN": "arn:aws:iam::1:role/r",
            "RELEASE": "abc123",
            "HUDI_JARS": "file:///h.jar",
        }
        described = {"Environment": {"Variables": names}}
        functions = SimpleNamespace(get_function_configuration=lambda FunctionName: described)
        whole, others = Target.client, {"emr-serverless": emr, "lambda": functions}
        monkeypatch.setattr(Target, "client", lambda self, service: others.get(service) or whole(self, service))
        monkeypatch.setattr(engine_trial, "POLL_S", 0.0)
        return emr

    return made


def test_one_job_is_started_followed_and_reported(emr, sluice):
    application = emr()
    output = sluice("doctor --job --json", code=1)
    assert "job run 00f1: mor: upsert" in output.err
    by_about = {item["about"]: item for item in json.loads(output.out)}
    assert by_about["trial job"]["facts"]["trial"] == application.started[0]["name"] and len(application.started) == 1
    parts = ("trial job", "engine", "job run id", "copy on write", "merge on read")
    assert {by_about[about]["result"] for about in parts} == {"ok"}


DIFFERS = TrialError("table_differs", "it differs")


@pytest.mark.parametrize(
    "report, words",
    [
        (None, "FAILED before it reported anything. because"),
        (replace(GOOD, state=RUNNING, doing="cow: upsert"), "FAILED during: cow: upsert. because"),
        (replace(GOOD, state=FAILED, doing="mor: read", error=DIFFERS), "table_differs during: mor: read. it differs"),
    ],
)
def test_a_failed_job_is_reported_with_the_place_of_its_log(emr, sluice, report, words):
    emr(report, "FAILED")
    job = {item["about"]: item for item in sluice.json("doctor --job", code=1)}["trial job"]
    assert job["result"] == "fail"
    assert words in job["found"]
    assert job["advice"].endswith("logs/applications/00a/jobs/00f1/SPARK_DRIVER/stderr.gz")


def test_a_job_that_takes_too_long_is_ended(emr, sluice):
    application = emr()
    output = sluice("doctor --job --timeout 0", code=1)
    assert application.cancelled == ["00f1"] and scratch_prefix(application.started[0]["name"]) in output.err
    assert "Job run 00f1 is still RUNNING. Raise --timeout" in output.out


def test_an_application_of_another_engine_fails(emr, sluice):
    application = emr()
    application.label = "emr-spark-8.0.0"
    cloudformation().outputs["ApplicationId"] = "00f"
    findings = json.loads(sluice("doctor --json", code=None).out)
    (advice,) = [one["advice"] for one in findings if one["about"] == "application" and one["result"] == "fail"]
    assert "another EmrRelease" in advice
