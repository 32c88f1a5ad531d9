"""Durations, sizes and lists of columns as tables.yaml writes them."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
DURATION = r"^(0|[1-9][0-9]{0,6}[smhd])$"
_BYTES = {"MiB": 1024**2, "GiB": 1024**3}
_SIZE = r"^[1-9][0-9]{0,5}(MiB|GiB)$"


def seconds(value: Any) -> int:
    """A duration in seconds. Raises ValueError for what is none."""
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if not re.fullmatch(DURATION, text):
        raise ValueError("is a number with its unit: 0, 30s, 15m, 24h or 7d")
    return 0 if text == "0" else int(text[:-1]) * SECONDS[text[-1]]


def names(value: Any) -> tuple[str, ...]:
    """One column or a list of them. Raises ValueError for anything else."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(item, str) and item for item in listed):
        raise ValueError("is a column name or a list of column names")
    if len(set(listed)) < len(listed):
        raise ValueError("names a column twice")
    return tuple(listed)


def _bytes(value: Any) -> int:
    if not isinstance(value, str) or not re.fullmatch(_SIZE, value):
        raise ValueError("is a size such as 512MiB or 4GiB")
    return int(value[:-3]) * _BYTES[value[-3:]]


DURATION_SCHEMA = WithJsonSchema({"anyOf": [{"type": "string", "pattern": DURATION}, {"const": 0}]})
Seconds = Annotated[int, BeforeValidator(seconds), DURATION_SCHEMA]
Bytes = Annotated[int, BeforeValidator(_bytes), WithJsonSchema({"type": "string", "pattern": _SIZE})]
Names = Annotated[
    tuple[str, ...],
    BeforeValidator(names),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True},
            ]
        }
    ),
]
