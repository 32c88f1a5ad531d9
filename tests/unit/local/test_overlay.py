"""The local deployment changes only these properties of template.yaml."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sluice_deploy.template import APPLICATION, read_template
from sluice_local.stack.overlay import Difference, Surroundings, differences, overlay

SURROUNDINGS = Surroundings(
    "00fapplication00",
    "arn:aws:emr-serverless:us-east-1:000000000000:/applications/00fapplication00",
    "http://127.0.0.1:1",
    "code",
    "functions/1.zip",
    {"TableServices": "definitions/1.json"},
)

# Path -> why an emulator needs it. Every path that is not matched by one of these fails the test below, and so does one
# that matches nothing.
ALLOWED = {
    r"Resources\.(StartsFail|RulesFail|DeadLetters|Quarantine|LostObjects|"
    r"FunctionErrors)Alarm": "MiniStack refuses expressions",
    r"Resources\.SparkApplication": "no emulator knows AWS::EMRServerless::Application: the stand-in makes one",
    r"Outputs\.ApplicationId\.Value\.Fn::If\[1\]": "the stand-in's id",
    r"Globals\.Function\.Environment\.Variables\.APPLICATION_ID\.Fn::If\[1\]": "the stand-in's id",
    r"Resources\.SuperviseFunction\.Properties\.Events\.JobRun(State|Billed)\.Properties\.Pattern\.detail\."
    r"applicationId\[0\]\.Fn::If\[1\]": "the stand-in's id",
    r"Resources\.JobRole\.Properties\.AssumeRolePolicyDocument\.Statement\[\d+\]\.Condition\.ArnLike\."
    r"aws:SourceArn\.Fn::Sub\[1\]\.Id\.Fn::If\[1\]": "the stand-in's id",
    r"Resources\.(Admit|Supervise|Reconcile|PlanServices|TableServices)Role\.Properties\.Policies\[0\]\.PolicyDocument\."
    r"Statement\[\d+\]\.Resource(\[\d+\])?\.Fn::Sub\[1\]\.Id\.Fn::If\[1\]": "the stand-in's id",
    r"Resources\.DataKey\.Properties\.KeyPolicy\.Statement\[\d+\]\.Condition\.ArnLike\."
    r"aws:SourceArn\.Fn::Sub\[1\]\.Id\.Fn::If\[1\]": "the stand-in's id",
    r"Resources\.TableServices\.Properties\.DefinitionS3Location": "as `sam package`: the definition in a bucket",
    r"Resources\.TableServices\.Properties\.DefinitionSubstitutions\.Application\.Fn::If\[1\]": "the stand-in's id",
    r"Resources\.TableServices\.Properties\.DefinitionSubstitutions\.GetJobRun\.Fn::(Sub|"
    r"GetAtt)": "no emulator knows EMR Serverless: a function asks the stand-in",
    r"Resources\.GetJobRunFunction": "the function that asks the stand-in",
    r"Resources\.\w+Function\.Properties\.CodeUri": "what `sam package` does: the functions' zip in a bucket",
    r"Globals\.Function\.Environment\.Variables\.AWS_ENDPOINT_URL_EMR_SERVERLESS": "where the stand-in listens",
    r"Resources\.[A-Za-z]+\.DeletionPolicy": "LocalStack deletes what RetainExceptOnCreate names with the stack",
    r"Resources\.AdmitFunction\.Properties\.Events\.Notices\.Properties\.ScalingConfig\."
    r"MaximumConcurrency": "each concurrent call is a process of its own on this machine",
}


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return read_template(Path(__file__).resolve().parents[3] / "template.yaml")


@pytest.fixture(scope="module")
def differing(template: dict[str, Any]) -> list[Difference]:
    return list(differences(template, overlay(template, SURROUNDINGS)))


@pytest.mark.long
def test_every_difference_is_allowed(differing: list[Difference]) -> None:
    assert [one for one in differing if not any(re.fullmatch(pattern, one.path) for pattern in ALLOWED)] == []


def test_every_allowance_is_used(differing: list[Difference]) -> None:
    assert [pattern for pattern in ALLOWED if not any(re.fullmatch(pattern, one.path) for one in differing)] == []


def test_references_differ_by_the_application_alone(differing: list[Difference]) -> None:
    for one in differing:
        if one.path.endswith("Fn::If[1]"):
            assert (one.original, one.overlaid) == ({"Ref": "SparkApplication"}, SURROUNDINGS.application_id)


def test_nothing_names_the_application_any_more(template: dict[str, Any]) -> None:
    text = json.dumps(overlay(template, SURROUNDINGS))
    assert "SparkApplication" not in text
    assert APPLICATION not in text


def is_function(resource: dict[str, Any]) -> bool:
    return resource["Type"] == "AWS::Serverless::Function"


def test_without_a_bucket_code_stays_for_sam_to_build_and_functions_name_their_own(template: dict[str, Any]) -> None:
    made = overlay(template, Surroundings("id", "arn", "http://e"))
    places = {name: one["Properties"].get("CodeUri") for name, one in made["Resources"].items() if is_function(one)}
    # In Globals `sam delete` would look for a bucket in it where a function has inline code.
    assert "CodeUri" not in made["Globals"]["Function"]
    written = template["Resources"]["AdmitFunction"]["Properties"]["CodeUri"]
    assert {name for name, place in places.items() if place != written} == {"GetJobRunFunction"}
    services = [one["Resources"]["TableServices"]["Properties"] for one in (made, template)]
    assert services[0]["DefinitionS3Location"] == services[1]["DefinitionS3Location"]


def test_the_template_itself_is_left_as_it_was(template: dict[str, Any]) -> None:
    before = json.dumps(template, sort_keys=True)
    overlay(template, SURROUNDINGS)
    assert json.dumps(template, sort_keys=True) == before
