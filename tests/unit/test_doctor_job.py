"""`sluice doctor --job`: one job is started with little that it may do, followed to its end, and told in a line each."""
from __future__ import annotations

import json
from dataclasses import replace

import botocore.session
import pytest
from botocore.validate import ParamValidator
from emulated_stack import NOW, stack  # noqa: F401  # a fixture
from test_job_request import ENVIRONMENT

from sluice.engine_report import Engine, EngineReport, UnreadableReport
from sluice.job_request import UnusableRequest, start_trial
from sluice.trial import FAILED, PASSED, RUNNING, TRIAL_ID, Step, TableTrial, TrialError, TrialReport, new_trial_id, scratch_prefix, trial_report_key
from sluice_aws.objects import Objects
from sluice_cli import engine_trial
from sluice_cli.main import run
from sluice_cli.target import Target

TRIAL = new_trial_id(NOW, "0a1b2c3d4e")
LINKS = EngineReport("b", "hudi.jar", "1.0.2-amzn-3", Engine("3.5.8-amzn-0", "3.4.2-amzn-2", "2.12.18", "17"), NOW, 4_000)
VERSIONS = {"spark": "3.5.8-amzn-0", "hadoop": "3.4.2-amzn-2", "scala": "2.12.18", "java": "17", "python": "3.9.20", "hudi": "1.0.2-amzn-3"}
GOOD = TrialReport(TRIAL, PASSED, NOW, NOW, job_run_id="00f1", versions=VERSIONS, links=LINKS,
                   tables=(TableTrial("cow", (Step("first load", 2.0), Step("read", 0.5)), 3), TableTrial("mor", (Step("compaction", 1.5),), 3)))
MISSING = replace(LINKS, missing=("org.x.Y.z(int): void is not there",))


def test_a_trial_is_started_as_a_run_is_with_one_executor_and_less_that_it_may_do():
    body = start_trial(ENVIRONMENT, TRIAL)
    shape = botocore.session.get_session().get_service_model("emr-serverless").operation_model("StartJobRun").input_shape
    assert not ParamValidator().validate(body, shape).has_errors() and TRIAL_ID.fullmatch(TRIAL)
    job = body["jobDriver"]["sparkSubmit"]
    assert (job["entryPoint"], job["entryPointArguments"]) == ("s3://artifacts/releases/abc123/trial.py", ["--trial", TRIAL, "--region", "us-east-1", "--silver", "silver"])
    assert "spark.dynamicAllocation.maxExecutors=1 " in job["sparkSubmitParameters"]
    with pytest.raises(UnusableRequest):
        start_trial(replace(ENVIRONMENT, release=""), TRIAL)


def test_a_trial_may_write_its_own_folder_its_report_and_what_is_remembered_of_engines():
    everything, named = json.loads(start_trial(ENVIRONMENT, TRIAL)["executionIamPolicy"]["policy"])["Statement"]
    assert everything["NotAction"] == ["s3:*", "dynamodb:*"]
    under = "arn:aws:s3:::silver/_sluice"
    assert {one for one in named["Resource"] if one.startswith("arn:aws:s3:::silver/") and not one.endswith("/")} == {
        under, f"{under}/trials", f"{under}/trials/{TRIAL}", f"{under}/trials/{TRIAL}/*", f"{under}/trials/{TRIAL}.json", f"{under}/engines/*"}
    assert not [one for one in named["Resource"] if "bronze" in one]


def test_a_trials_report_comes_back_as_it_was():
    failed = replace(GOOD, state=FAILED, error=TrialError("code", "message"), links=None, left="s3://x")
    assert [TrialReport.from_json(report.to_json()) for report in (GOOD, failed)] == [GOOD, failed]
    for damaged in ("", "{}", GOOD.to_json().replace('"format": 1', '"format": 2')):
        with pytest.raises(UnreadableReport):
            TrialReport.from_json(damaged)


@pytest.mark.parametrize("report, about, result, words", [
    (GOOD, "copy on write", "ok", "3 rows as they should be: first load 2.0 s, read 0.5 s"),
    (GOOD, "hudi bundle", "ok", "the engine has all 4,000"),
    (GOOD, "job run id", "ok", "a driver learns"),
    (replace(GOOD, job_run_id=None), "job run id", "fail", "takes None for its own"),
    (replace(GOOD, links=MISSING), "hudi bundle", "fail", "org.x.Y.z(int): void is not there"),
    (replace(GOOD, links=MISSING.accept("somebody")), "hudi bundle", "warn", "accepted by somebody"),
    (replace(GOOD, links=replace(LINKS, unknown=("org.x.Z is not there",))), "hudi bundle", "warn", "1 class that Sluice doesn't know"),
    (replace(GOOD, links=None), "hudi bundle", "warn", "could not be checked"),
    (replace(GOOD, tables=(TableTrial("mor", (), 2, ("missing: ('4',)",)),)), "merge on read", "fail", "missing: ('4',)"),
    (replace(GOOD, left="s3://silver/x: denied"), "scratch tables", "warn", "denied"),
])  # fmt: skip
def test_what_a_trial_found_is_told_with_the_next_step(report, about, result, words):
    (found,) = [item for item in engine_trial.found_by(report, "00f1") if item.about == about]
    assert found.result == result and words in found.found
    assert found.result == "ok" or found.advice or "accepted" in found.found


