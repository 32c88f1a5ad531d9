"""Rebuilds: a table's item is emptied behind a mark, its objects become pending again, and the mark is removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sluice.lane.machine import PAUSED
from sluice.ledger import keys as items
from sluice.ledger.records import ObjectRecord
from sluice.ledger.recovery import OBJECTS
from sluice.objects import ObjectId
from sluice_aws.errors import LaneNotPaused
from sluice_aws.ledger.expressions import when
from sluice_aws.ledger.groups import GuardRefused, write_groups
from sluice_aws.ledger.objects import pending_item
from sluice_aws.ledger.settlement import TOTAL_PREFIX
from sluice_aws.ledger.table import LedgerTable, TransactionRefused, Values

# Fields of a table's item that survive; all others describe the data that is moved aside.
KEPT = frozenset({"pk", "sk", "table", "listed_as", "listed_at", "paused"})


class DynamoDbRebuilds:
    """The rebuilds of one ledger.

    Every write of a rebuild is conditional on the lane being paused: a table has one writer, and here it is the
    operator. A replay without a rebuild needs no pause, since the run stays the writer.
    """

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def begin(self, table: str, lane: str, mark: Mapping[str, Any]) -> dict[str, Any]:
        """Empty the table's item and mark it as being rebuilt; gives the mark.

        A rebuild that was begun before keeps its mark, and nothing changes. Raises LaneNotPaused.
        """
        key = items.table_key(table)
        stored = self._table.get(key) or {}
        if stored.get("rebuild"):
            return dict(stored["rebuild"])
        forgotten = {name: None for name in stored if name not in KEPT}
        changes = {
            **forgotten,
            "table": table,
            "rebuild": dict(mark),
            "listed_as": items.TABLES_LISTED_AS,
            "listed_at": items.listed_at(0),
        }
        self._guarded(table, lane, [self._table.update_action(key, changes)])
        return dict(mark)

    def replay(
        self,
        records: Sequence[ObjectRecord],
        lane: str,
        generations: Mapping[ObjectId, int],
        now: int,
        *,
        while_paused: bool = True,
    ) -> int:
        """committed or superseded -> pending in `lane`, with the same age and the next attempt. Repeatable.

        Returns the number of objects. `generations` are those that objects were merged under. They are kept with the
        objects, since positions depend on them. A rebuild replays `while_paused`, and raises LaneNotPaused; objects
        that were written before stay pending. Otherwise a run may claim the objects at once: the caller wakes the lane.
        Such objects no longer count as committed, until they are so again. They keep the batch that first committed
        them: readers have seen their rows since then.
        """
        groups = [
            self._group(
                record,
                lane,
                generations.get(record.id),
                now,
                first_batch=None if while_paused else record.first_batch or record.batch,
            )
            for record in records
        ]
        if not groups:
            return 0

        def uncounted(positions: Sequence[int]) -> list[Values]:
            return self._uncounted([records[position] for position in positions])

        try:
            if while_paused:  # the rebuild emptied the table's item, and its counts with it
                refused = write_groups(self._table, groups, guard=self._paused(lane))
            else:
                refused = write_groups(self._table, groups, tally=uncounted)
        except GuardRefused as error:
            raise _not_paused(records[0].table or "", lane) from error
        return len(groups) - len(refused)

    def end(self, table: str, lane: str) -> None:
        """Remove the mark: the table's objects are claimable from now on. Repeatable. Raises LaneNotPaused."""
        self._guarded(table, lane, [self._table.update_action(items.table_key(table), {"rebuild": None})])

    def _group(
        self, record: ObjectRecord, lane: str, generation: int | None, now: int, *, first_batch: str | None
    ) -> list[Values]:
        kept = record.generation if generation is None else generation
        moved = replace(
            record,
            state=items.PENDING,
            lane=lane,
            attempt=record.attempt + 1,
            batch=None,
            merged=False,
            rows_aside=None,
            generation=kept,
            cohort=None,
            first_batch=first_batch,
            replayed_at=now,
        )
        changes: Values = {
            "state": items.PENDING,
            "lane": lane,
            "attempt": moved.attempt,
            "generation": kept,
            "replayed_at": now,
            "first_batch": first_batch,
            **dict.fromkeys(
                (
                    "batch",
                    "merged",
                    "rows_aside",
                    "cohort",
                    "quarantined_rows",
                    "row_codes",
                    "discarded_rows",
                    "reason",
                    "code",
                    "listed_as",
                    "listed_at",
                )
            ),
        }
        there = when(state=record.state, batch=record.batch, table=record.table)
        return [
            self._table.update_action(items.object_key(record.id), changes, condition=there),
            self._table.put_action(pending_item(moved)),
        ]

    def _uncounted(self, records: Sequence[ObjectRecord]) -> list[Values]:
        """Take committed objects back from the totals of their tables: the batch that merges them counts them anew."""
        tables = Counter(record.table for record in records if record.table and record.state == items.COMMITTED)
        return [
            self._table.update_action(items.table_key(table), {}, add={TOTAL_PREFIX + OBJECTS: -number})
            for table, number in tables.items()
        ]

    def _paused(self, lane: str) -> Values:
        return self._table.check_action(items.lane_key(lane), when(state=PAUSED))

    def _guarded(self, table: str, lane: str, actions: Sequence[Values]) -> None:
        try:
            self._table.transact([self._paused(lane), *actions])
        except TransactionRefused as answer:
            if 0 in answer.refusals:
                raise _not_paused(table, lane) from answer
            raise


def _not_paused(table: str, lane: str) -> LaneNotPaused:
    step = f"`sluice pause {lane}`, and once `sluice status` says paused, `sluice rebuild table {table}`"
    return LaneNotPaused(
        f"{table} can't be rebuilt while its lane {lane} may start a run", lane=lane, table=table, next_step=step
    )
