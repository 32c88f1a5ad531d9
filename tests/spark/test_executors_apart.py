"""Executors of their own, as on EMR Serverless: each has a JVM, and its tasks share nothing with the driver's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Of the tests that compare rows with those of another way or reader, some whose rows tasks read, pass on and write.
COMPARED = (
    ("tests/spark/test_first_load.py", "equals_the_one_by_spark and tasks"),
    ("tests/spark/test_large_parts.py", ""),
    ("tests/spark/test_three_readers.py", ""),
    ("tests/spark/test_merge_table.py", ""),
)


@pytest.mark.whole
@pytest.mark.parametrize(("module", "chosen"), COMPARED, ids=[module.split("/")[-1] for module, _ in COMPARED])
def test_two_executors_apart_write_the_same_rows(module: str, chosen: str, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        module,
        *(("-k", chosen) if chosen else ()),
    ]
    own = {"SLUICE_TEST_MASTER": "local-cluster[2,1,1024]", "SPARK_WORKER_DIR": str(tmp_path)}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, env={**environment, **own}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout
