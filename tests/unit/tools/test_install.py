"""`make setup` names what takes long in a few lines, in a terminal as in a log, and fails as its installer does."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tools.install import shown

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


def outside_make() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}


def setup(folder: Path, installer: str) -> tuple[int, str]:
    """The exit status of `make setup` in a terminal, with a stand-in for uv, and all that the terminal got."""
    (folder / "uv").write_text(f"#!/bin/sh\n{installer}\n")
    (folder / "uv").chmod(0o755)
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "bin" / "python").symlink_to(sys.executable)
    environment = {**outside_make(), "PATH": f"{folder}:{os.environ['PATH']}"}
    leader, follower = pty.openpty()
    command = ["make", "setup", f"VENV={folder}/venv", "PYTHON=true"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=follower, stderr=follower) as made:
        os.close(follower)
        shown = b""
        try:
            while more := os.read(leader, 65_536):
                shown += more
        except OSError:  # the other end is closed
            pass
    os.close(leader)
    return made.returncode, shown.decode()


def test_an_installation_that_fails_shows_why_and_fails_the_target(tmp_path):
    status, shown = setup(tmp_path, "echo 'error: no such package' >&2; exit 3")
    assert status != 0 and "error: no such package" in shown
    assert not (tmp_path / "venv" / ".local").exists()


@pytest.mark.long
def test_an_environment_that_was_begun_is_completed(tmp_path):
    folder = tmp_path / "e"
    (folder / "bin").mkdir(parents=True)
    done = subprocess.run([sys.executable, "tools/install.py", "--environment", folder], cwd=ROOT, check=False)
    assert done.returncode == 0
    assert subprocess.run([folder / "bin" / "python", "-m", "pip", "--version"], check=False).returncode == 0


def test_a_missing_python_is_named_with_the_next_step(tmp_path):
    command = ["make", "demo", f"VENV={tmp_path}/venv", "PYTHON=python3.0"]
    made = subprocess.run(command, cwd=ROOT, env=outside_make(), capture_output=True, text=True, check=False)
    error, step, *_ = made.stderr.splitlines()
    assert made.returncode == 2 and not (tmp_path / "venv").exists()
    assert error == "error: there is no python3.0, the Python of the local Spark"
    assert step.startswith("next step: install Python 3.11") and "make demo PYTHON=/path/to/python3.11" in step
