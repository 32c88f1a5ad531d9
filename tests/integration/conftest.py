"""What LocalStack can't run is skipped with the reason; where LocalStack itself can't run, everything is."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from emulation.localstack_exceptions import exceptions

from sluice_local.emulators.choose import Kind, chosen
from sluice_local.emulators.localstack import ensure_pythons, find_python313
from sluice_local.errors import NoPython313


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """On LocalStack, skip what not_on_localstack.toml lists, and everything without a Python 3.13."""
    if chosen(os.environ) != Kind.LOCALSTACK:
        return
    reasons = exceptions()
    try:
        find_python313(os.environ)
        missing = ""
    except NoPython313 as error:
        missing = str(error)
    for item in items:
        if item.path.parent == Path(__file__).parent:
            reason = missing or reasons.get(f"{item.path.name}::{item.name.partition('[')[0]}")
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def emulator_installed() -> None:
    """Install LocalStack before the first test, whose time limit is for the test alone."""
    if chosen(os.environ) == Kind.LOCALSTACK:
        ensure_pythons(os.environ)
