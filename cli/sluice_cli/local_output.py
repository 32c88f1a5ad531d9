"""What `sluice local` shows: steps while it starts, and where everything is once it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.status import Status

from sluice_cli.output import say, stderr_console
from sluice_local.home import Description, Home

_POLL_S = 0.05


class ProgressLines:
    """A line per step: the current one with a spinner in a terminal, all of them plainly in a file."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None

    def say(self, line: str) -> None:
        """Start a step; the one before is done."""
        if not self._console.is_terminal:
            say(line)
            return
        if self._status is None:
            self._status = self._console.status("")
            self._status.start()
        self._status.update(line)

    def stop(self) -> None:
        """The last step is done."""
        if self._status is not None:
            self._status.stop()
            self._status = None


@contextmanager
def progress_lines() -> Iterator[ProgressLines]:
    """Progress for the length of a block."""
    progress = ProgressLines(stderr_console())
    try:
        yield progress
    finally:
        progress.stop()


def following(file: Path, *, until: Callable[[], bool]) -> Iterator[str]:
    """What a growing file says, as it says it, and the rest once `until` is true."""
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


def print_ready(description: Description, home: Home) -> None:
    """Everything an S3 client needs, on stdout."""
    rows = [
        ("bronze", f"s3://{description.buckets['bronze']}"),
        ("silver", f"s3://{description.buckets['silver']}"),
        ("artifacts", f"s3://{description.buckets['artifacts']}"),
        ("endpoint", description.endpoint),
        ("EMR Serverless", description.emr_endpoint),
        ("region", description.region),
        ("access key", description.credentials["access_key_id"]),
        ("secret key", description.credentials["secret_access_key"]),
        ("release", description.release),
        ("file", str(home.file)),
    ]
    print(f"Ready after {description.ready_seconds:.1f} s", flush=True)
    for name, value in rows:
        print(f"  {name:<15} {value}", flush=True)
