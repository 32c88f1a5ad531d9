"""`sluice cost runs` on an emulated stack."""

import pytest
from emulation.stack import SHARED, cloudformation, describe

from sluice import prices
from sluice_aws.lanes.job_runs import Billed
from sluice_cli.main import run


def test_the_last_runs_are_listed_with_their_billed_usage(stack, capsys, monkeypatch):
    emr = SHARED.client("emr-serverless")
    application = emr.create_application(name="s", releaseLabel="emr-7.14.0", type="SPARK", clientToken="cost")[
        "applicationId"
    ]
    cloudformation().outputs = {**cloudformation().outputs, "ApplicationId": application}
    for name in ("run-1", "run-2", "nightly-report"):
        emr.start_job_run(
            applicationId=application, clientToken=name, name=name, executionRoleArn="arn:aws:iam::123456789012:role/r"
        )
    bills = {"run-1": Billed("run-1", 1.0, 4.0, 0.0), "run-2": None}
    monkeypatch.setattr(
        "sluice_aws.lanes.job_runs.JobRuns.billed",
        lambda self, job_run_id: bills[
            emr.get_job_run(applicationId=application, jobRunId=job_run_id)["jobRun"]["name"]
        ],
    )
    assert run(["cost", "runs", "--json"]) == 0
    answer = describe(capsys)
    usd = prices.spark_usd("X86_64", vcpu_hours=1, memory_gb_hours=4)
    assert {one["run"]: one["usd"] for one in answer["runs"]} == {"run-1": pytest.approx(usd), "run-2": None}
    assert answer["tables"] == {"(idle)": {"gb": 0.0, "usd": pytest.approx(usd), "usd_per_gb": None}}
