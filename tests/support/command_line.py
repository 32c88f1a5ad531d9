"""The command line as tests type it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from sluice_cli.main import run


class Printed(NamedTuple):
    """What a command wrote to stdout and stderr."""

    out: str
    err: str


class CommandLine:
    """Runs `sluice`, and says what that run alone prints.

    `line` is split at its blanks, and `more` are words that may have some.
    """

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, line: str, *more: str, code: int | None = 0) -> Printed:
        """What a command prints that ends with this code, or with any where that is None."""
        self._capsys.readouterr()
        ended_with = run([*line.split(), *more])
        printed = Printed(*self._capsys.readouterr())
        assert code in (None, ended_with), f"sluice {line} {' '.join(more)} ended with {ended_with}: {printed}"
        return printed

    def json(self, line: str, *more: str, code: int | None = 0) -> Any:
        """The document that a command prints with --json."""
        return json.loads(self(line, *more, "--json", code=code).out)
