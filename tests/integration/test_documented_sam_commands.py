"""Every `sam` command in README and docs exists, with its options, and `sam` parses make's arguments as intended."""

import click
from samcli.cli.main import cli
from support.documented_commands import shown_commands


def problem(words: tuple[str, ...]) -> str | None:
    """What is wrong with the words after `sam`, None when nothing is."""
    command, path, rest = cli, "sam", list(words)
    while hasattr(command, "get_command") and rest and not rest[0].startswith("-"):
        subcommand = command.get_command(
            click.Context(command, obj=True), rest[0]
        )  # sam looks its commands up for a context of its own only
        if subcommand is None:
            return f"`{path}` has no command {rest[0]}"
        command, path = subcommand, f"{path} {rest.pop(0)}"
    options = {
        name
        for parameter in command.get_params(click.Context(command))
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    unknown = [word for word in rest if word.startswith("-") and word.partition("=")[0] not in options]
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
