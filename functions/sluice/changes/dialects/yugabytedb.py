"""YugabyteDB's connector with the gRPC protocol: Debezium's envelope, each column a record of `value` and `set`.

https://docs.yugabyte.com/stable/additional-features/change-data-capture/using-yugabytedb-grpc-replication/debezium-connector-yugabytedb/
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluice.changes.dialects.nested import IsKey, Record, change
from sluice.changes.hidden_columns import UPDATE
from sluice.errors import UnusableSchema

_CELL = {"value", "set"}
NEXT_STEP = "Let the connector's transform YBExtractNewRecordState write the rows, or use its `pgoutput` plugin"


@dataclass(frozen=True)
class CellsOfColumns:
    """The dialect. An update with a column that isn't set is refused: its value is elsewhere."""

    name: str = "yugabytedb"
    fields: frozenset[str] = frozenset(("before", "after", "source", "op"))

    def recognises(self, record: Record) -> bool:
        """Whether the columns of a row are such records."""
        if not self.fields <= record.keys():
            return False
        rows = [record[side] for side in ("before", "after") if isinstance(record[side], dict)]
        return any(rows) and all(_is_cell(cell) for row in rows for cell in row.values())

    def changes(self, record: Record, is_key: IsKey) -> Sequence[dict[str, Any]]:
        """The change with plain rows. Raises UnusableSchema."""
        before, after = (_row(record[side]) for side in ("before", "after"))
        if record["op"] == UPDATE and not all((record["after"] or {}).values()):
            raise UnusableSchema(
                "An update of YugabyteDB's lacks columns that it left unchanged",
                next_step=f"Capture whole rows (before image mode ALL, or replica identity FULL). {NEXT_STEP}",
            )
        source = record["source"] if isinstance(record["source"], dict) else {}
        # Its places in the log are text of a tablet's: the Kafka offset orders the changes of a row.
        source = {name: value for name, value in source.items() if name != "lsn" or type(value) is int}
        return [change(record["op"], before, after, source)]


def _is_cell(cell: Any) -> bool:
    return cell is None or isinstance(cell, dict) and cell.keys() == _CELL


def _row(row: Any) -> dict[str, Any] | None:
    return {name: cell and cell["value"] for name, cell in row.items()} if isinstance(row, dict) else None


YUGABYTEDB = CellsOfColumns()
