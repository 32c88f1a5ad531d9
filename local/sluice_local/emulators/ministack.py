"""MiniStack, the emulator of AWS, as a child process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sluice_local import processes as children
from sluice_local.emulators import ministack_program
from sluice_local.emulators.emulator import REGION, TEMPORARY, Emulator, run_emulator
from sluice_local.images.pythons import python_without_site, site_packages

_READY_SECONDS = 60.0
_GRACE_SECONDS = 3.0
# MiniStack runs functions with sys.executable. Without `site` a function sees its own package and the installed ones,
# as in Lambda, and not the working tree of an editable install. The program's own folder stays off the path: its
# modules have names of packages.
_START = "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')"


def start_ministack(
    home: Path,
    *,
    port: int | None,
    environment: Mapping[str, str],
    bind: str = children.LOOPBACK,
    enforces_policies: bool = False,
    folder: Path | None = None,
) -> Emulator:
    """Start MiniStack on the IPv4 address `bind` and return when it answers. Raises DidNotStart.

    It begins with what the folder `kept` holds, and keeps its state there where it is asked to at its end.
    """
    temporary = home / TEMPORARY
    temporary.mkdir(parents=True, exist_ok=True)
    runtime = python_without_site(home / "python")
    chosen = port or children.free_port()
    settings = {
        "PATH": environment.get("PATH", os.defpath),
        "PYTHONPATH": os.pathsep.join(site_packages()),
        "HOME": str(home),
        "TMPDIR": str(temporary),  # the functions' unpacked packages
        "GATEWAY_PORT": str(chosen),
        "BIND_HOST": bind,
        "MINISTACK_HOST": children.reached_at(bind),  # for queue URLs: "localhost" costs a lookup of ::1 first
        "MINISTACK_REGION": REGION,
        "LOG_LEVEL": "WARNING",
        "LAMBDA_EXECUTOR": "local",
        "LAMBDA_STRICT": "0",
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "PYTHONUNBUFFERED": "1",
        "AUTH": str(enforces_policies).lower(),
        "PERSIST_STATE": "1",
        "STATE_DIR": str(folder or home / "kept"),
    }
    return run_emulator(
        "MiniStack",
        [str(runtime), "-c", _START, str(ministack_program.__file__), str(runtime)],
        home=home,
        bind=bind,
        port=chosen,
        environment=settings,
        health="/_ministack/health",
        ready_s=_READY_SECONDS,
        grace_s=_GRACE_SECONDS,
    )
