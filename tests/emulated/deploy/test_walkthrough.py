"""The walkthrough of a deployment expects the exit codes that the command documents."""

import shlex
from pathlib import Path

import pytest

from sluice_cli.main import run
from tools.deploy_walkthrough import STACK, Transcript, Walk, delete


class InProcess(Walk):
    """Runs `sluice` in this process, and make not at all."""

    def run(self, shown, *, of_make="", accept=(0,)):
        code = run(shlex.split(shown)[1:])
        if code not in accept:
            raise SystemExit(f"{shown} ended with {code}")
        return ""

    def make(self, target, **variables):
        return ""


@pytest.fixture
def walk(stack):
    return InProcess(Path(), {}, Transcript([]))


def test_the_walk_goes_on_once_its_stack_is_deleted(walk, capsys):
    delete(walk)
    assert f"There is no stack {STACK}" in capsys.readouterr().err


def test_the_walk_ends_where_the_deleted_stack_still_answers(walk, monkeypatch):
    monkeypatch.setattr("tools.deploy_walkthrough.STACK", "s")
    with pytest.raises(SystemExit, match="status ended with 0"):
        delete(walk)
