"""`sluice ops adopt-bucket` on an emulated stack: the bucket's own notifications stay."""

import json

import pytest
from botocore.exceptions import ClientError
from emulation.stack import SHARED, cloudformation

from sluice_cli.ops import adopt_bucket, checks
from sluice_cli.ops.adopt_bucket import region_of

TOPIC = {"Id": "t", "TopicArn": "arn:aws:sns:eu-central-1:123456789012:t", "Events": ["s3:ObjectRemoved:*"]}


@pytest.fixture
def queue(stack):
    """The stack's queue of notices."""
    url = SHARED.client("sqs").create_queue(QueueName="notices")["QueueUrl"]
    cloudformation().outputs = {**cloudformation().outputs, "QueueUrl": url}


def test_the_buckets_own_configuration_is_read_added_to_and_written_back(stack, queue, sluice):
    cloudformation().parameters = {"BronzeBucketName": "s-bronze"}
    stack.s3.put_bucket_notification_configuration(
        Bucket="s-bronze", NotificationConfiguration={"TopicConfigurations": [TOPIC]}, SkipDestinationValidation=True
    )
    planned = json.loads(sluice("ops adopt-bucket --via queue --dry-run").out)["configuration"]
    assert "QueueConfigurations" not in stack.s3.get_bucket_notification_configuration(Bucket="s-bronze")
    assert [one["TopicArn"] for one in planned["TopicConfigurations"]] == ["arn:aws:sns:eu-central-1:123456789012:t"]
    assert sluice.json("ops adopt-bucket")["changed"]
    configuration = stack.s3.get_bucket_notification_configuration(Bucket="s-bronze")
    assert "EventBridgeConfiguration" in configuration
    assert configuration["TopicConfigurations"][0]["TopicArn"] == "arn:aws:sns:eu-central-1:123456789012:t"


QUEUE = "arn:aws:sqs:eu-central-1:123456789012:s-Notices-deleted"
DEAD = {"Id": "old", "QueueArn": QUEUE, "Events": ["s3:ObjectCreated:*"]}


def notices(sluice):
    """What doctor says of them."""
    (finding,) = [item for item in sluice.json("doctor", code=None) if item["about"] == "bronze notices"]
    return finding["result"], finding.get("advice")


def test_a_bucket_left_by_a_deleted_stack_notifies_the_new_stack(stack, queue, sluice):
    cloudformation().parameters = {"BronzeBucketName": "s-bronze"}
    dead = {"Bucket": "s-bronze", "NotificationConfiguration": {"QueueConfigurations": [DEAD]}}
    stack.s3.put_bucket_notification_configuration(**dead, SkipDestinationValidation=True)
    with pytest.raises(ClientError):  # as S3 answers whoever writes back what is there
        stack.s3.put_bucket_notification_configuration(**dead)
    assert notices(sluice) == ("warn", "`sluice ops adopt-bucket`")
    sluice("ops adopt-bucket")
    assert notices(sluice)[0] == "ok"
    configuration = stack.s3.get_bucket_notification_configuration(Bucket="s-bronze")
    assert QUEUE in [one["QueueArn"] for one in configuration["QueueConfigurations"]]


def test_the_stacks_own_bucket_has_no_eventbridge_rule(stack, queue, sluice):
    stack.s3.put_bucket_notification_configuration(
        Bucket="s-bronze", NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    assert notices(sluice) == ("warn", "`sluice ops adopt-bucket`")
    assert "no rule of EventBridge" in sluice("ops adopt-bucket --via eventbridge", code=1).err
    sluice("ops adopt-bucket")
    assert notices(sluice)[0] == "ok"


def test_adopting_fails_without_a_queue_and_tries_no_other_way(stack, sluice):
    assert "no output QueueUrl" in sluice("ops adopt-bucket --via queue", code=1).err
    assert "EventBridgeConfiguration" not in stack.s3.get_bucket_notification_configuration(Bucket="s-bronze")


@pytest.fixture
def elsewhere(stack, monkeypatch):
    """Buckets of another Region."""
    for module in (adopt_bucket, checks):
        monkeypatch.setattr(module, "region_of", lambda s3, bucket: "us-west-2")


def test_the_region_of_a_bucket_is_what_s3_says_of_it(stack):
    assert region_of(stack.s3, "s-bronze") == "eu-central-1"


def test_a_bucket_of_another_region_is_not_adopted(stack, elsewhere, sluice):
    cloudformation().parameters = {"BronzeBucketName": "s-bronze"}
    assert "s-bronze is in us-west-2 and the stack in eu-central-1" in sluice("ops adopt-bucket", code=1).err
    assert "EventBridgeConfiguration" not in stack.s3.get_bucket_notification_configuration(Bucket="s-bronze")


def test_doctor_fails_buckets_of_another_region(stack, elsewhere, sluice):
    by_about = {item["about"]: item["result"] for item in sluice.json("doctor", code=None)}
    assert [by_about[about] for about in ("bronze region", "silver bucket", "artifact bucket")] == ["fail"] * 3
