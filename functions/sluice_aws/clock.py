"""The machine's clock: the one place that reads the time of day."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime


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


class StoreClock:
    """This machine's time, set right by the date of a store's answer: an operator's clock may be minutes off.

    Runs stamp their batches by AWS's time, and what an operator stamps is compared with them.
    """

    def __init__(self, answered_at: str) -> None:
        """`answered_at` is the header `Date` of an answer that has just come, in whole seconds."""
        second, now = int(parsedate_to_datetime(answered_at).timestamp() * 1000), epoch_ms()
        # An answer takes its time: a clock within a second or two of the date needs no correction.
        self._offset_ms = 0 if -1000 < now - second < 3000 else second + 500 - now

    def now_ms(self) -> int:
        """Epoch milliseconds, UTC."""
        return epoch_ms() + self._offset_ms
