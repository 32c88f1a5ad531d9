"""`make setup` names what takes long in a few lines, in a terminal as in a log, and fails as its installer does."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sluice_bench.measure.ledger_times import await_until
from sluice_local.processes import is_running
from tools.install import command, shown

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("  Downloading pyspark-3.5.8.tar.gz (317.9 MB)", "Downloading pyspark-3.5.8.tar.gz (317.9 MB)"),
        ("Downloading pyspark (303.1MiB)", "Downloading pyspark (303.1MiB)"),
        ("Downloading everything (1.2GiB)", "Downloading everything (1.2GiB)"),
        ("  Downloading pytest-8.4.2-py3-none-any.whl.metadata (7.7 kB)", None),
        ("Downloading botocore (9.9MiB)", None),
        (" Downloaded pyspark", None),
        ("  Building wheel for pyspark (pyproject.toml): started", "Building pyspark"),
        ("  Building wheel for pyspark (pyproject.toml): finished with status 'done'", None),
        ("Building wheels for collected packages: pyspark, sluice", None),
        ("   Building pyspark==3.5.8", "Building pyspark==3.5.8"),
        ("   Building sluice @ file:///sluice", "Building sluice"),
        ("Installing collected packages: a, b, c", "Installing 3 packages"),
        ("Collecting pyspark==3.5.8", None),
        ("Requirement already satisfied: pip", None),
        (" + pyspark==3.5.8", None),
    ],
)
def test_only_what_takes_long_is_named(line, said):
    assert shown(line + "\n") == said


def test_uv_installs_where_there_is_one_and_pip_otherwise(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command(["x"])[1:4] == ["-m", "pip", "install"]
    (tmp_path / "uv").write_text("#!/bin/sh\n")
    (tmp_path / "uv").chmod(0o755)
    assert command(["x"])[:3] == [str(tmp_path / "uv"), "pip", "install"]


def setup(folder: Path, installer: str) -> tuple[int, str]:
    """The exit status of `make setup` in a terminal, with a stand-in for uv, and all that the terminal got."""
    (folder / "uv").write_text(f"#!/bin/sh\n{installer}\n")
    (folder / "uv").chmod(0o755)
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "bin" / "python").symlink_to(sys.executable)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    leader, follower = pty.openpty()
    with subprocess.Popen(
        ["make", "setup", f"VENV={folder}/venv", "PYTHON=true"],
        cwd=ROOT,
        env={**environment, "PATH": f"{folder}:{environment['PATH']}"},
        stdout=follower,
        stderr=follower,
    ) as made:
        os.close(follower)
        shown = b""
        try:
            while more := os.read(leader, 65_536):
                shown += more
        except OSError:  # the other end is closed
            pass
    os.close(leader)
    return made.returncode, shown.decode()


def test_a_terminal_gets_few_lines_of_a_long_installation(tmp_path):
    status, shown = setup(
        tmp_path,
        "echo 'Downloading pyspark (303.1MiB)' >&2\n"
        'for n in $(seq 500); do echo "Downloading p$n (1.1MiB)"; echo " Downloaded p$n"; echo " + p$n==1"; done >&2',
    )
    assert status == 0
    assert shown.count("Downloading pyspark (303.1MiB)") == 2  # for the demonstration, and for development
    assert len(shown.splitlines()) < 10


def test_an_installation_that_fails_shows_why_and_fails_the_target(tmp_path):
    status, shown = setup(tmp_path, "echo 'error: no such package' >&2; exit 3")
    assert status != 0 and "error: no such package" in shown
    assert not (tmp_path / "venv" / ".local").exists()


class Interrupted:
    """A step of the installation in a process group of its own, which Ctrl-C reaches once the step has begun."""

    def __init__(self, folder: Path, step: list[str], name: str) -> None:
        """`name` is the program that stands in for what the step runs: it tells its id, and stays."""
        begun = folder / "begun"
        os.mkfifo(begun)
        stand_in = folder / name
        stand_in.write_text(f"#!/bin/sh\necho $$ > {begun}\nexec sleep 600\n")
        stand_in.chmod(0o755)
        with subprocess.Popen(
            step,
            cwd=ROOT,
            env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as running:
            self.stand_in = int(begun.read_text())  # opens when the stand-in does
            os.killpg(running.pid, signal.SIGINT)
            self.out, self.err = running.communicate(timeout=60)
        self.status = running.returncode


AGAIN = "Interrupted; run the same again, it goes on from there\n"


def test_an_interrupted_installation_says_in_one_line_how_it_goes_on(tmp_path):
    ended = Interrupted(tmp_path, [sys.executable, "tools/install.py", "x"], "uv")
    assert (ended.status, ended.out, ended.err) == (130, "", AGAIN)
    await_until(lambda: not is_running(ended.stand_in), timeout_s=10, what="the end of what it started")


def test_interrupted_while_the_environment_is_made_it_says_the_same(tmp_path):
    """A module `venv` that is found first stands in for the real one."""
    (tmp_path / "venv.py").write_text("import subprocess, sys\nsubprocess.run(['maker'])\n")
    step = ["env", f"PYTHONPATH={tmp_path}", sys.executable, "tools/install.py", "--environment", "e"]
    ended = Interrupted(tmp_path, step, "maker")
    assert (ended.status, ended.out, ended.err) == (130, "", AGAIN)


@pytest.mark.long
def test_an_environment_that_was_begun_is_completed(tmp_path):
    folder = tmp_path / "e"
    (folder / "bin").mkdir(parents=True)
    done = subprocess.run([sys.executable, "tools/install.py", "--environment", folder], cwd=ROOT, check=False)
    assert done.returncode == 0
    assert subprocess.run([folder / "bin" / "python", "-m", "pip", "--version"], check=False).returncode == 0


def test_a_missing_python_is_named_with_the_next_step(tmp_path):
    made = subprocess.run(
        ["make", "demo", f"VENV={tmp_path}/venv", "PYTHON=python3.0"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
        capture_output=True,
        text=True,
        check=False,
    )
    error, step, *_ = made.stderr.splitlines()
    assert made.returncode == 2 and not (tmp_path / "venv").exists()
    assert error == "error: there is no python3.0, the Python of the local Spark"
    assert step.startswith("next step: install Python 3.11") and "make demo PYTHON=/path/to/python3.11" in step
