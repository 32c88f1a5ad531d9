"""The clock, the log and the report that running code is given."""

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


class Report(Protocol):
    """Log and metrics of a function. Not safe from several threads."""

    def event(self, name: str, /, **fields: Any) -> None:
        """Log an event."""

    def warn(self, name: str, /, **fields: Any) -> None:
        """Log an event that may need a person's attention."""

    def count(self, metric: str, n: float = 1, /, *, unit: str = "Count", **dimensions: str) -> None:
        """Add to a metric of this function and, with dimensions (lane, reason), to a metric of theirs.

        Alarms watch the sum; people look at the parts.
        """
