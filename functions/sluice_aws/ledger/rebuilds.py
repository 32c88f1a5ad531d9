"""Rebuilds: a table's item is emptied behind a mark, its objects become pending again, and the mark is removed.

Drops: its objects are ignored until a table takes them again, and its items are deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sluice.lane.machine import IDLE, PAUSED
from sluice.ledger import keys as items
from sluice.ledger.records import ObjectRecord
from sluice.ledger.recovery import OBJECTS, OBJECTS_QUARANTINED, QUARANTINED_ROWS
from sluice.objects import ObjectId
from sluice_aws.errors import LaneNotPaused, LedgerBusy
from sluice_aws.ledger.expressions import when
from sluice_aws.ledger.groups import GuardRefused, write_groups
from sluice_aws.ledger.objects import ObjectLedger, listing_fields, pending_item
from sluice_aws.ledger.quarantine import QuarantineLedger
from sluice_aws.ledger.settlement import TOTAL_PREFIX
from sluice_aws.ledger.table import LedgerTable, TransactionRefused, Values

# Fields of a table's item that survive; all others describe the data that is moved aside.
KEPT = frozenset({"pk", "sk", "table", "listed_as", "listed_at"})
ATTEMPTS = 5  # enough for the decisions of one operator
_ASIDE = (TOTAL_PREFIX + OBJECTS_QUARANTINED, TOTAL_PREFIX + QUARANTINED_ROWS)

#: The states that a drop ends. Ignored objects stay so, and a claimed one is of an open batch, which comes first.
ENDED = (items.COMMITTED, items.SUPERSEDED, items.QUARANTINED, items.PARKED, items.PENDING)
_OF_THE_DATA = ("code", "reason", "quarantined_rows", "row_codes", "discarded_rows", "merged", "rows_aside", "cohort")
_OF_REPLAYS = ("generation", "merged_generation", "parked_generation", "first_batch", "replayed_at")


class RebuildLedger:
    """The rebuilds of one ledger.

    Every write of a rebuild is conditional on the lane being paused: a table has one writer, and here it is the
    operator. A replay without a rebuild needs no pause, since the run stays the writer.
    """

    def __init__(self, table: LedgerTable, objects: ObjectLedger, quarantine: QuarantineLedger) -> None:
        self._table = table
        self._objects = objects
        self._quarantine = quarantine

    def revision_at_rest(self, lane: str) -> int | None:
        """The revision of a paused lane, which changes before a run can hold it; None for a lane that isn't paused."""
        stored = self._table.get(items.lane_key(lane)) or {}
        return int(stored.get("revision", 0)) if stored.get("state") == PAUSED else None

    def begin(self, table: str, lane: str, mark: Mapping[str, Any], revision: int | None = None) -> dict[str, Any]:
        """Empty the table's item and mark it as being rebuilt; gives the mark.

        With `revision`, the lane's at rest when the rebuild was planned, LaneNotPaused too where it has changed since.

        A rebuild that was begun before keeps its mark, and nothing changes. What is in quarantine stays there, so it
        is counted anew; `replay` takes back the rows of the objects that it makes pending. Raises LaneNotPaused, and
        LedgerBusy while decisions about the table's quarantine keep coming.
        """
        key = items.table_key(table)
        for _ in range(ATTEMPTS):
            stored = self._table.get(key) or {}
            if stored.get("rebuild"):
                return dict(stored["rebuild"])
            lasting = KEPT if mark.get("history") else KEPT | {"history_instant"}  # of a table that stays
            changes = {
                **{name: None for name in stored if name not in lasting},
                **self._in_quarantine(table),
                "table": table,
                "rebuild": dict(mark),
                "listed_as": items.TABLES_LISTED_AS,
                "listed_at": items.listed_at(0),
            }
            unchanged = when(**{name: stored.get(name) for name in _ASIDE})
            try:
                actions = [self._table.update_action(key, changes, condition=unchanged)]
                self._guarded(table, lane, actions, revision)
            except TransactionRefused:
                continue  # a decision was made while it was counted
            return dict(mark)
        raise LedgerBusy("The table's counts kept changing", operation="begin", cause=table)

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
        them: readers have seen their rows since then. Rows of an object that were set aside no longer count, either.
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
            return self._uncounted([records[position] for position in positions], committed=not while_paused)

        try:
            refused = write_groups(
                self._table, groups, guard=self._paused(lane) if while_paused else None, tally=uncounted
            )
        except GuardRefused as error:
            raise _not_paused(records[0].table or "", lane) from error
        return len(groups) - len(refused)

    def end(self, table: str, lane: str) -> None:
        """Remove the mark: the table's objects are claimable from now on. Repeatable. Raises LaneNotPaused."""
        self._guarded(table, lane, [self._table.update_action(items.table_key(table), {"rebuild": None})])

    def _group(
        self, record: ObjectRecord, lane: str, generation: int | None, now: int, *, first_batch: str | None
    ) -> list[Values]:
        # What a manifest that is gone, or can't be read, doesn't say; a superseded object has the version's.
        of_record = record.generation if record.merged_generation is None else record.merged_generation
        generation_kept = of_record if generation is None else generation
        moved = replace(
            record,
            state=items.PENDING,
            lane=lane,
            attempt=record.attempt + 1,
            batch=None,
            merged=False,
            rows_aside=None,
            generation=generation_kept,
            cohort=None,
            first_batch=first_batch,
            replayed_at=now,
        )
        changes: Values = {
            "state": items.PENDING,
            "lane": lane,
            "attempt": moved.attempt,
            "generation": generation_kept,
            "replayed_at": now,
            "first_batch": first_batch,
            **dict.fromkeys((*_OF_THE_DATA, "batch", "listed_as", "listed_at")),
        }
        there = when(state=record.state, batch=record.batch, table=record.table)
        return [
            self._table.update_action(items.object_key(record.id), changes, condition=there),
            self._table.put_action(pending_item(moved)),
        ]

    def _uncounted(self, records: Sequence[ObjectRecord], *, committed: bool) -> list[Values]:
        """Take objects back from the totals of their tables: the batch that merges them counts them anew.

        With `committed` also from the committed ones; a rebuild has emptied those.
        """
        back: dict[str, Counter[str]] = {}
        for record in records:
            if record.table and record.state == items.COMMITTED:
                counts = back.setdefault(record.table, Counter())
                counts[TOTAL_PREFIX + OBJECTS] -= int(committed)
                counts[TOTAL_PREFIX + QUARANTINED_ROWS] -= record.quarantined_rows
        changed = {table: {name: n for name, n in counts.items() if n} for table, counts in back.items()}
        return [
            self._table.update_action(items.table_key(table), {}, add=counts)
            for table, counts in changed.items()
            if counts
        ]

    def _in_quarantine(self, table: str) -> Values:
        """The totals of what a table has in quarantine; objects that admission set aside are in no total."""
        objects = sum(
            record.table == table and record.batch is not None for record in self._objects.in_state(items.QUARANTINED)
        )
        rows = sum(record.quarantined_rows for record in self._quarantine.objects_with_rows() if record.table == table)
        return dict(zip(_ASIDE, (objects or None, rows or None)))  # a job's Python has no `strict`

    def _paused(self, lane: str, revision: int | None = None) -> Values:
        unchanged = {} if revision is None else {"revision": revision or None}
        return self._table.check_action(items.lane_key(lane), when(state=PAUSED, **unchanged))

    def _guarded(self, table: str, lane: str, actions: Sequence[Values], revision: int | None = None) -> None:
        try:
            self._table.transact([self._paused(lane, revision), *actions])
        except TransactionRefused as answer:
            if 0 in answer.refusals:
                raise _not_paused(table, lane) from answer
            raise


