"""Findings about a stack: one line for a person, one JSON object for a script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True)
class Finding:
    """The result of one check: `result` is ok, warn or fail; `advice` is the next step; `facts` are for scripts."""

    about: str
    result: str
    found: str
    advice: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {name: value for name, value in vars(self).items() if name != "facts" or value}
