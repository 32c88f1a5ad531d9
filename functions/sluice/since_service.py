"""What happened to a table since a service last ended well there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional

from sluice.claiming import TableState


@dataclass(frozen=True)
class SinceService:
    """What happened to a table since a service last ended well there (`at`, epoch ms, and `instant`; None: never)."""

    commits: int = 0
    bytes_written: int = 0
    deleted: int = 0
    truncated: int = 0
    at: Optional[int] = None
    instant: Optional[str] = None


#: The totals of a table that are remembered when a service begins, by the field of SinceService. Commits are those with an
#: instant: every batch that changed something. Deleted are rows that became tombstones, truncated those that a truncate made so.
TOTALS = ("commits", "bytes_written", "deleted", "truncated")


def since(state: TableState, service: str) -> SinceService:
    """What happened to a table since a service of this kind last ended well there."""
    last: Mapping[str, Any] = state.services.get(service, {})
    counts = {name: max(0, state.totals.get(name, 0) - int(last.get(name, 0))) for name in TOTALS}
    return SinceService(**counts, at=last.get("at"), instant=last.get("instant"))
