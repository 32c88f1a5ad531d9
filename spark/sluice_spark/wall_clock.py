"""The driver's clock."""

from __future__ import annotations

import time

from sluice_aws.clock import epoch_ms


class WallClock:
    """The Clock port on this machine's time."""

    def now_ms(self) -> int:
        """Epoch milliseconds, UTC."""
        return epoch_ms()

    def wait(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)
