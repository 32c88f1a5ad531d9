"""table_services: the definition is valid, and every branch takes its way on the emulator's interpreter."""

import importlib.util
import json
import re
from pathlib import Path

import botocore.loaders
import botocore.model
import jsonschema
import pytest
from emulation.services_machine import (
    APPLICATION,
    ASK,
    DEFINITION,
    ENDED_WELL,
    FAILED,
    FUNCTIONS,
    NOTHING,
    PLACEHOLDERS,
    RUN,
    RUNNING,
    SUCCESS,
    SYNC,
    TASKS,
    TEXT,
    Failure,
    Machine,
    open_request,
)
from statelint.linter import Linter
from support.sam_template import TEMPLATE

from sluice.cost import Assumptions
from sluice.lane.supervision import TERMINAL_STATES
from sluice.ledger.keys import table_key
from sluice.services.planning import LONGEST_PAUSE_S, next_pause_s
from sluice.services.policy import CATALOG
from sluice_aws.errors import CatalogRaced, IcebergBehind, LedgerBusy, NoSuchCommit
from sluice_aws.ledger.tables import SERVICE_PREFIX
from sluice_aws.services import planner as service_planner

RESOURCES = TEMPLATE["Resources"]


def test_the_definition_is_a_state_machine():
    cfnlint = importlib.util.find_spec("cfnlint").submodule_search_locations[0]
    schema = Path(cfnlint, "data/schemas/other/step_functions/statemachine.json")
    jsonschema.Draft7Validator(json.loads(schema.read_text())).validate(DEFINITION)
    assert Linter.validate(DEFINITION) == []


def test_the_template_fills_every_placeholder_and_no_other():
    filled = RESOURCES["TableServices"]["Properties"]["DefinitionSubstitutions"]
    assert set(filled) == set(re.findall(r"\$\{(\w+)\}", TEXT)) == {*PLACEHOLDERS, *FUNCTIONS, "GetJobRun"}
    assert filled["GetJobRun"] == {"Fn::Sub": ASK.replace("aws", "${AWS::Partition}", 1)}


@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_task_ends_in_time_and_every_error_has_a_way_out(name):
    task = TASKS[name]
    assert task["TimeoutSeconds"] > 0
    assert task["Catch"][-1]["ErrorEquals"] == ["States.ALL"]
    assert ("Retry" in task) == (task["Resource"] != ASK), "a check is repeated by the next one"


@pytest.mark.parametrize("name", sorted(TASKS))
def test_only_transient_errors_of_the_project_are_retried(name):
    by_name = {error.__name__: error for error in (LedgerBusy, CatalogRaced, NoSuchCommit, IcebergBehind)}
    own = [error for retrier in TASKS[name].get("Retry", ()) for error in retrier["ErrorEquals"] if "." not in error]
    assert all(by_name[error].retriable for error in own)


def test_the_execution_outlives_all_that_it_follows():
    assert service_planner.FOLLOWED_FOR_MS / 1000 + LONGEST_PAUSE_S < DEFINITION["TimeoutSeconds"]
    assert 60 * LONGEST_PAUSE_S < DEFINITION["TimeoutSeconds"], "the checks of a run, with the longest pauses"


def test_a_job_run_is_asked_for_as_the_service_model_names_it():
    loaded = botocore.loaders.Loader().load_service_model("emr-serverless", "service-2")
    model = botocore.model.ServiceModel(loaded, "emr-serverless").operation_model("GetJobRun")
    arguments = {name[0].lower() + name[1:] for name in TASKS["AskForRun"]["Arguments"]}
    assert arguments == set(model.input_shape.required_members)
    assert set(model.output_shape.members["jobRun"].members["state"].enum) > TERMINAL_STATES
    expected = ["MakeApplication", {"Ref": "SparkApplication"}, {"Ref": "ApplicationId"}]
    assert RESOURCES["TableServices"]["Properties"]["DefinitionSubstitutions"]["Application"]["Fn::If"] == expected


