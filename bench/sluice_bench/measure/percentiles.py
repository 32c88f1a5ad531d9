"""Percentiles of few values by nearest rank: every reported number was measured."""

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (above 0, up to 1) of the values don't exceed. Raises ValueError."""
    if not values or not 0 < share <= 1:
        raise ValueError(f"a percentile needs values and a share in (0, 1], not {len(values)} values and {share}")
    return sorted(values)[math.ceil(share * len(values)) - 1]


def summary(values: Sequence[float]) -> dict[str, float]:
    """n, smallest, median, 95th percentile, largest."""
    return {
        "n": len(values),
        "min": min(values),
        "p50": percentile(values, 0.5),
        "p95": percentile(values, 0.95),
        "max": max(values),
    }


def rounded_summary(values: Sequence[float]) -> dict[str, float]:
    """The summary to a thousandth."""
    return {name: round(value, 3) for name, value in summary(values).items()}


def ratios(own: Sequence[float], others: Sequence[float]) -> dict[str, object]:
    """Ratios of `own` to the values measured with them, to a thousandth, and their median."""
    quotients = [round(mine / theirs, 3) for mine, theirs in zip(own, others, strict=True)]
    return {"each": quotients, "median": percentile(quotients, 0.5)}
