"""Bounds the memory of objects that are admitted at the same time: a semaphore counted in bytes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Callable


class Memory:
    """Shares a number of bytes out to threads, first come, first served."""

    def __init__(self, size: int) -> None:
        """`size` is in bytes. Whoever needs more waits until all of it is free, and takes all."""
        self._size = size
        self._free = size
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def share(self, size: int) -> Iterator[Callable[[int], None]]:
        """A share of at least so many bytes, from when they are free until the block ends.

        Gives a function that exchanges the share for one of so many bytes. The old share is given back first: threads
        that each wait for more while they hold some would wait for ever.
        """
        held = 0

        def resize(wanted: int) -> None:
            nonlocal held
            self._give(held)
            held = 0
            if wanted:
                held = self._take(wanted)

        resize(size)
        try:
            yield resize
        finally:
            resize(0)

    def _take(self, size: int) -> int:
        """Wait for so many bytes. Returns what was taken."""
        wanted = min(size, self._size)
        turn = object()
        with self._changed:
            self._waiting.append(turn)
            self._changed.wait_for(lambda: self._waiting[0] is turn and wanted <= self._free)
            self._waiting.popleft()
            self._free -= wanted
            self._changed.notify_all()
        return wanted

    def _give(self, size: int) -> None:
        """Free what `_take` returned."""
        with self._changed:
            self._free += size
            self._changed.notify_all()
