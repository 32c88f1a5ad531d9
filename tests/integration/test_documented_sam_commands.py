"""Every `sam` command in README and docs exists, with its options, and `sam` parses make's arguments as intended."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
from samcli.cli.main import cli
from samcli.cli.types import CfnParameterOverridesType
from support.documented_commands import shown_commands


def problem(words: tuple[str, ...]) -> str | None:
    """What is wrong with the words after `sam`, None when nothing is."""
    command, path, rest = cli, "sam", list(words)
    while hasattr(command, "get_command") and rest and not rest[0].startswith("-"):
        found = command.get_command(
            click.Context(command, obj=True), rest[0]
        )  # sam looks its commands up for a context of its own only
        if found is None:
            return f"`{path}` has no command {rest[0]}"
        command, path = found, f"{path} {rest.pop(0)}"
    known = {
        name
        for parameter in command.get_params(click.Context(command))
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    unknown = [word for word in rest if word.startswith("-") and word.partition("=")[0] not in known]
    return f"`{path}` has no option {unknown[0]}" if unknown else None


def test_every_documented_sam_command_exists_with_its_options() -> None:
    shown = {command.words: command for command in shown_commands() if command.program == "sam"}
    assert {"build", "deploy", "local"} <= {words[0] for words in shown if words}
    assert {words: problem(words) for words in shown if problem(words)} == {}
    assert (
        problem(("deploi",))
        and problem(("deploy", "--no-such-option"))
        and problem(("local", "invoke", "F", "--event", "e.json")) is None
    )


def test_a_parameter_with_spaces_reaches_sam_whole() -> None:
    root = Path(__file__).resolve().parents[2]
    command = ["make", "--dry-run", "deploy", "ENV=dev", "PARAMETERS=MaximumCpu='32 vCPU' LogLevel=INFO"]
    said = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    (last,) = [line for line in said.splitlines() if "/sam deploy " in line and "Release=" in line]
    shown = last.replace("$(cat .aws-sam/release)", "abc123").replace("/sam deploy ", "/printed ")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = subprocess.run(
        ["sh", "-c", f"{shlex.quote(sys.executable)} -c 'import json, sys; print(json.dumps(sys.argv[1:]))' {shown}"],
        cwd=root,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    arguments = json.loads(words)
    given = CfnParameterOverridesType().convert(
        tuple(arguments[arguments.index("--parameter-overrides") + 1 :]), None, None
    )
    assert (given["MaximumCpu"], given["LogLevel"], given["Release"]) == ("32 vCPU", "INFO", "abc123")
    assert given["IdleTimeoutMinutes"] == "5", "of samconfig.toml"
