"""The cache of downloads of a machine, and a lock against fetching twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def cache_directory(environment: Mapping[str, str]) -> Path:
    """SLUICE_CACHE, or `sluice` in the user's cache directory. It holds jars, class archives and wheels."""
    given = environment.get("SLUICE_CACHE")
    if given:
        return Path(given).expanduser().absolute()
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME") or "~").expanduser() / ".cache")
    return Path(base) / "sluice"


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Hold a lock file. A second process waits here, and then finds the work done."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as handle:
        locked(handle, wait=True)
        yield


def locked(handle: IO[str], *, wait: bool) -> bool:
    """Lock an open file until it is closed. Returns False where another process has locked it and `wait` is false.

    Windows has no such locks: no local stack runs there, and two processes may download the same file.
    """
    try:
        import fcntl
    except ModuleNotFoundError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
