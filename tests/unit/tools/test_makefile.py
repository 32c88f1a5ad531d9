"""`make setup` shows pip's progress to a person, and nothing of it to a log."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "log"])
def test_an_installation_is_quiet_in_a_log_only(terminal, tmp_path):
    leader, follower = pty.openpty()
    try:
        shown = subprocess.run(
            ["make", "--dry-run", "setup", f"VENV={tmp_path}/venv", "PYTHON=python3"],
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
            stdout=subprocess.PIPE,
            stderr=follower if terminal else subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
    finally:
        os.close(leader)
        os.close(follower)
    installations = [line for line in shown.splitlines() if " --editable " in line]
    assert len(installations) == 2 and [" --quiet" in line for line in installations] == [not terminal] * 2
