"""`sluice standstill` on an emulated stack: it pauses every lane without loss, and resumes what it paused."""

from pathlib import Path

import pytest
from emulation.stack import SHARED, cloudformation
from moto.core import DEFAULT_ACCOUNT_ID
from moto.emrserverless.models import EMRServerlessBackend, emrserverless_backends
from support.builders import halt

from sluice.lane.machine import IDLE, PAUSED
from sluice_cli.ops import standstill as standstill_command

ROOT = Path(__file__).resolve().parents[3]
ROLE = "arn:aws:iam::123456789012:role/r"


@pytest.fixture
def emr(stack, monkeypatch):
    monkeypatch.setattr(standstill_command, "POLL_S", 0.0)
    client = SHARED.client("emr-serverless")
    made = client.create_application(name="s", releaseLabel="emr-7.14.0", type="SPARK", clientToken="t")
    stack.application = made["applicationId"]
    cloudformation().outputs = {**cloudformation().outputs, "ApplicationId": stack.application}
    client.start_application(applicationId=stack.application)
    # One that is over: the emulator doesn't know applications that never had one.
    client.start_job_run(applicationId=stack.application, clientToken="t", executionRoleArn=ROLE)
    return client


def test_lanes_are_paused_the_application_stopped_and_only_those_lanes_go_on(stack, emr, invoked, sluice):
    for lane in ("main", "big"):
        stack.ledger.lanes.wake(lane)
    stack.ledger.lanes.pause("big")
    sluice("standstill begin")
    assert {state.lane: state.state for state in stack.ledger.lanes.all()} == {"main": PAUSED, "big": PAUSED}
    assert emr.get_application(applicationId=stack.application)["application"]["state"] == "STOPPED"
    sluice("standstill end")
    assert {state.lane: state.state for state in stack.ledger.lanes.all()} == {"main": IDLE, "big": PAUSED}
    assert invoked


def test_a_standstill_asks_for_the_job_runs_that_have_not_ended_alone(stack, emr, invoked, monkeypatch, sluice):
    asked, listed = [], EMRServerlessBackend.list_job_runs

    def listed_by_state(self, application_id, created_at_after, created_at_before, states):
        asked.append(states)
        return listed(self, application_id, created_at_after, created_at_before, states)

    monkeypatch.setattr(EMRServerlessBackend, "list_job_runs", listed_by_state)
    sluice("standstill begin")
    of_model = emr.meta.service_model.shape_for("JobRunState").enum
    assert [sorted(states) for states in asked] == [sorted({*of_model} - {"SUCCESS", "FAILED", "CANCELLED"})]


def test_lanes_paused_by_a_failed_deployment_resume_after_the_next_one(stack, emr, invoked, monkeypatch, sluice):
    stack.ledger.lanes.wake("main")
    sluice("standstill begin")
    sluice("standstill begin")
    monkeypatch.setattr(standstill_command, "_would_change", lambda *_: False)
    sluice("standstill begin --before-deploy", str(ROOT / "template.yaml"))
    assert stack.ledger.lanes.get("main").state == PAUSED
    sluice("standstill end")
    assert stack.ledger.lanes.get("main").state == IDLE


def test_a_standstill_begun_on_one_machine_is_ended_on_another(stack, emr, invoked, tmp_path, monkeypatch, sluice):
    stack.ledger.lanes.wake("main")
    first, second = tmp_path / "first", tmp_path / "second"
    for machine in (first, second):
        machine.mkdir()
    monkeypatch.chdir(first)
    sluice("standstill begin")  # the deployment fails
    lanes = stack.ledger.lanes
    assert (lanes.get("main").state, lanes.paused_for_standstill(), list(first.iterdir())) == (PAUSED, ["main"], [])
    for verb in ("status", "doctor"):
        shown = "".join(sluice(verb, code=None))
        assert "paused for a standstill" in shown and "sluice resume" not in shown, shown
    monkeypatch.chdir(second)
    sluice("standstill begin")  # the next one, from a fresh clone
    sluice("standstill end")
    assert (stack.ledger.lanes.get("main").state, stack.ledger.lanes.paused_for_standstill()) == (IDLE, []) and invoked
    stack.ledger.lanes.pause("main")
    assert "No lane is paused for a standstill" in sluice("standstill end").err
    assert stack.ledger.lanes.get("main").state == PAUSED, "nothing of it is left"


@pytest.mark.parametrize("by_hand", [["pause", "main"], ["resume", "main"]])
def test_a_lane_paused_or_resumed_by_hand_meanwhile_is_left_unchanged(stack, emr, invoked, by_hand, sluice):
    for lane in ("main", "big"):
        stack.ledger.lanes.wake(lane)
    sluice("standstill begin")
    sluice(*by_hand)
    stack.ledger.lanes.pause("main")
    sluice("standstill end")
    assert {state.lane: state.state for state in stack.ledger.lanes.all()} == {"main": PAUSED, "big": IDLE}


def test_an_application_from_outside_the_stack_keeps_running_during_a_standstill(stack, emr, invoked, sluice):
    cloudformation().parameters = {"ApplicationId": stack.application, "MaximumCpu": "16 vCPU"}
    stack.ledger.lanes.wake("main")
    request = {"applicationId": stack.application, "executionRoleArn": ROLE}
    emr.start_job_run(clientToken="other", name="nightly-report", **request)
    emrserverless_backends[DEFAULT_ACCOUNT_ID][emr.meta.region_name].job_runs[stack.application][-1].state = "RUNNING"
    deployed = ["--before-deploy", str(ROOT / "template.yaml"), "--parameter-overrides", "MaximumCpu='32 vCPU'"]
    sluice("standstill begin", *deployed)
    assert stack.ledger.lanes.get("main").state == IDLE, "no deployment changes it"
    sluice("standstill begin --timeout 0")
    assert stack.ledger.lanes.get("main").state == PAUSED
    assert emr.get_application(applicationId=stack.application)["application"]["state"] == "STARTED"


def test_other_tags_of_the_stack_reach_the_application(stack, emr, invoked, tmp_path, monkeypatch, sluice):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "samconfig.toml").write_text('[prod.deploy.parameters]\ntags = "application=sluice environment=prod"\n')
    cloudformation().tags = {"application": "sluice", "environment": "test"}
    stack.ledger.lanes.wake("main")
    deployed = ["--before-deploy", str(ROOT / "template.yaml"), "--environment", "prod"]
    sluice("standstill begin", *deployed)
    assert emr.get_application(applicationId=stack.application)["application"]["state"] == "STOPPED"


def test_a_halted_lane_rests_as_well_and_tries_again_afterwards(stack, emr, invoked, sluice):
    stack.ledger.lanes.wake("main")
    halt(stack.ledger, "main")
    sluice("standstill begin")
    assert stack.ledger.lanes.get("main").state == PAUSED
    sluice("standstill end")
    lane = stack.ledger.lanes.get("main")
    assert (lane.state, lane.failures) == (IDLE, 0)


def test_a_run_that_does_not_end_is_reported_and_the_standstill_can_be_ended(stack, emr, invoked, sluice):
    stack.ledger.lanes.wake("main")
    stack.ledger.lanes.request_start("main", "run-1", 1)
    said = sluice("standstill begin --timeout 0", code=1).err
    assert "Still waiting for lane main" in said and "`sluice --stack s standstill end`" in said
    assert emr.get_application(applicationId=stack.application)["application"]["state"] == "STARTED"
    sluice("standstill end")
    assert not stack.ledger.lanes.get("main").pause_requested
