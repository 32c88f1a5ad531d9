"""One decision of a proposed rule: what is proposed, how sure that is, and what speaks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

CERTAIN, LIKELY, AMBIGUOUS = "certain", "likely", "ambiguous"


@dataclass(frozen=True)
class Choice:
    """One decision of a rule: the value proposed (empty: none), how sure, what speaks for it, and what else could be."""

    value: Tuple[str, ...]
    confidence: str
    evidence: Tuple[str, ...]
    alternatives: Tuple[Tuple[str, ...], ...] = ()

    @property
    def decided(self) -> bool:
        """Whether it may go into a rule without anybody choosing."""
        return self.confidence != AMBIGUOUS


def counted(count: int, noun: str) -> str:
    """(2, "row") -> "2 rows"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
