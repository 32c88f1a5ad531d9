"""What is remembered of a Hudi bundle on an engine: whether it has what the bundle links to, and who accepted what is missing."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Dict, Optional, Tuple

from sluice.engine_links import RULES, Verdict
from sluice.errors import SluiceError
from sluice.silver_keys import PREFIX

FORMAT = 1
REPORTS_PREFIX = f"{PREFIX}/engines/"
MOST_TOLD = 100  # of missing links: a bundle for another Spark lacks hundreds, and a few say it


class UnreadableReport(SluiceError):
    """An engine's or a trial's report that this release can't read; facts: `found`."""

    code = "unreadable_report"
    next_step = "Delete the object: the next check writes it anew"


class NoBundle(SluiceError):
    """Spark's class path has no Hudi bundle."""

    code = "no_hudi_bundle"
    next_step = "Set the parameter HudiJars to a Hudi bundle for this Spark, and deploy again"


class EngineDoesNotFit(SluiceError):
    """The engine lacks what the Hudi bundle links to; facts: `missing` (texts), `engine`, `bundle`."""

    code = "engine_does_not_fit"
    next_step = "Set HudiJars to the bundle that is built for this Spark, or EmrRelease to one that it fits, and deploy again; `sluice doctor --job` lists what is missing and tries the rest out"


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
    missing: Tuple[str, ...] = ()
    unknown: Tuple[str, ...] = ()
    more_missing: int = 0
    unchecked: int = 0
    accepted: Optional[str] = None

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
        told = f"{self.missing[0]}{f', and {count - 1:,} more' if count > 1 else ''}"
        return EngineDoesNotFit(
            f"{self.engine} lacks what the Hudi bundle {self.jar} links to: {told}",
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
            content: Dict[str, Any] = json.loads(text)
            if content.pop("format") != FORMAT:
                raise UnreadableReport("A report of another format", found=text[:200])
            told = {name: tuple(content.pop(name)) for name in ("missing", "unknown")}
            return cls(**{**content, **told, "engine": Engine(**content["engine"])})
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
    told = json.dumps([RULES, bundle, engine.spark, engine.hadoop, engine.scala])
    return f"{REPORTS_PREFIX}{hashlib.sha256(told.encode('ascii')).hexdigest()[:20]}.json"
