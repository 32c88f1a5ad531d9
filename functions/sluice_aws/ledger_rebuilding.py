"""A table that is written anew from its objects: its item emptied behind a mark, its objects pending again, the mark taken away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Mapping, Optional, Sequence

from sluice import ledger_items as items
from sluice.errors import SluiceError
from sluice.lane import PAUSED
from sluice.ledger_records import ObjectRecord
from sluice_aws.ledger_expressions import when
from sluice_aws.ledger_groups import GuardRefused, write_groups
from sluice_aws.ledger_objects import pending_item
from sluice_aws.ledger_table import LedgerTable, TransactionRefused, Values

KEPT = frozenset(
    {"pk", "sk", "table", "listed_as", "listed_at", "paused"}
)  # of a table's item; all else is about the data that is moved away


class LaneNotPaused(SluiceError):
    """The lane of a table that is being rebuilt could start a run; facts: `lane`, `table`."""

    code = "lane_not_paused"


class RebuildingLedger:
    """Rebuilds in one ledger. Every write is conditional on the lane being paused: a table has one writer, and here it is the operator."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def begin_rebuild(self, table: str, lane: str, mark: Mapping[str, Any]) -> Dict[str, Any]:
        """Forget what the ledger knows of the table's data and mark it as being rebuilt; gives the mark.

        Of a rebuild that was begun before, it is that one's mark, and nothing is changed. Raises LaneNotPaused.
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

    def replay_objects(
        self, records: Sequence[ObjectRecord], lane: str, generations: Mapping[Any, int], now: int
    ) -> int:
        """committed or superseded -> pending in `lane`, as old as they are and of another attempt; gives how many. Repeatable.

        `generations` are those that objects were merged under (by ObjectId): positions depend on it, and it is kept with the object.
        Raises LaneNotPaused; what was written by then stays.
        """
        groups = [self._group(record, lane, generations.get(record.id), now) for record in records]
        if not groups:
            return 0
        try:
            refused = write_groups(self._table, groups, guard=self._paused(lane))
        except GuardRefused as error:
            raise _not_paused(records[0].table or "", lane) from error
        return len(groups) - len(refused)

    def end_rebuild(self, table: str, lane: str) -> None:
        """Take the mark away: from now on the table's objects are claimable. Repeatable. Raises LaneNotPaused."""
        self._guarded(table, lane, [self._table.update_action(items.table_key(table), {"rebuild": None})])

    def _group(self, record: ObjectRecord, lane: str, generation: Optional[int], now: int) -> List[Values]:
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
        )
        changes: Values = {
            "state": items.PENDING,
            "lane": lane,
            "attempt": moved.attempt,
            "generation": kept,
            "replayed_at": now,
            **dict.fromkeys(
                (
                    "batch",
                    "merged",
                    "rows_aside",
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
