"""What a stored column's type may become: the same, a wider one in place, a wider one by rewriting the table, or nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional, Tuple

from sluice.column_types import MAX_PRECISION
from sluice.errors import Incompatible

SAME, NARROWER, PROMOTED, REWRITTEN = "same", "narrower", "promoted", "rewritten"  # from least to most work
_WORK = (SAME, NARROWER, PROMOTED, REWRITTEN)

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_ARRAY = re.compile(r"array<(.*)>")
_PROMOTIONS = {("int", "bigint"), ("float", "double")}
_RAW_PAIRS = (
    {"timestamp", "bigint"},
    {"timestamp", "string"},
    {"date", "int"},
    {"string", "bigint"},
    {"string", "int"},
)


@dataclass(frozen=True)
class Widening:
    """The type (Spark's name of it) that holds what is stored and what was written, and what becoming it takes."""

    type: str
    change: str


def widen(name: str, stored: str, written: str) -> Widening:
    """The type that a column of type `stored` becomes when values of type `written` come. Raises Incompatible.

    Both are Spark's names of types ("bigint", "decimal(18,4)", "array<int>").
    """
    if stored == written:
        return Widening(stored, SAME)
    if (stored, written) in _PROMOTIONS:
        return Widening(written, PROMOTED)
    if (written, stored) in _PROMOTIONS:
        return Widening(stored, NARROWER)
    old, new = _decimal(stored), _decimal(written)
    if old and new:
        return _wider_decimal(name, stored, written, old, new)
    items, new_items = _ARRAY.fullmatch(stored), _ARRAY.fullmatch(written)
    if items and new_items:
        inner = widen(name, items[1], new_items[1])
        # Of a column Hudi's reader casts what an older file has; of a list's items it doesn't ("Nested types with type changes").
        return Widening(f"array<{inner.type}>", REWRITTEN if inner.change == PROMOTED else inner.change)
    raise incompatible(name, stored, written)


def worst(changes: Tuple[str, ...]) -> str:
    """The one of several changes that takes the most work."""
    return max(changes, key=_WORK.index, default=SAME)


def incompatible(name: str, stored: str, written: str, why: str = "", next_step: Optional[str] = None) -> Incompatible:
    """The verdict on a column: its name, its old and new type, and what to do."""
    if next_step is None:
        next_step = _next_step(stored, written)
    told = f": {why}" if why else ""
    return Incompatible(
        f"Column {name} is {written} and the table has {stored}{told}",
        next_step=next_step,
        column=name,
        types=[stored, written],
    )


def _decimal(type_name: str) -> Optional[Tuple[int, int]]:
    matched = _DECIMAL.fullmatch(type_name)
    return (int(matched[1]), int(matched[2])) if matched else None


def _wider_decimal(name: str, stored: str, written: str, old: Tuple[int, int], new: Tuple[int, int]) -> Widening:
    """Room for the longer integer part and the longer fraction.

    Stored decimals are fixed-length bytes without their scale. A file that Hudi 1.0 rewrites on the way keeps the bytes: with
    another scale it silently makes 0.125 of 1.25, and another length it refuses. So all files have to be written anew, in one commit.
    """
    scale = max(old[1], new[1])
    precision = max(old[0] - old[1], new[0] - new[1]) + scale
    if (precision, scale) == old:
        return Widening(stored, NARROWER)
    if precision > MAX_PRECISION:
        raise incompatible(
            name, stored, written, f"together they need {precision} digits, and a decimal has {MAX_PRECISION}"
        )
    in_place = scale == old[1] and _bytes(precision) == _bytes(old[0])
    return Widening(f"decimal({precision},{scale})", PROMOTED if in_place else REWRITTEN)


def _bytes(precision: int) -> int:
    """Bytes of the shortest two's complement number of so many digits."""
    return ((10**precision - 1).bit_length() + 8) // 8


def _next_step(stored: str, written: str) -> str:
    step = f"Change it back to {stored} at the source"
    if {stored, written} in _RAW_PAIRS:
        step += ", or take back what was changed in the table's `raw` or in the connector's handling mode of this type"
    return (
        step
        + ", and retry what waits; or give the topic a table of another name, which takes the new type from the start"
    )
