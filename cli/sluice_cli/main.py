"""The `sluice` command. It imports the rest where Ctrl-C is caught: an interrupted import is no traceback, either."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

INTERRUPTED = 130  # as shells report SIGINT


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and end the process with its exit code."""
    try:
        from sluice_cli.terminal.guard import guard_output

        guard_output()  # for the traceback of an unexpected error, too
        code = run(arguments)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing but the exit is left
        print("Interrupted", file=sys.stderr, flush=True)
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    from sluice_cli.terminal.run import run_command
    from sluice_cli.verbs import built

    return run_command(built(), arguments)
