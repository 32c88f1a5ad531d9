"""`sluice adopt-bucket` on an emulated stack: the bucket's own notifications stay."""
import json

import botocore.client
import pytest
from emulated_stack import SHARED, cloudformation, stack, told  # noqa: F401

from sluice_cli.main import run

TOPIC = {"Id": "t", "TopicArn": "arn:aws:sns:eu-central-1:123456789012:t", "Events": ["s3:ObjectRemoved:*"]}


@pytest.fixture
def nobody_asks_the_destinations(monkeypatch):
    """The emulator asks whether destinations exist, and knows those of its own services alone."""
    real = botocore.client.BaseClient._make_api_call

    def call(self, operation, params):
        more = {"SkipDestinationValidation": True} if operation == "PutBucketNotificationConfiguration" else {}
        return real(self, operation, {**params, **more})

    monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", call)


def test_the_buckets_own_configuration_is_read_added_to_and_written_back(stack, capsys, nobody_asks_the_destinations):  # noqa: F811
    queue = SHARED.client("sqs").create_queue(QueueName="notices")["QueueUrl"]
    cloudformation().outputs = {**cloudformation().outputs, "QueueUrl": queue}
    stack.s3.put_bucket_notification_configuration(Bucket="s-bronze", NotificationConfiguration={"TopicConfigurations": [TOPIC]})
    assert run(["adopt-bucket", "--via", "queue", "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)["configuration"]
    assert "QueueConfigurations" not in stack.s3.get_bucket_notification_configuration(Bucket="s-bronze")
    assert [one["TopicArn"] for one in planned["TopicConfigurations"]] == ["arn:aws:sns:eu-central-1:123456789012:t"]
    assert run(["adopt-bucket", "--json"]) == 0
    assert told(capsys)["changed"]
    found = stack.s3.get_bucket_notification_configuration(Bucket="s-bronze")
    assert "EventBridgeConfiguration" in found and found["TopicConfigurations"][0]["TopicArn"] == "arn:aws:sns:eu-central-1:123456789012:t"


def test_another_way_than_the_two_is_a_wrong_command_line(stack):  # noqa: F811
    assert run(["adopt-bucket", "--via", "pigeon"]) == 2
