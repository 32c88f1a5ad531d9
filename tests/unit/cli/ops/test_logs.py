"""The log of a local run, found by either of its names, and its events as text."""

import json
import os

import pytest

from sluice_cli.ops.logs import readable
from sluice_cli.terminal.run import NO_STACK


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("SLUICE_STACK", "SLUICE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for number, (job_run, name) in enumerate([("00f1", "run-main-1"), ("00f2", "run-main-2")]):
        folder = tmp_path / ".sluice" / "runs" / job_run
        folder.mkdir(parents=True)
        (folder / "request.json").write_text(json.dumps({"name": name}))
        os.utime(folder / "request.json", (number, number))
        (folder / "stdout").write_text(json.dumps({"at": 1, "event": "held", "run": name}) + "\n")
        (folder / "stderr").write_text(f"Spark of {name}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "job_run"),
    [([], "00f2"), (["run-main-1"], "00f1"), (["00f1"], "00f1"), (["-f"], "00f2"), (["run-m…-1"], "00f1")],
)
def test_a_local_run_is_found_by_either_name_though_no_stack_runs(home, sluice, arguments, job_run):
    out, err = sluice("ops logs", *arguments)
    assert err == f"job run {job_run}\n"
    assert out.splitlines()[1] == "00:00:00.001 held"


@pytest.mark.parametrize("option", ["--json", "--raw"])
def test_the_events_are_printed_as_json_lines(home, sluice, option):
    assert json.loads(sluice("ops logs", option).out) == {"at": 1, "event": "held", "run": "run-main-2"}


@pytest.mark.parametrize("words", [["ops", "logs"], ["ops", "logs", "run-main-1"], ["status"], ["local", "info"]])
def test_every_verb_that_finds_no_stack_says_so_with_the_same_exit_code(tmp_path, monkeypatch, sluice, words):
    monkeypatch.chdir(tmp_path)
    for name in ("SLUICE_STACK", "SLUICE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert "Start one with `sluice local up`, or name a deployed one with --stack" in sluice(*words, code=NO_STACK).err


def test_a_beginning_that_several_local_runs_share_names_none(home, sluice):
    assert "2 runs begin with 'run-main'" in sluice("ops logs run-main", code=2).err


def test_fields_are_told_apart_and_can_steer_no_terminal():
    line = json.dumps({"at": 1, "event": "a\x1b[2J", "empty": "", "text": "a b", "list": [1, "\x9b"], "none": None})
    shown = list(readable([line]))[1]
    assert shown == '00:00:00.001 a\\x1b[2J empty="" text="a b" list=[1,"\\u009b"] none=null'
