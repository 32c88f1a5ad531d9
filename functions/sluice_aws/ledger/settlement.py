"""What settling a part of a batch writes: the fields of its objects, of the part and of the table's item."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sluice.batch.outcome import QUARANTINED, Outcome
from sluice.ledger import keys as items
from sluice.ledger.recovery import EndState
from sluice.objects import ObjectId
from sluice_aws.ledger.objects import listing_fields
from sluice_aws.ledger.table import Values

TOTAL_PREFIX = "total_"  # of the fields of a table's item that sum up the counts of its batches
_COUNT_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")


def object_fields(end: EndState, identity: ObjectId, now: int) -> Values:
    """The fields that an end state sets on an object's item. `now` is epoch ms."""
    if end.state == items.COMMITTED:
        rows = {"quarantined_rows": end.rows, "row_codes": dict(end.row_codes)}
        listed = listing_fields(items.ROWS, identity, now)
        return {"state": items.COMMITTED, "cohort": None, **({**rows, **listed} if end.rows else {})}
    parked = {"parked_generation": end.parked_generation} if end.state == items.PARKED else {}
    return {
        "state": end.state,
        "code": end.code,
        "reason": end.reason,
        **parked,
        **listing_fields(end.state, identity, now),
    }


def part_fields(lane: str, outcome: Outcome, run_id: str, now: int) -> Values:
    """The fields that an outcome sets on its part's item. `now` is epoch ms."""
    return {
        "state": outcome.state,
        "instant": outcome.instant,
        "no_change": outcome.no_change,
        "counts": dict(outcome.counts),
        "run": run_id,
        "lane": lane,
        "committed_at": outcome.committed_at,
        "settled_at": now,
        "reason": outcome.reason,
        "notes": list(outcome.notes) or None,
        "columns": [dict(column) for column in outcome.columns] or None,
    }


def table_fields(outcome: Outcome) -> Values:
    """The fields that an outcome sets on its table's item; None removes a field.

    Objects in quarantine are no failure of the table, and say nothing of one that it had before.
    """
    fields: Values = {
        "table": outcome.table,
        "listed_as": items.TABLES_LISTED_AS,
        "listed_at": items.listed_at(0),
    }
    if outcome.state == QUARANTINED:
        return fields
    fields.update(
        last_commit_at=outcome.committed_at,
        last_batch=outcome.batch,
        last_error=None,
        failures=0,
        backoff_until=None,
    )
    if outcome.instant is not None:
        fields.update(last_instant=outcome.instant, last_instant_at=outcome.readable_at)
    if outcome.history_instant is not None:
        fields["history_instant"] = outcome.history_instant
    if outcome.notes or outcome.instant is not None:
        fields["notes"] = list(outcome.notes) or None
    if outcome.watch:
        fields["watch"] = dict(outcome.watch)
    return fields


def totals(counts: Mapping[str, int]) -> dict[str, int]:
    """What the counts of a part add to the totals of its table's item. Raises ValueError for an unusable name."""
    wrong = [name for name in counts if not _COUNT_NAME.fullmatch(name)]
    if wrong:
        raise ValueError(f"A count's name is lower-case letters, digits and _, not {wrong[0]!r}")
    return {TOTAL_PREFIX + name: number for name, number in counts.items() if number}
