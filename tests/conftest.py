"""What every test shares: AWS's service models, read once, and few looks for garbage."""
from __future__ import annotations

import gc
import sys
from functools import lru_cache
from typing import Iterator

import botocore.session
import botocore.useragent
import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported stays until the end, and the collector need not go through it again for every few hundred objects."""
    if "hypothesis" not in sys.modules:  # its plugin would import it for a last word about tests that there are none of
        session.config.pluginmanager.unregister(name="hypothesispytest")
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


def pytest_sessionfinish() -> None:
    """So that what extension modules hold can go with the process."""
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def service_models_read_once() -> Iterator[None]:
    """Every session's clients are made from one loader: reading the models again costs more than most tests do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", lru_cache(maxsize=None)(botocore.session.create_loader))
        patch.setattr(botocore.useragent.UserAgentString, "to_string", lambda self: "tests")  # put together anew for every request, at a tenth of its cost
        yield
