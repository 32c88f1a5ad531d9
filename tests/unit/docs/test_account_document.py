"""docs/account.md: its policies are valid, name actions that exist, and cover what the template and its roles need."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml
from support.sam_template import RESOURCES, of_type, statements

from sluice_deploy.template import read_template

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "examples" / "account"
PAGE = (ROOT / "docs" / "account.md").read_text(encoding="utf-8")
POLICIES = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
SERVICES = {"states": ("stepfunctions",), "dynamodb": ("dynamodb", "dynamodbstreams")}
# Actions that are no operation of their service, as the service authorization reference has them.
PERMISSIONS = re.compile(
    r"iam:PassRole|s3:(GetObjectVersion|ListBucketVersions|GetBucket\*|ListBucket|GetEncryptionConfiguration"
    r"|(Get|Put)LifecycleConfiguration|PutBucketNotification|PutBucketPublicAccessBlock|PutEncryptionConfiguration"
    r"|ListMultipartUploadParts)|dynamodb:ConditionCheckItem|kms:ReEncrypt(From|To)|lambda:InvokeFunction"
    r"|logs:(Create|Get|Update|Delete|List)LogDeliver(y|ies)|xray:GetSampling(Rules|Targets)"
)


@cache
def operations(service: str) -> frozenset[str]:
    session = botocore.session.get_session()
    models = [session.get_service_model(name) for name in SERVICES.get(service, (service,))]
    return frozenset(name for model in models for name in model.operation_names)


def actions(policy: Any) -> set[str]:
    listed = [one["Action"] for one in statements(policy)]
    return {action for one in listed for action in (one if isinstance(one, list) else [one])}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_names_actions_that_exist_and_fits_into_its_kind(name: str) -> None:
    policy = POLICIES[name]
    assert policy["Version"] == "2012-10-17"
    for action in sorted(actions(policy)):
        service, _, operation = action.partition(":")
        assert PERMISSIONS.fullmatch(action) or operation in operations(service), action
    limit = {"boundary": 6_144, "trust-policy": 2_048, "deploy-policy": 10_240}[name]
    assert len(re.sub(r"\s", "", json.dumps(policy))) <= limit


def test_the_boundary_is_what_the_roles_of_the_template_do() -> None:
    roles = of_type("AWS::IAM::Role").values()
    assert actions(POLICIES["boundary"]) == actions([role["Properties"]["Policies"] for role in roles])


def test_the_deployment_may_do_what_the_page_on_deploying_lists() -> None:
    deploying = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
    rows = deploying.partition("Who deploys acts")[2].partition("[Security]")[0]
    allowed = actions(POLICIES["deploy-policy"])
    for row in re.findall(
        r"^\| (?:the deployment|roles|queues, topic|the ledger|rules, table services) \| (.+) \|$", rows, re.M
    ):
        service = ""
        for word in re.findall(r"`([a-z0-9-]+:)?([A-Z]\w+)`", row.partition("the first time")[0]):
            service = word[0] or service
            if word[1] in ("DeleteStack", "Serverless"):
                continue  # `make delete` is for people
            assert any(fnmatchcase(service + word[1], action) for action in allowed), service + word[1]


def test_github_is_trusted_for_one_environment_of_one_repository() -> None:
    (statement,) = POLICIES["trust-policy"]["Statement"]
    assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    conditions = statement["Condition"]["StringEquals"]
    assert conditions == {
        "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
        "token.actions.githubusercontent.com:sub": "repo:OWNER/REPOSITORY:environment:prod",
    }
    workflow = yaml.safe_load((FOLDER / "github-deploy.yml").read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read", "id-token": "write"}
    assert workflow["jobs"]["deploy"]["environment"] == "prod"
    assert "secrets." not in json.dumps(workflow)


def test_another_accounts_bucket_admits_the_reads_of_the_stacks_roles() -> None:
    template = read_template(FOLDER / "bronze-of-another-account.yaml")["Resources"]
    reads = {
        action
        for name in ("JobRole", "AdmitRole", "ReconcileRole")
        for one in statements(RESOURCES[name]["Properties"]["Policies"])
        if "BronzeBucketName" in json.dumps(one.get("Resource"))
        for action in actions(one)
    }
    assert actions(template["BucketPolicy"]) == reads


def test_every_file_is_named_on_the_page() -> None:
    assert [path.name for path in FOLDER.iterdir() if path.name not in PAGE] == []
