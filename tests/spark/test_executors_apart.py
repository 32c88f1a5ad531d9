"""Executors of their own, as on EMR Serverless: each has a JVM, and its tasks share nothing with the driver's.

tests/integration/test_executors.py has them in a stack, whose few objects the driver merges by itself.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]
WORK = Path(pyspark.__file__).with_name("work")  # where Spark keeps a folder for each executor, jars and all
# Of the tests that compare rows with those of another way or reader, some whose rows tasks read, pass on and write.
COMPARED = {
    "test_first_load.py": "equals_the_one_by_spark and tasks",
    "test_large_parts.py": "",
    "test_three_readers.py": "",
    "test_merge_table.py": "",
}


@pytest.mark.whole
@pytest.mark.timeout(2_400)  # the longest module takes seven minutes on a machine of its own
@pytest.mark.parametrize("module", COMPARED)
def test_two_executors_apart_write_the_same_rows(module: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/spark/{module}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["SLUICE_TEST_MASTER"] = "local-cluster[2,1,1024]"
    before = set(WORK.glob("app-*"))
    done = subprocess.run([*command, "-k", COMPARED[module]], cwd=ROOT, env=environment, capture_output=True, text=True)
    applications = set(WORK.glob("app-*")) - before
    executors = [executor for application in applications for executor in application.iterdir()]
    for application in applications:
        shutil.rmtree(application)
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]
    assert len(executors) >= 2
