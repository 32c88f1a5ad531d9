"""What the unit tests share: the command line, built once."""
from __future__ import annotations

from functools import lru_cache
from typing import Iterator

import pytest
import typer.main


@pytest.fixture(scope="session", autouse=True)
def command_line_built_once() -> Iterator[None]:
    """A process runs one command, and Typer builds all of them for it; the tests run many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", lru_cache(maxsize=None)(typer.main.get_command))
        yield
