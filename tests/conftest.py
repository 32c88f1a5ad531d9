"""What every test shares: AWS's service models, read once."""
from __future__ import annotations

from functools import lru_cache
from typing import Iterator

import botocore.session
import pytest


@pytest.fixture(scope="session", autouse=True)
def service_models_read_once() -> Iterator[None]:
    """Every session's clients are made from one loader: reading the models again costs more than most tests do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", lru_cache(maxsize=None)(botocore.session.create_loader))
        yield


