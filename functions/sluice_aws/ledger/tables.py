"""Table items: commit and error times, back-off, pinned settings, purge floors, notes and totals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sluice.batch.claim import TableState
from sluice.config.table import with_kept
from sluice.errors import SluiceError
from sluice.hudi.timeline import instant_ms
from sluice.ledger.keys import TABLES_LISTED_AS, listed_at, table_key
from sluice.services.policy import CATALOG
from sluice.services.requests import SERVICES
from sluice_aws.errors import LedgerBusy
from sluice_aws.ledger.expressions import Condition, when
from sluice_aws.ledger.settlement import TOTAL_PREFIX
from sluice_aws.ledger.table import LedgerTable

LISTED = {"listed_as": TABLES_LISTED_AS, "listed_at": listed_at(0)}
ERROR_CHARACTERS = 2_000
ATTEMPTS = 5  # enough for a write that only the lane's holder makes
SERVICE_PREFIX = "service_"  # of the fields that hold each service's last successful end
PLAIN = tuple(
    (
        "last_commit_at last_instant last_instant_at history_instant last_batch last_error failures backoff_until "
        "pinned watch services_since catalog_failed purge_floors rebuild blocked"
    ).split()
)


class TableLedger:
    """The tables of one ledger."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def get(self, table: str) -> TableState:
        """One table's state; empty for a table without an item."""
        return _state(table, self._table.get(table_key(table)) or {})

    def get_many(self, tables: Iterable[str]) -> dict[str, TableState]:
        """The state of each named table."""
        names = list(dict.fromkeys(tables))
        stored = {values["pk"]: values for values in self._table.get_many([table_key(table) for table in names])}
        return {table: _state(table, stored.get(table_key(table)["pk"], {})) for table in names}

    def all(self) -> list[TableState]:
        """Every table that has an item, by name."""
        keys = [key for page in self._table.query_index(TABLES_LISTED_AS) for key in page]
        return sorted(
            self.get_many(key["pk"].partition("#")[2] for key in keys).values(), key=lambda state: state.table
        )

    def record_error(self, table: str, error: str, backoff_until: int | None) -> TableState:
        """Count a failure and keep the table from being claimed until `backoff_until` (epoch ms)."""
        changes = {"last_error": error[:ERROR_CHARACTERS], "backoff_until": backoff_until, **LISTED}
        stored, _ = self._table.update(table_key(table), changes, add={"failures": 1})
        return _state(table, stored)

    def end_backoff(self, table: str) -> None:
        """Let the table be claimed again at once. Its error stays until a part of it is committed."""
        self._table.update(table_key(table), {"backoff_until": None})

    def block(self, table: str, error: SluiceError, now: int) -> TableState:
        """Count a failure, and keep the table from being written until `accept` or a rebuild. `now` is epoch ms."""
        blocked = {
            "code": error.code,
            "error": error.message[:ERROR_CHARACTERS],
            "next_step": error.next_step,
            "at": now,
        }
        changes = {"blocked": blocked, "last_error": str(error)[:ERROR_CHARACTERS], **LISTED}
        stored, _ = self._table.update(table_key(table), changes, add={"failures": 1})
        return _state(table, stored)

    def accept(self, table: str, instant: str | None, history: str | None = None, *, seen: TableState) -> bool:
        """Make `instant` the table's last commit, `history` its history table's, and unblock it.

        False when the table is no longer as it was `seen`: it was committed to, or blocked for another reason.
        """
        changes = {
            "last_instant": instant,
            "last_instant_at": None if instant is None else instant_ms(instant),
            "history_instant": history,
            "blocked": None,
            "last_error": None,
            "failures": 0,
            "backoff_until": None,
            **LISTED,
        }
        unchanged = when(last_instant=seen.last_instant, history_instant=seen.history_instant, blocked=seen.blocked)
        return self._table.change(table_key(table), changes, unchanged)

    def pin(self, table: str, pinned: Mapping[str, Any]) -> bool:
        """Store the settings that a table's data is written with. False when others are stored already.

        The name of a history table and the order of changes are added where there are none yet, and stay.
        """
        wanted = dict(pinned)
        if self._pin(table, wanted, when(pinned=None) | when(pinned=wanted)):
            return True
        held = (self._table.get(table_key(table)) or {}).get("pinned")
        wanted = with_kept(pinned, held)
        if held is not None and with_kept(held, pinned) != wanted:
            return False
        return self._pin(table, wanted, when(pinned=held))

    def _pin(self, table: str, pinned: Mapping[str, Any], condition: Condition) -> bool:
        return self._table.change(table_key(table), {"pinned": pinned, **LISTED}, condition)

    def raise_purge_floor(self, table: str, positions: Mapping[int, str]) -> None:
        """Store, before a purge, the highest position by generation of the rows it removes. A floor never falls."""
        for _ in range(ATTEMPTS):
            before = (self._table.get(table_key(table)) or {}).get("purge_floors")
            floors = dict(before or {})
            for number, position in positions.items():
                floors[str(number)] = max(position, floors.get(str(number), ""))
            if self._table.change(table_key(table), {"purge_floors": floors, **LISTED}, when(purge_floors=before)):
                return
        raise LedgerBusy("The table's purge floors kept changing", operation="raise_purge_floor", cause=table)

    def clear_catalog_failure(self, table: str, failure: Mapping[str, Any]) -> None:
        """Remove a failed catalog sync after one that succeeded; a later failure stays."""
        self._table.update(table_key(table), {"catalog_failed": None}, condition=when(catalog_failed=failure))

    def note_first_check(self, table: str, now: int) -> None:
        """Store when table services first looked at a table; later calls change nothing."""
        self._table.update(table_key(table), {"services_since": now}, condition=when(services_since=None))


def totals_of(stored: Mapping[str, Any]) -> dict[str, int]:
    """The totals in a table's item, by name."""
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
