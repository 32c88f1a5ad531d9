"""The time of day, asked for in one place so that everything else can be given it."""

from __future__ import annotations

import time


def epoch_ms() -> int:
    """Milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000
