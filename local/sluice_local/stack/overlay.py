"""Turns template.yaml into a template that an emulator can deploy, and lists the differences.

No emulator knows AWS::EMRServerless::Application: the stand-in's application replaces it. None knows the SDK
integration `emrserverless:getJobRun`: a function replaces it. All differences are made here, so that a test can check
the list. Settings that have a parameter use it and make no difference.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice_deploy.template import APPLICATION

FUNCTION = "AWS::Serverless::Function"
STATE_MACHINE = "AWS::StepFunctions::StateMachine"
JOB_RUN_TASK = "aws-sdk:emrserverless:getJobRun"
STAND_IN_TASK = "GetJobRunFunction"
_IN_SUB = re.compile(r"\$\{([A-Za-z0-9]+)(\.[A-Za-z0-9.]+)?\}")


@dataclass(frozen=True)
class Surroundings:
    """The emulated stack's replacements of AWS.

    Without a bucket, code and definitions stay in place for `sam build`.
    """

    application_id: str
    application_arn: str
    emr_endpoint: str
    code_bucket: str = ""
    code_key: str = ""
    definition_keys: Mapping[str, str] = field(
        default_factory=dict
    )  # of the state machines by logical id, in the same bucket
    admit_concurrency: int = 2  # each is a Python process here; 2 is also Lambda's minimum


@dataclass(frozen=True)
class Difference:
    """A difference of two templates: the path, and the value in each, or None."""

    path: str
    original: Any
    overlaid: Any


def overlay(template: Mapping[str, Any], surroundings: Surroundings) -> dict[str, Any]:
    """A copy of `template` that an emulator can deploy."""
    result = copy.deepcopy(dict(template))
    resources = result["Resources"]
    applications = {name for name, resource in resources.items() if resource["Type"] == APPLICATION}
    for name in {*applications, *(name for name, one in resources.items() if "Metrics" in one.get("Properties", {}))}:
        del resources[name]  # MiniStack refuses alarms on an expression
    result = _without(result, applications, surroundings)
    functions = result["Globals"]["Function"]
    if surroundings.code_bucket:
        for resource in result["Resources"].values():
            if resource["Type"] == FUNCTION:
                resource["Properties"]["CodeUri"] = {"Bucket": surroundings.code_bucket, "Key": surroundings.code_key}
    functions["Environment"]["Variables"]["AWS_ENDPOINT_URL_EMR_SERVERLESS"] = surroundings.emr_endpoint
    for resource in result["Resources"].values():
        if resource.get("DeletionPolicy") == "RetainExceptOnCreate":
            resource["DeletionPolicy"] = "Retain"  # LocalStack would delete the data with the stack
        for event in resource.get("Properties", {}).get("Events", {}).values() if resource["Type"] == FUNCTION else ():
            if event["Type"] == "SQS":
                event["Properties"]["ScalingConfig"] = {"MaximumConcurrency": surroundings.admit_concurrency}
    _replace_tasks(result["Resources"], surroundings)
    return result


def state_machines(template: Mapping[str, Any]) -> dict[str, str]:
    """The file of each state machine's definition, by logical id."""
    return {
        name: resource["Properties"]["DefinitionS3Location"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == STATE_MACHINE
    }


def _replace_tasks(resources: dict[str, Any], surroundings: Surroundings) -> None:
    """Use packed definitions of state machines, and a function in place of tasks that ask for a job run."""
    asks = False
    for name in [name for name, resource in resources.items() if resource["Type"] == STATE_MACHINE]:
        properties = resources[name]["Properties"]
        if surroundings.code_bucket:
            properties["DefinitionS3Location"] = {
                "Bucket": surroundings.code_bucket,
                "Key": surroundings.definition_keys[name],
            }
        for placeholder, value in properties["DefinitionSubstitutions"].items():
            if JOB_RUN_TASK in json.dumps(value):
                properties["DefinitionSubstitutions"][placeholder] = {"Fn::GetAtt": [STAND_IN_TASK, "Arn"]}
                asks = True
    if asks:
        code = (Path(__file__).parent / "get_job_run.py").read_text(encoding="utf-8")
        resources[STAND_IN_TASK] = {
            "Type": FUNCTION,
            "Properties": {
                "InlineCode": code,
                "Handler": "index.handler",
                "Timeout": 30,
                "Role": {"Fn::GetAtt": ["SuperviseRole", "Arn"]},
            },
        }


def differences(original: Any, overlaid: Any, path: str = "") -> Iterator[Difference]:
    """All differences of two templates, at the deepest paths."""
    if isinstance(original, dict) and isinstance(overlaid, dict):
        for key in sorted({*original, *overlaid}):
            below = f"{path}.{key}" if path else key
            if key not in overlaid or key not in original:
                yield Difference(below, original.get(key), overlaid.get(key))
            else:
                yield from differences(original[key], overlaid[key], below)
    elif isinstance(original, list) and isinstance(overlaid, list) and len(original) == len(overlaid):
        for index, (one, other) in enumerate(zip(original, overlaid)):
            yield from differences(one, other, f"{path}[{index}]")
    elif original != overlaid:
        yield Difference(path, original, overlaid)


def _without(node: Any, applications: set[str], surroundings: Surroundings) -> Any:
    """Replace every reference to an application by the stand-in's id or ARN."""
    if isinstance(node, list):
        return [_without(item, applications, surroundings) for item in node]
    if not isinstance(node, dict):
        return node
    if len(node) == 1:
        if node.get("Ref") in applications:
            return surroundings.application_id
        attribute = node.get("Fn::GetAtt")
        if isinstance(attribute, str):
            attribute = attribute.split(".", 1)
        if attribute and attribute[0] in applications:
            return surroundings.application_arn if attribute[1] == "Arn" else surroundings.application_id
        if isinstance(node.get("Fn::Sub"), str):
            return {"Fn::Sub": _substituted(node["Fn::Sub"], applications, surroundings)}
        if isinstance(node.get("Fn::Sub"), list):
            text, values = node["Fn::Sub"]
            return {
                "Fn::Sub": [
                    _substituted(text, applications, surroundings),
                    _without(values, applications, surroundings),
                ]
            }
    result = {key: _without(value, applications, surroundings) for key, value in node.items()}
    needed = result.get("DependsOn")
    if isinstance(needed, str) and needed in applications:
        del result["DependsOn"]
    elif isinstance(needed, list):
        result["DependsOn"] = [name for name in needed if name not in applications]
    return result


def _substituted(text: str, applications: set[str], surroundings: Surroundings) -> str:
    def value(match: re.Match[str]) -> str:
        if match.group(1) not in applications:
            return match.group(0)
        return surroundings.application_arn if match.group(2) == ".Arn" else surroundings.application_id

    return _IN_SUB.sub(value, text)
