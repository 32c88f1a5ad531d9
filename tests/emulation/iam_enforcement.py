"""Enforces the roles of template.yaml on every AWS call of a block, with the emulator's evaluation of policies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import ClientError
from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document
from support.sam_template import TEMPLATE

from emulation.aws import observing

ACCOUNT, REGION = "123456789012", "us-west-2"
Asked = tuple[str, str, Mapping[str, Any]]  # action, resource, what conditions ask about

_TRANSACT = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}
_S3 = {
    "PutObject": ("s3:PutObject", True),
    "HeadObject": ("s3:GetObject", True),
    "GetObject": ("s3:GetObject", True),
    "DeleteObject": ("s3:DeleteObject", True),
    "ListObjectsV2": ("s3:ListBucket", False),
    "ListObjectVersions": ("s3:ListBucketVersions", False),
    "GetBucketVersioning": ("s3:GetBucketVersioning", False),
}


def asked_of(service: str, operation: str, params: Mapping[str, Any]) -> list[Asked]:
    """What an AWS call asks permission for. An operation that isn't known here fails the test: it must be looked up."""
    if service == "s3":
        action, of_object = _S3[operation]
        if of_object and "VersionId" in params:
            action += "Version"
        return [(action, f"arn:aws:s3:::{params['Bucket']}" + (f"/{params['Key']}" if of_object else ""), {})]
    if service == "dynamodb":
        return [
            (f"dynamodb:{action}", resource, {"dynamodb:leadingkeys": keys})
            for action, resource, keys in _ledger(operation, params)
        ]
    if service == "emr-serverless":
        application = f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:/applications/{params['applicationId']}"
        resource = f"{application}/jobruns/{params['jobRunId']}" if "jobRunId" in params else application
        more: list[Asked] = []
        if operation == "StartJobRun":
            more = [
                ("iam:PassRole", params["executionRoleArn"], {"iam:passedtoservice": "emr-serverless.amazonaws.com"}),
                ("emr-serverless:TagResource", f"{application}/jobruns/new", {}),
            ]
        return [(f"emr-serverless:{operation}", resource, {}), *more]
    if service == "events" and operation == "PutEvents":
        return [
            ("events:PutEvents", f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/{entry['EventBusName']}", {})
            for entry in params["Entries"]
        ]
    if service == "glue":
        return [(f"glue:{operation}", f"arn:aws:glue:{REGION}:{ACCOUNT}:{place}", {}) for place in _catalog(params)]
    raise AssertionError(f"nobody said what {service} {operation} asks permission for")


def _catalog(params: Mapping[str, Any]) -> Iterator[str]:
    """What a call of Glue asks for: the resource itself and everything above it."""
    yield "catalog"
    if "DatabaseInput" in params:
        yield f"database/{params['DatabaseInput']['Name']}"
        return
    database = params["DatabaseName"]
    yield f"database/{database}"
    table = params.get("TableName") or params.get("Name") or params.get("TableInput", {}).get("Name") or "*"
    yield f"table/{database}/{table}"


def _ledger(operation: str, params: Mapping[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    def arn(table: str) -> str:
        return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}"

    if operation == "TransactWriteItems":
        for item in params["TransactItems"]:
            ((kind, summary),) = item.items()
            yield _TRANSACT[kind], arn(summary["TableName"]), [(summary.get("Key") or summary["Item"])["pk"]["S"]]
    elif operation == "BatchGetItem":
        for table, summary in params["RequestItems"].items():
            yield operation, arn(table), [key["pk"]["S"] for key in summary["Keys"]]
    else:
        key = (params.get("Key") or params.get("Item") or {}).get("pk", {}).get("S")
        values = (
            [key]
            if key
            else [value["S"] for value in params.get("ExpressionAttributeValues", {}).values() if "S" in value][:1]
        )
        yield (
            operation,
            arn(params["TableName"]) + (f"/index/{params['IndexName']}" if "IndexName" in params else ""),
            values,
        )


class Role:
    """One role's policy with the template's functions filled in, and what was asked of it."""

    def __init__(
        self, name: str, names: Mapping[str, str], without: tuple[str, ...] | None = None, within: str | None = None
    ) -> None:
        """`within` is the session policy that narrows the role, as JSON.

        `without` is the Sid and the action that are taken away, and the one resource that they are taken from if not
        from all.
        """
        document = _filled(TEMPLATE["Resources"][name]["Properties"]["Policies"][0]["PolicyDocument"], names)
        self.document = {
            **document,
            "Statement": [_less(one, without) for one in document["Statement"] if one is not None],
        }
        self.document["Statement"] = [one for one in self.document["Statement"] if one["Action"]]
        self._parsed = [parse_policy_document(self.document)]
        self._within = [] if within is None else [[parse_policy_document(json.loads(within))]]
        self.denied: set[str] = set()
        self.used: set[str] = set()

    @property
    def grants(self) -> list[tuple[str, str]]:
        """Sid and action of everything allowed."""
        return [(one["Sid"], action) for one in self.document["Statement"] for action in _listed(one["Action"])]

    def allows(self, asked: Asked) -> bool:
        action, resource, keys = asked
        context = EvalContext(
            f"arn:aws:sts::{ACCOUNT}:assumed-role/r/f",
            "AssumedRole",
            ACCOUNT,
            action,
            resource,
            REGION,
            service_context=dict(keys),
        )
        self.used.add(action)
        allowed: bool = evaluate(context, self._parsed, *self._within).decision == "Allow"
        if not allowed:
            self.denied.add(action)
        return allowed


@contextmanager
def enforced(role: Role) -> Iterator[Role]:
    """Every AWS call of the block is made as `role`: what it may not do is answered as AWS answers."""

    def check(model: Any, params: dict[str, Any]) -> None:
        service = model.service_model.service_name
        if not all([role.allows(asked) for asked in asked_of(service, model.name, params)]):
            code = "AccessDenied" if service == "s3" else "AccessDeniedException"
            raise ClientError(
                {"Error": {"Code": code, "Message": "not allowed"}, "ResponseMetadata": {"HTTPStatusCode": 403}},
                model.name,
            )

    with observing(check):
        yield role


def _less(statement: dict[str, Any], without: tuple[str, ...] | None) -> dict[str, Any]:
    if without is None or statement["Sid"] != without[0]:
        return {**statement, "Action": _listed(statement["Action"])}
    if len(without) > 2:
        return {
            **statement,
            "Action": _listed(statement["Action"]),
            "Resource": [resource for resource in _listed(statement["Resource"]) if resource != without[2]],
        }
    return {**statement, "Action": [action for action in _listed(statement["Action"]) if action != without[1]]}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _filled(node: Any, names: Mapping[str, str]) -> Any:
    """A part of the template with what `names` says in place of references; conditions are not met, and what only they
    let in is None.
    """
    if isinstance(node, list):
        return [_filled(item, names) for item in node]
    if not isinstance(node, dict):
        return node
    if len(node) == 1:
        ((function, value),) = node.items()
        if function == "Ref":
            return None if value == "AWS::NoValue" else names[value]
        if function == "Fn::GetAtt":
            return names[".".join(value)]
        if function == "Fn::If":
            return _filled(value[2], names)
        if function == "Fn::Select":
            return _filled(value[1], names)[value[0]]
        if function == "Fn::Split":
            return str(_filled(value[1], names)).split(value[0])
        if function == "Fn::Sub":
            text, more = (value, {}) if isinstance(value, str) else value
            values = {**names, **{name: _filled(one, names) for name, one in more.items()}}
            return re.sub(r"\$\{([^}]+)\}", lambda match: values[match[1]], text)
    return {name: _filled(value, names) for name, value in node.items()}
