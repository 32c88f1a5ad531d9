"""Where a batch's time went: seconds by stage, added up from several threads."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import Callable, Dict, Iterator


class Profile:
    """Adds seconds to named stages. Stages of parallel tables add up, so their sum may exceed `wall`."""

    def __init__(self, tick: Callable[[], float] = time.perf_counter) -> None:
        self._tick = tick
        self._began = tick()
        self._seconds: Dict[str, float] = {}
        self._lock = threading.Lock()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a block, also when it raises."""
        began = self._tick()
        try:
            yield
        finally:
            self.add(name, self._tick() - began)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds measured elsewhere."""
        with self._lock:
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def seconds(self) -> Dict[str, float]:
        """Seconds by stage, to the millisecond, and `wall` since this profile began."""
        with self._lock:
            stages = {name: round(value, 3) for name, value in self._seconds.items()}
        stages["wall"] = round(self._tick() - self._began, 3)
        return stages
