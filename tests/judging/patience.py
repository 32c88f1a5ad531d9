"""How much longer than on a quiet machine with MiniStack the tests of a stack wait before they give up."""

import os
from collections.abc import Mapping

from sluice_local.emulators.choose import Kind, chosen

VARIABLE = "SLUICE_TEST_PATIENCE"
_OF_LOCALSTACK = 3.0  # its functions start, and its queues are looked at, more slowly


def patience(environment: Mapping[str, str]) -> float:
    """The factor for every time limit: SLUICE_TEST_PATIENCE, for a busy machine, or else the emulator's own."""
    return float(environment.get(VARIABLE) or (_OF_LOCALSTACK if chosen(environment) == Kind.LOCALSTACK else 1.0))


def patient(seconds: float) -> float:
    """A time limit in seconds, as long as this machine and its emulator need."""
    return seconds * patience(os.environ)
