"""The demonstration runs to its end, accounts for every object, can be interrupted, and leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from judging.patience import patient
from judging.running_stack import REPOSITORY, processes_naming

from sluice_bench.measure.ledger_times import await_until

DEMO = [sys.executable, "-u", "-c", "from sluice_cli.main import main; main(['demo'])"]


@contextmanager
def demonstration(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The demonstration as a process that keeps its files in `folder`."""
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": paths}
    process = subprocess.Popen(
        DEMO,
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs ignore it
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(patient(30))


def test_the_demonstration_changes_and_deletes_a_row_and_skips_a_damaged_object(tmp_path: Path) -> None:
    with demonstration(tmp_path) as process:
        summary, _ = process.communicate(timeout=patient(280))
    assert process.returncode == 0, summary
    assert "Proof: 40 objects in bronze: 39 committed, 1 quarantined; unexplained: 0" in summary
    assert re.search(
        r"^Cost: [34] batches, 7 tables, [\d,]+ changes, 1 run of \d+ s so far\. "
        r"EMR Serverless would bill 0\.\d+ vCPU hours, 0\.\d+ US dollars",
        summary,
        re.M,
    ), summary
    assert [int(quantity) for quantity in re.findall(r"^1\t165\t(\d+)\t", summary, re.M)][:4] == [5, 6, 5, 5], (
        "the row before and after its change, and as it was, also once it is deleted"
    )
    assert "rows that readers see\n0\n" in summary
    assert re.findall(r"^  won +(\w+)", summary, re.M) == ["snapshot", "update", "delete"], "the row's life"
    assert re.search(r"^readable +\d+\.\d+ s  after its put, \S+Z$", summary, re.M), "the waterfall"
    assert "0 added, 0 changed, 1 removed" in summary
    assert "corrupt_object" in summary
    assert not processes_naming(tmp_path) and list(tmp_path.iterdir()) == []


@pytest.mark.whole
def test_an_interrupted_demonstration_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    with demonstration(tmp_path) as process:
        assert process.stdout is not None
        summary = []
        for line in process.stdout:
            summary.append(line)
            if "$ sluice wait" in line:  # Spark is starting
                process.send_signal(signal.SIGINT)
        process.wait(patient(60))
    assert process.returncode == 130
    assert "nothing is left running" in summary[-2] and summary[-1] == "Interrupted\n", summary
    await_until(lambda: not processes_naming(tmp_path), timeout_s=10, what="the end of every process")
    assert list(tmp_path.iterdir()) == []
