"""A trial of the engine: what `sluice doctor --job` has one job do, where it does it, and what the job reports."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any, Dict, Mapping, Optional, Tuple

from sluice.engine_report import Engine, EngineReport, UnreadableReport
from sluice.silver_keys import PREFIX

FORMAT = 1
TRIALS_PREFIX = f"{PREFIX}/trials/"
RUNNING, PASSED, FAILED = "running", "passed", "failed"
TRIAL_ID = re.compile(r"trial-[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")


@dataclass(frozen=True)
class Step:
    """Something that went well, and the seconds it took."""

    name: str
    seconds: float


@dataclass(frozen=True)
class TableTrial:
    """One small table: written, changed, served, read. `differences` are what was read otherwise than it should be."""

    table_type: str
    steps: Tuple[Step, ...] = ()
    rows: int = 0
    differences: Tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """All steps together."""
        return round(sum(step.seconds for step in self.steps), 3)


@dataclass(frozen=True)
class TrialError:
    """What ended a trial before its end."""

    code: str
    message: str


@dataclass(frozen=True)
class TrialReport:
    """What the job says, while it runs and at its end. Times in epoch ms; `versions` by name; `links` None where the bundle couldn't be read.

    `job_run_id` is the one that the driver found for itself: a run of a lane finds its own the same way.
    """

    trial: str
    state: str
    began_at: int
    told_at: int
    doing: str = ""
    job_run_id: Optional[str] = None
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)
    links: Optional[EngineReport] = None
    links_seconds: float = 0.0
    tables: Tuple[TableTrial, ...] = ()
    error: Optional[TrialError] = None
    left: Optional[str] = None  # what could not be removed, and why

    def to_json(self) -> str:
        """Canonical JSON."""
        return json.dumps(
            {"format": FORMAT, **asdict(self), "versions": dict(self.versions)}, sort_keys=True, ensure_ascii=True
        )

    @classmethod
    def from_json(cls, text: str) -> TrialReport:
        """Read what `to_json` wrote. Raises UnreadableReport for anything else."""
        try:
            content: Dict[str, Any] = json.loads(text)
            if content.pop("format") != FORMAT:
                raise UnreadableReport("A trial's report of another format", found=text[:200])
            tables = tuple(
                TableTrial(
                    **{
                        **one,
                        "steps": tuple(Step(**step) for step in one["steps"]),
                        "differences": tuple(one["differences"]),
                    }
                )
                for one in content.pop("tables")
            )
            links, error = content.pop("links"), content.pop("error")
            if links is not None:
                tuples = {name: tuple(links[name]) for name in ("missing", "unknown")}
                links = EngineReport(**{**links, **tuples, "engine": Engine(**links["engine"])})
            return cls(**content, tables=tables, links=links, error=TrialError(**error) if error is not None else None)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnreadableReport(f"A trial's report can't be read: {error}", found=text[:200]) from error


def new_trial_id(now: int, entropy: str) -> str:
    """`trial-<yyyymmddThhmmssZ>-<8 hexadecimal digits>`. `now` is epoch ms, `entropy` at least 8 hexadecimal digits, new ones each time."""
    return f"trial-{datetime.fromtimestamp(now / 1000, tz=timezone.utc):%Y%m%dT%H%M%SZ}-{entropy[:8]}"


def scratch_prefix(trial: str) -> str:
    """Under which the trial's objects and tables lie in the silver bucket, until it has removed them."""
    return f"{TRIALS_PREFIX}{trial}/"


def trial_report_key(trial: str) -> str:
    """Where the job's report lies in the silver bucket. It stays."""
    return f"{TRIALS_PREFIX}{trial}.json"
