"""Counts and times the AWS calls of an invocation, for its last log line."""

from __future__ import annotations

import threading
import time
from typing import Any

_BEGUN = "sluice_begun_at"


class CallTimes:
    """Calls and milliseconds by operation, from botocore's events. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: dict[str, list[float]] = {}

    def watch(self, events: Any) -> None:
        """Time the calls of every client that is made later of the session whose `events` these are."""
        events.register("before-call", self._begin)
        events.register("after-call", self._end)
        events.register("after-call-error", self._end)

    def take(self) -> dict[str, dict[str, int]]:
        """The calls since the last `take`: `n` and the sum of their `ms`, repetitions included, by operation.

        Calls of several threads overlap, so the sum may exceed the invocation's time.
        """
        with self._lock:
            times, self._times = self._times, {}
        return {name: {"n": len(seconds), "ms": round(sum(seconds) * 1000)} for name, seconds in sorted(times.items())}

    def _begin(self, context: dict[str, Any], **_: Any) -> None:
        context[_BEGUN] = time.perf_counter()

    def _end(self, context: dict[str, Any], event_name: str, **_: Any) -> None:
        begun_at = context.get(_BEGUN)
        if begun_at is None:
            return
        operation = event_name.split(".", 1)[1]  # <event>.<service>.<operation>
        with self._lock:
            self._times.setdefault(operation, []).append(time.perf_counter() - begun_at)
