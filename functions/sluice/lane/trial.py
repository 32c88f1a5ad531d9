"""A trial of the engine: its id, its folder in the silver bucket, and the report that its job writes.

`sluice doctor --job` starts a trial. It holds no lane and merges small tables of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sluice.errors import UnreadableReport
from sluice.silver_keys import PREFIX

FORMAT = 1
TRIALS_PREFIX = f"{PREFIX}/trials/"
RUNNING, PASSED, FAILED = "running", "passed", "failed"
TRIAL_ID = re.compile(r"trial-[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")


@dataclass(frozen=True)
class TrialStep:
    """A step that succeeded, and the seconds it took."""

    name: str
    seconds: float


@dataclass(frozen=True)
class TableTrial:
    """One small table: written, changed, compacted, read. `differences` lists the rows that are not as expected."""

    table_type: str
    steps: tuple[TrialStep, ...] = ()
    rows: int = 0
    differences: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return round(sum(step.seconds for step in self.steps), 3)


@dataclass(frozen=True)
class TrialError:
    """The error that ended a trial early."""

    code: str
    message: str


@dataclass(frozen=True)
class TrialReport:
    """The job's report, written while it runs and when it ends. Times in epoch ms; `versions` by name.

    `job_run_id` is the id that the driver found for itself, in the way a run of a lane finds its own.
    """

    trial: str
    state: str
    began_at: int
    described_at: int
    doing: str = ""
    job_run_id: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)
    tables: tuple[TableTrial, ...] = ()
    error: TrialError | None = None
    left: str | None = None  # what could not be removed, and why

    def to_json(self) -> str:
        return json.dumps(
            {"format": FORMAT, **asdict(self), "versions": dict(self.versions)}, sort_keys=True, ensure_ascii=True
        )

    @classmethod
    def from_json(cls, text: str) -> TrialReport:
        """Read the JSON of `to_json`. Raises UnreadableReport for anything else."""
        try:
            content: dict[str, Any] = json.loads(text)
            if content.pop("format") != FORMAT:
                raise UnreadableReport("A trial's report of another format", found=text[:200])
            for one in content["tables"]:
                one["steps"] = tuple(TrialStep(**step) for step in one["steps"])
                one["differences"] = tuple(one["differences"])
            tables = tuple(TableTrial(**one) for one in content.pop("tables"))
            error = content.pop("error")
            return cls(**content, tables=tables, error=TrialError(**error) if error is not None else None)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnreadableReport(f"A trial's report can't be read: {error}", found=text[:200]) from error


def scratch_prefix(trial: str) -> str:
    """Prefix of the trial's objects and tables in the silver bucket. The trial removes them when it ends."""
    return f"{TRIALS_PREFIX}{trial}/"


def trial_report_key(trial: str) -> str:
    """Key of the job's report in the silver bucket. The report is kept."""
    return f"{TRIALS_PREFIX}{trial}.json"
