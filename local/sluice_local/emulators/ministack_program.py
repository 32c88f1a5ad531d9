"""The program of MiniStack's process: MiniStack, with what an earlier process kept.

MiniStack can save the state of its services at its end (PERSIST_STATE), but not the objects of buckets and their
versions, unless it writes each to disk when it is put. This program saves the objects with the rest, and only where
`ASKED` is in the folder of environment variable STATE_DIR. `sluice_local.emulators.ministack` starts it.
"""

from __future__ import annotations

import os
import pickle  # nosec B403
import sys
from pathlib import Path
from typing import Any

ASKED, COMPLETE = "asked", "complete"  # files: keep everything at the end; everything was kept
OBJECTS = "objects.pickle"
_PLAIN = {
    *(("builtins", name) for name in ("set", "frozenset", "bytearray")),
    *(("datetime", name) for name in ("datetime", "timezone", "timedelta")),
    *(("collections", name) for name in ("OrderedDict", "defaultdict", "deque")),
}


def main() -> None:
    """Run MiniStack until it is asked to end. Its interpreter for functions is the first argument."""
    sys.executable = sys.argv.pop(1)
    from ministack import app
    from ministack.services import s3

    folder = Path(os.environ["STATE_DIR"])
    save_services = app.save_all

    def save_all(services: Any) -> None:
        if (folder / ASKED).exists():
            (folder / COMPLETE).unlink(missing_ok=True)
            save_services(services)
            _save(s3, folder)

    app.save_all = save_all
    if (folder / COMPLETE).exists():
        restore(s3, folder)
    app.main()


def _save(s3: Any, folder: Path) -> None:
    folder.chmod(0o700)
    with (folder / OBJECTS).open("wb") as file:
        pickle.dump({name: dict(store._data) for name, store in _stores(s3).items()}, file, protocol=5)
    (folder / ASKED).rename(folder / COMPLETE)


def restore(s3: Any, folder: Path) -> None:
    """Give S3 what was kept. Raises UnpicklingError for anything but plain values."""
    with (folder / OBJECTS).open("rb") as file:
        kept = _Plain(file).load()
    for name, store in _stores(s3).items():
        store._data.update(kept.get(name, {}))


class _Plain(pickle.Unpickler):  # nosec B301
    """Reads plain values. The file may come with a clone of somebody else's folder: it can't name code to be called."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"what was kept holds a {module}.{name}, which no bucket has")


def _stores(s3: Any) -> dict[str, Any]:
    """Everything that S3 keeps for an account: buckets with their objects, versions, tags and uploads."""
    from ministack.core.responses import AccountScopedDict

    return {name: value for name, value in vars(s3).items() if isinstance(value, AccountScopedDict)}


if __name__ == "__main__":
    main()
