"""A local stack's folder: the description for its users, and the process that owns it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sluice_local.cache import locked
from sluice_local.emulators.ministack_program import ASKED, COMPLETE
from sluice_local.errors import AlreadyRunning, NotRunning
from sluice_local.processes import LOOPBACK

_FOLDER = ".sluice"
_VARIABLE = "SLUICE_HOME"
_ADDRESSES = "addresses.json"


@dataclass(frozen=True)
class Description:
    """Content of `local.json` while a stack runs: enough for any S3 client, and for every command."""

    stack: str
    region: str
    endpoint: str
    emr_endpoint: str
    buckets: Mapping[str, str]  # bronze, silver, artifacts
    ledger: str
    credentials: Mapping[str, str]  # access_key_id, secret_access_key
    application_id: str
    release: str
    pids: Mapping[str, int]  # owner, emulator
    outputs: Mapping[str, str] = field(default_factory=dict)
    ready_seconds: float = 0.0
    emulator: str = "MiniStack"
    bind: str = LOOPBACK  # the IPv4 address on which emulator and stand-in listen


@dataclass(frozen=True)
class Home:
    """The folder of one local stack."""

    path: Path

    @property
    def file(self) -> Path:
        """Describes the running stack."""
        return self.path / "local.json"

    @property
    def log(self) -> Path:
        """Output of a detached stack."""
        return self.path / "up.log"

    @property
    def runs(self) -> Path:
        """One folder per job run, with its output."""
        return self.path / "runs"

    @property
    def kept(self) -> Path:
        """What `sluice local down --keep` kept, for the next start."""
        return self.path / "kept"

    def ask_to_keep(self, description: Description) -> None:
        """Have the running stack keep its buckets, tables and ledger when it ends, for the same addresses."""
        self.kept.mkdir(mode=0o700, exist_ok=True)
        addresses = {"port": _port(description.endpoint), "emr_port": _port(description.emr_endpoint)}
        (self.kept / _ADDRESSES).write_text(json.dumps(addresses))
        (self.kept / ASKED).touch()

    def is_asked_to_keep(self) -> bool:
        """Whether the running stack was asked to keep its data."""
        return (self.kept / ASKED).exists()

    def has_kept(self) -> bool:
        """Whether the stack that was asked last kept everything; what an earlier one kept stays until then."""
        return (self.kept / COMPLETE).exists() and not self.is_asked_to_keep()

    def kept_ports(self) -> tuple[int, int] | None:
        """The ports of emulator and stand-in when everything was kept. None where nothing is kept."""
        if not (self.kept / COMPLETE).exists():
            return None
        addresses = json.loads((self.kept / _ADDRESSES).read_text())
        return int(addresses["port"]), int(addresses["emr_port"])

    @contextmanager
    def own(self) -> Iterator[None]:
        """Own the folder for the length of a block. The kernel releases it when this process ends in any way.

        Raises AlreadyRunning.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "owner").open("a+") as handle:
            if not locked(handle, wait=False):
                raise AlreadyRunning(
                    f"A local stack already runs in {self.path} (process {self.owner()})",
                    home=str(self.path),
                    pid=self.owner(),
                )
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
            try:
                yield
            finally:
                self.file.unlink(missing_ok=True)

    def owner(self) -> int | None:
        """The process that owns the folder, or None. A file left by a killed process doesn't count."""
        try:
            with (self.path / "owner").open("a+") as handle:
                if locked(handle, wait=False):
                    return None
                handle.seek(0)
                return int(handle.read() or 0) or None
        except FileNotFoundError:
            return None

    def describe(self, description: Description) -> None:
        """Write `local.json` atomically, readable by its owner only, since it holds credentials."""
        partial = self.file.with_suffix(".partial")
        partial.touch(mode=0o600)
        partial.write_text(json.dumps(asdict(description), indent=2) + "\n")
        partial.replace(self.file)

    def description(self) -> Description:
        """The description of the running stack. Raises NotRunning."""
        if self.owner() is None or not self.file.exists():
            raise NotRunning(f"No local stack runs in {self.path}", home=str(self.path))
        return Description(**json.loads(self.file.read_text()))


def _port(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])


def chosen_home(environment: Mapping[str, str], folder: Path) -> Home:
    """Where `up` puts a stack: SLUICE_HOME, or `.sluice` in `folder`."""
    given = environment.get(_VARIABLE)
    return Home(Path(given).expanduser().absolute() if given else (folder / _FOLDER).absolute())


def running_home(environment: Mapping[str, str], folder: Path) -> Home:
    """SLUICE_HOME, or the nearest `.sluice` from `folder` upwards with a running stack, or else the one in `folder`."""
    if environment.get(_VARIABLE):
        return chosen_home(environment, folder)
    homes = [Home(parent / _FOLDER) for parent in (folder.absolute(), *folder.absolute().parents)]
    return next((home for home in homes if home.owner() is not None), homes[0])
