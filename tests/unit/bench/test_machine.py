"""Processor time is that of a process and of what it started, also of what has ended."""

import os
import subprocess
import sys

from sluice_bench.measure.machine import cpu_seconds

BUSY = "import time\nwhile time.process_time() < 0.3: pass"


def test_processor_seconds_include_those_of_children_that_have_ended():
    before = cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    assert cpu_seconds(os.getpid()) - before >= 0.25
