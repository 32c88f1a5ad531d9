"""The clock and the log that running code is given."""

from __future__ import annotations

from typing import Any, Protocol


class Clock(Protocol):
    """The time of day, and waiting."""

    def now_ms(self) -> int:
        """Epoch milliseconds, UTC."""
        ...

    def wait(self, seconds: float) -> None:
        """Block this thread."""
        ...


class Log(Protocol):
    """A log of events with fields. Safe from several threads."""

    def event(self, name: str, **fields: Any) -> None:
        """Write an event."""
        ...

    def failure(self, name: str, error: BaseException, **fields: Any) -> None:
        """Write an error with its facts and its trace."""
        ...
