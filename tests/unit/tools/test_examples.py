"""The examples are complete, and what is made up is as its generator makes it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from tools.example import EXAMPLES, ROOT, Played, names
from tools.example_data import MADE

pytestmark = pytest.mark.long


# The example, with a stack that is only named, and a signal while it starts.
SIGNALLED = """
import os, signal, subprocess, sys
from tools import example

def run(command, **how):
    print(*command[3:5], flush=True)
    if "up" in command:
        os.kill(os.getpid(), getattr(signal, sent))
    return subprocess.CompletedProcess(command, 0)

subprocess.run, sent = run, sys.argv.pop()
example.main()
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_stack_of_an_example(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED, names()[0], name], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert "local up\n" in done.stdout and done.stdout.endswith("local down\n")
    assert (done.returncode, done.stderr) == (128 + getattr(signal, name), "")


def content(file: Path) -> object:
    """A file's bytes; of a Parquet file its rows, since the bytes depend on the writer's version."""
    return pq.read_table(file) if file.suffix == ".parquet" else file.read_bytes()


@pytest.mark.parametrize("name", sorted(MADE))
def test_objects_and_expected_rows_are_those_of_the_generator(name: str, tmp_path: Path) -> None:
    MADE[name](tmp_path)
    made = {file.relative_to(tmp_path) for file in tmp_path.rglob("*") if file.is_file()}
    folder = EXAMPLES / name
    stored = {file.relative_to(folder) for part in ("data", "expected") for file in (folder / part).rglob("*.*")}
    assert made == {file for file in stored if (folder / file).is_file()}
    assert [str(file) for file in sorted(made) if content(tmp_path / file) != content(folder / file)] == []


@pytest.mark.parametrize("name", names())
def test_an_example_says_how_to_run_it_and_compares_something(name: str) -> None:
    assert f"make example NAME={name}\n" in (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    assert f"]({name}/README.md)" in (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert name in (ROOT / "Makefile").read_text(encoding="utf-8")
    steps = yaml.safe_load((EXAMPLES / name / "steps.yaml").read_text(encoding="utf-8"))
    assert all(step.get("read") or step.get("judge") for step in steps)
    for step in steps:
        for read in step.get("read", ()):
            assert read["query"].startswith("select ") and ("rows" in read) != ("file" in read)


def test_a_result_that_differs_is_kept_with_what_was_expected() -> None:
    played = Played()
    played.compare("equal", 'a,b\n1,"x"\n', "a,b\n1,x")
    played.compare("different", "a\n1\n", "a\n2\n")
    assert (played.compared, len(played.different)) == (2, 1)
    assert played.different[0].startswith("different") and "2" in played.different[0]
