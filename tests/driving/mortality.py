"""A process that dies at a chosen step: the call takes effect, its answer never arrives, and nothing follows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Killed(BaseException):
    """kill -9: no handler for errors may see it and go on."""


class Mortality:
    """Counts the calls of one process over all its ports, and ends the process behind the chosen one.

    `dies_at` is the call's number from 1, `dies_behind` the name of a call, of which the first counts.
    """

    def __init__(self, dies_at: int | None = None, *, dies_behind: str | None = None) -> None:
        self.steps: list[str] = []
        self.dead = False
        self._dies_at = dies_at
        self._dies_behind = dies_behind
        self._lock = threading.Lock()

    def around(self, name: str, port: Any) -> Any:
        """The port as the mortal process has it. The ledger is left alone: each call of its client is a step."""
        return port if name == "ledger" else _Mortal(name, port, self)

    def step(self, name: str, call: Callable[[], Any]) -> Any:
        """Do one step, unless the process is dead."""
        if self.dead:
            raise Killed(name)
        answer = call()
        with self._lock:
            self.steps.append(name)
            if len(self.steps) == self._dies_at or name == self._dies_behind:
                self.dead = True
        if self.dead:
            raise Killed(name)
        return answer


class _Mortal:
    def __init__(self, name: str, port: Any, mortality: Mortality) -> None:
        self._name = name
        self._port = port
        self._mortality = mortality

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        call = getattr(self._port, operation)
        return lambda *given, **more: self._mortality.step(f"{self._name}.{operation}", lambda: call(*given, **more))
