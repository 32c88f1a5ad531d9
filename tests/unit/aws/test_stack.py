"""The choice of the stack that a verb works on, and how readers reach its silver bucket."""

import json
from pathlib import Path

import pytest

from sluice.errors import NoTarget
from sluice_aws.stack import Target, _outputs, find_target, local_file, local_target
from sluice_cli.ingest.put import joined

DESCRIPTION = {
    "stack": "sluice-local",
    "region": "us-east-1",
    "endpoint": "http://127.0.0.1:1",
    "emr_endpoint": "http://127.0.0.1:2",
    "buckets": {"bronze": "b", "silver": "s", "artifacts": "a"},
    "ledger": "l",
    "credentials": {"access_key_id": "k", "secret_access_key": "x"},
}


@pytest.fixture
def described(tmp_path):
    file = tmp_path / ".sluice" / "local.json"
    file.parent.mkdir()
    file.write_text(json.dumps(DESCRIPTION))
    return file


def test_a_local_stack_is_found_from_a_folder_below_it(described, tmp_path):
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert local_file({}, below) == described
    target = find_target(None, {}, below)
    expected = ("local", "b", "l", "local stack sluice-local at http://127.0.0.1:1")
    assert (target.kind, target.bronze, target.ledger_table, target.described) == expected


def test_sluice_home_names_the_folder_and_no_other_is_searched(described, tmp_path):
    assert local_file({"SLUICE_HOME": str(described.parent)}, Path("/")) == described
    assert local_file({"SLUICE_HOME": str(tmp_path / "other")}, tmp_path) is None


def test_hudi_rs_is_given_the_emulator_with_its_buckets_in_the_path(described):
    target = local_target(described)
    assert target.silver_url == "s3://s"
    assert target.storage_options() == {
        "aws_region": "us-east-1",
        "aws_access_key_id": "k",
        "aws_secret_access_key": "x",
        **dict.fromkeys(("aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3"), "http://127.0.0.1:1"),
        "aws_allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
    }


def test_a_local_stack_needs_no_aws_profile(described, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    target = local_target(described)
    assert target.client("dynamodb").meta.endpoint_url == "http://127.0.0.1:1"
    assert target.storage_options()["aws_access_key_id"] == "k"


@pytest.fixture
def deployed_in(monkeypatch):
    """A stack deployed in a Region."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, f"my-{name}")
    names = {"stack": "s", "bronze": "b", "silver": "s", "artifacts": "a", "ledger_table": "l", "described": "s"}
    return lambda region: Target(kind="deployed", region=region, **names)


@pytest.mark.parametrize("region", ["eu-central-1", "us-east-1", "us-gov-west-1"])
def test_no_endpoint_is_given_for_aws_itself(deployed_in, region):
    assert deployed_in(region).storage_options() == {
        "aws_region": region,
        "aws_access_key_id": "my-AWS_ACCESS_KEY_ID",
        "aws_secret_access_key": "my-AWS_SECRET_ACCESS_KEY",
        "aws_session_token": "my-AWS_SESSION_TOKEN",
    }


@pytest.mark.parametrize(
    "region, endpoint",
    [
        ("cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn"),
        ("eusc-de-east-1", "https://s3.eusc-de-east-1.amazonaws.eu"),
    ],
)
def test_hudi_rs_is_given_the_endpoint_of_a_region_with_a_domain_of_its_own(deployed_in, region, endpoint):
    options = deployed_in(region).storage_options()
    assert {options[name] for name in ("aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3")} == {endpoint}
    assert (options["aws_allow_http"], options["aws_virtual_hosted_style_request"]) == ("false", "false")


def test_hudi_rs_asks_the_endpoint_that_boto3_was_given_for_s3_alone(deployed_in, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://bucket.vpce-1.s3.eu-central-1.vpce.amazonaws.com")
    assert deployed_in("eu-central-1").storage_options()["aws_endpoint"].startswith("https://bucket.vpce-1.s3.")


def test_hudi_rs_is_given_the_endpoint_of_the_region_for_fips(deployed_in, monkeypatch):
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")
    assert deployed_in("us-east-1").storage_options()["aws_endpoint"] == "https://s3-fips.us-east-1.amazonaws.com"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"stack": "x"}'])
def test_a_file_that_describes_no_stack_is_reported(described, text):
    described.write_text(text)
    with pytest.raises(NoTarget, match="sluice local up"):
        local_target(described)


@pytest.mark.parametrize(
    ("prefix", "key"), [("", "a/b"), ("topics", "topics/a/b"), ("topics/", "topics/a/b"), ("topics//", "topics/a/b")]
)
def test_a_prefix_is_joined_with_exactly_one_slash(prefix, key):
    assert joined(prefix, "a/b") == key


@pytest.mark.parametrize(
    "verb", ["put", "wait", "status", "query", "pause", "resume", "doctor", "package", "local", "config"]
)
def test_every_verb_explains_itself(verb, sluice):
    out = sluice(verb, "--help").out
    assert "sluice" in out and "Traceback" not in out


def test_a_region_that_aws_cannot_have_is_named_before_any_call(monkeypatch, sluice):
    monkeypatch.setenv("AWS_REGION", "bad")
    assert sluice("--stack s status", code=5).err.splitlines() == [
        "error: 'bad' is not the name of an AWS Region",
        "next step: Set AWS_REGION, or the region of the AWS profile, to the stack's, such as eu-central-1",
    ]


def test_a_stack_whose_first_changeset_was_declined_does_not_exist_yet():
    class CloudFormation:
        def describe_stacks(self, StackName):
            return {"Stacks": [{"StackName": StackName, "StackStatus": "REVIEW_IN_PROGRESS"}]}

    with pytest.raises(NoTarget, match=r"There is no stack s in eu-west-1 yet.*Deploy again"):
        _outputs(CloudFormation(), "s", "eu-west-1")


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_name_of_a_stack_is_no_other_stack(empty, tmp_path):
    with pytest.raises(NoTarget, match="The name of the stack is empty"):
        find_target(empty, {"SLUICE_STACK": "other"}, tmp_path)
