"""A failed first creation leaves nothing that blocks the next one, and a deleted stack leaves its data."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from emulation.aws import ministack_client
from ministack.services import dynamodb, s3, sqs
from support.sam_template import TEMPLATE

from sluice_cli.main import run
from sluice_cli.ops import standstill

ROOT = Path(__file__).resolve().parents[3]
KEPT = ("AWS::S3::Bucket", "AWS::S3::BucketPolicy", "AWS::DynamoDB::Table", "AWS::KMS::Key")
WITH = ("AWS::SQS::Queue", "AWS::SQS::QueuePolicy", "AWS::Events::Rule")  # what those name
BRONZE = "s-bronze-000000000000-eu-central-1"


@pytest.fixture
def cloudformation() -> Iterator[Any]:
    yield ministack_client("cloudformation")
    for service in (dynamodb, s3, sqs):
        service.reset()


def body(*, fails: bool = False) -> str:
    """The template's part that holds data, with a last resource that can't be created if it `fails`."""
    resources = {name: one for name, one in TEMPLATE["Resources"].items() if one["Type"] in (*KEPT, *WITH)}
    if fails:
        refused = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
        resources["Refused"] = {
            "Type": "AWS::IAM::Policy",
            "DependsOn": [name for name, one in resources.items() if one.get("Condition") in (None, "MakeBronze")],
            "Properties": {
                "PolicyName": "p",
                "Roles": ["no-such-role"],
                "PolicyDocument": {"Version": "2012-10-17", "Statement": [refused]},
            },
        }
    parts = {name: TEMPLATE[name] for name in ("AWSTemplateFormatVersion", "Parameters", "Conditions")}
    return json.dumps({**parts, "Resources": resources})


def settled(cloudformation: Any, stack: str) -> str:
    """The status of a stack when its operation has ended."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        status = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]
        if not status.endswith("_IN_PROGRESS"):
            return str(status)
    raise TimeoutError(stack)


def left() -> set[str]:
    """The buckets and tables that exist."""
    buckets = {bucket["Name"] for bucket in ministack_client("s3").list_buckets()["Buckets"]}
    return buckets | set(ministack_client("dynamodb").list_tables()["TableNames"])


@pytest.mark.long
def test_the_deployment_after_a_failed_first_one_succeeds(cloudformation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session = SimpleNamespace(region_name="eu-central-1", client=lambda service, **_: ministack_client(service))
    monkeypatch.setattr("sluice_aws.clients.boto3", SimpleNamespace(Session=lambda **_: session))
    monkeypatch.setattr(standstill, "POLL_S", 0.0)
    cloudformation.create_stack(StackName="s", TemplateBody=body(fails=True))
    assert settled(cloudformation, "s") == "ROLLBACK_COMPLETE" and left() == set()
    assert run(["--stack", "s", "standstill", "begin", "--before-deploy", str(ROOT / "template.yaml")]) == 0
    assert "s" not in {stack["StackName"] for stack in cloudformation.describe_stacks()["Stacks"]}
    cloudformation.create_stack(StackName="s", TemplateBody=body())
    assert settled(cloudformation, "s") == "CREATE_COMPLETE" and BRONZE in left()


def test_a_deleted_stack_leaves_its_data_and_the_policies_of_its_buckets(cloudformation: Any) -> None:
    made = cloudformation.create_stack(StackName="t", TemplateBody=body())["StackId"]
    assert settled(cloudformation, made) == "CREATE_COMPLETE"
    before = left()
    cloudformation.delete_stack(StackName=made)
    assert settled(cloudformation, made) == "DELETE_COMPLETE" and left() == before and len(before) == 4
    policy = ministack_client("s3").get_bucket_policy(Bucket=BRONZE.replace("s-", "t-", 1))["Policy"]
    assert [statement["Sid"] for statement in json.loads(policy)["Statement"]] == ["OnlyOverTls"]
