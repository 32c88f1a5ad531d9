"""What a running emulator of AWS is to the rest of the local stack, whichever it is."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice_local import processes as children

REGION = "us-east-1"
ACCOUNT = "000000000000"  # an emulator takes a twelve-digit access key for the account; any other key is this one
ACCESS_KEY = "test"
SECRET_KEY = "test"
TEMPORARY = "tmp"  # in its home: the functions' unpacked packages, some hundred megabytes


@dataclass
class Emulator:
    """A running emulator: no state on disk beyond its home, nothing reachable from other machines."""

    name: str
    port: int
    home: Path
    process: subprocess.Popen[bytes]
    grace_s: float  # it is killed when it takes longer to end than this

    @property
    def endpoint(self) -> str:
        """The URL of every AWS service."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """Where its output goes."""
        return log_of(self.home)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def stop(self) -> None:
        """End it and the functions' processes; what it held is gone, and of its files the log alone is left to be read."""
        children.end(self.process, grace=self.grace_s)
        shutil.rmtree(self.home / TEMPORARY, ignore_errors=True)  # where a file resists, the next start removes it


def run_emulator(
    name: str,
    command: Sequence[str],
    *,
    home: Path,
    port: int,
    environment: Mapping[str, str],
    answers: Callable[[str], bool],
    ready_s: float,
    grace_s: float,
) -> Emulator:
    """Start an emulator's process and return when it `answers` at its endpoint, within `ready_s` seconds; raises DidNotStart, with nothing left running."""
    emulator = Emulator(
        name, port, home, children.start(command, cwd=home, environment=environment, stdout=log_of(home)), grace_s
    )
    try:
        children.wait_until(
            lambda: answers(emulator.endpoint), process=emulator.process, what=name, log=emulator.log, timeout=ready_s
        )
    except BaseException:
        emulator.stop()
        raise
    return emulator


def log_of(home: Path) -> Path:
    """The log of the emulator that runs in `home`."""
    return home / "emulator.log"
