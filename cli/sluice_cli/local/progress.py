"""Progress of the local stack: a line per step, and its interruption."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console

from sluice_cli.terminal.output import say, stderr_console


class ProgressLines:
    """A line per step. A terminal shows the current one with a spinner; a file gets all of them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("")

    def say(self, line: str) -> None:
        """Start a step, and end the one before."""
        if not self._console.is_terminal:
            say(line)
            return
        self._status.start()
        self._status.update(line)

    def stop(self) -> None:
        """End the last step."""
        self._status.stop()


@contextmanager
def interruptible() -> Iterator[list[bool]]:
    """Have SIGTERM and SIGHUP interrupt as Ctrl-C does. The list is no longer empty once one did.

    A signal that is ignored, as a script ignores Ctrl-C for what runs in its background, stays so.
    """
    interrupted: list[bool] = []

    def note(number: int, frame: FrameType | None) -> None:
        interrupted.append(True)
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers if signal.getsignal(number) != signal.SIG_IGN}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def progress_lines() -> Iterator[ProgressLines]:
    """Progress lines that stop at the end of the block."""
    progress = ProgressLines(stderr_console())
    try:
        yield progress
    finally:
        progress.stop()
