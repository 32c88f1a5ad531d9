"""Completion by Tab, durations, exit codes, and where an error came from."""

import pytest
import typer

from sluice.errors import NoTarget
from sluice_cli.main import run
from sluice_cli.terminal import completion
from sluice_cli.terminal.options import TimeSpan, seconds
from sluice_cli.verbs import built


def parameter(*path):
    command = built()
    for name in path[:-1]:
        command = command.commands[name]
    return command, next(param for param in command.params if param.name == path[-1])


def completed(*path, incomplete=""):
    command, param = parameter(*path)
    context = type("Context", (), {"params": {"stack": "prod"}, "parent": None, "command": command})()
    return [item.value for item in param.shell_complete(context, incomplete)]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (("query", "sql"), "tables"),
        (("row", "table"), "tables"),
        (("table", "show", "table"), "tables"),
        (("ops", "catalog", "sync", "tables"), "tables"),
        (("pause", "lane"), "lanes"),
        (("ops", "runs", "lane"), "lanes"),
        (("history", "table"), "tables"),
        (("ops", "replay", "table"), "tables"),
        (("quarantine", "list", "topic"), "topics"),
        (("config", "import", "topic"), "topics"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_tab_completes_what_an_argument_holds(path, kind, monkeypatch):
    asked = []
    monkeypatch.setattr(completion, "find_target", lambda stack, *where: asked.append(stack) or object())
    monkeypatch.setattr(completion, kind, lambda target: ["main.b", "main.a", "other"])
    command = built()
    for name in path[:-1]:
        command = command.commands[name]
    completion.complete(command)
    assert completed(*path, incomplete="main") == ["main.a", "main.b"] and asked == ["prod"]


def test_without_a_stack_nothing_is_completed(monkeypatch, capsys):
    def missing(*where):
        raise NoTarget("No stack to work on")

    monkeypatch.setattr(completion, "find_target", missing)
    assert completed("query", "sql") == []
    assert capsys.readouterr() == ("", "")


def parameters_below(command, *path):
    for param in command.params:
        yield path, param
    for name in getattr(command, "commands", {}):
        yield from parameters_below(command.commands[name], *path, name)


def test_every_option_for_a_time_span_takes_a_duration():
    spans = [
        (path, param)
        for path, param in parameters_below(built())
        if {"--every", "--timeout", "--wait", "--seconds", "--freshness"} & set(param.opts)
        and not getattr(param, "is_flag", False)
    ]
    assert len(spans) >= 9
    for path, param in spans:
        assert param.metavar == "DURATION" and isinstance(param.default, (TimeSpan, type(None))), (path, param.name)


@pytest.mark.parametrize(
    ("given", "expected"), [("90", 90), ("90s", 90), ("5m", 300), ("5 min", 300), ("1.5h", 5400), (900.0, 900)]
)
def test_a_duration_is_seconds_or_has_a_unit(given, expected):
    assert seconds(given) == expected


@pytest.mark.parametrize("given", ["", "5x", "-1", "5m30", "nan"])
def test_another_duration_is_refused(given):
    with pytest.raises(typer.BadParameter, match="90s, 5m, 2h"):
        seconds(given)


@pytest.mark.parametrize("debug", [(), ("--debug",)], ids=["plain", "debug"])
def test_no_stack_has_an_exit_code_of_its_own(debug, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("SLUICE_STACK", "SLUICE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert run([*debug, "status"]) == 5
    said = capsys.readouterr().err
    assert ("Traceback" in said) == bool(debug) and "\nerror: No stack to work on\nnext step: Start" in f"\n{said}"
