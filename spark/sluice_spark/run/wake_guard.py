"""Keeps a driver that stood still, and may have been replaced meanwhile, from writing before it has looked at its lane.

Hudi looks at an instant and then puts it; a driver that was stopped between the two would go on with the put.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Callable

from sluice.ports import Log

# Far below the time in which a driver is found dead and another one has started Spark and rolls back.
LONGEST_STOP_S = 5.0
EVERY_S = 0.25
EXIT_LOST = 3  # of a driver that lost its lane


class WakeGuard:
    """Watches the clock in a thread. After a gap it stops the JVM, reads the lane, and lets it go on or ends both.

    It narrows the window and doesn't close it: the JVM runs beside this thread for the moment until it is stopped, and
    a JVM that stood still alone isn't noticed. A computer that slept as a whole has no gap by this clock.
    """

    def __init__(
        self,
        still_held: Callable[[], bool],
        jvm_pid: Callable[[], int | None],
        log: Log,
        *,
        kill: Callable[[int, int], None] = os.kill,
        exit: Callable[[int], None] = os._exit,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`jvm_pid` gives None until Spark has started."""
        self._still_held = still_held
        self._jvm_pid = jvm_pid
        self._log = log
        self._kill = kill
        self._exit = exit
        self._monotonic = monotonic
        self._ended = threading.Event()
        self._pid: int | None = None

    def start(self) -> None:
        """Begin to watch; for after the lane is held."""
        threading.Thread(target=self.watch, name="wake-guard", daemon=True).start()

    def end(self) -> None:
        """Watch no longer: the lane is about to be released, or the process ends."""
        self._ended.set()

    def watch(self, wait: Callable[[float], bool] | None = None) -> None:
        """Look at the clock until `end`; `wait` waits some seconds and gives True at the end."""
        wait = wait or self._ended.wait
        while True:
            before = self._monotonic()
            if wait(EVERY_S):
                return
            stood_still_s = self._monotonic() - before
            if stood_still_s > LONGEST_STOP_S:
                self.woke(stood_still_s)
            elif self._pid is None:
                self._pid = self._jvm_pid()

    def woke(self, stood_still_s: float) -> None:
        """Stop the JVM until the ledger says that the lane is still held; end both where it isn't, or can't be read."""
        self._signal(signal.SIGSTOP)
        try:
            held = self._still_held()
        except Exception as error:  # without an answer the driver can't go on
            self._log.failure("lane_unreadable", error)
            held = False
        self._log.event("stood_still", level="warning", seconds=round(stood_still_s, 3), held=held)
        if held or self._ended.is_set():
            self._signal(signal.SIGCONT)
            return
        self._signal(signal.SIGKILL)
        self._exit(EXIT_LOST)

    def _signal(self, number: int) -> None:
        if self._pid is not None:
            self._kill(self._pid, number)
