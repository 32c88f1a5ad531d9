"""The machine's clock: the one place that reads the time of day."""

from __future__ import annotations

import time


def epoch_ms() -> int:
    """Milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


class WallClock:
    """The Clock port on this machine's time."""

    def now_ms(self) -> int:
        """Epoch milliseconds, UTC."""
        return epoch_ms()

    def wait(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)
