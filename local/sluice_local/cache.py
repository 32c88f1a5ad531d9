"""The cache of downloads of a machine, and a lock against fetching twice."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def cache_directory(environment: Mapping[str, str]) -> Path:
    """SLUICE_CACHE, or `sluice` in the user's cache directory. It holds jars, class archives and wheels."""
    given = environment.get("SLUICE_CACHE")
    if given:
        return Path(given).expanduser().absolute()
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".cache")
    return Path(base) / "sluice"


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Hold a lock file. A second process waits here, and then finds the work done."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
