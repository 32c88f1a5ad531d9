"""`sluice ops cost runs` on an emulated stack."""

from dataclasses import replace

import pytest
from emulation.stack import SHARED, cloudformation
from moto.core import DEFAULT_ACCOUNT_ID
from moto.emrserverless.models import emrserverless_backends

from sluice import prices
from sluice_aws.lanes.job_runs import Billed
from sluice_aws.stack import LOCAL
from sluice_cli.terminal.stack import chosen_target


@pytest.fixture
def ended(stack):
    """Two runs of the stack's application that have ended, and a job of another's."""
    emr = SHARED.client("emr-serverless")
    made = emr.create_application(name="s", releaseLabel="emr-7.14.0", type="SPARK", clientToken="cost")
    cloudformation().outputs = {**cloudformation().outputs, "ApplicationId": made["applicationId"]}
    request = {"applicationId": made["applicationId"], "executionRoleArn": "arn:aws:iam::123456789012:role/r"}
    for name in ("run-1", "run-2", "nightly-report"):
        emr.start_job_run(clientToken=name, name=name, **request)
    return emr, made["applicationId"]


def test_the_last_runs_are_listed_with_their_billed_usage(ended, sluice, monkeypatch):
    emr, application = ended
    bills = {"run-1": Billed("run-1", 1.0, 4.0, 0.0), "run-2": None}

    def billed(self, job_run_id):
        return bills[emr.get_job_run(applicationId=application, jobRunId=job_run_id)["jobRun"]["name"]]

    monkeypatch.setattr("sluice_aws.lanes.job_runs.JobRuns.billed", billed)
    answer = sluice.json("ops cost runs")
    usd = prices.BUNDLED.spark_usd("X86_64", vcpu_hours=1, memory_gb_hours=4)
    assert {one["run"]: one["usd"] for one in answer["runs"]} == {"run-1": pytest.approx(usd), "run-2": None}
    assert answer["tables"] == {"(idle)": {"gb": 0.0, "usd": pytest.approx(usd), "usd_per_gb": None, "files_usd": 0}}
    shown = sluice("ops cost runs")
    assert "1 run has no bill yet: EMR Serverless reports it some time after the run's end" in shown.err
    assert [line.split("\t")[2:] for line in shown.out.splitlines() if line.startswith("run-2\t")] == [["-", "-", "-"]]


def test_the_last_runs_are_the_newest_whatever_their_states(ended, sluice, monkeypatch):
    emr, application = ended
    backend = emrserverless_backends[DEFAULT_ACCOUNT_ID][emr.meta.region_name]
    of_name = {run.name: run for run in backend.job_runs[application]}
    newest_first = {"nightly-report": "RUNNING", "run-2": "FAILED", "run-1": "SUCCESS"}
    runs = [of_name[name] for name in newest_first]
    for run in runs:
        run.state = newest_first[run.name]

    def grouped(self, application_id, created_at_after, created_at_before, states):
        """As the model of ListJobRuns says: a filter that contains several states groups the list by them."""
        of_state = {state: [run for run in runs if run.state == state] for state in states or ()}
        return [run for group in of_state.values() for run in group] if states else runs

    monkeypatch.setattr(type(backend), "list_job_runs", grouped)
    assert [one["run"] for one in sluice.json("ops cost runs --limit 1")["runs"]] == ["run-2"]
    of_name["run-2"].state = "RUNNING"
    assert [one["run"] for one in sluice.json("ops cost runs --limit 1")["runs"]] == ["run-1"]


def test_the_runs_of_a_local_stack_show_what_their_seconds_would_cost(ended, sluice, monkeypatch):
    monkeypatch.setattr("sluice_cli.ops.cost.chosen_target", lambda stack: replace(chosen_target(stack), kind=LOCAL))
    monkeypatch.setattr("sluice_aws.lanes.job_runs.JobRuns.seconds", lambda self, job_run_id: 1800.0)
    (first, second) = sluice.json("ops cost runs")["runs"]
    usd = prices.BUNDLED.spark_usd("x86_64", vcpu_hours=2, memory_gb_hours=8)
    assert (first["vcpu_hours"], first["usd"], first["estimated"]) == (2.0, pytest.approx(usd), True)
    shown = sluice("ops cost runs")
    assert "Local runs cost nothing. Estimated: " in shown.err and f"\t2.000\t8.000\t{usd:.4f}" in shown.out
