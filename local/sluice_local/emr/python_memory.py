"""Measures the Python processes of a job run, which share what a worker's memory has beside Java's heap."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sluice.config.lane import JAVA_BESIDE_HEAP
from sluice_local.emr.spark_command import size_bytes

_OVERHEAD = "spark.executor.memoryOverhead"


def python_limit(settings: Mapping[str, str]) -> int | None:
    """Bytes that Python may take beside an executor's Java; None where the request leaves it to Spark's default."""
    overhead = settings.get(_OVERHEAD)
    return None if overhead is None else size_bytes(overhead) - JAVA_BESIDE_HEAP


def python_bytes(group: int, processes: Path = Path("/proc")) -> int:
    """Resident bytes of the Python processes of a process group; 0 on systems without /proc."""
    return sum(_python_bytes(process, group) for process in processes.glob("[0-9]*"))


def _python_bytes(process: Path, group: int) -> int:
    try:
        name, _, rest = (process / "stat").read_text().partition(") ")
        if "(python" not in name or int(rest.split()[2]) != group:
            return 0
        return int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return 0
