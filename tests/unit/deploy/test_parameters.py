"""The parameters of a deployment, and the order of its steps."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from sluice.errors import UsageError
from sluice_cli.main import run
from sluice_deploy.parameters import as_overrides, configured_parameters, given_parameters, parameters_of

ROOT = Path(__file__).resolve().parents[3]


# Stands in for `sluice`: the first upload finds no stack, and later ones do.
BEFORE_AND_AFTER_THE_FIRST = """#!/bin/sh
case "$*" in
*--parameters*) echo LogLevel=INFO ;;
*--if-deployed*) test ! -e deployed || echo release >.aws-sam/release ;;
*--upload*) touch deployed; echo release >.aws-sam/release ;;
*--functions*) mkdir -p .aws-sam ;;
esac
"""


def made(*arguments: str, stdin: int = subprocess.DEVNULL, **variables: str) -> subprocess.CompletedProcess[str]:
    """What make says that it does, or does where `arguments` don't forbid it."""
    old = ("--old-file=.venv/.local", "--old-file=.venv/.dev", "--no-print-directory")
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "MAKE"))}
    return subprocess.run(
        ["make", *old, *arguments], cwd=ROOT, env=outside | variables, stdin=stdin, capture_output=True, text=True
    )


# `with-sam`, of which a dry run prints each line: what it does without SAM has a test of its own.
LOOKS_FOR_SAM = ("command -v", "\techo ")


def steps(*arguments: str) -> list[str]:
    lines = made("--dry-run", "deploy", *arguments).stdout.splitlines()
    return [line for line in lines if ".venv/bin/" in line and not line.startswith(LOOKS_FOR_SAM)]


def test_overrides_are_read_and_written_as_sam_reads_them() -> None:
    read = parameters_of("MaximumCpu='32 vCPU' Release=abc Empty=")
    assert read == {"MaximumCpu": "32 vCPU", "Release": "abc", "Empty": ""}
    assert as_overrides(read) == "MaximumCpu='32 vCPU' Release=abc Empty=''"


