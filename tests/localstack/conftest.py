"""The product on LocalStack: the emulator, the stand-in for EMR Serverless and the deployed template, for the length of the session."""
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from judging.running_stack import RunningStack
from localstack_environment import NoPython313, Pythons, ensure_pythons
from localstack_stack import stack_on_localstack


@pytest.fixture(scope="session")
def pythons() -> Pythons:
    try:
        return ensure_pythons(os.environ, progress=print)
    except NoPython313 as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def stack(pythons: Pythons, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    with stack_on_localstack(pythons, Path(tmp_path_factory.mktemp("localstack"))) as running:
        yield running
