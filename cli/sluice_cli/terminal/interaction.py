"""A question to the person at the terminal, the progress of long work on stderr, and the text of a growing file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from sluice.errors import CommandFailed, UsageError
from sluice_cli.terminal.guard import escaped
from sluice_cli.terminal.output import stderr_console, wrapped

SHOWN_AFTER_S = 2.0


def path_given(text: str) -> Path:
    """The path that an argument or option names. Empty text, as of a variable without a value, would mean `.`."""
    if not text:
        raise typer.BadParameter("it is empty, where the name of a file or folder is needed")
    return Path(text)


_POLL_S = 0.05
_CHOICE = " [y/N]: "  # what Typer writes behind a question


def ask(question: str) -> None:
    """Return only after a yes.

    Raises CommandFailed for a no, KeyboardInterrupt for Ctrl-C, and UsageError where stdin is no terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            "This needs a confirmation, and stdin is not a terminal", next_step="Use --yes to go on without a question"
        )
    try:
        confirmed = typer.confirm("\n".join(wrapped(escaped(question), stderr_console().width - len(_CHOICE))))
    except typer.Abort:  # Ctrl-C, which ends every verb in the same way
        raise KeyboardInterrupt from None
    if not confirmed:
        raise CommandFailed("Nothing was changed")


@contextmanager
def counting(quiet: bool) -> Iterator[Callable[[str, int], None]]:
    """Show one line with the number of things read so far, once that takes longer than SHOWN_AFTER_S."""
    began = time.monotonic()
    status = stderr_console().status("Listing bronze")

    def tick(what: str, done: int) -> None:
        status.update(f"{what}: {done:,}")
        if time.monotonic() - began >= SHOWN_AFTER_S:
            status.start()

    try:
        yield (lambda what, done: None) if quiet else tick
    finally:
        status.stop()


@contextmanager
def bars(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar for each kind of work."""
    console = stderr_console()
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        tasks: dict[str, Any] = {}

        def advance(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total)
            progress.update(tasks[what], completed=done, total=total)

        yield advance


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
