"""The stand-in ends a run whose Python processes take more than their worker would have."""

import os
import subprocess
import sys

import pytest

from sluice_local.emr.python_memory import python_bytes, python_limit

TAKES = 64 * 1024**2


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")
def test_python_processes_of_a_group_are_summed():
    program = f"taken = bytearray({TAKES}); print('taken', flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert child.stdout.readline() == b"taken\n"
        assert TAKES < python_bytes(child.pid) < 3 * TAKES
        assert python_bytes(os.getpgid(0)) != python_bytes(child.pid)
    finally:
        child.communicate(b"\n")
    assert python_bytes(child.pid) == 0


def test_the_limit_is_what_a_worker_has_beside_java():
    assert python_limit({"spark.executor.memoryOverhead": "4096m"}) == (4096 - 768) * 1024**2
    assert python_limit({}) is None
