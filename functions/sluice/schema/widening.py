"""What the type of a stored column may become: the same, or a wider type, in place or by rewriting the table."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sluice.errors import Incompatible
from sluice.schema.columns import MAX_PRECISION

SAME, NARROWER, PROMOTED, REWRITTEN = "same", "narrower", "promoted", "rewritten"  # in order of work

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
    """The type (Spark's name) that holds stored and written values, and the work of changing to it (`change`)."""

    type: str
    change: str


def widen(name: str, stored: str, written: str) -> Widening:
    """The type of a column of type `stored` after values of type `written`. Raises Incompatible.

    Types are Spark's names: "bigint", "decimal(18,4)", "array<int>".
    """
    if stored == written:
        return Widening(stored, SAME)
    if (stored, written) in _PROMOTIONS:
        return Widening(written, PROMOTED)
    if (written, stored) in _PROMOTIONS:
        return Widening(stored, NARROWER)
    old, new = _decimal(stored), _decimal(written)
    if old and new:
        return _wider_stored_decimal(name, stored, written, old, new)
    items, new_items = _ARRAY.fullmatch(stored), _ARRAY.fullmatch(written)
    if items and new_items:
        inner = widen(name, items[1], new_items[1])
        # Hudi's reader casts a column of an older file, but not the items of a list ("Nested types with type changes").
        return Widening(f"array<{inner.type}>", REWRITTEN if inner.change == PROMOTED else inner.change)
    raise incompatible(name, stored, written)


def incompatible(name: str, stored: str, written: str, why: str = "", next_step: str | None = None) -> Incompatible:
    """The error for a column whose types have no common type."""
    if next_step is None:
        next_step = _next_step(stored, written)
    reason = f": {why}" if why else ""
    return Incompatible(
        f"Column {name} is {written} and the table has {stored}{reason}",
        next_step=next_step,
        column=name,
        types=[stored, written],
    )


def _decimal(type_name: str) -> tuple[int, int] | None:
    matched = _DECIMAL.fullmatch(type_name)
    return (int(matched[1]), int(matched[2])) if matched else None


def _wider_stored_decimal(name: str, stored: str, written: str, old: tuple[int, int], new: tuple[int, int]) -> Widening:
    """A decimal with the longer integer part and the longer fraction.

    Stored decimals are fixed-length bytes without their scale. Where Hudi 1.0 rewrites a file it keeps the bytes: under
    another scale 1.25 silently becomes 0.125, and another length fails. So one commit rewrites all files.
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
    """Bytes of a two's complement number of so many digits."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 8) // 8


def _next_step(stored: str, written: str) -> str:
    step = f"Change it back to {stored} at the source"
    if {stored, written} in _RAW_PAIRS:
        step += ", or revert the change of the table's `raw` or of the connector's handling mode for this type"
    return (
        step
        + ", then retry what waits; or give the topic a table of another name, which has the new type from the start"
    )
