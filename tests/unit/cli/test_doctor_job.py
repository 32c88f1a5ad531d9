"""The trial job of `sluice doctor --job`: it may do little, and what it reports is told in a line each."""

from __future__ import annotations

import json
from dataclasses import replace

import botocore.session
import pytest
from botocore.validate import ParamValidator
from builders import JOB_ENVIRONMENT
from trial_reports import GOOD, LINKS, MISSING, TRIAL

from sluice.engine.report import FAILED, TRIAL_ID, TableTrial, TrialError, TrialReport
from sluice.errors import UnreadableReport, UnusableRequest
from sluice.lane.job_request import start_trial
from sluice_cli.ops import engine as engine_trial


def test_a_trial_is_started_as_a_run_is_with_one_executor_and_less_that_it_may_do():
    body = start_trial(JOB_ENVIRONMENT, TRIAL)
    shape = (
        botocore.session.get_session().get_service_model("emr-serverless").operation_model("StartJobRun").input_shape
    )
    assert not ParamValidator().validate(body, shape).has_errors() and TRIAL_ID.fullmatch(TRIAL)
    job = body["jobDriver"]["sparkSubmit"]
    assert (job["entryPoint"], job["entryPointArguments"]) == (
        "s3://artifacts/releases/abc123/trial.py",
        ["--trial", TRIAL, "--region", "us-east-1", "--silver", "silver"],
    )
    assert "spark.dynamicAllocation.maxExecutors=1 " in job["sparkSubmitParameters"]
    with pytest.raises(UnusableRequest):
        start_trial(replace(JOB_ENVIRONMENT, release=""), TRIAL)


def test_a_trial_may_write_its_own_folder_its_report_and_what_is_remembered_of_engines():
    everything, named = json.loads(start_trial(JOB_ENVIRONMENT, TRIAL)["executionIamPolicy"]["policy"])["Statement"]
    assert everything["NotAction"] == ["s3:*", "dynamodb:*"]
    under = "arn:aws:s3:::silver/_sluice"
    assert {one for one in named["Resource"] if one.startswith("arn:aws:s3:::silver/") and not one.endswith("/")} == {
        under,
        f"{under}/trials",
        f"{under}/trials/{TRIAL}",
        f"{under}/trials/{TRIAL}/*",
        f"{under}/trials/{TRIAL}.json",
        f"{under}/engines/*",
    }
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