def test_parameters_of_the_command_line_add_to_those_of_the_environment() -> None:
    printed = given_parameters("dev Architecture=arm64 LogLevel='INFO' MaximumCpu='32 vCPU'", ROOT)
    given = {"Architecture": "arm64", "LogLevel": "INFO", "MaximumCpu": "32 vCPU"}
    assert parameters_of(printed) == {**configured_parameters("dev", ROOT), **given}
    assert "IdleTimeoutMinutes" in configured_parameters("dev", ROOT)
    assert configured_parameters("default", ROOT) == {} == configured_parameters("dev", ROOT / "docs")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("LogRetentionDays=8", "LogRetentionDays is '8', which is not one of 1, 3, 5, 7"),
        ("BatchingWindow=abc", "BatchingWindow is 'abc', which is not a number"),
        ("BatchingWindow=6", "BatchingWindow is '6', which is more than 5"),
        ("InitialExecutors=0", "InitialExecutors is '0', which is less than 1"),
        ("MaximumCpu=lots", "MaximumCpu is 'lots', which does not match"),
        ("MaximumMemory='0 GB'", "MaximumMemory is '0 GB', which does not match"),
        ("MaximumDisk=400", "MaximumDisk is '400', which does not match"),
        ("KeyArn=mine", "KeyArn is 'mine', which does not match"),
    ],
)
def test_a_value_that_cloudformation_refuses_is_refused_first(given: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        given_parameters(f"dev {given}", ROOT)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("default AlarmEmial=ops@x", "AlarmEmial; did you mean AlarmEmail?"),
        ("default MaximumCpu=32 vCPU", "vCPU is no parameter: it has no ="),
        ("default LogLevel='INFO", "can't be read: No closing quotation"),
        ("stage LogLevel=INFO", "no environment stage"),
        ("deV", "no environment deV; did you mean dev?"),
    ],
)
def test_a_parameter_or_environment_that_does_not_exist_is_refused(given: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        given_parameters(given, ROOT)
    assert said in str(refused.value)


def test_parameters_are_those_of_the_template_that_is_deployed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("Parameters: {Mine: {Type: String}}")
    command = ["package", "--template", str(other), "--parameters"]
    assert run([*command, "default Mine=1"]) == 0
    assert run([*command, "default AlarmEmail=a@example.org"]) == 2
    said = capsys.readouterr()
    assert said.out == "Mine=1\n" and f"{other} has no parameter AlarmEmail" in said.err


def test_new_functions_never_meet_the_old_release() -> None:
    checked, upload, pack, build, begin, first, deploy, end = steps()
    assert "--stack sluice package --template template.yaml --parameters" in checked
    assert "package --functions" in pack and "sam build" in build
    assert "standstill begin" in begin and "standstill end" in end
    assert "package" in upload and "--upload" in upload and "--if-deployed" in upload
    assert first.startswith("test -s .aws-sam/release || {"), "only while there is no bucket"
    assert "sam deploy" in deploy and "--parameters Release=$(cat .aws-sam/release)" in deploy


def test_every_deployment_names_what_the_functions_were_built_for() -> None:
    built_for = "Runtime=python3.12 Architecture=x86_64"
    deployments = [line for line in steps("LAMBDA_PYTHON=3.12", "LAMBDA_ARCHITECTURE=x86_64") if "/sam " in line]
    assert len(deployments) == 3 and all(built_for in line for line in deployments)


@pytest.mark.parametrize(
    "variables", [{}, {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}], ids=["on AWS", "an emulator's own template"]
)
def test_a_deployment_that_can_succeed_is_not_refused(variables: dict[str, str], tmp_path: Path) -> None:
    emulated = tmp_path / "emulated.yaml"
    emulated.write_text("Resources: {}\n")
    template = [f"TEMPLATE={emulated}"] if variables else []
    allowed = made("on-aws", *template, **variables)
    assert (allowed.returncode, allowed.stderr) == (0, "")


@pytest.mark.parametrize("target", ["deploy", "delete"])
def test_an_unknown_environment_ends_make_before_it_builds_or_asks_aws(target: str) -> None:
    ended = made(target, "ENV=stage", AWS_CONFIG_FILE=os.devnull)
    assert ended.returncode != 0 and ended.stdout == "" and "no environment stage" in ended.stderr


def test_the_stack_has_the_name_that_samconfig_gives_it(tmp_path: Path) -> None:
    assert run(["init", str(tmp_path)]) == 0
    file = tmp_path / "samconfig.toml"
    file.write_text(file.read_text().replace('"sluice-dev"', '"lake"'))
    for environment, name in (("default", "sluice"), ("dev", "lake"), ("prod", "sluice-prod")):
        shown = made("--dry-run", "--directory", str(tmp_path), "deploy", "delete", f"ENV={environment}").stdout
        assert set(re.findall(r"--stack(?:-name)? (\S+)", shown)) == {name}


def test_sam_deploys_to_the_region_that_sluice_works_in() -> None:
    """boto3, and so SAM, doesn't read AWS_REGION."""
    shown = ["build", "SLUICE_COMMAND=true", "SAM=printenv AWS_DEFAULT_REGION #"]
    assert made(*shown, AWS_REGION="eu-west-1", AWS_DEFAULT_REGION="us-east-1").stdout.splitlines()[-1] == "eu-west-1"
    assert made(*shown, AWS_DEFAULT_REGION="us-east-1").stdout.splitlines()[-1] == "us-east-1"
    assert made(*shown).returncode != 0, "an empty variable would hide the region of a profile"


@pytest.mark.parametrize("terminal", [True, False])
def test_sam_asks_only_in_a_terminal_and_about_a_first_deployment_once(terminal: bool, tmp_path: Path) -> None:
    """Where it can't ask, SAM would end with an error while the lanes are paused."""
    assert run(["init", str(tmp_path)]) == 0
    sluice = tmp_path / "sluice"
    sluice.write_text(BEFORE_AND_AFTER_THE_FIRST)
    sluice.chmod(0o755)
    here = ["--directory", str(tmp_path), "deploy", "SLUICE_COMMAND=./sluice", "SAM=echo sam"]
    ours, theirs = os.openpty()
    try:
        shown = [made(*here, stdin=theirs if terminal else subprocess.DEVNULL).stdout for _ in range(2)]
    finally:
        os.close(ours)
        os.close(theirs)
    deployments = [line for text in shown for line in text.splitlines() if line.startswith("sam deploy")]
    asks = ["--no-confirm-changeset" not in line for line in deployments]
    assert asks == ([True, False, True] if terminal else [False, False, False])
