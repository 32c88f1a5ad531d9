"""Bounds the memory of objects that are admitted at the same time: a semaphore counted in bytes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Memory:
    """Shares a number of bytes out to threads, first come, first served."""

    def __init__(self, size: int) -> None:
        """`size` is in bytes. Whoever needs more waits until all of it is free, and takes all."""
        self._size = size
        self._free = size
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def share(self, size: int) -> Iterator[Share]:
        """A share of at least so many bytes, from when they are free until the block ends."""
        share = Share(self)
        share.resize(size)
        try:
            yield share
        finally:
            share.resize(0)

    def take(self, size: int) -> int:
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

    def give(self, size: int) -> None:
        """Free what `take` returned."""
        with self._changed:
            self._free += size
            self._changed.notify_all()


class Share:
    """One thread's share."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._held = 0

    def resize(self, size: int) -> None:
        """Exchange the share for one of so many bytes.

        The old share is given back first: threads that each wait for more while they hold some would wait for ever.
        """
        self._memory.give(self._held)
        self._held = 0
        if size:
            self._held = self._memory.take(size)
