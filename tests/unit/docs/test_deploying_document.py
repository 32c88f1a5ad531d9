"""docs/deploying.md has every parameter, environment and permission, as template, samconfig.toml and code have them."""

import re
import runpy
from pathlib import Path

import tomllib
from support.sam_template import TEMPLATE, of_type

ROOT = Path(__file__).resolve().parents[3]
TOOL = runpy.run_path(str(ROOT / "tools" / "settings.py"))
PAGE = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
# The prefixes of actions, where they aren't the name of the resource type or of boto3's client.
PREFIXES = {"serverless": "lambda", "emrserverless": "emr-serverless", "stepfunctions": "states"}
WITHOUT_PERMISSION = {"sts"}  # GetCallerIdentity is always allowed


def section(heading: str) -> str:
    """The text under a heading of the second level."""
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_the_table_of_parameters_is_current():
    assert TOOL["deploying_page"](PAGE, TEMPLATE) == PAGE, "run `make documents`"
    assert "<!-- parameters -->" in section("Parameters")


def test_every_parameter_has_one_group_and_a_description():
    groups = TEMPLATE["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    assert sorted(name for group in groups for name in group["Parameters"]) == sorted(TEMPLATE["Parameters"])
    assert [name for name, one in TEMPLATE["Parameters"].items() if not one.get("Description")] == []


def test_a_change_that_stops_spark_is_marked():
    marked = re.findall(r"^\| `(\w+)` \|.*\*Stops Spark\.\* \|$", section("Parameters"), re.M)
    assert {"EmrRelease", "MaximumCpu", "IdleTimeoutMinutes", "SubnetIds"} <= set(marked)
    assert not {"Release", "LogLevel", "AlarmEmail", "HudiJars"} & set(marked)


def test_every_environment_is_named_with_its_stack():
    settings = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))
    rows = dict(re.findall(r"^\| (\S+) \| `([a-z-]+)` \|", section("Environments and CI"), re.M))
    del settings["version"]
    assert rows == {
        "none" if name == "default" else f"`{name}`": environment["global"]["parameters"]["stack_name"]
        for name, environment in settings.items()
    }
    asked = [name for name in settings if settings[name]["deploy"]["parameters"]["confirm_changeset"]]
    assert asked == ["prod"] and "asks before it makes them" in section("Environments and CI")


def test_the_permissions_name_every_service_that_is_called_or_made():
    verbs = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "cli" / "sluice_cli").rglob("*.py"))
    called = set(re.findall(r"\bclient\(\"([a-z0-9-]+)\"\)", verbs)) - WITHOUT_PERMISSION
    types = {resource["Type"].split("::")[1].lower() for resource in TEMPLATE["Resources"].values()}
    made = {PREFIXES.get(name, name) for name in types}
    assert len(called) > 7 and len(made) > 10
    listed = set(re.findall(r"`([a-z0-9-]+):", section("Permissions")))
    assert (called | made) - listed == set()
    assert "None of it has been proven in an\naccount" in section("Permissions")


def test_a_configuration_is_pushed_before_the_stack_is_checked():
    """`sluice doctor` fails a stack without a configuration."""
    blocks = [
        block
        for name in ("README.md", "docs/deploying.md", "docs/tutorial.md")
        for block in re.findall(r"(?:^ {4}.*\n)+", (ROOT / name).read_text(encoding="utf-8"), re.M)
        if "make deploy" in block and "doctor" in block
    ]
    assert len(blocks) == 3
    assert [block for block in blocks if not block.index("config push") < block.index("doctor")] == []


def test_a_hash_key_is_a_secret_of_the_documented_stack():
    """The job's role reads secrets only whose names begin with its stack's."""
    shown = [
        name
        for page in ("configuration.md", "security.md")
        for name in re.findall(r"(?:--secret-id|--name|  key:) ([\w-]+)/\w+", (ROOT / "docs" / page).read_text())
    ]
    assert shown == ["sluice", "sluice"]


def test_what_a_deleted_stack_leaves_is_named_with_the_way_to_remove_it():
    text = section("Removing")
    retained = {name for name, one in TEMPLATE["Resources"].items() if one.get("DeletionPolicy", "Delete") != "Delete"}
    buckets = retained & set(of_type("AWS::S3::Bucket"))
    versioned = {name for name in buckets if "VersioningConfiguration" in TEMPLATE["Resources"][name]["Properties"]}
    policies = {"BronzePolicy", "SilverPolicy", "ArtifactPolicy"}
    assert retained == buckets | policies | {"Ledger", "DataKey"}
    assert versioned == {"BronzeBucket", "ArtifactBucket"} and "Bronze and the artifact bucket keep versions" in text
    for command in ("dynamodb delete-table", "s3 rb --force s3://SILVER", "glue delete-database", "kms schedule-key"):
        assert f"aws {command}" in text, command


def test_a_stack_of_the_same_name_meets_the_bronze_bucket_of_the_last_one():
    fixed = [name for name, one in of_type("AWS::S3::Bucket").items() if one["Properties"].get("BucketName")]
    assert fixed == ["BronzeBucket"]
    assert "a new stack of the same name can't make it" in section("Removing")