def _not_paused(table: str, lane: str) -> LaneNotPaused:
    step = f"`sluice pause {lane}`, and once `sluice status` says paused, `sluice rebuild table {table}`"
    why = f"its lane {lane} may start a run, or may have run since the rebuild was planned"
    return LaneNotPaused(f"{table} can't be rebuilt now: {why}", lane=lane, table=table, next_step=step)


class DropLedger:
    """The drops of one ledger. Each step may be repeated."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def objects(self, table: str, records: Sequence[ObjectRecord], now: int) -> int:
        """Objects of a table -> ignored, with the batch that read them; returns the number of those that changed.

        `ObjectLedger.unpark` takes such an object back with its next attempt, so that its next batch has another id.
        """
        groups = [self._group(record, table, now) for record in records]
        return len(groups) - len(write_groups(self._table, groups)) if groups else 0

    def table(self, table: str, lanes: Sequence[str], forgotten: Sequence[str] = ()) -> None:
        """Delete a table's item, its requests for services in `lanes`, and the items of `forgotten` lanes at rest."""
        for lane in lanes:
            for page in self._table.query(items.services_partition(lane), prefix=items.of_table(table), fields=("sk",)):
                for stored in page:
                    self._delete({"pk": items.services_partition(lane), "sk": stored["sk"]})
        for lane in forgotten:
            stored = self._table.get(items.lane_key(lane)) or {}
            if stored.get("state", IDLE) in (IDLE, PAUSED):
                unchanged = when(state=stored.get("state"), revision=stored.get("revision"))
                self._table.delete(items.lane_key(lane), unchanged)
        self._delete(items.table_key(table))

    def _delete(self, key: items.Key) -> None:
        self._table.transact([self._table.delete_action(key)])

    def _group(self, record: ObjectRecord, table: str, now: int) -> list[Values]:
        changes: dict[str, Any] = {
            **dict.fromkeys((*_OF_THE_DATA, *_OF_REPLAYS)),
            "state": items.IGNORED,
            "rule": items.DROPPED + table,
            **listing_fields(items.IGNORED, record.id, now),
        }
        there = when(state=record.state, batch=record.batch, table=table)
        group = [self._table.update_action(items.object_key(record.id), changes, condition=there)]
        if record.state == items.PENDING:
            listing = items.pending_key(record.lane or "", table, record.admitted_at, record.id)
            group.append(self._table.delete_action(listing))
        return group
