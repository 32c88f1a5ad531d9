"""Chooses the emulator of a local stack: MiniStack by default, or LocalStack."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path

from sluice_local.emulators.emulator import Emulator
from sluice_local.emulators.localstack import start_localstack
from sluice_local.emulators.ministack import start_ministack
from sluice_local.errors import UnknownEmulator
from sluice_local.processes import LOOPBACK

VARIABLE = "SLUICE_EMULATOR"


class Kind(str, Enum):
    """The supported emulators by their names on the command line."""

    MINISTACK = "ministack"
    LOCALSTACK = "localstack"


def chosen(environment: Mapping[str, str]) -> Kind:
    """SLUICE_EMULATOR, or MiniStack. Raises UnknownEmulator."""
    given = environment.get(VARIABLE) or Kind.MINISTACK.value
    try:
        return Kind(given)
    except ValueError:
        kinds = [kind.value for kind in Kind]
        raise UnknownEmulator(
            f"{VARIABLE} is {given!r}, which is not one of {', '.join(kinds)}", given=given, known=kinds
        ) from None


def start_emulator(
    home: Path,
    *,
    kind: Kind | None = None,
    port: int | None = None,
    bind: str = LOOPBACK,
    environment: Mapping[str, str] = os.environ,
    progress: Callable[[str], None] = lambda line: None,
    folder: Path | None = None,
) -> Emulator:
    """Start an emulator (`kind`, or the environment's choice) on an IPv4 address and return when it answers.

    The emulator dies with the calling thread. MiniStack begins with what the folder `kept` holds. Raises DidNotStart,
    UnknownEmulator, NoPython313.
    """
    if (kind or chosen(environment)) == Kind.LOCALSTACK:
        return start_localstack(home, port=port, bind=bind, environment=environment, progress=progress)
    return start_ministack(home, port=port, bind=bind, environment=environment, folder=folder)
