"""table_services: the definition is valid, and every branch takes its way on the emulator's interpreter."""

import importlib.util
import json
import re
from collections import Counter
from pathlib import Path

import botocore.loaders
import botocore.model
import jsonschema
import pytest
from services_machine import (
    DEFINITION,
    ENDED_WELL,
    FREE,
    FUNCTIONS,
    HELD,
    NOTHING,
    OTHER,
    PLACEHOLDERS,
    REQUEST,
    RUN,
    START,
    SYNC,
    TASKS,
    TEMPLATE,
    TEXT,
    Failure,
    Machine,
    open_request,
    states,
)
from statelint.linter import Linter

from sluice.config.lane import LaneConfig
from sluice.cost import Assumptions
from sluice.lane.job_request import execution_timeout_min, state_machine_parameters
from sluice.ledger.keys import lane_key, table_key
from sluice.services.planning import next_pause_s
from sluice.services.policy import CATALOG
from sluice_aws.errors import CatalogRaced, LedgerBusy, NoSuchCommit
from sluice_aws.ledger.tables import SERVICE_PREFIX
from sluice_aws.services import planner as service_planner
from sluice_local.stack.start_and_wait import request_of


def test_the_definition_is_a_state_machine():
    schema = Path(
        importlib.util.find_spec("cfnlint").submodule_search_locations[0],
        "data/schemas/other/step_functions/statemachine.json",
    )
    jsonschema.Draft7Validator(json.loads(schema.read_text())).validate(DEFINITION)
    assert Linter.validate(DEFINITION) == []


def test_the_template_fills_every_placeholder_and_no_other():
    properties = TEMPLATE["TableServices"]["Properties"]
    assert (
        set(properties["DefinitionSubstitutions"])
        == set(re.findall(r"\$\{(\w+)\}", TEXT))
        == {*PLACEHOLDERS, *FUNCTIONS, "StartRun"}
    )
    assert properties["DefinitionSubstitutions"]["StartRun"] == {
        "Fn::Sub": START.replace("aws", "${AWS::Partition}", 1)
    }


def test_nested_states_have_distinct_names():
    assert max(Counter(name for name, _ in states()).values()) == 1


@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_task_ends_in_time_and_every_error_has_a_way_out(name):
    task = TASKS[name]
    assert task["TimeoutSeconds"] > 0
    assert task["Catch"][-1]["ErrorEquals"] == ["States.ALL"]
    assert ("Retry" in task) == (task["Resource"] != START), "a start is repeated by supervise alone, under its token"


@pytest.mark.parametrize("name", sorted(TASKS))
def test_only_transient_errors_of_the_project_are_retried(name):
    known = {error.__name__: error for error in (LedgerBusy, CatalogRaced, NoSuchCommit)}
    own = [error for retrier in TASKS[name].get("Retry", ()) for error in retrier["ErrorEquals"] if "." not in error]
    assert all(known[error].retriable for error in own)


def test_waiting_ends_after_any_run_and_the_whole_after_all_waiting():
    queued = TEMPLATE["SparkApplication"]["Properties"]["SchedulerConfiguration"]["QueueTimeoutMinutes"]
    longest = (
        execution_timeout_min(LaneConfig(max_age_s=7 * 86_400)) + queued
    ) * 60  # 7d is the most that tables.yaml takes
    assert longest < TASKS["StartRun"]["TimeoutSeconds"] < DEFINITION["TimeoutSeconds"], (
        "a task that is given up has its run cancelled"
    )


def test_start_run_sends_the_whole_request_as_the_service_model_names_it():
    assert TASKS["StartRun"]["Arguments"] == "{% $states.input.job %}", (
        "as one value, so that the same token always comes with the same request"
    )
    parameters = state_machine_parameters(REQUEST)
    model = botocore.model.ServiceModel(
        botocore.loaders.Loader().load_service_model("emr-serverless", "service-2"), "emr-serverless"
    )
    assert_named_as(model.operation_model("StartJobRun").input_shape, parameters)
    assert (
        parameters["ClientToken"] == REQUEST["clientToken"]
        and parameters["Tags"] == REQUEST["tags"]
        and parameters["ExecutionIamPolicy"] == {"Policy": REQUEST["executionIamPolicy"]["policy"]}
    )
    assert request_of(parameters) == REQUEST, "what runs in its place locally gives the API's own names back"


