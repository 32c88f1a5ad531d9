"""The emulator differs from AWS only as docs/evidence/emulators.md says; its notices still name the put object."""

import json
import os
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError
from judging.patience import patient
from judging.running_stack import REPOSITORY, RunningStack

from sluice.admission.notices import EVENTBRIDGE, S3, Notice, parse_body
from sluice.objects import ObjectId
from sluice_local.emulators.choose import Kind, chosen

KEY = "a b+c/é=1.avro"
CONTENT = b"0123456789"
COLUMN = {Kind.MINISTACK: 2, Kind.LOCALSTACK: 3}  # after what is compared, and AWS


def documented() -> dict[str, str]:
    """What the document says of the emulator at hand, by what is compared."""
    text = (REPOSITORY / "docs" / "evidence" / "emulators.md").read_text(encoding="utf-8")
    section = text.partition("## Seen by a test\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return {cells[0].strip(): cells[COLUMN[chosen(os.environ)]].strip() for cells in lines[1:]}


class Announced:
    """A versioned bucket with one key written twice, and a queue of S3's notices and EventBridge's events."""

    def __init__(self, stack: RunningStack) -> None:
        self.s3, self.sqs, self.events = (stack.target.client(service) for service in ("s3", "sqs", "events"))
        self.name = f"notices-{secrets.token_hex(4)}"
        self.queue = self.sqs.create_queue(QueueName=self.name)["QueueUrl"]
        arn = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        self.s3.create_bucket(Bucket=self.name)
        self.s3.put_bucket_versioning(Bucket=self.name, VersioningConfiguration={"Status": "Enabled"})
        self.s3.put_bucket_notification_configuration(
            Bucket=self.name,
            NotificationConfiguration={
                "QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}],
                "EventBridgeConfiguration": {},
            },
        )
        self.events.put_rule(
            Name=self.name, EventPattern=json.dumps({"source": ["aws.s3"], "detail": {"bucket": {"name": [self.name]}}})
        )
        self.events.put_targets(Rule=self.name, Targets=[{"Id": "queue", "Arn": arn}])
        self.versions = [self.s3.put_object(Bucket=self.name, Key=KEY, Body=CONTENT)["VersionId"] for _ in range(2)]
        self.bodies = self._received()

    def _received(self) -> list[str]:
        bodies: list[str] = []
        deadline = time.monotonic() + patient(60)
        while len(bodies) < 4:
            assert time.monotonic() < deadline, bodies
            answer = self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10, WaitTimeSeconds=1)
            for message in answer.get("Messages", ()):
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
                bodies += [] if "s3:TestEvent" in message["Body"] else [message["Body"]]
        return bodies

    def notices(self, via: str) -> list[Notice]:
        """The parsed notices, in the order of their versions; notices without a version come last."""
        notices = [notice for body in self.bodies for notice in parse_body(body).notices if notice.via == via]
        places = {version: place for place, version in enumerate(self.versions)}
        return sorted(notices, key=lambda notice: places.get(notice.id.version, len(places)))

    def describe(self, via: str) -> list[Any]:
        """The messages as they came."""
        messages = [json.loads(body) for body in self.bodies]
        if via == S3:
            return [message["Records"][0] for message in messages if "Records" in message]
        return [message for message in messages if "detail" in message]

    def close(self) -> None:
        self.events.remove_targets(Rule=self.name, Ids=["queue"])
        self.events.delete_rule(Name=self.name)
        self.s3.put_bucket_notification_configuration(Bucket=self.name, NotificationConfiguration={})


@pytest.fixture(scope="module")
def announced(stack: RunningStack) -> Iterator[Announced]:
    made = Announced(stack)
    yield made
    made.close()


def test_a_notice_of_s3_names_the_object_that_was_put_and_its_version(announced: Announced) -> None:
    assert [notice.id for notice in announced.notices(S3)] == [
        ObjectId(announced.name, KEY, version) for version in announced.versions
    ]
    assert {notice.size for notice in announced.notices(S3)} == {len(CONTENT)}


def test_what_the_document_says_of_the_emulator_is_what_it_does(announced: Announced) -> None:
    records, events = announced.describe(S3), announced.describe(EVENTBRIDGE)
    sequencers = [notice.sequencer or "" for notice in announced.notices(S3)]
    ranged = announced.s3.get_object(
        Bucket=announced.name, Key=KEY, VersionId=announced.versions[0], Range="bytes=0-3"
    )["Body"].read()
    assert ranged[:4] == CONTENT[:4]
    assert documented() == {
        "key `a b+c/é=1.avro` in a notice of S3": f"`{records[0]['s3']['object']['key']}`",
        "the same in an event of EventBridge": f"`{events[0]['detail']['object']['key']}`",
        "version in a notice of S3": presence("versionId" in records[0]["s3"]["object"]),
        "version in an event of EventBridge": presence("version-id" in events[0]["detail"]["object"]),
        "`sequencer` of a key's later version": "greater" if sequencers[0] < sequencers[1] else "the same",
        "`eventVersion` of a notice": str(records[0]["eventVersion"]),
        "`event-version` of an event": str(events[0]["detail"].get("event-version", "none")),
        "a ranged GET that names a version": "the range" if len(ranged) == 4 else "the whole object",
        "`PutEvents` with a source of AWS": "refused" if refuses_a_source_of_aws(announced) else "taken",
    }


def test_of_conditional_writes_at_once_to_one_item_one_succeeds(stack: RunningStack) -> None:
    """What the lane stands on: an emulator that breaks it would start two runs."""
    dynamodb, table = stack.target.client("dynamodb"), f"writes-{secrets.token_hex(4)}"
    dynamodb.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
    )
    dynamodb.get_waiter("table_exists").wait(TableName=table)

    def written(writer: int, key: str) -> bool:
        try:
            dynamodb.update_item(
                TableName=table,
                Key={"pk": {"S": key}},
                UpdateExpression="SET writer = :writer",
                ConditionExpression="attribute_not_exists(writer)",
                ExpressionAttributeValues={":writer": {"N": str(writer)}},
            )
        except dynamodb.exceptions.ConditionalCheckFailedException:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert [sum(pool.map(written, range(8), [key] * 8)) for key in "abcdef"] == [1] * 6


def presence(there: bool) -> str:
    return "named" if there else "not named"


def refuses_a_source_of_aws(announced: Announced) -> bool:
    try:
        answer = announced.events.put_events(
            Entries=[{"Source": "aws.emr-serverless", "DetailType": "a test", "Detail": "{}"}]
        )
    except ClientError:
        return True
    return answer["FailedEntryCount"] == 1
