"""What is remembered of a Hudi bundle on an engine: whether it has what the bundle links to, and who accepted what is missing.

A trial of the engine: what `sluice doctor --job` has one job do, where it does it, and what the job reports.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from sluice.engine.links import RULES, Verdict
from sluice.errors import EngineDoesNotFit, UnreadableReport
from sluice.silver_keys import PREFIX

FORMAT = 1
REPORTS_PREFIX = f"{PREFIX}/engines/"
MOST_TOLD = 100  # of missing links: a bundle for another Spark lacks hundreds, and a few say it


@dataclass(frozen=True)
class Engine:
    """Versions of what jobs run on, as each says itself."""

    spark: str
    hadoop: str
    scala: str
    java: str

    def __str__(self) -> str:
        return f"Spark {self.spark}, Hadoop {self.hadoop}, Scala {self.scala}, Java {self.java}"


@dataclass(frozen=True)
class EngineReport:
    """One check. `bundle` is bundle_checksum's, `hudi` what the jar calls its version (empty: nothing); times in epoch ms. `accepted` says who lets runs go on though links are missing."""

    bundle: str
    jar: str
    hudi: str
    engine: Engine
    checked_at: int
    links: int
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    more_missing: int = 0
    unchecked: int = 0
    accepted: str | None = None

    @property
    def key(self) -> str:
        """Where in the silver bucket the report lies."""
        return report_key(self.bundle, self.engine)

    @property
    def fits(self) -> bool:
        """Whether runs may write tables."""
        return not self.missing or self.accepted is not None

    def accept(self, who: str) -> EngineReport:
        """The same, with what is missing accepted."""
        return replace(self, accepted=who)

    def refusal(self) -> EngineDoesNotFit:
        """The error that a run ends with."""
        count = len(self.missing) + self.more_missing
        summary = f"{self.missing[0]}{f', and {count - 1:,} more' if count > 1 else ''}"
        return EngineDoesNotFit(
            f"{self.engine} lacks what the Hudi bundle {self.jar} links to: {summary}",
            missing=list(self.missing[:10]),
            engine=str(self.engine),
            bundle=self.bundle,
        )

    def to_json(self) -> str:
        """Canonical JSON."""
        return json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True, ensure_ascii=True)

    @classmethod
    def from_json(cls, text: str) -> EngineReport:
        """Read what `to_json` wrote. Raises UnreadableReport for anything else."""
        try:
            content: dict[str, Any] = json.loads(text)
            if content.pop("format") != FORMAT:
                raise UnreadableReport("A report of another format", found=text[:200])
            summary = {name: tuple(content.pop(name)) for name in ("missing", "unknown")}
            return cls(**{**content, **summary, "engine": Engine(**content["engine"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnreadableReport(f"A report of an engine can't be read: {error}", found=text[:200]) from error


def report_of(verdict: Verdict, *, bundle: str, jar: str, hudi: str, engine: Engine, checked_at: int) -> EngineReport:
    """What a check came to, bounded."""
    return EngineReport(
        bundle=bundle,
        jar=jar,
        hudi=hudi,
        engine=engine,
        checked_at=checked_at,
        links=verdict.links,
        missing=tuple(str(one) for one in verdict.missing[:MOST_TOLD]),
        unknown=tuple(str(one) for one in verdict.unknown[:MOST_TOLD]),
        more_missing=max(0, len(verdict.missing) - MOST_TOLD),
        unchecked=verdict.unchecked,
    )


def report_key(bundle: str, engine: Engine) -> str:
    """One report for each bundle on each Spark, Hadoop and Scala, and for each set of rules. Versions come from elsewhere: a hash stands for them."""
    summary = json.dumps([RULES, bundle, engine.spark, engine.hadoop, engine.scala])
    return f"{REPORTS_PREFIX}{hashlib.sha256(summary.encode('ascii')).hexdigest()[:20]}.json"


TRIAL_FORMAT = 1
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
    steps: tuple[Step, ...] = ()
    rows: int = 0
    differences: tuple[str, ...] = ()

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
    described_at: int
    doing: str = ""
    job_run_id: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)
    links: EngineReport | None = None
    links_seconds: float = 0.0
    tables: tuple[TableTrial, ...] = ()
    error: TrialError | None = None
    left: str | None = None  # what could not be removed, and why

    def to_json(self) -> str:
        """Canonical JSON."""
        return json.dumps(
            {"format": TRIAL_FORMAT, **asdict(self), "versions": dict(self.versions)}, sort_keys=True, ensure_ascii=True
        )

    @classmethod
    def from_json(cls, text: str) -> TrialReport:
        """Read what `to_json` wrote. Raises UnreadableReport for anything else."""
        try:
            content: dict[str, Any] = json.loads(text)
            if content.pop("format") != TRIAL_FORMAT:
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