def assert_named_as(shape, value):
    """Structures' members by the model's names, beginning with a capital; keys of maps as they are."""
    if shape.type_name == "structure":
        members = {name[0].upper() + name[1:]: below for name, below in shape.members.items()}
        assert set(value) <= set(members)
        for name in value:
            assert_named_as(members[name], value[name])
    elif shape.type_name == "list":
        for each in value:
            assert_named_as(shape.member, each)


def test_the_lane_is_read_where_the_ledger_keeps_it():
    key = TASKS["LookAtLane"]["Parameters"]["Key"]
    assert (key["pk"]["S.$"], key["sk"]["S"]) == (
        "States.Format('lane#{}', $.lane)",
        lane_key("main")["sk"],
    ) and lane_key("main")["pk"] == "lane#main"


def test_a_sync_is_remembered_where_the_policy_looks_for_it():
    parameters = TASKS["RememberSync"]["Parameters"]
    assert parameters[
        "UpdateExpression"
    ] == f"SET {SERVICE_PREFIX}{CATALOG} = :synced REMOVE catalog_failed" and parameters["Key"] == {
        "pk": {"S.$": "States.Format('table#{}', $.table)"},
        "sk": {"S": table_key("a.b")["sk"]},
    }
    assert statement("TableServicesRole", "dynamodb:UpdateItem")["Condition"]["ForAllValues:StringLike"][
        "dynamodb:LeadingKeys"
    ] == ["table#*"]


def statement(role, action):
    (found,) = [
        one
        for one in TEMPLATE[role]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
        if action in one.get("Action", ())
    ]
    return found


def test_the_machine_may_call_what_it_calls_and_nothing_more():
    called = statement("TableServicesRole", "lambda:InvokeFunction")["Resource"]
    assert {one["Fn::GetAtt"][0] for one in called} == {f"{name}Function" for name in FUNCTIONS}
    assert statement("TableServicesRole", "dynamodb:GetItem")["Condition"]["ForAllValues:StringLike"][
        "dynamodb:LeadingKeys"
    ] == ["lane#*"]
    assert statement("TableServicesRole", "events:PutRule")["Resource"]["Fn::Sub"].endswith(
        "rule/StepFunctionsGetEventsForEMRServerlessJobRule"
    )


