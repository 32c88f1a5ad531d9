"""Progress of the local stack: a line per step, and the text of a growing log file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.status import Status

from sluice_cli.terminal.output import say, stderr_console

_POLL_S = 0.05


class ProgressLines:
    """A line per step. A terminal shows the current one with a spinner; a file gets all of them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None

    def say(self, line: str) -> None:
        """Start a step, and end the one before."""
        if not self._console.is_terminal:
            say(line)
            return
        if self._status is None:
            self._status = self._console.status("")
            self._status.start()
        self._status.update(line)

    def stop(self) -> None:
        """End the last step."""
        if self._status is not None:
            self._status.stop()
            self._status = None


@contextmanager
def progress_lines() -> Iterator[ProgressLines]:
    """Progress lines that stop at the end of the block."""
    progress = ProgressLines(stderr_console())
    try:
        yield progress
    finally:
        progress.stop()


def following(file: Path, *, until: Callable[[], bool]) -> Iterator[str]:
    """The text of a growing file, in pieces, up to its end once `until` is true."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        while True:
            last = until()
            text = lines.read()
            if text:
                yield text
            if last:
                return
            if not text:
                time.sleep(_POLL_S)
