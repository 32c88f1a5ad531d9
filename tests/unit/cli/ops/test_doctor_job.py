"""The trial job of `sluice doctor --job`: its narrow policy, and a finding for each part of its report."""

from __future__ import annotations

import json
from dataclasses import replace

import botocore.session
import pytest
from botocore.validate import ParamValidator
from support.builders import JOB_ENVIRONMENT
from support.trial_reports import GOOD, TRIAL

from sluice.errors import UnreadableReport, UnusableRequest
from sluice.lane.job_request import start_trial
from sluice.lane.trial import FAILED, TRIAL_ID, TableTrial, TrialError, TrialReport
from sluice_cli.ops import engine as engine_trial


def test_a_trial_is_started_as_a_run_is_with_one_executor_and_less_that_it_may_do():
    body = start_trial(JOB_ENVIRONMENT, TRIAL)
    shape = (
        botocore.session.get_session().get_service_model("emr-serverless").operation_model("StartJobRun").input_shape
    )
    assert not ParamValidator().validate(body, shape).has_errors() and TRIAL_ID.fullmatch(TRIAL)
    job = body["jobDriver"]["sparkSubmit"]
    assert (job["entryPoint"], job["entryPointArguments"]) == (
        "s3://artifacts/releases/abc123/ingest.py",
        ["--trial", TRIAL, "--region", "us-east-1", "--silver", "silver"],
    )
    assert "spark.dynamicAllocation.maxExecutors=1 " in job["sparkSubmitParameters"]
    with pytest.raises(UnusableRequest):
        start_trial(replace(JOB_ENVIRONMENT, release=""), TRIAL)


def test_a_trial_may_write_its_own_folder_and_its_report_only():
    everything, own = json.loads(start_trial(JOB_ENVIRONMENT, TRIAL)["executionIamPolicy"]["policy"])["Statement"]
    assert everything["NotAction"] == ["s3:*", "dynamodb:*"]
    under = "arn:aws:s3:::silver/_sluice"
    assert {one for one in own["Resource"] if one.startswith("arn:aws:s3:::silver/") and not one.endswith("/")} == {
        under,
        f"{under}/trials",
        f"{under}/trials/{TRIAL}",
        f"{under}/trials/{TRIAL}/*",
        f"{under}/trials/{TRIAL}.json",
    }
    assert not [one for one in own["Resource"] if "bronze" in one]


def test_a_trials_report_comes_back_as_it_was():
    failed = replace(GOOD, state=FAILED, error=TrialError("code", "message"), left="s3://x")
    assert [TrialReport.from_json(report.to_json()) for report in (GOOD, failed)] == [GOOD, failed]
    for damaged in ("", "{}", GOOD.to_json().replace('"format": 1', '"format": 2')):
        with pytest.raises(UnreadableReport):
            TrialReport.from_json(damaged)


MISSING = replace(GOOD, tables=(TableTrial("mor", (), 2, ("missing: ('4',)",)),))


@pytest.mark.parametrize(
    "report, about, result, words",
    [
        (GOOD, "copy on write", "ok", "3 rows as expected: first load 2.0 s, read 0.5 s"),
        (GOOD, "engine", "ok", "Python 3.9.20, Hudi 1.0.2-amzn-3"),
        (GOOD, "job run id", "ok", "the driver finds"),
        (replace(GOOD, job_run_id=None), "job run id", "fail", "found None, but"),
        (MISSING, "merge on read", "fail", "missing: ('4',)"),
        (replace(GOOD, left="s3://silver/x: denied"), "scratch tables", "warn", "denied"),
    ],
)
def test_a_finding_that_is_not_ok_names_the_next_step(report, about, result, words):
    (finding,) = [item for item in engine_trial.found_by(report, "00f1") if item.about == about]
    assert finding.result == result and words in finding.found
    assert finding.result == "ok" or finding.advice