def test_whoever_plans_starts_no_run_and_writes_what_it_asks_for_and_no_object():
    actions = {
        action
        for one in TEMPLATE["PlanServicesRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
        if "Action" in one
        for action in ([one["Action"]] if isinstance(one["Action"], str) else one["Action"])
    }
    assert not [action for action in actions if action.startswith("emr-serverless:")]
    keys = statement("PlanServicesRole", "dynamodb:PutItem")["Condition"]["ForAllValues:StringLike"][
        "dynamodb:LeadingKeys"
    ]
    assert keys == ["service#*", "lane#*", "table#*", "run#*", "gathering#*"]


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


def test_a_run_that_released_its_lane_is_examined_once(machine):
    machine.planned(runs=[RUN])
    assert machine.run() == ENDED_WELL
    assert machine.calls == ["gather", "plan", "start", "lane"]
    assert (
        machine.inputs[2] == RUN["job"]
        and machine.inputs[3]["Key"] == {"pk": {"S": "lane#main"}, "sk": {"S": "lane"}}
        and machine.inputs[3]["ConsistentRead"]
    )


def test_each_idle_lane_gets_a_run_of_its_own(machine):
    machine.planned(runs=[RUN, {**RUN, "lane": "side", "run": "run-side-1"}])
    assert machine.run() == ENDED_WELL and machine.count("start") == 2


@pytest.mark.parametrize(
    "error",
    [
        "EMRServerless.ConflictException",
        "States.Timeout",
        "States.TaskFailed",
        "EMRServerless.ServiceQuotaExceededException",
    ],
)
def test_a_failed_start_is_not_repeated_and_its_lane_is_followed_until_it_is_free(machine, error):
    machine.planned(runs=[RUN])
    machine.answers.update(start=[Failure(error)], lane=[HELD, HELD, FREE])
    assert machine.run() == ENDED_WELL
    assert machine.calls[2:] == ["start", "lane", "supervise", "lane", "supervise", "lane"] and machine.waits == [
        5,
        7,
        7,
    ]


def test_a_run_that_ended_without_releasing_has_its_lane_taken_back_by_supervise(machine):
    machine.planned(runs=[RUN])
    machine.answers["lane"] = [HELD, FREE]
    assert machine.run() == ENDED_WELL and machine.calls[2:] == ["start", "lane", "supervise", "lane"]


@pytest.mark.parametrize("lane", [OTHER, {}])
def test_a_lane_that_another_run_has_is_none_of_this_ones_business(machine, lane):
    machine.planned(runs=[RUN])
    machine.answers["lane"] = [lane]
    assert machine.run() == ENDED_WELL and machine.count("supervise") == 0


@pytest.mark.parametrize("task", ["lane", "supervise"])
def test_a_look_that_fails_counts_as_one_and_the_next_is_tried(machine, task):
    machine.planned(runs=[RUN])
    machine.answers["lane"] = [HELD, FREE]
    machine.answers[task] = [Failure("States.Runtime"), *([FREE] if task == "lane" else [{}])]
    assert machine.run() == ENDED_WELL and machine.waits == [5, 7]


def test_a_lane_that_stays_held_is_left_to_supervise_in_the_end(machine):
    machine.planned(runs=[RUN])
    machine.answers["lane"] = [HELD]
    assert machine.run() == ENDED_WELL and machine.count("supervise") == 60


def test_branches_and_items_give_back_nothing_of_what_they_were_given(machine):
    """All of it together would have to fit into the 256 KB of one state, and no Catch takes States.DataLimitExceeded:
    the execution would fail and cancel the runs that it waits for.
    """
    syncing, running, _ = DEFINITION["States"]["Work"]["Branches"]
    plan = {"syncs": [SYNC], "runs": [RUN], "follow": NOTHING}
    assert machine.part(syncing, plan) == machine.part(running, plan) == {}
    sync, run = syncing["States"]["SyncCatalog"]["ItemProcessor"], running["States"]["RunLanes"]["ItemProcessor"]
    assert machine.part(sync, SYNC) == machine.part(run, RUN) == {}
    machine.answers.update(lane=[HELD], sync=[Failure("NameTaken")])
    assert machine.part(sync, SYNC) == machine.part(run, RUN) == {}
    machine.answers["remember"] = [Failure("States.Runtime")]
    assert machine.part(sync, SYNC) == {}


def test_the_longest_execution_has_fewer_events_than_an_execution_may_have(machine):
    """25,000: entered and exited for each state, three more for a task, two for an item of a map.

    A tenth is left to repetitions.
    """

    def events(**answers):
        machine.entered.clear()
        machine.planned(**answers)
        machine.run()
        return sum(5 if kind == "Task" else 2 for kind in machine.entered)

    machine.answers["lane"] = [HELD]
    nothing, one_sync, one_lane = events(), events(syncs=[SYNC]), events(runs=[RUN])
    machine.answers["follow"] = [{**NOTHING, "done": 1}]
    followed_once = events(follow=open_request())
    machine.answers["follow"] = [open_request(), {**NOTHING, "done": 1}]
    one_look = events(follow=open_request()) - followed_once
    looks, pause_s, waited_s = 0, 1, 0
    while waited_s * 1000 < service_planner.FOLLOWED_FOR_MS:
        looks, waited_s, pause_s = looks + 1, waited_s + pause_s, next_pause_s(pause_s)
    most = (
        nothing
        + service_planner.SYNCED_AT_ONCE * (one_sync - nothing + 2)
        + service_planner.STARTED_AT_ONCE * (one_lane - nothing + 2)
        + followed_once
        + looks * one_look
    )
    assert 10_000 < most < 25_000 * 0.9


def test_requests_are_followed_to_their_outcome_with_the_given_pauses(machine):
    machine.planned(follow=open_request())
    machine.answers["follow"] = [open_request(wait_s=6), {**NOTHING, "done": 1}]
    assert machine.run() == {"done": 1, "failed": 0, "given_up": 0}
    assert machine.waits == [5, 3, 6] and machine.inputs[2] == {"step": "follow", "followed": open_request()}


@pytest.mark.parametrize("outcome", [{"failed": 1}, {"given_up": 1}])
def test_a_failed_or_unfinished_service_fails_the_execution_after_all_others(machine, outcome):
    machine.planned(runs=[RUN], follow=open_request())
    machine.answers["follow"] = [{**NOTHING, **outcome}]
    assert machine.run() == "ServicesFailed" and {"start", "lane", "follow"} <= set(machine.calls)


def test_an_unreadable_list_of_requests_is_reported_and_fails_no_run(machine):
    machine.planned(runs=[RUN], follow=open_request())
    machine.answers["follow"] = [Failure("KeyError")]
    assert machine.run() == "ServicesFailed" and machine.count("lane") == 1


def test_what_is_paid_for_are_the_states_that_costs_are_reckoned_with(machine):
    given = Assumptions()
    machine.run()
    assert len(machine.entered) == given.look_transitions, machine.entered
    one_sync = given.look_transitions + given.sync_transitions
    for answers, most in (
        ({"syncs": [SYNC]}, one_sync),
        (
            {"syncs": [SYNC], "runs": [RUN], "follow": open_request()},
            one_sync + given.service_transitions - len(["ServicesDone"]),
        ),
    ):
        machine.entered.clear()
        machine.planned(**answers)
        machine.answers["follow"] = [open_request(wait_s=6), {**NOTHING, "done": 1}]
        machine.run()
        assert len(machine.entered) == most, machine.entered


def test_syncs_are_the_same_alone_and_beside_the_services():
    beside = DEFINITION["States"]["Work"]["Branches"][0]["States"]["SyncCatalog"]
    alone = json.loads(json.dumps(DEFINITION["States"]["SyncCatalogAlone"]).replace('Alone"', '"'))
    assert alone["ItemProcessor"] == beside["ItemProcessor"] and all(
        alone[name] == beside[name] for name in ("ItemsPath", "MaxConcurrency")
    )


@pytest.mark.parametrize("services", [False, True])
def test_a_table_that_is_behind_is_synced_and_that_is_remembered(machine, services):
    machine.planned(syncs=[SYNC], follow=open_request() if services else NOTHING)
    machine.answers["follow"] = [NOTHING]
    assert machine.run() == ENDED_WELL and [call for call in machine.calls[2:] if call != "follow"] == [
        "sync",
        "remember",
    ]
    machine.inputs = [given for given in machine.inputs if given.get("step") != "follow"]
    assert machine.inputs[2] == {"table": "a.b", "instant": "20240101"}
    assert machine.inputs[3]["ExpressionAttributeValues"] == {
        ":synced": {"M": {"instant": {"S": "20240101"}, "commits": {"N": "7"}, "at": {"N": "1700000000000"}}}
    }
    assert machine.inputs[3]["Key"]["pk"] == {"S": "table#a.b"}


@pytest.mark.parametrize("task", ["sync", "remember"])
def test_a_sync_that_fails_stays_due_and_holds_up_nothing(machine, task):
    machine.planned(syncs=[SYNC], runs=[RUN], follow=open_request())
    machine.answers.update(follow=[{**NOTHING, "done": 1}])
    machine.answers[task] = [Failure("NameTaken")]
    assert (
        machine.run() == {"done": 1, "failed": 0, "given_up": 0}
        and machine.count("lane") == machine.count("follow") == 1
    )


def test_a_failed_sync_is_recorded_in_the_ledger_with_its_error(machine):
    machine.planned(syncs=[SYNC])
    machine.answers["sync"] = [Failure("NameTaken")]
    machine.run()
    assert machine.calls[2:] == ["sync", "remember"]
    assert machine.inputs[3]["ExpressionAttributeValues"] == {
        ":failed": {"M": {"at": {"N": "1700000000000"}, "error": {"S": "NameTaken"}, "instant": {"S": "20240101"}}}
    }


def test_one_table_that_cannot_be_synced_keeps_no_other_from_it(machine):
    machine.planned(syncs=[SYNC, {**SYNC, "table": "a.c"}])
    machine.answers["sync"] = [Failure("NameTaken"), {}]
    assert machine.run() == ENDED_WELL and machine.count("sync") == 2
    assert sorted(key for given in machine.inputs for key in given.get("ExpressionAttributeValues", ())) == [
        ":failed",
        ":synced",
    ]
