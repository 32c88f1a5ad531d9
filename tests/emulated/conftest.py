"""The emulated deployments that tests of this folder work on, each empty at first."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from driving.lane import emulated_dynamodb
from emulation.aws import emulated_aws, emulated_session
from emulation.catalog import EmulatedCatalog, new_catalog
from emulation.deployment import Deployment, new_deployment
from emulation.stack import Stack, new_stack, record_invocations


@pytest.fixture(scope="module")
def emulated() -> Iterator[Any]:
    """A DynamoDB client of an emulator that is empty at first: each test makes its tables and deletes them."""
    with emulated_aws():
        yield emulated_session("eu-central-1").client("dynamodb")


@pytest.fixture
def client() -> Iterator[Any]:
    """A DynamoDB client of an emulator that has an empty ledger."""
    with emulated_dynamodb() as made:
        yield made


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """What the functions work on."""
    with new_deployment(monkeypatch) as made:
        yield made


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stack]:
    """What the commands work on."""
    with new_stack(monkeypatch, tmp_path) as made:
        yield made


@pytest.fixture
def tables(tmp_path: Path) -> Callable[[str], str]:
    """Writes a tables.yaml, and gives its path."""

    def written(text: str) -> str:
        (tmp_path / "tables.yaml").write_text(text)
        return str(tmp_path / "tables.yaml")

    return written


@pytest.fixture
def invoked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The names of the functions that commands invoke, with the kind of invocation."""
    return record_invocations(monkeypatch)


@pytest.fixture
def catalog() -> Iterator[EmulatedCatalog]:
    """What the catalog's synchronization works on."""
    with new_catalog() as made:
        yield made
