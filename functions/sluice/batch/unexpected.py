"""Counts rows of a batch that were merged though they aren't as their table's `expect` says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from sluice.changes.log_restart import SeenObject

_NAMED = 5  # rules of a note


def unexpected_in(seen: Iterable[SeenObject]) -> Mapping[str, int]:
    """How many rows of the objects failed each rule, by `column rule`."""
    totals: Counter[str] = Counter()
    for item in seen:
        totals.update(dict(item.unexpected))
    return dict(totals)


def unexpected_note(rows_by_rule: Mapping[str, int], batch: str) -> str:
    """What to tell operators, the rules that most rows failed first."""
    most = sorted(rows_by_rule.items(), key=lambda entry: (-entry[1], entry[0]))
    rules = ", ".join(f"{rule}: {rows:,}" for rule, rows in most[:_NAMED])
    more = f", and {len(most) - _NAMED} more rules" if len(most) > _NAMED else ""
    return f"rows of batch {batch} aren't as the table's `expect` says: {rules}{more}"
