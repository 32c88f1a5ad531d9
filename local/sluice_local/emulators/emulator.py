"""A running emulator of AWS, the same for MiniStack and LocalStack."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sluice_local import processes as children

REGION = "us-east-1"
ACCOUNT = "000000000000"  # emulators take a twelve-digit access key for the account, and any other key for this one
ACCESS_KEY = "test"
SECRET_KEY = "test"
KEEPING_S = 120.0  # for an emulator to write its buckets and tables to disk
ANSWER_S = 5.0  # for any answer of an emulator that runs, on a machine with much else to do
TEMPORARY = "tmp"  # in its home: the functions' unpacked packages, some hundreds of megabytes


@dataclass
class Emulator:
    """A running emulator, which this machine reaches at `host`. It keeps no state outside its home."""

    name: str
    port: int
    home: Path
    process: subprocess.Popen[bytes]
    grace_s: float  # it is killed if it takes longer to end
    host: str = children.LOOPBACK

    @property
    def endpoint(self) -> str:
        """The URL of every AWS service."""
        return f"http://{self.host}:{self.port}"

    @property
    def log(self) -> Path:
        """The file of its output."""
        return log_of(self.home)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def stop(self, *, keeps: bool = False) -> None:
        """End it and the functions' processes. Of its files only the log stays. What `keeps` its state has longer."""
        children.end(self.process, grace=KEEPING_S if keeps else self.grace_s)
        shutil.rmtree(self.home / TEMPORARY, ignore_errors=True)  # the next start removes what couldn't be removed


def run_emulator(
    name: str,
    command: Sequence[str],
    *,
    home: Path,
    bind: str,
    port: int,
    environment: Mapping[str, str],
    health: str,
    answers: Callable[[Any], bool] = bool,
    ready_s: float,
    grace_s: float,
) -> Emulator:
    """Start an emulator's process on the IPv4 address `bind`, and return when it is ready, within `ready_s` seconds.

    Ready is one whose JSON at the path `health` `answers`. Raises DidNotStart, with nothing left running.
    """
    emulator = Emulator(
        name,
        port,
        home,
        children.start(command, cwd=home, environment=environment, stdout=log_of(home)),
        grace_s,
        children.reached_at(bind),
    )

    def ready() -> bool:
        try:
            # The address is this process's own.
            with urllib.request.urlopen(f"{emulator.endpoint}{health}", timeout=2.0) as response:  # nosec B310
                return response.status == 200 and answers(json.load(response))
        except (urllib.error.URLError, ConnectionError, TimeoutError, json.JSONDecodeError):
            return False

    try:
        children.wait_until(ready, process=emulator.process, what=name, log=emulator.log, timeout=ready_s)
    except BaseException:
        emulator.stop()
        raise
    return emulator


def is_answering(endpoint: str) -> bool:
    """Whether an emulator sends any answer from its endpoint, within ANSWER_S."""
    address = urlsplit(endpoint)
    connection = HTTPConnection(str(address.hostname), address.port, timeout=ANSWER_S)
    try:
        connection.request("GET", "/")
        connection.getresponse()
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
    return True


def log_of(home: Path) -> Path:
    """The log of the emulator that runs in `home`."""
    return home / "emulator.log"
