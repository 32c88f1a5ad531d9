"""The memory of a local stack's processes."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Memory:
    """Resident memory in MB: of the emulator and its owner, of the functions' processes, and of job runs."""

    emulator: int = 0
    functions: int = 0
    function_processes: int = 0
    drivers: int = 0

    @property
    def per_function(self) -> float:
        """The mean of a function's process."""
        return self.functions / max(1, self.function_processes)

    @classmethod
    def of_stack(cls, home: Path) -> Memory:
        """Look at the stack whose files are in `home`."""
        described = json.loads(next(home.glob("**/local.json")).read_text())
        return cls.now(set(described["pids"].values()), _job_runs(home))

    def most(self, other: Memory) -> Memory:
        """The larger of each figure."""
        return Memory(*(max(pair) for pair in zip(astuple(self), astuple(other))))

    @classmethod
    def now(cls, roots: set[int], groups: set[int]) -> Memory:
        """Look at the processes of the stack. `groups` are the process groups of its job runs."""
        parents: dict[int, int] = {}
        group_of: dict[int, int] = {}
        resident: dict[int, float] = {}
        page_mb = os.sysconf("SC_PAGE_SIZE") / 1024**2
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                with suppress(OSError, IndexError, ValueError):
                    fields = (process / "stat").read_text().rpartition(")")[2].split()
                    pid = int(process.name)
                    parents[pid], group_of[pid] = int(fields[1]), int(fields[2])
                    resident[pid] = int((process / "statm").read_text().split()[1]) * page_mb
        descendants, fresh = set(roots), set(roots)
        while fresh:
            fresh = {pid for pid, parent in parents.items() if parent in fresh} - descendants
            descendants |= fresh
        drivers = {pid for pid in resident if group_of.get(pid) in groups}
        functions = descendants - drivers - roots
        return cls(
            *(
                round(value)
                for value in (
                    sum(resident.get(pid, 0) for pid in roots),
                    sum(resident.get(pid, 0) for pid in functions),
                    len(functions),
                    sum(resident[pid] for pid in drivers),
                )
            )
        )


def _job_runs(home: Path) -> set[int]:
    return {int(file.read_text()) for file in (home / "runs").glob("*/pid") if file.read_text().strip()}
