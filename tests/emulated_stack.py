"""A deployed stack for tests of the commands: S3, DynamoDB and CloudFormation on an emulator."""
import json
from functools import cache

import boto3
import pytest
from emulated_aws import emulated_aws
from ledger_table_schema import create_ledger_table

from sluice import ledger_items as items
from sluice.identity import ObjectId
from sluice.ledger_records import AdmittedObject
from sluice_aws.ledger import Ledger
from sluice_cli import supervising

REGION = "eu-central-1"
NOW = 1_700_000_000_000
BUCKETS = {"BronzeBucket": "s-bronze", "SilverBucket": "s-silver", "ArtifactBucket": "s-artifacts"}


@cache
def client(service):
    """Not the commands' own. Made once: that costs more than most tests do with it."""
    return boto3.client(service, region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")


class Stack:
    """A deployed stack, and what its parts would have written."""

    def __init__(self):
        self.s3, self.dynamodb = client("s3"), client("dynamodb")
        for bucket in BUCKETS.values():
            self.s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        self.s3.put_bucket_versioning(Bucket="s-bronze", VersioningConfiguration={"Status": "Enabled"})
        create_ledger_table(self.dynamodb, "s-ledger")
        outputs = {**BUCKETS, "LedgerTable": "s-ledger", "Release": "none", "SuperviseFunction": "s-supervise"}
        template = {"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}, "Outputs": {name: {"Value": value} for name, value in outputs.items()}}
        template["Outputs"]["DeadLetterQueueUrl"] = {"Value": {"Ref": "Q"}}
        client("cloudformation").create_stack(StackName="s", TemplateBody=json.dumps(template))
        self.ledger = Ledger(self.dynamodb, "s-ledger")

    def write(self, key, body=b"x"):
        return ObjectId("s-bronze", key, self.s3.put_object(Bucket="s-bronze", Key=key, Body=body)["VersionId"])

    def admit(self, identity, state=items.PENDING, table="crm.user", topic="crm.public.user", lane="main", **more):
        self.ledger.admit(AdmittedObject(identity, state, NOW, size=1, table=table, topic=topic, lane=lane, format="avro", noticed_at=NOW, **more))
        return identity


@pytest.fixture
def stack(monkeypatch, tmp_path):
    for name, value in {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION, "SLUICE_STACK": "s"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SLUICE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    with emulated_aws():
        yield Stack()


@pytest.fixture
def invoked(monkeypatch):
    """The names of the functions that were invoked."""
    names = []

    class Lambda:
        def invoke(self, FunctionName, InvocationType, Payload):
            names.append((FunctionName, InvocationType))

    whole = supervising.Target.client
    monkeypatch.setattr(supervising.Target, "client", lambda self, service: Lambda() if service == "lambda" else whole(self, service))
    return names


def told(capsys):
    """What a command printed with --json."""
    return json.loads(capsys.readouterr().out)
