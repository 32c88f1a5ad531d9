"""Table items: what pacing, back-off and the refusal of pinned changes need to know of a table.

A table that is written anew from its objects: its item emptied behind a mark, its objects pending again, the mark taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sluice.batch.claim import TableState
from sluice.lane.machine import PAUSED
from sluice.ledger import keys as items
from sluice.ledger.keys import TABLES_LISTED_AS, listed_at, table_key
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice.services.policy import CATALOG
from sluice.services.requests import SERVICES
from sluice_aws.errors import LaneNotPaused, LedgerBusy
from sluice_aws.ledger.expressions import when
from sluice_aws.ledger.objects import pending_item
from sluice_aws.ledger.settlement import TOTAL_PREFIX
from sluice_aws.ledger.table import GuardRefused, LedgerTable, TransactionRefused, Values, write_groups

LISTED = {"listed_as": TABLES_LISTED_AS, "listed_at": listed_at(0)}
ERROR_CHARACTERS = 2_000
ATTEMPTS = 5  # of a write that only the lane's holder makes
SERVICE_PREFIX = "service_"  # of the field that remembers a service's last good end
PLAIN = (
    "last_commit_at",
    "last_instant",
    "last_batch",
    "last_error",
    "failures",
    "backoff_until",
    "paused",
    "pinned",
    "watch",
    "services_since",
    "catalog_failed",
    "purge_floors",
    "rebuild",
)


class DynamoDbTables:
    """The tables of one ledger."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def get(self, table: str) -> TableState:
        """One table, strongly consistent; one never seen is empty."""
        return _state(table, self._table.get(table_key(table)) or {})

    def get_many(self, tables: Iterable[str]) -> dict[str, TableState]:
        """Every named table, strongly consistent."""
        named = list(dict.fromkeys(tables))
        stored = {found["pk"]: found for found in self._table.get_many([table_key(table) for table in named])}
        return {table: _state(table, stored.get(table_key(table)["pk"], {})) for table in named}

    def all(self) -> list[TableState]:
        """Every table that the ledger knows anything of, by name."""
        keys = [key for page in self._table.query_index(TABLES_LISTED_AS) for key in page]
        return sorted(
            self.get_many(key["pk"].partition("#")[2] for key in keys).values(), key=lambda state: state.table
        )

    def record_error(self, table: str, error: str, backoff_until: int | None) -> TableState:
        """Count a failure and keep the table from being claimed until `backoff_until` (epoch ms)."""
        changes = {"last_error": error[:ERROR_CHARACTERS], "backoff_until": backoff_until, **LISTED}
        stored, _ = self._table.update(table_key(table), changes, add={"failures": 1})
        return _state(table, stored)

    def pin(self, table: str, pinned: Mapping[str, Any]) -> bool:
        """Remember what a table's data is written with, before its first commit; False when it was written with something else."""
        condition = when(pinned=None) | when(pinned=dict(pinned))
        return self._table.update(table_key(table), {"pinned": dict(pinned), **LISTED}, condition=condition)[1] is None

    def raise_purge_floor(self, table: str, positions: Mapping[int, str]) -> None:
        """Remember, before a purge, the highest position by generation of the rows that it removes. A floor only rises."""
        for _ in range(ATTEMPTS):
            before = (self._table.get(table_key(table)) or {}).get("purge_floors")
            floors = {
                **(before or {}),
                **{
                    str(number): max(position, (before or {}).get(str(number), ""))
                    for number, position in positions.items()
                },
            }
            if (
                self._table.update(
                    table_key(table), {"purge_floors": floors, **LISTED}, condition=when(purge_floors=before)
                )[1]
                is None
            ):
                return
        raise LedgerBusy("The table's purge floors kept changing", operation="raise_purge_floor", cause=table)

    def set_paused(self, table: str, paused: bool) -> TableState:
        """Leave a table's objects pending, or no longer; taking a pause back needs a wake of its lane."""
        stored, _ = self._table.update(table_key(table), {"paused": paused, **LISTED})
        return _state(table, stored)

    def note_first_check(self, table: str, now: int) -> None:
        """Remember when a table was first looked at for services; later calls change nothing."""
        self._table.update(table_key(table), {"services_since": now}, condition=when(services_since=None))


def totals_of(stored: Mapping[str, Any]) -> dict[str, int]:
    """The totals of a table's item, by name."""
    return {name[len(TOTAL_PREFIX) :]: number for name, number in stored.items() if name.startswith(TOTAL_PREFIX)}


def _state(table: str, stored: Mapping[str, Any]) -> TableState:
    services = {
        service: stored[SERVICE_PREFIX + service]
        for service in (CATALOG, *SERVICES)
        if SERVICE_PREFIX + service in stored
    }
    return TableState(
        table,
        totals=totals_of(stored),
        services=services,
        notes=tuple(stored.get("notes") or ()),
        **{name: stored[name] for name in PLAIN if name in stored},
    )


KEPT = frozenset(
    {"pk", "sk", "table", "listed_as", "listed_at", "paused"}
)  # of a table's item; all else is about the data that is moved away


class DynamoDbRebuilds:
    """Rebuilds in one ledger. Every write is conditional on the lane being paused: a table has one writer, and here it is the operator."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def begin(self, table: str, lane: str, mark: Mapping[str, Any]) -> dict[str, Any]:
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

    def replay(self, records: Sequence[ObjectRecord], lane: str, generations: Mapping[ObjectId, int], now: int) -> int:
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

    def end(self, table: str, lane: str) -> None:
        """Take the mark away: from now on the table's objects are claimable. Repeatable. Raises LaneNotPaused."""
        self._guarded(table, lane, [self._table.update_action(items.table_key(table), {"rebuild": None})])

    def _group(self, record: ObjectRecord, lane: str, generation: int | None, now: int) -> list[Values]:
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
