"""What every test shares: AWS's service models, read once, and few looks for garbage."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator
from functools import lru_cache

import botocore.session
import botocore.useragent
import pytest
import typer.main


def pytest_sessionstart() -> None:
    """What is imported for the tests stays: there is no garbage to look for meanwhile."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """The collector need not go through what was imported again for every few hundred objects."""
    if "hypothesis" not in sys.modules:  # its plugin would import it for a last word about tests that there are none of
        session.config.pluginmanager.unregister(name="hypothesispytest")
    gc.freeze()
    atexit.register(_let_go)
    gc.set_threshold(100_000, 50, 50)
    gc.enable()


def _let_go() -> None:
    """At the very end, since pytest collects at its own: what extension modules hold goes with the modules, and needs no look of its own before."""
    gc.unfreeze()
    gc.disable()


@pytest.fixture(scope="session", autouse=True)
def command_line_built_once() -> Iterator[None]:
    """A process runs one command, and Typer builds all of them for it; the tests run many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", lru_cache(maxsize=None)(typer.main.get_command))
        yield


@pytest.fixture(scope="session", autouse=True)
def service_models_read_once() -> Iterator[None]:
    """Every session's clients are made from one loader: reading the models again costs more than most tests do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", lru_cache(maxsize=None)(botocore.session.create_loader))
        patch.setattr(
            botocore.useragent.UserAgentString, "to_string", lambda self: "tests"
        )  # put together anew for every request, at a tenth of its cost
        yield
