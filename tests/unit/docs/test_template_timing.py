"""The template's numbers agree: queues outlast functions, dead letters raise alarms, logs expire."""

from typing import Any

import pytest
from support.sam_template import RESOURCES, TEMPLATE, of_type

from sluice.admission.verdict import FORGET_AFTER_MS
from sluice.cost import Assumptions

FUNCTIONS, QUEUES, ALARMS = (
    {name: resource["Properties"] for name, resource in of_type(kind).items()}
    for kind in ("AWS::Serverless::Function", "AWS::SQS::Queue", "AWS::CloudWatch::Alarm")
)
SOURCES = [
    (name, event["Properties"])
    for name, function in FUNCTIONS.items()
    for event in function.get("Events", {}).values()
    if event["Type"] in ("SQS", "DynamoDB", "Kinesis")
]


def metrics_of(alarm: dict[str, Any]) -> list[dict[str, Any]]:
    """The metrics that an alarm watches, by itself or in an expression. Each is billed."""
    return [one["MetricStat"]["Metric"] for one in alarm.get("Metrics", ()) if "MetricStat" in one] or [alarm]


LONGEST_WINDOW_S = TEMPLATE["Parameters"]["BatchingWindow"]["MaxValue"]


def test_a_message_stays_hidden_for_six_timeouts_and_the_window() -> None:
    (source,) = [(name, source) for name, source in SOURCES if "Queue" in source]
    queue = QUEUES[source[1]["Queue"]["Fn::GetAtt"][0]]
    assert queue["VisibilityTimeout"] >= 6 * FUNCTIONS[source[0]]["Timeout"] + LONGEST_WINDOW_S


def test_a_dead_letter_queue_keeps_messages_as_long_as_its_source_does() -> None:
    read = {source["Queue"]["Fn::GetAtt"][0] for _, source in SOURCES if "Queue" in source}
    for name in read:
        redrive = QUEUES[name]["RedrivePolicy"]
        assert redrive["maxReceiveCount"] >= 5  # what Lambda's documentation asks for
        dead_letters = QUEUES[redrive["deadLetterTargetArn"]["Fn::GetAtt"][0]]
        assert dead_letters["MessageRetentionPeriod"] >= QUEUES[name]["MessageRetentionPeriod"]


@pytest.mark.parametrize("name", QUEUES)
def test_every_source_queue_alarms_on_age_and_every_other_queue_on_any_message(name: str) -> None:
    wanted = "AgeOfOldestMessage" if "RedrivePolicy" in QUEUES[name] else "NumberOfMessagesVisible"
    of_queue = [{"Name": "QueueName", "Value": {"Fn::GetAtt": [name, "QueueName"]}}]
    watched = [metric for alarm in ALARMS.values() for metric in metrics_of(alarm) if metric["Dimensions"] == of_queue]
    assert f"Approximate{wanted}" in [metric["MetricName"] for metric in watched]


def test_the_alarm_on_a_notices_age_follows_its_last_receive_and_precedes_its_loss() -> None:
    alarm, queue = ALARMS["NoticesAgeAlarm"], QUEUES["Notices"]
    last_receive = queue["VisibilityTimeout"] * queue["RedrivePolicy"]["maxReceiveCount"]
    assert last_receive < alarm["Threshold"] < queue["MessageRetentionPeriod"] / 100


@pytest.mark.parametrize("name, source", SOURCES)
def test_one_bad_message_or_record_does_not_bring_its_whole_batch_back(name: str, source: dict[str, Any]) -> None:
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert "FilterCriteria" not in source or "Queue" not in source  # what a queue's filter leaves out is deleted


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_logs_to_a_group_that_ends(name: str) -> None:
    group = RESOURCES[FUNCTIONS[name]["LoggingConfig"]["LogGroup"]["Ref"]]
    assert group["Properties"]["RetentionInDays"] == {"Ref": "LogRetentionDays"}


def test_a_failed_call_of_reconcile_is_kept_and_its_role_may_send_it() -> None:
    destination = FUNCTIONS["ReconcileFunction"]["EventInvokeConfig"]["DestinationConfig"]["OnFailure"]["Destination"]
    assert destination == {"Fn::GetAtt": ["Unreconciled", "Arn"]}
    (policy,) = RESOURCES["ReconcileRole"]["Properties"]["Policies"]
    sends = [one for one in policy["PolicyDocument"]["Statement"] if one.get("Resource") == destination]
    assert [one["Action"] for one in sends] == ["sqs:SendMessage"]


def test_the_cost_estimate_counts_the_templates_alarms() -> None:
    assert sum(len(metrics_of(alarm)) for alarm in ALARMS.values()) == Assumptions().alarms


def test_a_record_outlives_every_notice_of_its_object_also_a_redriven_one() -> None:
    """Else a late notice of a deleted object would be admitted anew."""
    day_ms = 86_400_000
    retention_ms = {name: QUEUES[name]["MessageRetentionPeriod"] * 1000 for name in QUEUES}
    once = max(retention_ms.values())  # SQS counts from the first send on, also in a dead-letter queue
    assert FORGET_AFTER_MS >= 2 * once + day_ms
    assert "FORGET_AFTER_SECONDS" not in str(TEMPLATE)
