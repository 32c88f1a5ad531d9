"""`make setup` names what takes long in a few lines, in a terminal as in a log, and fails as its installer does."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

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
