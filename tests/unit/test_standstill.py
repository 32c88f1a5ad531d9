"""Before its application changes, a stack comes to rest without losing anything; after it, what was paused for that goes on."""
import json
from pathlib import Path

import pytest
from emulated_stack import SHARED, cloudformation, invoked, stack  # noqa: F401

from sluice.lane import IDLE, PAUSED
from sluice_cli import standstill_command
from sluice_cli.application_changes import changes_application, parameters_of
from sluice_cli.main import run
from sluice_local.overlay import read_template

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = read_template(ROOT / "template.yaml")
NOW = {"MaximumCpu": "16 vCPU", "IdleTimeoutMinutes": "15", "Release": "old"}


@pytest.fixture
def emr(stack, monkeypatch):  # noqa: F811
    monkeypatch.setattr(standstill_command, "POLL_S", 0.0)
    client = SHARED.client("emr-serverless")
    application = client.create_application(name="s", releaseLabel="emr-7.14.0", type="SPARK", clientToken="t")["applicationId"]
    cloudformation().outputs = {**cloudformation().outputs, "ApplicationId": application}
    client.start_application(applicationId=application)
    # One that is over: the emulator doesn't know applications that never had one.
    client.start_job_run(applicationId=application, clientToken="t", executionRoleArn="arn:aws:iam::123456789012:role/r")
    stack.application = application
    return client


@pytest.mark.parametrize("given, changes", [
    ({}, False), ({"Release": "new", "LogLevel": "DEBUG", "AlarmEmail": "a@example.org"}, False), ({"MaximumCpu": "16 vCPU"}, False),
    ({"MaximumCpu": "32 vCPU"}, True), ({"EmrRelease": "emr-7.15.0"}, True), ({"InitialDrivers": "1"}, True), ({"SubnetIds": "subnet-1"}, True),
])  # fmt: skip
def test_only_what_the_application_depends_on_changes_it(given, changes):
    assert changes_application(TEMPLATE, TEMPLATE, NOW, given) is changes


def test_another_definition_of_the_application_changes_it():
    other = json.loads(json.dumps(TEMPLATE))
    other["Resources"]["SparkApplication"]["Properties"]["SchedulerConfiguration"]["QueueTimeoutMinutes"] = 30
    assert changes_application(TEMPLATE, other, NOW, {})


def test_overrides_are_read_as_sam_reads_them():
    assert parameters_of("MaximumCpu='32 vCPU' Release=abc") == {"MaximumCpu": "32 vCPU", "Release": "abc"}


def test_parameters_of_an_environment_count_where_none_are_given():
    given = standstill_command._given("", "dev", ROOT)
    assert changes_application(TEMPLATE, TEMPLATE, NOW, given) and given["LogLevel"] == "DEBUG"
    assert standstill_command._given("Release=x", "dev", ROOT) == {"Release": "x"}


def test_lanes_are_paused_the_application_stopped_and_only_those_lanes_go_on(stack, emr, invoked, tmp_path):  # noqa: F811
    for lane in ("main", "big"):
        stack.ledger.wake(lane)
    stack.ledger.pause("big")
    note = tmp_path / "note.json"
    assert run(["standstill", "begin", "--note", str(note)]) == 0
    assert {state.lane: state.state for state in stack.ledger.lanes()} == {"main": PAUSED, "big": PAUSED}
    assert emr.get_application(applicationId=stack.application)["application"]["state"] == "STOPPED"
    assert run(["standstill", "end", "--note", str(note)]) == 0
    assert {state.lane: state.state for state in stack.ledger.lanes()} == {"main": IDLE, "big": PAUSED}
    assert not note.exists() and invoked


def test_a_run_that_does_not_end_is_told_and_the_way_back_is_open(stack, emr, invoked, tmp_path, capsys):  # noqa: F811
    stack.ledger.wake("main")
    stack.ledger.request_start("main", "run-1", 1)
    note = tmp_path / "note.json"
    assert run(["standstill", "begin", "--note", str(note), "--timeout", "0"]) == 1
    assert "Still waiting for lane main" in capsys.readouterr().err
    assert emr.get_application(applicationId=stack.application)["application"]["state"] == "STARTED"
    assert run(["standstill", "end", "--note", str(note)]) == 0
    assert not stack.ledger.lane("main").pause_requested


def test_before_the_first_deployment_there_is_nothing_to_bring_to_rest(stack, tmp_path, capsys):  # noqa: F811
    assert run(["standstill", "begin", "--stack", "nosuch", "--note", str(tmp_path / "note")]) == 0
    assert run(["standstill", "end", "--stack", "nosuch", "--note", str(tmp_path / "note")]) == 0
    assert "nothing to bring to rest" in capsys.readouterr().err
