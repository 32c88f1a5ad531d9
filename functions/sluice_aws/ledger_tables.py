"""Table items: what pacing, back-off and the refusal of pinned changes need to know of a table."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional

from sluice.claiming import TableState
from sluice.ledger_items import TABLES_LISTED_AS, listed_at, table_key
from sluice.service_policy import CATALOG
from sluice.service_requests import SERVICES
from sluice_aws.ledger_expressions import when
from sluice_aws.ledger_settling import TOTAL_PREFIX
from sluice_aws.ledger_table import LedgerBusy, LedgerTable

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


class TableLedger:
    """The tables of one ledger."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def table_state(self, table: str) -> TableState:
        """One table, strongly consistent; one never seen is empty."""
        return _state(table, self._table.get(table_key(table)) or {})

    def table_states(self, tables: Iterable[str]) -> Dict[str, TableState]:
        """Every named table, strongly consistent."""
        named = list(dict.fromkeys(tables))
        stored = {found["pk"]: found for found in self._table.get_many([table_key(table) for table in named])}
        return {table: _state(table, stored.get(table_key(table)["pk"], {})) for table in named}

    def tables(self) -> List[TableState]:
        """Every table that the ledger knows anything of, by name."""
        keys = [key for page in self._table.query_index(TABLES_LISTED_AS) for key in page]
        return sorted(
            self.table_states(key["pk"].partition("#")[2] for key in keys).values(), key=lambda state: state.table
        )

    def record_table_error(self, table: str, error: str, backoff_until: Optional[int]) -> TableState:
        """Count a failure and keep the table from being claimed until `backoff_until` (epoch ms)."""
        changes = {"last_error": error[:ERROR_CHARACTERS], "backoff_until": backoff_until, **LISTED}
        stored, _ = self._table.update(table_key(table), changes, add={"failures": 1})
        return _state(table, stored)

    def pin_table(self, table: str, pinned: Mapping[str, Any]) -> bool:
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

    def set_table_paused(self, table: str, paused: bool) -> TableState:
        """Leave a table's objects pending, or no longer; taking a pause back needs a wake of its lane."""
        stored, _ = self._table.update(table_key(table), {"paused": paused, **LISTED})
        return _state(table, stored)

    def watch_table(self, table: str, now: int) -> None:
        """Remember when a table was first looked at for services; later calls change nothing."""
        self._table.update(table_key(table), {"services_since": now}, condition=when(services_since=None))


def totals_of(stored: Mapping[str, Any]) -> Dict[str, int]:
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