class Emr:
    """EMR Serverless with one job, which reports as the test says and ends after two looks."""

    def __init__(self, objects, report, state):
        self.objects, self.report, self.state = objects, report, state
        self.started, self.cancelled, self.looks = [], [], 0

    def start_job_run(self, **request):
        self.started.append(request)
        return {"jobRunId": "00f1"}

    def get_job_run(self, applicationId, jobRunId):
        self.looks += 1
        if self.report is not None:
            trial = self.started[0]["name"]
            told = replace(self.report, trial=trial, **({} if self.looks > 1 else {"state": RUNNING, "doing": "mor: upsert"}))
            self.objects.put("s-silver", trial_report_key(trial), told.to_json().encode())
        return {"jobRun": {"name": self.started[0]["name"], "state": self.state if self.looks > 1 else "RUNNING", "stateDetails": "because"}}

    def cancel_job_run(self, **request):
        self.cancelled.append(request["jobRunId"])

    def get_application(self, applicationId):
        return {"application": {"applicationId": applicationId, "releaseLabel": "emr-7.14.0", "type": "Spark", "state": "STARTED"}}


@pytest.fixture
def emr(stack, monkeypatch):  # noqa: F811
    """A deployed release that has trials; gives the application that runs them."""
    def made(report=GOOD, state="SUCCESS", files=("ingest.py", "trial.py")):
        objects = Objects(stack.s3)
        objects.put_json("s-artifacts", "releases/abc123/release.json", {"files": dict.fromkeys(files, "")})
        emr = Emr(objects, report, state)
        names = {"LEDGER_TABLE": "s-ledger", "BRONZE_BUCKET": "s-bronze", "SILVER_BUCKET": "s-silver", "ARTIFACT_BUCKET": "s-artifacts", "APPLICATION_ID": "00a",
                 "JOB_ROLE_ARN": "arn:aws:iam::1:role/r", "RELEASE": "abc123", "HUDI_JARS": "file:///h.jar"}
        functions = type("Lambda", (), {"get_function_configuration": lambda self, FunctionName: {"Environment": {"Variables": names}}})()
        whole, others = Target.client, {"emr-serverless": emr, "lambda": functions}
        monkeypatch.setattr(Target, "client", lambda self, service: others.get(service) or whole(self, service))
        monkeypatch.setattr(engine_trial, "POLL_S", 0.0)
        return emr

    return made


def results(capsys):
    return {item["about"]: item for item in json.loads(capsys.readouterr().out)}


def test_one_job_is_started_followed_and_told(emr, capsys):
    application = emr()
    assert run(["doctor", "--job", "--json"]) == 1  # nothing else is set up in this stack
    output = capsys.readouterr()
    assert "job run 00f1: mor: upsert" in output.err
    found = {item["about"]: item for item in json.loads(output.out)}
    assert found["trial job"]["facts"]["trial"] == application.started[0]["name"] and len(application.started) == 1
    assert {found[about]["result"] for about in ("trial job", "engine", "job run id", "hudi bundle", "copy on write", "merge on read")} == {"ok"}


@pytest.mark.parametrize("report, words", [
    (None, "FAILED before it reported anything. because"), (replace(GOOD, state=RUNNING, doing="cow: upsert"), "FAILED during: cow: upsert. because"),
    (replace(GOOD, state=FAILED, doing="cow: upsert", error=TrialError("table_differs", "it differs")), "table_differs during: cow: upsert. it differs"),
])  # fmt: skip
def test_a_job_that_fails_is_told_with_where_its_log_is(emr, capsys, report, words):
    emr(report, "FAILED")
    assert run(["doctor", "--job", "--json"]) == 1
    job = results(capsys)["trial job"]
    assert job["result"] == "fail" and words in job["found"] and job["advice"].endswith("logs/applications/00a/jobs/00f1/SPARK_DRIVER/stderr.gz")


def test_a_job_that_takes_too_long_is_ended(emr, capsys):
    application = emr()
    assert run(["doctor", "--job", "--timeout", "-1"]) == 1
    output = capsys.readouterr()
    assert application.cancelled == ["00f1"] and scratch_prefix(application.started[0]["name"]) in output.err
    assert "Job run 00f1 is still RUNNING. Raise --timeout" in output.out


def test_a_release_without_trials_starts_none(emr, capsys):
    application = emr(files=("ingest.py",))
    assert run(["doctor", "--job"]) == 1
    assert "has no trial.py. `make deploy`" in capsys.readouterr().out and not application.started


def test_what_is_missing_is_accepted_only_after_the_tables_came_out_right(emr, stack, capsys):  # noqa: F811
    emr(replace(GOOD, links=MISSING))
    assert run(["doctor", "--job", "--accept-missing", "--json"]) == 1
    assert results(capsys)["hudi bundle"]["result"] == "warn"
    stored = EngineReport.from_json(Objects(stack.s3).get("s-silver", MISSING.key).data.decode())
    assert stored.fits and stored.accepted == "sluice doctor --job --accept-missing --json"
    assert run(["doctor", "--json"]) == 1
    assert results(capsys)["hudi bundle"]["result"] == "warn"  # what the runs go by


@pytest.mark.parametrize("report, why", [(GOOD, "Nothing is missing"), (replace(GOOD, links=MISSING, state=FAILED), "The trial did not pass")])
def test_nothing_is_accepted_of_an_engine_that_lacks_nothing_or_failed(emr, capsys, report, why):
    emr(report)
    assert run(["doctor", "--job", "--accept-missing", "--json"]) == 1
    assert why in results(capsys)["trial"]["found"]
    assert run(["doctor", "--accept-missing"]) == 2
