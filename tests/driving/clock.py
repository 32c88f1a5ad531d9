"""A clock that only waiting moves; the rest of a test can be scheduled on it."""

from __future__ import annotations

import threading
from collections.abc import Callable

START = 1_700_000_000_000


class ManualClock:
    """Waiting moves the time and lets what was put on it happen. A test that waits for ever fails instead."""

    def __init__(self, most_waits: int = 50_000) -> None:
        self.now = START
        self.waited: list[float] = []
        self._most_waits = most_waits
        self._plans: list[tuple[int, Callable[[], None]]] = []
        self._lock = threading.RLock()

    def now_ms(self) -> int:
        return self.now

    def wait(self, seconds: float) -> None:
        with self._lock:
            self.waited.append(seconds)
            assert len(self.waited) <= self._most_waits, "the run waits without end"
            self.advance(max(1, round(seconds * 1000)))

    def at(self, seconds: float, happens: Callable[[], None]) -> None:
        """Let something happen that many seconds after the start."""
        self._plans.append((START + round(seconds * 1000), happens))
        self._plans.sort(key=lambda plan: plan[0])

    def advance(self, milliseconds: int) -> None:
        until = self.now + milliseconds
        while self._plans and self._plans[0][0] <= until:
            moment, happens = self._plans.pop(0)
            self.now = max(self.now, moment)
            happens()
        self.now = max(self.now, until)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return (self.now - START) / 1000
