"""The state machine's role allows exactly the actions of its tasks, and every refusal is handled."""

from collections import Counter

import pytest
from emulation.iam_enforcement import ACCOUNT, REGION, Role, asked_of
from emulation.services_machine import (
    APPLICATION,
    ASK,
    FAILED,
    FUNCTIONS,
    NOTHING,
    RUN,
    RUNNING,
    SYNC,
    TASKS,
    UPDATE,
    Machine,
    open_request,
)

ROLE = "TableServicesRole"
NAMES = {
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "ApplicationId": APPLICATION,
    "Ledger.Arn": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/ledger",
    **{f"{name}Function.Arn": f"arn:aws:lambda:eu-central-1:{ACCOUNT}:function:{name}" for name in FUNCTIONS},
}
# Sid -> what Step Functions itself does with it, whatever the tasks are (its developer guide: logging to CloudWatch
# Logs, tracing with X-Ray).
BY_STEP_FUNCTIONS = {"DeliverLogs": "has log groups written", "TraceExecutions": "sends segments"}


def asked(resource, data):
    """What a task asks permission for (Step Functions' developer guide, IAM policies of each service integration)."""
    if resource == ASK:
        names = {"applicationId": data["ApplicationId"], "jobRunId": data["JobRunId"]}
        return asked_of("emr-serverless", "GetJobRun", names)
    if resource == UPDATE:
        return asked_of("dynamodb", "UpdateItem", data)
    return [("lambda:InvokeFunction", resource, {})]


REFUSALS = {ASK: "EmrServerless.AccessDeniedException", UPDATE: "DynamoDB.AccessDeniedException"}


def refused_by(role):
    def refused(resource, data):
        if all([role.allows(one) for one in asked(resource, data)]):
            return None
        return REFUSALS.get(resource, "Lambda.AWSLambdaException")

    return refused


def play(monkeypatch, without=None):
    """A look that finds a sync, and a run and a request to follow; the run fails at last."""
    machine, role = Machine(monkeypatch), Role(ROLE, NAMES, without)
    machine.refused = refused_by(role)
    machine.planned(syncs=[SYNC], runs=[RUN], follow=open_request())
    machine.answers.update(ask=[RUNNING, FAILED], follow=[{**NOTHING, "done": 1}])
    return machine.run(), Counter(machine.calls), role, machine


WHOLE = Counter(gather=1, plan=1, sync=1, remember=1, ask=2, supervise=1, follow=1)
DONE = {"done": 1, "failed": 0, "given_up": 0}
CALL = ("CallFunctions", "lambda:InvokeFunction")
# What is taken away -> how the execution ends, and what it called.
ENDINGS = {
    # An alarm watches failed executions.
    (*CALL, NAMES["PlanServicesFunction.Arn"]): ("NotPlanned", {}),
    # Supervise's own schedule asks the same.
    (*CALL, NAMES["SuperviseFunction.Arn"]): (DONE, {**WHOLE, "supervise": 0}),
    # The table stays due, its error in the ledger.
    (*CALL, NAMES["SyncCatalogFunction.Arn"]): (DONE, {**WHOLE, "sync": 0}),
    # Every check counts, and the run is left to supervise.
    ("FollowRuns", "emr-serverless:GetJobRun"): (DONE, {**WHOLE, "ask": 0, "supervise": 0}),
    # The table stays due.
    ("RememberSyncs", "dynamodb:UpdateItem"): (DONE, {**WHOLE, "remember": 0}),
}


def test_every_task_is_allowed_and_nothing_is_allowed_that_no_task_asks_for():
    data = {"ApplicationId": APPLICATION, "JobRunId": "1", "TableName": "ledger", "Key": {"pk": {"S": "x"}}}
    called = {action for task in TASKS.values() for action, _, _ in asked(task["Resource"], data)}
    granted = {action for sid, action in Role(ROLE, NAMES).grants if sid not in BY_STEP_FUNCTIONS}
    assert called == granted


def test_the_machine_does_all_it_is_for_with_what_its_role_allows(monkeypatch):
    outcome, calls, role, _ = play(monkeypatch)
    assert (outcome, calls, role.denied) == (DONE, WHOLE, set())


@pytest.mark.parametrize("without", ENDINGS, ids=lambda one: " ".join(one[1:]))
def test_without_one_action_the_machine_ends_as_it_should(monkeypatch, without):
    outcome, calls, role, machine = play(monkeypatch, without)
    expected, called = ENDINGS[without]
    assert (outcome, calls, role.denied) == (expected, Counter(called), {without[1]})
    if "SyncCatalog" in without[-1]:
        values = [given.get("ExpressionAttributeValues", {}) for given in machine.inputs]
        errors = [value[":failed"]["M"]["error"]["S"] for value in values if ":failed" in value]
        assert errors == ["Lambda.AWSLambdaException"]


def test_every_allowed_action_is_removed_by_a_test_or_used_outside_the_tasks():
    taken = {(one[0], one[1]) for one in ENDINGS}
    assert taken == {(sid, action) for sid, action in Role(ROLE, NAMES).grants if sid not in BY_STEP_FUNCTIONS}
