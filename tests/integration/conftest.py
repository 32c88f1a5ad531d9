"""One local stack for the integration tests of a session: started once, ended whatever happens."""
from collections.abc import Iterator

import pytest

from judging.running_stack import RunningStack, local_stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """The whole stack in a temporary folder: emulator, stand-in, deployed template, release. Tests configure topics of their own."""
    with local_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running
