"""The progress of an audit that goes on over many short invocations: its place, what it found, and when it ended.

A round goes through the phases in order. A page of a phase is judged with what concerns it alone, so that memory is
bounded: objects of bronze with the batch that their record names, batches with their objects' records and the named
commit, and tables with all commits of their timeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

BRONZE, BATCHES, TABLES, DONE = "bronze", "batches", "tables", "done"
PHASES = (BRONZE, BATCHES, TABLES, DONE)
#: A round begins so long after the last one began, or when that one ends, if it takes longer.
ROUND_MS = 86_400_000


@dataclass(frozen=True)
class AuditRound:
    """A round, and what the last whole one found. Times are epoch ms.

    `after` is where the phase resumes. `found` and `last_found` count contradictions by code. `ended_at` is when the
    last whole round ended; until then, `first_at` is when the first one began.
    """

    began_at: int
    first_at: int
    phase: str = BRONZE
    after: tuple[str, ...] | None = None
    found: Mapping[str, int] = field(default_factory=dict, hash=False)
    last_found: Mapping[str, int] = field(default_factory=dict, hash=False)
    ended_at: int | None = None

    def begun(self, now: int) -> AuditRound:
        """This round, or a new one if this one is done and the next is due."""
        if self.phase != DONE or now - self.began_at < ROUND_MS:
            return self
        return replace(self, began_at=now, phase=BRONZE)

    def behind(self, after: tuple[str, ...] | None, counts: Mapping[str, int], now: int) -> AuditRound:
        """The round behind one more page; `after` is None behind the last page of a phase."""
        total = {code: self.found.get(code, 0) + counts.get(code, 0) for code in {*self.found, *counts}}
        if after is not None:
            return replace(self, after=after, found=total)
        following = PHASES[PHASES.index(self.phase) + 1]
        if following != DONE:
            return replace(self, phase=following, after=None, found=total)
        return replace(self, phase=DONE, after=None, found={}, last_found=total, ended_at=now)

    def age_s(self, now: int) -> int:
        """How long ago the last whole round ended, or the first one began."""
        return (now - (self.first_at if self.ended_at is None else self.ended_at)) // 1000

    def contradictions(self) -> dict[str, int]:
        """Contradictions by code: those of this round, or of the last one where that found more.

        What was mended counts until a whole round no longer finds it.
        """
        codes = {*self.found, *self.last_found}
        counts = {code: max(self.found.get(code, 0), self.last_found.get(code, 0)) for code in sorted(codes)}
        return {code: count for code, count in counts.items() if count}

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "after": None if self.after is None else list(self.after)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any] | None, now: int) -> AuditRound:
        """Read the result of `to_dict`; a first round for anything else."""
        if not stored or "first_at" not in stored:
            return cls(now, now)
        return cls(**{**stored, "after": None if stored["after"] is None else tuple(stored["after"])})