@pytest.mark.parametrize("name", sorted(TASKS))
def test_no_task_starts_or_ends_a_run_so_a_failed_execution_ends_none(name):
    assert "startJobRun" not in TASKS[name]["Resource"] and ".sync" not in TASKS[name]["Resource"]
    actions = [one.get("Action", ()) for one in statements("TableServicesRole")]
    granted = {action for some in actions for action in ([some] if isinstance(some, str) else some)}
    assert {one for one in granted if one.startswith(("emr-serverless:", "iam:"))} == {"emr-serverless:GetJobRun"}


def test_a_sync_is_remembered_where_the_policy_looks_for_it():
    parameters = TASKS["RememberSync"]["Parameters"]
    assert parameters["UpdateExpression"] == f"SET {SERVICE_PREFIX}{CATALOG} = :synced REMOVE catalog_failed"
    key = {"pk": {"S.$": "States.Format('table#{}', $.table)"}, "sk": {"S": table_key("a.b")["sk"]}}
    assert parameters["Key"] == key
    assert leading_keys("TableServicesRole", "dynamodb:UpdateItem") == ["table#*"]


def statements(role):
    return RESOURCES[role]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]


def statement(role, action):
    (task,) = [one for one in statements(role) if action in one.get("Action", ())]
    return task


def leading_keys(role, action):
    return statement(role, action)["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]


def test_the_machine_may_call_what_it_calls_and_nothing_more():
    called = statement("TableServicesRole", "lambda:InvokeFunction")["Resource"]
    assert {one["Fn::GetAtt"][0] for one in called} == {f"{name}Function" for name in FUNCTIONS}


def test_whoever_plans_starts_runs_and_writes_requests_and_lanes_but_no_object():
    starts = [statement(role, "emr-serverless:StartJobRun") for role in ("PlanServicesRole", "AdmitRole")]
    assert starts[0] == starts[1]
    kinds = leading_keys("PlanServicesRole", "dynamodb:PutItem")
    assert kinds == ["service#*", "lane#*", "table#*", "run#*", "gathering#*"]


# ---- the branches


@pytest.fixture
def machine(monkeypatch):
    return Machine(monkeypatch)


def test_a_commit_that_somebody_gathers_already_ends_after_one_call(machine):
    machine.answers["gather"] = [{"go": False, "wait_s": 5}]
    machine.run()
    assert machine.calls == ["gather"] and machine.waits == []


def test_whoever_gathers_waits_for_more_and_then_looks(machine):
    assert machine.run() == ENDED_WELL
    assert machine.calls == ["gather", "plan"] and machine.waits == [5]


@pytest.mark.parametrize("step", ["gather", "plan"])
def test_what_passes_by_itself_is_tried_again_and_what_does_not_ends_the_look(machine, step):
    good = machine.answers[step][0]
    machine.answers[step] = [Failure("LedgerBusy"), Failure("Lambda.TooManyRequestsException"), good]
    assert machine.run() == ENDED_WELL and machine.count(step) == 3
    machine.answers[step] = [Failure("SettingsMissing")]
    assert machine.run() == "NotPlanned" and machine.count(step) == 4


def test_a_run_that_was_started_is_followed_to_its_end_with_growing_pauses(machine):
    machine.planned(runs=[RUN])
    machine.answers["ask"] = [RUNNING, {"JobRun": {"State": "SCHEDULED"}}, SUCCESS]
    assert machine.run() == ENDED_WELL
    assert machine.calls == ["gather", "plan", "ask", "ask", "ask"] and machine.waits == [5, 7, 14, 28]
    assert machine.inputs[2] == {"ApplicationId": APPLICATION, "JobRunId": "00f1"}


@pytest.mark.parametrize("state", sorted(TERMINAL_STATES - {"SUCCESS"}))
def test_a_run_that_ended_without_releasing_has_its_lane_taken_back_by_supervise(machine, state):
    machine.planned(runs=[RUN])
    machine.answers["ask"] = [RUNNING, {"JobRun": {"State": state}}]
    assert machine.run() == ENDED_WELL and machine.calls[2:] == ["ask", "ask", "supervise"]
    assert machine.inputs[-1] == {"source": "table_services", "lane": "main"}


@pytest.mark.parametrize(
    "answer",
    [Failure("EmrServerless.ThrottlingException"), Failure("States.Timeout"), {"JobRun": {}}, {}],
    ids=["throttled", "late", "no-state", "empty"],
)
def test_a_check_without_an_answer_counts_as_one_and_the_next_follows(machine, answer):
    machine.planned(runs=[RUN])
    machine.answers["ask"] = [answer, SUCCESS]
    assert machine.run() == ENDED_WELL and machine.waits == [5, 7, 14]


def test_a_run_that_goes_on_is_left_to_supervise_in_the_end(machine):
    machine.planned(runs=[RUN])
    machine.answers["ask"] = [RUNNING]
    assert machine.run() == ENDED_WELL and machine.count("ask") == 60 and machine.count("supervise") == 0


def test_a_lane_that_supervise_cannot_free_now_is_left_to_its_schedule(machine):
    machine.planned(runs=[RUN])
    machine.answers.update(ask=[FAILED], supervise=[Failure("SettingsMissing")])
    assert machine.run() == ENDED_WELL and machine.count("supervise") == 1


def test_what_no_catch_takes_ends_the_execution_alone(machine):
    """States.ALL takes neither States.Runtime nor States.DataLimitExceeded. The runs are none of the machine's tasks,
    so the end of the execution ends none of them.
    """
    machine.planned(syncs=[SYNC], runs=[RUN], follow=open_request())
    machine.answers["remember"] = [Failure("States.DataLimitExceeded")]
    assert machine.run() == "States.DataLimitExceeded"


def test_branches_and_items_give_back_nothing_of_what_they_were_given(machine):
    """Together it has to fit into the 256 KB of one state, and no Catch takes States.DataLimitExceeded."""
    syncing, running, _ = DEFINITION["States"]["Work"]["Branches"]
    plan = {"syncs": [SYNC], "runs": [RUN], "follow": NOTHING}
    assert machine.part(syncing, plan) == machine.part(running, plan) == {}
    sync, run = syncing["States"]["SyncCatalog"]["ItemProcessor"], running["States"]["RunLanes"]["ItemProcessor"]
    assert machine.part(sync, SYNC) == machine.part(run, RUN) == {}
    machine.answers.update(ask=[RUNNING], sync=[Failure("NameTaken")])
    assert machine.part(sync, SYNC) == machine.part(run, RUN) == {}
    machine.answers.update(ask=[FAILED], remember=[Failure("States.TaskFailed")])
    assert machine.part(sync, SYNC) == machine.part(run, RUN) == {}


def test_the_longest_execution_has_fewer_events_than_an_execution_may_have(machine):
    """25,000: entered and exited for each state, three more for a task, two for an item of a map.

    A tenth is left to repetitions.
    """

    def events(**answers):
        machine.entered.clear()
        machine.planned(**answers)
        machine.run()
        return sum(5 if kind == "Task" else 2 for kind in machine.entered)

    machine.answers["ask"] = [RUNNING]
    nothing, one_sync, one_lane = events(), events(syncs=[SYNC]), events(runs=[RUN])
    machine.answers["follow"] = [{**NOTHING, "done": 1}]
    followed_once = events(follow=open_request())
    machine.answers["follow"] = [open_request(), {**NOTHING, "done": 1}]
    one_look = events(follow=open_request()) - followed_once
    looks, pause_s, waited_s = 0, 1, 0
    while waited_s * 1000 < service_planner.FOLLOWED_FOR_MS:
        looks, waited_s, pause_s = looks + 1, waited_s + pause_s, next_pause_s(pause_s)
    syncs = service_planner.SYNCED_AT_ONCE * (one_sync - nothing + 2)
    lanes = service_planner.STARTED_AT_ONCE * (one_lane - nothing + 2)
    most = nothing + syncs + lanes + followed_once + looks * one_look
    assert 5_000 < most < 25_000 * 0.9


def test_requests_are_followed_to_their_outcome_with_the_given_pauses(machine):
    machine.planned(follow=open_request())
    machine.answers["follow"] = [open_request(wait_s=6), {**NOTHING, "done": 1}]
    assert machine.run() == {"done": 1, "failed": 0, "given_up": 0}
    assert machine.waits == [5, 3, 6] and machine.inputs[2] == {"step": "follow", "followed": open_request()}


@pytest.mark.parametrize("outcome", [{"failed": 1}, {"given_up": 1}])
def test_a_failed_or_unfinished_service_fails_the_execution_after_all_others(machine, outcome):
    machine.planned(runs=[RUN], follow=open_request())
    machine.answers["follow"] = [{**NOTHING, **outcome}]
    assert machine.run() == "ServicesFailed" and {"ask", "follow"} <= set(machine.calls)


def test_an_unreadable_list_of_requests_is_reported_and_fails_no_run(machine):
    machine.planned(runs=[RUN], follow=open_request())
    machine.answers["follow"] = [Failure("KeyError")]
    assert machine.run() == "ServicesFailed" and machine.count("ask") == 1


def test_what_is_paid_for_are_the_states_that_costs_are_reckoned_with(machine):
    given = Assumptions()
    machine.run()
    assert len(machine.entered) == given.look_transitions, machine.entered
    one_sync = given.look_transitions + given.sync_transitions
    all_of_it = one_sync + given.service_transitions - len(["ServicesDone"])
    for answers, most in (
        ({"syncs": [SYNC]}, one_sync),
        ({"syncs": [SYNC], "runs": [RUN], "follow": open_request()}, all_of_it),
    ):
        machine.entered.clear()
        machine.planned(**answers)
        machine.answers["follow"] = [open_request(wait_s=6), {**NOTHING, "done": 1}]
        machine.answers["ask"] = [RUNNING, RUNNING, SUCCESS]
        machine.run()
        assert len(machine.entered) == most, machine.entered


def test_syncs_are_the_same_alone_and_beside_the_services():
    beside = DEFINITION["States"]["Work"]["Branches"][0]["States"]["SyncCatalog"]
    alone = json.loads(json.dumps(DEFINITION["States"]["SyncCatalogAlone"]).replace('Alone"', '"'))
    assert alone["ItemProcessor"] == beside["ItemProcessor"]
    assert all(alone[name] == beside[name] for name in ("ItemsPath", "MaxConcurrency"))


@pytest.mark.parametrize("services", [False, True])
def test_a_table_that_is_behind_is_synced_and_that_is_remembered(machine, services):
    machine.planned(syncs=[SYNC], follow=open_request() if services else NOTHING)
    machine.answers["follow"] = [NOTHING]
    assert machine.run() == ENDED_WELL
    assert [call for call in machine.calls[2:] if call != "follow"] == ["sync", "remember"]
    machine.inputs = [given for given in machine.inputs if given.get("step") != "follow"]
    assert machine.inputs[2] == {"table": "a.b", "instant": "20240101"}
    synced = {"instant": {"S": "20240101"}, "commits": {"N": "7"}, "at": {"N": "1700000000000"}}
    assert machine.inputs[3]["ExpressionAttributeValues"] == {":synced": {"M": synced}}
    assert machine.inputs[3]["Key"]["pk"] == {"S": "table#a.b"}


@pytest.mark.parametrize("task", ["sync", "remember"])
def test_a_sync_that_fails_stays_due_and_holds_up_nothing(machine, task):
    machine.planned(syncs=[SYNC], runs=[RUN], follow=open_request())
    machine.answers.update(follow=[{**NOTHING, "done": 1}])
    machine.answers[task] = [Failure("NameTaken")]
    assert machine.run() == {"done": 1, "failed": 0, "given_up": 0}
    assert machine.count("ask") == machine.count("follow") == 1


def test_a_failed_sync_is_recorded_in_the_ledger_with_its_error(machine):
    machine.planned(syncs=[SYNC])
    machine.answers["sync"] = [Failure("NameTaken")]
    machine.run()
    assert machine.calls[2:] == ["sync", "remember"]
    failed = {"at": {"N": "1700000000000"}, "error": {"S": "NameTaken"}, "instant": {"S": "20240101"}}
    assert machine.inputs[3]["ExpressionAttributeValues"] == {":failed": {"M": failed}}


def test_one_table_that_cannot_be_synced_keeps_no_other_from_it(machine):
    machine.planned(syncs=[SYNC, {**SYNC, "table": "a.c"}])
    machine.answers["sync"] = [Failure("NameTaken"), {}]
    assert machine.run() == ENDED_WELL and machine.count("sync") == 2
    expected = [":failed", ":synced"]
    assert sorted(key for given in machine.inputs for key in given.get("ExpressionAttributeValues", ())) == expected
