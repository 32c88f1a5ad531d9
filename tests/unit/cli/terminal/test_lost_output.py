"""Output that can't be written ends a command with a line, and a reader that has gone ends it quietly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.silver_tables import SILVER_FOLDER, SilverFolder

from sluice_cli.main import run
from sluice_cli.tables import query

FULL = Path("/dev/full")
COMMAND = [sys.executable, "-c", "from sluice_cli.main import main; main()"]
LINE = "error: The output can't be written: No space left on device"
VERBS = [["--version"], ["--help"], ["put", "--help"]]

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")


@pytest.mark.parametrize("arguments", VERBS, ids=" ".join)
def test_a_full_disk_is_reported_in_one_line(arguments):
    with FULL.open("w") as full:
        done = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr.splitlines()) == (1, [LINE])


@pytest.mark.parametrize("arguments", VERBS, ids=" ".join)
def test_a_reader_that_has_gone_ends_a_command_quietly_with_141(arguments):
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as gone:
        done = subprocess.run([*COMMAND, *arguments], stdout=gone, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("closed, wanted", [(">&-", [LINE.rpartition(":")[0]]), (">&- 2>&-", [])])
def test_a_closed_stdout_is_reported_in_one_line(closed, wanted):
    line = ["sh", "-c", f'"$@" {closed}', "sh", *COMMAND, "--version"]
    done = subprocess.run(line, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, [said.rpartition(":")[0] for said in done.stderr.splitlines()]) == (1, wanted)


@pytest.mark.parametrize("arguments", [["query"], ["query", "-"]], ids=" ".join)
@pytest.mark.long
def test_a_closed_stdin_is_an_empty_one(arguments):
    code = (
        "from support.silver_tables import SILVER_FOLDER, SilverFolder; from sluice_cli.main import main;"
        "from sluice_cli.tables import query; query.chosen_target = lambda stack: SilverFolder(SILVER_FOLDER); main()"
    )
    line = ["sh", "-c", '"$@" <&-', "sh", sys.executable, "-c", code, *arguments]
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(line, stderr=subprocess.PIPE, text=True, timeout=60, env={**os.environ, "PYTHONPATH": paths})
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "error: No statement was given")


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"], ["--spreadsheet"]], ids=" ".join)
def test_rows_that_do_not_fit_on_the_disk_are_reported_in_one_line(form, monkeypatch, capsys):
    monkeypatch.setattr(query, "chosen_target", lambda stack: SilverFolder(SILVER_FOLDER))
    with FULL.open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(["query", "moma.works", *form]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == LINE


@pytest.mark.long
def test_errors_that_can_not_be_written_leave_the_exit_code():
    env = {**os.environ, "SLUICE_HOME": str(FULL), "SLUICE_STACK": ""}
    with FULL.open("w") as full:
        done = subprocess.run([*COMMAND, "status"], stdout=full, stderr=full, timeout=60, env=env)
    assert done.returncode == 5
