"""Parameters of the template: what the network needs, what is refused, and a log level that keeps metrics."""

import logging
import re
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from support.sam_template import TEMPLATE

ROOT = Path(__file__).resolve().parents[3]
PARAMETERS: dict[str, dict[str, Any]] = TEMPLATE["Parameters"]
RULE_FUNCTIONS = {"Fn::And", "Fn::Equals", "Fn::Not", "Fn::Or"}
# The clients that functions make, and the job beside them, by the names of their services in descriptions.
ENDPOINTS = {
    "s3": "S3",
    "dynamodb": "DynamoDB",
    "emr_serverless": "EMR Serverless",
    "events": "EventBridge",
    "glue": "Glue",
}
ENDPOINTS_OF_THE_JOB = {"secretsmanager": "Secrets Manager"}
NEVER_CALLED = ("Step Functions", "CloudWatch", "X-Ray", "SQS", "STS")


def holds(node: Any, given: dict[str, str]) -> Any:
    """The value of a rule's expression, by the functions that CloudFormation supports in rules."""
    if not isinstance(node, dict):
        return node
    ((function, operands),) = node.items()
    if function == "Ref":
        return given.get(operands, PARAMETERS[operands].get("Default"))
    assert function in RULE_FUNCTIONS, function
    values = [holds(one, given) for one in operands]
    return {
        "Fn::And": lambda: all(values),
        "Fn::Equals": lambda: values[0] == values[1],
        "Fn::Not": lambda: not values[0],
        "Fn::Or": lambda: any(values),
    }[function]()


def refused(given: dict[str, str]) -> bool:
    """Whether CloudFormation refuses these parameters before it makes anything."""
    if any(not re.fullmatch(PARAMETERS[name].get("AllowedPattern", ".*"), value) for name, value in given.items()):
        return True
    return any(
        holds(rule.get("RuleCondition", True), given)
        and not all(holds(one["Assert"], given) for one in rule["Assertions"])
        for rule in TEMPLATE["Rules"].values()
    )


@pytest.mark.parametrize(
    "subnets, groups, functions, wrong",
    [
        ("", "", "false", False),
        ("subnet-0a1b", "sg-0a", "false", False),
        ("subnet-0a1b,subnet-2c3d", "sg-0a,sg-1b", "true", False),
        ("", "", "true", True),
        ("subnet-0a1b", "", "false", True),
        ("", "sg-0a", "false", True),
        (",", "sg-0a", "true", True),
        ("subnet-0a1b,", "sg-0a", "false", True),
        ("subnet-0a1b", ",", "false", True),
        ("vpc-0a1b", "sg-0a", "false", True),
    ],
)
def test_an_empty_or_half_given_network_is_refused_before_anything_is_made(
    subnets: str, groups: str, functions: str, wrong: bool
) -> None:
    given = {"SubnetIds": subnets, "SecurityGroupIds": groups, "FunctionsInVpc": functions}
    assert refused(given) is wrong


@pytest.mark.parametrize("one, other", [("Bronze", "Silver"), ("Silver", "Artifact"), ("Artifact", "Bronze")])
def test_one_bucket_for_two_purposes_is_refused(one: str, other: str) -> None:
    given = {f"{one}BucketName": "lake", f"{other}BucketName": "lake"}
    assert refused(given) and not refused({**given, f"{other}BucketName": "other"})


def test_the_network_needs_endpoints_of_the_services_that_are_called_and_no_other() -> None:
    functions, job = (
        "".join(path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py"))
        for folder in ("functions", "spark")
    )
    assert set(re.findall(r"\bclients\.(\w+)", functions)) - {"client", "session", "py"} == set(ENDPOINTS)
    assert set(re.findall(r"\bclients\.client\(\"(\w+)\"\)", job)) == set(ENDPOINTS_OF_THE_JOB)
    deploying = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
    section = deploying.partition("\n## Network\n")[2].partition("\n## ")[0]
    described = PARAMETERS["SubnetIds"]["Description"] + PARAMETERS["FunctionsInVpc"]["Description"]
    for text in (section, described):
        assert [name for name in (*ENDPOINTS.values(), *ENDPOINTS_OF_THE_JOB.values()) if name not in text] == []
        assert [name for name in NEVER_CALLED if name in text] == []


def test_lambda_drops_no_metric_whatever_the_log_level_is() -> None:
    """Lambda takes lines without a level, such as metrics, as INFO, and drops lines below ApplicationLogLevel."""
    assert TEMPLATE["Globals"]["Function"]["LoggingConfig"]["ApplicationLogLevel"] == "INFO"
    for resource in TEMPLATE["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            assert "ApplicationLogLevel" not in resource["Properties"].get("LoggingConfig", {})
    levels = PARAMETERS["LogLevel"]["AllowedValues"]
    assert all(logging.getLevelName(level) >= logging.INFO for level in levels), "Lambda would drop what is below"


def test_tags_of_job_runs_have_no_character_that_emr_serverless_refuses() -> None:
    model = botocore.session.get_session().get_service_model("emr-serverless")
    taken = [re.compile(model.shape_for(name).metadata["pattern"]) for name in ("TagKey", "TagValue")]
    pattern = PARAMETERS["JobRunTags"]["AllowedPattern"]
    allowed = {char for char in map(chr, range(32, 0x250)) if re.fullmatch(pattern, f"a{char}=b{char},c=d")}
    assert allowed >= set("aZ0 _.:/+@-"), "the tags of AWS's own examples"
    assert [char for char in sorted(allowed) if not all(one.fullmatch(char) for one in taken)] == []
