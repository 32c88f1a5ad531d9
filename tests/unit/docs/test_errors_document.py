"""docs/errors.md lists every code with a next step, or an error of a command is raised with its own."""

import ast

from support.source_trees import nodes_of

from sluice.errors import CommandFailed, UsageError
from sluice_cli.errors import OutputLost
from tools.error_codes import PACKAGES, PAGE, errors_of, page

SOURCES = ("cli", "functions", "local", "spark")


def calls_of(names):
    """Every call of a function or class by one of these names, with its file."""
    for folder in SOURCES:
        for file in (PAGE.parents[1] / folder).rglob("*.py"):
            for call in nodes_of(file):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names:
                    yield file, call


def test_the_page_is_as_the_errors_are():
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make documents`"


def test_an_error_whose_step_the_page_leaves_to_the_message_is_raised_with_one():
    unsaid = {
        error.__name__
        for package in PACKAGES
        for error in errors_of(package)
        if issubclass(error, CommandFailed) and error not in (UsageError, OutputLost) and not error.next_step
    }
    assert "UnknownTable" in unsaid
    without = [
        f"{file}:{call.lineno}"
        for file, call in calls_of(unsaid)
        if "next_step" not in {keyword.arg for keyword in call.keywords}
    ]
    assert not without


def test_every_error_has_a_next_step():
    errors = [error for package in PACKAGES for error in errors_of(package)]
    assert [error.code for error in errors if not error.next_step and not issubclass(error, CommandFailed)] == []


NAMES = ("s3://", "spark/")  # what a sentence may begin with in lower case


def test_the_text_of_an_error_begins_as_a_sentence():
    classes = {error.__name__ for package in PACKAGES for error in errors_of(package)} | {"CommandFailed", "say_error"}
    wrong = [
        f"{file}:{call.lineno}: {text}"
        for file, call in calls_of(classes)
        if call.args and (text := _beginning(call.args[0]))[:1].islower() and not text.startswith(NAMES)
    ]
    assert not wrong


def _beginning(text: ast.expr) -> str:
    """The fixed text that an expression begins with; empty where that is a value."""
    first = text.values[0] if isinstance(text, ast.JoinedStr) else text
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
