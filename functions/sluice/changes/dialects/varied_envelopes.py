"""Debezium's envelope as YugabyteDB's and Cassandra's connectors vary it, with a record for each column, and Spanner's.

https://docs.yugabyte.com/stable/additional-features/change-data-capture/using-yugabytedb-grpc-replication/debezium-connector-yugabytedb/
https://debezium.io/documentation/reference/3.5/connectors/cassandra.html, .../connectors/spanner.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluice.changes.dialects.nested import SENT, JsonOnly, Reading, Record, at, change, placed, whole
from sluice.changes.hidden_columns import CREATE, UPDATE
from sluice.errors import UnusableSchema

_CELL = frozenset(("value", "set"))
NEXT_STEP = "Let the connector's transform YBExtractNewRecordState write the rows, or use its `pgoutput` plugin"


@dataclass(frozen=True)
class CellsOfColumns(JsonOnly):
    """The dialect. A column that isn't set in an update was left alone, as in Cassandra's inserts, which may be one."""

    name: str = "yugabytedb"
    shapes: tuple[frozenset[str], ...] = (frozenset(("after", "source", "op")),)
    beside: frozenset[str] = frozenset()  # what a column's record has beside its value

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether the columns of a row are such records."""
        if not self.shapes[0] <= record.keys():
            return False
        rows = [row for side in ("before", "after") if isinstance(row := record.get(side), dict)]
        cells = [cell for row in rows for cell in row.values() if cell is not None]
        return bool(cells) and all(isinstance(cell, dict) and cell.keys() == _CELL | self.beside for cell in cells)

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        """The change with plain rows."""
        before, after = (_row(record.get(side)) for side in ("before", "after"))
        source = record["source"] if isinstance(record["source"], dict) else {}
        # Its places in the log are text of a tablet's: the Kafka offset orders the changes of a row.
        source = {name: value for name, value in source.items() if name != "lsn" or type(value) is int}
        op = UPDATE if self.beside and record["op"] in ("i", CREATE) else record["op"]
        if op == UPDATE and after is not None:
            source[SENT] = [name for name, cell in record["after"].items() if cell and cell["set"]]
        return [change(op, before, after, {**source, **(placed(whole(source.get("ts_micro"))) if self.beside else {})})]


def _row(row: Any) -> dict[str, Any] | None:
    return {name: cell and cell["value"] for name, cell in row.items()} if isinstance(row, dict) else None


YUGABYTEDB, CASSANDRA = CellsOfColumns(), CellsOfColumns("cassandra", beside=frozenset(("deletion_ts",)))
_WHOLE_ROWS = ("NEW_ROW", "NEW_ROW_AND_OLD_VALUES")


@dataclass(frozen=True)
class SpannerEnvelopes(JsonOnly):
    """The dialect. An update that may lack columns is refused: null stands for those that it left alone."""

    name: str = "spanner"
    shapes: tuple[frozenset[str], ...] = (frozenset(("source", "op", "after")),)

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether the source says that it is Spanner."""
        return bool(at(record, "source.connector") == "spanner")

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        """The change as it is. Raises UnusableSchema."""
        captured = at(record, "source.value_capture_type")
        if record["op"] == UPDATE and captured not in (None, *_WHOLE_ROWS):
            raise UnusableSchema(
                f"The change stream of Spanner captures {str(captured)[:40]}: updates lack unchanged columns",
                next_step="Let the change stream capture whole rows: value_capture_type NEW_ROW",
                column="after",
            )
        return [dict(record)]


SPANNER = SpannerEnvelopes()
