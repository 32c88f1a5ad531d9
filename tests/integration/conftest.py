"""One local stack for the integration tests of a session: started once, ended whatever happens. SLUICE_EMULATOR says what it runs on."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from judging.patience import patient
from judging.running_stack import RunningStack, local_stack
from localstack_exceptions import exceptions

from sluice_local.emulators.choose import Kind, chosen
from sluice_local.emulators.localstack import find_python313
from sluice_local.errors import NoPython313


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Time limits as long as the emulator needs. On LocalStack, what it can't run is skipped with the reason; where LocalStack itself can't run, everything is."""
    mine = [item for item in items if item.path.parent == Path(__file__).parent]
    for item in mine:
        limit = item.get_closest_marker("timeout")
        if limit is not None:
            item.add_marker(pytest.mark.timeout(patient(limit.args[0])), append=False)
    if chosen(os.environ) != Kind.LOCALSTACK:
        return
    reasons = exceptions()
    try:
        find_python313(os.environ)
        missing = ""
    except NoPython313 as error:
        missing = str(error)
    for item in mine:
        reason = missing or reasons.get(f"{item.path.name}::{item.name.partition('[')[0]}")
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """The whole stack in a temporary folder: emulator, stand-in, deployed template, release. Tests configure topics of their own."""
    with local_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running
