"""An existing bucket keeps its notifications when it also notifies the stack."""

import pytest

from sluice_cli.ops.adopt_bucket import announces, with_stack

FILTER = {"Key": {"FilterRules": [{"Name": "prefix", "Value": "x/"}]}}
ARN = "arn:aws:sqs:eu-central-1:123456789012"
QUEUE = {"Id": "q", "QueueArn": f"{ARN}:q", "Events": ["s3:ObjectCreated:*"], "Filter": FILTER}
TOPIC = {"Id": "t", "TopicArn": "arn:aws:sns:eu-central-1:123456789012:t", "Events": ["s3:ObjectRemoved:*"]}
OTHERS = {"TopicConfigurations": [TOPIC], "QueueConfigurations": [QUEUE]}
REMOVALS = {"QueueConfigurations": [{"Id": "q", "QueueArn": "ours", "Events": ["s3:ObjectRemoved:*"]}]}


@pytest.mark.parametrize("arn", [None, f"{ARN}:notices"])
def test_all_else_stays_and_a_second_time_changes_nothing(arn):
    once = with_stack(OTHERS, "sluice-s", arn)
    assert with_stack(once, "sluice-s", arn) == once
    assert once["TopicConfigurations"] == OTHERS["TopicConfigurations"]
    assert once["QueueConfigurations"][0] == OTHERS["QueueConfigurations"][0]
    assert ("EventBridgeConfiguration" in once) is (arn is None)
    assert len(once["QueueConfigurations"]) == (1 if arn is None else 2)


@pytest.mark.parametrize(
    "configuration, queue, by_event_bus, does",
    [
        (OTHERS, f"{ARN}:q", False, True),
        (OTHERS, f"{ARN}:ours", True, False),
        (OTHERS, None, True, False),
        ({"EventBridgeConfiguration": {}}, None, True, True),
        ({"EventBridgeConfiguration": {}}, None, False, False),
        ({}, None, True, False),
        (REMOVALS, "ours", False, False),
    ],
)
def test_a_bucket_notifies_a_stack_through_its_queue_or_its_rule(configuration, queue, by_event_bus, does):
    assert announces(configuration, queue=queue, by_event_bus=by_event_bus) is does
