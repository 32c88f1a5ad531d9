"""Changes of MySQL as Maxwell's daemon writes them in JSON.

https://maxwells-daemon.io/dataformat/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.changes.dialects.nested import BY_WORDS, ChangePaths, Reading, Record, at
from sluice.changes.hidden_columns import MESSAGE, SNAPSHOT_READ

_STATEMENTS = (
    *("bootstrap-start", "bootstrap-complete", "table-create", "table-alter", "table-drop"),
    *("database-create", "database-alter", "database-drop"),
)


def _place(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """The binlog's place, with `output_binlog_position`: the changes of one statement share it, in order."""
    file, _, pos = str(record.get("position") or "").rpartition(":")
    source = {"ts_ms": record["ts"] * 1000} if type(record.get("ts")) is int else {}
    return {**source, "file": file, "pos": int(pos), "row": 0} if file and pos.isdecimal() else source


@dataclass(frozen=True)
class MaxwellChanges(ChangePaths):
    """The dialect. Rows of Maxwell's own table of bootstraps, which every stream has, are messages."""

    def _op(self, part: Record) -> str | None:
        own = part.get("table") == "bootstrap" and at(part, "data.inserted_rows") is not None
        return MESSAGE if own else super()._op(part)


MAXWELL = MaxwellChanges(
    "maxwell",
    fields=frozenset(("database", "type", "ts")),
    operation="type",
    operations={**BY_WORDS, "bootstrap-insert": SNAPSHOT_READ, **dict.fromkeys(_STATEMENTS, MESSAGE)},
    row="data",
    old="old",
    source={"db": "database", "table": "table", "server_id": "server_id", "gtid": "gtid"},
    place=_place,
    partial=True,  # with binlog_row_image=MINIMAL or NOBLOB
)
