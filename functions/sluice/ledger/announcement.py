"""The announcement of a committed batch: the event's detail within the size limit of an event, and the metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sluice.batch.part_counts import OBJECTS_AGAIN
from sluice.changes.outdated import OUTDATED
from sluice.ledger.events import iso
from sluice.ledger.keys import COMMITTED

# An entry of PutEvents has at most 1 MB, including names and time, but a state machine takes 256 KB of it.
MAX_DETAIL_BYTES = 240 * 1024


def announcement(batch: Mapping[str, Any], parts: Mapping[str, Mapping[str, Any]], *, stack: str) -> dict[str, Any]:
    """The event's detail, from the batch's item and its parts by table. Times are ISO 8601, UTC.

    `stack` tells the stacks of an account apart, whose events share a bus.

    If the detail would be too large, it lists the tables without counts, and if needed only some of them.
    `left_out` is the number of tables that are not listed. The ledger holds everything.
    """
    tables = [_table(table, parts[table]) for table in sorted(parts)]
    detail = {
        "stack": stack,
        "id": batch["batch"],
        "message": f"batch {batch['batch']} committed {len(tables)} table{'' if len(tables) == 1 else 's'}",
        **{name: batch.get(name) for name in ("batch", "lane", "run")},
        "objects": batch.get("objects", 0),
        "bytes": batch.get("bytes", 0),
        "claimed_at": iso(batch.get("claimed_at")),
        "committed_at": iso(batch.get("committed_at")),
        "tables": tables,
        "left_out": 0,
    }
    if _size(detail) > MAX_DETAIL_BYTES:
        detail["tables"] = [{name: summary for name, summary in table.items() if name != "counts"} for table in tables]
    while _size(detail) > MAX_DETAIL_BYTES:
        most: list[dict[str, Any]] = detail["tables"]
        detail["tables"] = most[: len(most) // 2]
        detail["left_out"] = len(tables) - len(detail["tables"])
    return detail


def lane_metrics(batch: Mapping[str, Any], parts: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Sums over a batch's tables, for metrics by lane. Objects that were committed before don't count as committed.

    The numbers by table are in the event and the log only, since a metric is paid for by each of its dimensions.
    """
    aside = {
        name: sum((part.get("counts") or {}).get(name, 0) for part in parts.values())
        for name in ("quarantined_objects", "parked_objects", "quarantined_rows")
    }
    objects_aside = aside["quarantined_objects"] + aside["parked_objects"]
    again = sum((part.get("counts") or {}).get(OBJECTS_AGAIN, 0) for part in parts.values())
    metrics = {
        "BatchesCommitted": 1,
        "ObjectsCommitted": batch.get("objects", 0) - objects_aside - again,
        "ObjectsSetAside": objects_aside,
        "RowsSetAside": aside["quarantined_rows"],
        "BytesCommitted": batch.get("bytes", 0),
        # A part whose changes are all in the table has no commit.
        "TablesCommitted": sum(p.get("state") == COMMITTED and not p.get("no_change") for p in parts.values()),
        "TablesQuarantined": sum(1 for part in parts.values() if part.get("state") == "quarantined"),
        "TablesLosingChanges": sum(1 for part in parts.values() if (part.get("counts") or {}).get(OUTDATED)),
    }
    for part in parts.values():
        for name, n in (part.get("counts") or {}).items():
            if name in ("read", "written", "losing", "deleted"):
                metric = f"Rows{name.capitalize()}"
                metrics[metric] = metrics.get(metric, 0) + n
    return metrics


def table_metrics(part: Mapping[str, Any]) -> dict[str, int]:
    """The metrics of one table's part, for stacks that pay for metrics by table."""
    counts = part.get("counts") or {}
    return {
        "TableRowsRead": counts.get("read", 0),
        "TableRowsWritten": counts.get("written", 0),
        "TableObjectsSetAside": counts.get("quarantined_objects", 0) + counts.get("parked_objects", 0),
        "TableRowsSetAside": counts.get("quarantined_rows", 0),
    }


def batch_seconds(batch: Mapping[str, Any]) -> float | None:
    """Seconds from claim to commit; None while either is unknown."""
    claimed, committed = batch.get("claimed_at"), batch.get("committed_at")
    return None if claimed is None or committed is None else (committed - claimed) / 1000


def _table(table: str, part: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{"table": table, "state": part.get("state"), "instant": part.get("instant")},
        "no_change": bool(part.get("no_change", False)),
        "counts": dict(part.get("counts") or {}),
    }


def _size(detail: Mapping[str, Any]) -> int:
    return len(json.dumps(detail).encode())
