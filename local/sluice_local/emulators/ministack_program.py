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
_OBJECTS = "objects.pickle"


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
        _restore(s3, folder)
    app.main()


def _save(s3: Any, folder: Path) -> None:
    folder.chmod(0o700)
    with (folder / _OBJECTS).open("wb") as file:
        pickle.dump({name: dict(store._data) for name, store in _stores(s3).items()}, file, protocol=5)
    (folder / ASKED).rename(folder / COMPLETE)


def _restore(s3: Any, folder: Path) -> None:
    with (folder / _OBJECTS).open("rb") as file:
        kept = pickle.load(file)  # nosec B301: written above, in the stack's own folder
    for name, store in _stores(s3).items():
        store._data.update(kept.get(name, {}))


def _stores(s3: Any) -> dict[str, Any]:
    """Everything that S3 keeps for an account: buckets with their objects, versions, tags and uploads."""
    from ministack.core.responses import AccountScopedDict

    return {name: value for name, value in vars(s3).items() if isinstance(value, AccountScopedDict)}


if __name__ == "__main__":
    main()
