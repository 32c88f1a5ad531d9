"""What came of a replay, by table: commits of the table and its history table, and what was quarantined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.ledger.keys import CLAIMED, COMMITTED, PENDING, QUARANTINED
from sluice_cli.account.steps import ENTRIES
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.words import counted


@dataclass
class TableEnd:
    """What came of a replay for one table. `instants` are its commits, `history_changes` what its history table got."""

    instants: list[str] = field(default_factory=list)
    history_changes: int = 0
    quarantined_objects: int = 0
    quarantined_rows: int = 0
    rows_by_code: Counter[str] = field(default_factory=Counter)

    @property
    def unchanged(self) -> bool:
        """True if nothing at all came of it."""
        return self == TableEnd()

    @property
    def summary(self) -> str:
        """The words for people."""
        if self.unchanged:
            return "nothing changed, no commit was made"
        parts = [f"changed by {', '.join(self.instants)}" if self.instants else "no row changed"]
        if self.history_changes:
            parts.append(f"{counted(self.history_changes, 'change')} committed to its history table")
        if self.quarantined_rows:
            codes = ", ".join(f"{rows:,} {visible(code)}" for code, rows in sorted(self.rows_by_code.items()))
            parts.append(f"{counted(self.quarantined_rows, 'row')} quarantined{f' ({codes})' if codes else ''}")
        if self.quarantined_objects:
            parts.append(f"{counted(self.quarantined_objects, 'object')} quarantined")
        return "; ".join(parts)


@dataclass(frozen=True)
class ReplayEnd:
    """What came of a replay, by table, and the number of its objects by state."""

    tables: Mapping[str, TableEnd]
    states: Mapping[str, int]

    @property
    def unsettled(self) -> int:
        """The number of objects that still wait for their merge, or are in it."""
        return sum(self.states.get(state, 0) for state in (PENDING, CLAIMED))

    @property
    def described(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "changed_tables": {table: end.instants for table, end in self.tables.items() if end.instants},
            "unchanged_tables": [table for table, end in self.tables.items() if end.unchanged],
            "merged_tables": {table: vars(end) for table, end in self.tables.items()},
            "states": dict(self.states),
            "unsettled": self.unsettled,
        }

    @property
    def lines(self) -> Iterator[str]:
        """The lines for people."""
        for table, end in self.tables.items():
            yield f"{visible(table)}: {end.summary}"
        for state, number in self.states.items():
            if state not in (COMMITTED, QUARANTINED):
                yield f"{counted(number, 'object')} {state}"
        if any(end.quarantined_rows or end.quarantined_objects for end in self.tables.values()):
            yield f"{ENTRIES}. Rows that a table held already stay in it"
