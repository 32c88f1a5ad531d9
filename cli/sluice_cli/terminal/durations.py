"""Durations on the command line."""

from __future__ import annotations

import re
from typing import Any

import typer

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s?(s|m|min|h|d)?")
_UNIT_S = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}


def seconds(given: Any) -> float:
    """`90`, `90s`, `5m`, `5min`, `2h` or `1d` in seconds, for an option's `parser`. Raises typer.BadParameter."""
    found = _DURATION.fullmatch(str(given).strip())
    if found is None:
        raise typer.BadParameter(f"{given} is no duration: give seconds, or 90s, 5m, 2h")
    return float(found[1]) * _UNIT_S[found[2]]
