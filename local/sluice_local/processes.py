"""Starts processes that can't outlive this one, and ends them with all their children."""

from __future__ import annotations

import ipaddress
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sluice_local import bound
from sluice_local.errors import DidNotStart, UnusablePort

LOOPBACK = "127.0.0.1"


def reached_at(bind: str) -> str:
    """The address at which this machine reaches a server that listens on the IPv4 address `bind`."""
    return LOOPBACK if ipaddress.IPv4Address(bind).is_unspecified else bind


def bound_command(command: Sequence[str], *, parent: int) -> list[str]:
    """Wrap `command` so that the kernel kills it when `parent` ends (a pid; 0: the process that starts it).

    The kernel watches the *thread* that starts the child. Start children from threads that live as long as they do.
    """
    return [sys.executable, "-I", "-S", str(bound.__file__), str(parent), *command]


def start(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], stdout: Path, stderr: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start `command` in its own process group, bound to this process. Its output is appended to files."""
    with stdout.open("ab") as out, (stderr or stdout).open("ab") as err:
        return subprocess.Popen(
            bound_command(command, parent=os.getpid()),
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes], *, grace: float) -> int:
    """Terminate the process group, kill what remains after `grace` seconds, and return the exit status."""
    signal_group(process, signal.SIGTERM)
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        pass  # killed below, with whatever else is in the group
    signal_group(process, signal.SIGKILL)
    return process.wait()


def signal_of(status: int) -> signal.Signals | None:
    """The signal that ended a process, by its exit status or that of the shell around it."""
    number = -status if status < 0 else status - 128
    return signal.Signals(number) if number in set(signal.Signals) else None


def described_status(status: int) -> str:
    """`was killed (SIGKILL)`, `was ended by SIGTERM` or `ended with status 1`."""
    number = signal_of(status)
    if number is None:
        return f"ended with status {status}"
    return "was killed (SIGKILL)" if number == signal.SIGKILL else f"was ended by {number.name}"


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to every process of a group made by `start`, if it still exists."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass  # it has ended by itself


def is_running(pid: int) -> bool:
    """Whether a process exists and isn't a zombie."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()  # without /proc the signal decides


def free_port() -> int:
    """An unused TCP port of 127.0.0.1 that no outgoing connection takes before a server listens on it.

    Linux gives those from 32,768 on, macOS from 49,152 on (RFC 6335). Raises UnusablePort after a hundred used ones.
    """
    for port in random.sample(range(20_000, 32_768), 100):
        with suppress(UnusablePort):
            require_port(LOOPBACK, port)
            return port
    raise UnusablePort(f"None of a hundred ports of {LOOPBACK} can be listened on", bind=LOOPBACK, port=0)


def require_port(bind: str, port: int) -> None:
    """Raises UnusablePort where a server can't listen on a TCP port of the IPv4 address `bind`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an ended server don't matter
        try:
            probe.bind((bind, port))
            probe.listen()
        except OSError as error:
            text = f"Port {port} of {bind} can't be listened on: {error.strerror}"
            raise UnusablePort(text, bind=bind, port=port) from error


def wait_until(
    ready: Callable[[], bool], *, process: subprocess.Popen[bytes], what: str, log: Path, timeout: float
) -> None:
    """Poll `ready` until it is true. Raises DidNotStart if the process ends first, or after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not ready():
        if process.poll() is not None:
            raise DidNotStart(f"{what} {described_status(process.returncode)}; its output is in {log}", log=str(log))
        if time.monotonic() > deadline:
            raise DidNotStart(f"{what} was not ready after {timeout:.0f} s; its output is in {log}", log=str(log))
        time.sleep(0.05)
