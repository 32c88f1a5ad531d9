"""The driver's log, one JSON object per line, and the profile of a batch, in seconds by stage."""

from __future__ import annotations

import json
import re
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable, TextIO

from sluice.errors import SluiceError

# Characters. Spark and Hudi put whole plans and traces into messages.
_LONGEST_MESSAGE = 2_000
_LONGEST_TRACE = 6_000
_MOST_CAUSES = 5
_own = re.compile(r"sluice(_\w+)?\.").match  # the name of a module of Sluice


class RunLog:
    """Writes events to a stream, whole lines also from several threads."""

    def __init__(self, stream: TextIO, now_ms: Callable[[], int], **bound: Any) -> None:
        """`bound` fields (run, lane) are added to every event."""
        self._stream = stream
        self._now_ms = now_ms
        self._bound = bound
        self._lock = threading.Lock()

    def event(self, name: str, **fields: Any) -> None:
        """Write one event. Fields that are None are left out; values without a JSON form are written as text."""
        record = {"at": self._now_ms(), "event": name, **self._bound, **fields}
        line = json.dumps({k: v for k, v in record.items() if v is not None}, default=str, ensure_ascii=True)
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()

    def failure(self, name: str, error: BaseException, **fields: Any) -> None:
        """Write an error with its facts and its trace; message and trace are cut to a maximum length."""
        facts = {}
        if isinstance(error, SluiceError):
            facts = {"code": error.code, "retriable": error.retriable, "facts": error.facts}
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.event(
            name,
            level="error",
            error=describe(error),
            error_type=type(error).__name__,
            trace=trace[-_LONGEST_TRACE:],
            **facts,
            **fields,
        )


_frames = re.compile(r"\n[ \t]+at .*|\n[ \t]*\.\.\. \d+ more|\nDriver stacktrace:")
_calling = re.compile(r"\AAn error occurred while calling \S+\n: ")  # of Py4J


def describe(error: BaseException) -> str:
    """An error as text of a limited length, for a log event or a ledger item.

    Of Java's exceptions the innermost is named, then the outermost: the others and the frames are in the log's trace.
    """
    text = str(error) or type(error).__name__
    if _frames.search(text):
        outer, *causes = _frames.sub("", _calling.sub("", text)).strip().split("\nCaused by: ")
        text = f"{causes[-1]} (of {outer})" if causes else outer
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "…"


def failure_place(error: BaseException) -> str:
    """The classes of an error and its causes, and the line of Sluice that it passed last: never a value of a row.

    Messages may quote values: that of a cast in Arrow does, and so does that of a task that failed.
    """
    classes: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(classes) < _MOST_CAUSES:
        classes.append(type(cause).__name__)
        cause = cause.__cause__
    names = ", caused by ".join(classes)
    frames = ((str(frame.f_globals.get("__name__")), line) for frame, line in traceback.walk_tb(error.__traceback__))
    places = [f"{module.replace('.', '/')}.py:{line}" for module, line in frames if _own(module)]
    return f"{names} at {places[-1]}" if places else names


class Profile:
    """Adds up the seconds of named stages. Those of parallel tables add up too, so the sum may exceed `wall`."""

    def __init__(self, tick: Callable[[], float] = time.perf_counter) -> None:
        self._tick = tick
        self._began = tick()
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of a block, also where it raises."""
        began = self._tick()
        try:
            yield
        finally:
            self.add(name, self._tick() - began)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds measured elsewhere."""
        with self._lock:
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def seconds(self) -> dict[str, float]:
        """Seconds by stage, to the millisecond, and `wall` since this profile began."""
        with self._lock:
            stages = {name: round(value, 3) for name, value in self._seconds.items()}
        stages["wall"] = round(self._tick() - self._began, 3)
        return stages
