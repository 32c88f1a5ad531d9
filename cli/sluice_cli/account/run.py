"""What is said of a run: how long it took, and how many batches it committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LAPSED = "lapsed"  # ended without releasing its lane


def run_ms(item: Mapping[str, Any], now: int) -> int | None:
    """How long a run took, or takes until `now` (ms): since its start, or before that since its request."""
    began, ended = item.get("started_at") or item.get("requested_at"), item.get("ended_at")
    return None if began is None else max(0, (now if ended is None else ended) - began)


def batches_of_run(state: str | None, number: int | None) -> str:
    """The number of batches. Of a run that died the ledger counts none, so that 0 says nothing."""
    return "-" if number is None or state == LAPSED and not number else f"{number:,}"
