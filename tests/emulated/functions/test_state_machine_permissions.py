"""The state machine's role allows exactly the actions of its tasks, and every refusal is handled."""

from collections import Counter

import pytest
from iam_enforcement import ACCOUNT, REGION, Role, asked_of
from services_machine import (
    ENVIRONMENT,
    FREE,
    FUNCTIONS,
    GET,
    HELD,
    NOTHING,
    RUN,
    START,
    SYNC,
    TASKS,
    UPDATE,
    Machine,
    open_request,
)

ROLE = "TableServicesRole"
APPLICATION = f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:/applications/{ENVIRONMENT.application_id}"
RULE = f"arn:aws:events:{REGION}:{ACCOUNT}:rule/StepFunctionsGetEventsForEMRServerlessJobRule"
NAMES = {
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "ApplicationId": ENVIRONMENT.application_id,
    "Ledger.Arn": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/ledger",
    "JobRole.Arn": ENVIRONMENT.job_role_arn,
    **{f"{name}Function.Arn": f"arn:aws:lambda:eu-central-1:{ACCOUNT}:function:{name}" for name in FUNCTIONS},
}
# Sid -> what Step Functions itself does with it, whatever the tasks are (its developer guide: logging to CloudWatch
# Logs, tracing with X-Ray).
BY_STEP_FUNCTIONS = {"DeliverLogs": "has log groups written", "TraceExecutions": "sends segments"}
# Its managed rule, by which a .sync task hears of an end: made with the state machine, which is refused without these
# (its developer guide, EMR Serverless).
WITH_THE_MACHINE = {"events:PutTargets", "events:PutRule", "events:DescribeRule"}


def asked(resource, data):
    """What a task asks permission for (Step Functions' developer guide, IAM policies of each service integration)."""
    if resource == START:
        start = {"applicationId": data["ApplicationId"], "executionRoleArn": data["ExecutionRoleArn"]}
        followed = {"applicationId": data["ApplicationId"], "jobRunId": "1"}
        runs = [
            one
            for operation, given in (("StartJobRun", start), ("GetJobRun", followed), ("CancelJobRun", followed))
            for one in asked_of("emr-serverless", operation, given)
        ]
        return [*runs, *((action, RULE, {}) for action in sorted(WITH_THE_MACHINE))]
    if resource in (GET, UPDATE):
        return asked_of("dynamodb", {GET: "GetItem", UPDATE: "UpdateItem"}[resource], data)
    return [("lambda:InvokeFunction", resource, {})]


def refused_by(role):
    def refused(resource, data):
        if all([role.allows(one) for one in asked(resource, data)]):
            return None
        return {
            START: "EMRServerless.AccessDeniedException",
            GET: "DynamoDB.AccessDeniedException",
            UPDATE: "DynamoDB.AccessDeniedException",
        }.get(resource, "Lambda.AWSLambdaException")

    return refused


def play(monkeypatch, without=None):
    """A look that finds a sync, a run to start, and a request to follow; the run's lane is still held once."""
    machine, role = Machine(monkeypatch), Role(ROLE, NAMES, without)
    machine.refused = refused_by(role)
    machine.planned(syncs=[SYNC], runs=[RUN], follow=open_request())
    machine.answers.update(lane=[HELD, FREE], follow=[{**NOTHING, "done": 1}])
    return machine.run(), Counter(machine.calls), role, machine


WHOLE = Counter(gather=1, plan=1, sync=1, remember=1, start=1, lane=2, supervise=1, follow=1)
DONE = {"done": 1, "failed": 0, "given_up": 0}
NOT_STARTED = (
    DONE,
    {**WHOLE, "start": 0},
    "the lane is looked at all the same, and supervise makes the start under its own role",
)
# What is taken away -> how the execution ends, what it called, and why that is right.
ENDINGS = {
    ("CallFunctions", "lambda:InvokeFunction", NAMES["PlanServicesFunction.Arn"]): (
        "NotPlanned",
        {},
        "an alarm watches failed executions",
    ),
    ("CallFunctions", "lambda:InvokeFunction", NAMES["SuperviseFunction.Arn"]): (
        DONE,
        {**WHOLE, "supervise": 0},
        "supervise's own schedule asks the same",
    ),
    ("CallFunctions", "lambda:InvokeFunction", NAMES["SyncCatalogFunction.Arn"]): (
        DONE,
        {**WHOLE, "sync": 0},
        "the table stays due, its error in the ledger",
    ),
    ("LookAtLanes", "dynamodb:GetItem"): (
        DONE,
        {**WHOLE, "lane": 0, "supervise": 0},
        "every look counts, the lane is left to supervise",
    ),
    ("RememberSyncs", "dynamodb:UpdateItem"): (DONE, {**WHOLE, "remember": 0}, "the table stays due"),
    **{
        (sid, action): NOT_STARTED
        for sid, action in [
            ("StartRuns", "emr-serverless:StartJobRun"),
            ("StartRuns", "emr-serverless:TagResource"),
            ("PassJobRole", "iam:PassRole"),
            ("WaitForRuns", "emr-serverless:GetJobRun"),
            ("WaitForRuns", "emr-serverless:CancelJobRun"),
        ]
    },
}


def test_every_task_is_allowed_and_nothing_is_allowed_that_no_task_asks_for():
    data = {
        "ApplicationId": ENVIRONMENT.application_id,
        "ExecutionRoleArn": ENVIRONMENT.job_role_arn,
        "TableName": "ledger",
        "Key": {"pk": {"S": "x"}},
    }
    called = {action for task in TASKS.values() for action, _, _ in asked(task["Resource"], data)}
    granted = {action for sid, action in Role(ROLE, NAMES).grants if sid not in BY_STEP_FUNCTIONS}
    assert called == granted


def test_the_machine_does_all_it_is_for_with_what_its_role_allows(monkeypatch):
    outcome, calls, role, _ = play(monkeypatch)
    assert (outcome, calls, role.denied) == (DONE, WHOLE, set())


@pytest.mark.parametrize("without", ENDINGS, ids=lambda one: " ".join(one[1:]))
def test_without_one_action_the_machine_ends_as_it_should(monkeypatch, without):
    outcome, calls, role, machine = play(monkeypatch, without)
    expected, called, _ = ENDINGS[without]
    assert (outcome, calls, role.denied) == (expected, Counter(called), {without[1]})
    if "SyncCatalog" in without[-1]:
        assert [
            given["ExpressionAttributeValues"][":failed"]["M"]["error"]["S"]
            for given in machine.inputs
            if ":failed" in given.get("ExpressionAttributeValues", {})
        ] == ["Lambda.AWSLambdaException"]


def test_every_allowed_action_is_removed_by_a_test_or_used_outside_the_tasks():
    taken = {(one[0], one[1]) for one in ENDINGS} | {("HearOfJobRuns", action) for action in WITH_THE_MACHINE}
    assert taken == {(sid, action) for sid, action in Role(ROLE, NAMES).grants if sid not in BY_STEP_FUNCTIONS}
