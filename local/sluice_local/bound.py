"""Runs a command that dies with its parent: python -I -S bound.py PARENT_PID COMMAND...

A separate script, because no Python code may run between fork and exec in a process with threads. PARENT_PID 0 means
the parent at that moment. On systems without prctl the command just runs, and only an orderly end reaches it.
"""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(arguments: list) -> None:
    parent = int(arguments[0])
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != (parent or os.getppid()):
        sys.exit(1)  # the parent died before prctl was called
    os.execvp(arguments[1], arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
