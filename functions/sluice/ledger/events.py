"""The events that Sluice puts on the bus: their definitions, and each one's detail from what the ledger says.

docs/events.md and docs/events.schema.json are written from the definitions (tools/events.py). A field may be added;
none is renamed or removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from hashlib import sha256
from typing import Any

from sluice.lane.machine import HALT_AFTER_FAILURES, HALTED, LEDGER_LOST, PAUSED
from sluice.ledger.keys import COMMITTED, PARKED, PENDING, QUARANTINED
from sluice.names import counted, listed

SOURCE = "Sluice"
BATCH_COMMITTED = "Batch Committed"
TABLE_FAILED = "Table Failed"
OBJECT_QUARANTINED = "Object Quarantined"
SCHEMA_CHANGED = "Schema Changed"
FRESHNESS_LATE = "Freshness Late"
LANE_HALTED = "Lane Halted"

ERROR_CHARACTERS = 1_000
KEYS_NAMED = 10
TABLES_NAMED = 500  # of one event, of which a state machine takes 256 KB
COLUMNS_NAMED = 100

_TEXT: Mapping[str, Any] = {"type": "string"}
_COUNT: Mapping[str, Any] = {"type": "integer", "minimum": 0}
_TIME: Mapping[str, Any] = {"type": "string", "format": "date-time"}


def _or_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


@dataclass(frozen=True)
class EventField:
    """A field of an event's detail: its JSON Schema and its meaning."""

    schema: Mapping[str, Any] = field(hash=False)
    meaning: str


@dataclass(frozen=True)
class EventKind:
    """A kind of event: its detail-type, when it is sent, what one repetition has in common (`id`), and its fields."""

    detail_type: str
    sent: str
    id: str
    fields: Mapping[str, EventField] = field(hash=False)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the detail. It allows further fields, which a later release may add."""
        return {
            "title": self.detail_type,
            "description": self.sent,
            "type": "object",
            "properties": {
                name: {**described.schema, "description": described.meaning}
                for name, described in (*_COMMON.items(), *self.fields.items())
            },
            "required": [*_COMMON, *self.fields],
        }


_COMMON: Mapping[str, EventField] = {
    "stack": EventField(_TEXT, "The stack. Put it into the pattern of a rule: the stacks of an account share a bus."),
    "id": EventField(_TEXT, "The same for a repetition of the event, and for no other one."),
    "message": EventField(_TEXT, "One line for people, with the names of tables or of the lane."),
}


def _listed(properties: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    item = {"type": "object", "properties": dict(properties), "required": list(properties)}
    return {"type": "array", "items": item}


KINDS: tuple[EventKind, ...] = (
    EventKind(
        BATCH_COMMITTED,
        "A batch was committed: each of its tables has its outcome, and readers see it.",
        "The batch.",
        {
            "batch": EventField(_TEXT, "The batch."),
            "lane": EventField(_or_null(_TEXT), "Its lane."),
            "run": EventField(_or_null(_TEXT), "The run that claimed it."),
            "objects": EventField(_COUNT, "Its objects."),
            "bytes": EventField(_COUNT, "Their bytes, as stored."),
            "claimed_at": EventField(_or_null(_TIME), "When its objects were claimed."),
            "committed_at": EventField(_or_null(_TIME), "When its last table was settled."),
            "tables": EventField(
                {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "table": _TEXT,
                            "state": _or_null(_TEXT),
                            "instant": _or_null(_TEXT),
                            "no_change": {"type": "boolean"},
                            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
                        },
                        "required": ["table", "state", "instant", "no_change"],
                    },
                },
                "Each table: `committed` or `quarantined`, the instant of its Hudi commit, whether nothing had to "
                "change, and counts of rows and objects by name.",
            ),
            "left_out": EventField(_COUNT, "Tables that are not listed because the event would be too large."),
        },
    ),
    EventKind(
        TABLE_FAILED,
        "A merge of a table failed, or the table is blocked until somebody decides. Its objects wait, others go on.",
        "The table's change in the ledger.",
        {
            "table": EventField(_TEXT, "The table."),
            "failures": EventField(_COUNT, "Failures in a row, this one included. It backs off after each."),
            "error": EventField(_TEXT, "The error's text, with its next step."),
            "blocked": EventField(_or_null(_TEXT), "The error's code if the table waits for a decision, else null."),
            "retry_at": EventField(_or_null(_TIME), "When it is tried again; null if it is blocked."),
        },
    ),
    EventKind(
        OBJECT_QUARANTINED,
        "Objects or rows were quarantined: those of one batch together, or those that admission refused together.",
        "The batch, or the objects.",
        {
            "batch": EventField(_or_null(_TEXT), "The batch; null for objects that were refused before any batch."),
            "objects": EventField(_COUNT, "Quarantined objects."),
            "rows": EventField(_COUNT, "Quarantined rows of objects whose other rows were merged."),
            "tables": EventField(
                _listed({"table": _or_null(_TEXT), "objects": _COUNT, "rows": _COUNT}),
                "The numbers for each table; null for objects of no table.",
            ),
            "codes": EventField(
                {"type": "object", "additionalProperties": _COUNT},
                "Objects by error code. Empty for a batch: `sluice quarantine list` has its codes.",
            ),
            "keys": EventField(
                {"type": "array", "items": _TEXT}, f"Up to {KEYS_NAMED} of the objects' keys, not of a batch."
            ),
        },
    ),
    EventKind(
        SCHEMA_CHANGED,
        "A commit added columns to a table, or widened their types.",
        "The batch and the table.",
        {
            "batch": EventField(_TEXT, "The batch."),
            "table": EventField(_TEXT, "The table."),
            "instant": EventField(_or_null(_TEXT), "The instant of its Hudi commit."),
            "columns": EventField(
                _listed({"column": _TEXT, "change": _TEXT, "from": _or_null(_TEXT), "to": _or_null(_TEXT)}),
                f"Up to {COLUMNS_NAMED} columns: what happened to each, and its stored types before and after.",
            ),
        },
    ),
    EventKind(
        FRESHNESS_LATE,
        "Objects of a table wait for longer than its freshness and `OverdueAlarmSeconds` allow. Sent once until the "
        "table is committed again, and at most once an hour.",
        "The table and its last commit.",
        {
            "table": EventField(_TEXT, "The table."),
            "lane": EventField(_TEXT, "Its lane."),
            "late_s": EventField(_COUNT, "Seconds by which the oldest object exceeds the table's freshness."),
            "freshness_s": EventField(_COUNT, "The table's freshness in seconds."),
            "waiting": EventField(_COUNT, "Objects that wait, of the oldest 2,000."),
            "last_commit_at": EventField(_or_null(_TIME), "When the table was last committed."),
            "last_error": EventField(_or_null(_TEXT), "The table's last error, if it failed since."),
        },
    ),
    EventKind(
        LANE_HALTED,
        f"{HALT_AFTER_FAILURES} runs of a lane in a row ended without committing anything, or its ledger was lost.",
        "The lane's change in the ledger.",
        {
            "lane": EventField(_TEXT, "The lane."),
            "failures": EventField(_COUNT, "Runs in a row without progress."),
            "reason": EventField(_or_null(_TEXT), "How the last one ended."),
            "last_run": EventField(_or_null(_TEXT), "The last run: `sluice ops logs RUN` shows its log."),
        },
    ),
)


@dataclass(frozen=True)
class LedgerChange:
    """A change of a ledger item: the stream's id for it, and the item before and after; None where there is none."""

    id: str
    old: Mapping[str, Any] | None = field(hash=False)
    new: Mapping[str, Any] | None = field(hash=False)


@dataclass(frozen=True)
class LateTable:
    """A table whose objects wait for longer than its freshness. Fields that end in `_s` are seconds, times epoch ms."""

    table: str
    lane: str
    late_s: int
    freshness_s: int
    waiting: int
    last_commit_at: int | None = None
    last_error: str | None = None

    @property
    def episode(self) -> str:
        """What a repetition has in common: the hour of the last commit."""
        return f"late#{self.table}#{(self.last_commit_at or 0) // 3_600_000}"


def table_failed(change: LedgerChange, *, stack: str) -> dict[str, Any] | None:
    """The detail of TABLE_FAILED; None if the change is no failure of a table."""
    old, new = change.old or {}, change.new or {}
    if new.get("sk") != "table" or _whole(new.get("failures")) <= _whole(old.get("failures")):
        return None
    table = str(new.get("table") or str(new.get("pk", "")).partition("#")[2])
    blocked = new.get("blocked") or {}
    error = str(new.get("last_error") or "no error is recorded")[:ERROR_CHARACTERS]
    retry_at = None if blocked else iso(new.get("backoff_until"))
    rest = "it waits for a decision" if blocked else f"next attempt at {retry_at}" if retry_at else "it is tried again"
    return {
        "stack": stack,
        "id": change.id,
        "message": f"{table} failed, {_whole(new.get('failures'))} in a row, {rest}: {_first_line(error)}",
        "table": table,
        "failures": _whole(new.get("failures")),
        "error": error,
        "blocked": blocked.get("code") if isinstance(blocked, Mapping) else None,
        "retry_at": retry_at,
    }


def lane_halted(change: LedgerChange, *, stack: str) -> dict[str, Any] | None:
    """The detail of LANE_HALTED; None for any other change. A halted lane that tries again and fails is no news."""
    old, new = change.old or {}, change.new or {}
    if new.get("sk") != "lane":
        return None
    before, after = _whole(old.get("failures")), _whole(new.get("failures"))
    halted = new.get("state") == HALTED and before < HALT_AFTER_FAILURES <= after
    lost = _is_lost(new) and not _is_lost(old)
    if not (halted or lost):
        return None
    lane, reason = str(new.get("pk", "")).partition("#")[2], new.get("reason")
    described = f"lane {lane} was halted after {after} runs without progress" if halted else f"lane {lane} is paused"
    return {
        "stack": stack,
        "id": change.id,
        "message": f"{described}: {_first_line(str(reason or 'no reason is recorded'))}",
        "lane": lane,
        "failures": after,
        "reason": None if reason is None else str(reason)[:ERROR_CHARACTERS],
        "last_run": new.get("last_run_id") or new.get("run_id"),
    }


def is_refused_object(change: LedgerChange) -> bool:
    """Whether a change quarantines an object that is in no batch: at admission, or because its version is gone."""
    old, new = change.old or {}, change.new or {}
    is_object = str(new.get("pk", "")).startswith("object#")
    return is_object and new.get("state") == QUARANTINED and old.get("state") in (None, PENDING, PARKED)


def objects_refused(changes: Sequence[LedgerChange], *, stack: str) -> dict[str, Any]:
    """The detail of OBJECT_QUARANTINED for objects in no batch."""
    items = [change.new or {} for change in changes]
    tables = Counter(item.get("table") for item in items)
    codes = Counter(str(item.get("code") or "unknown") for item in items)
    by_table = [{"table": table, "objects": number, "rows": 0} for table, number in tables.most_common(TABLES_NAMED)]
    why = ", ".join(sorted(codes))
    return {
        "stack": stack,
        "id": sha256("\n".join(sorted(change.id for change in changes)).encode()).hexdigest()[:32],
        "message": f"{counted(len(items), 'object')} quarantined on arrival ({why}): {_tables(by_table)}",
        "batch": None,
        "objects": len(items),
        "rows": 0,
        "tables": by_table,
        "codes": dict(codes),
        "keys": [str(item["pk"]).partition("#")[2].partition("/")[2] for item in items[:KEYS_NAMED]],
    }


def batch_events(
    batch: Mapping[str, Any], parts: Mapping[str, Mapping[str, Any]], *, stack: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events about a committed batch beside BATCH_COMMITTED: what it set aside, and columns that changed."""
    name = str(batch["batch"])
    aside = [
        {
            "table": table,
            "objects": _whole((part.get("counts") or {}).get("quarantined_objects")),
            "rows": _whole((part.get("counts") or {}).get("quarantined_rows")),
        }
        for table, part in sorted(parts.items())
    ]
    aside_of = [part_ for part_ in aside if part_["objects"] or part_["rows"]]
    if aside_of:
        objects, rows = (sum(_whole(part_[kind]) for part_ in aside_of) for kind in ("objects", "rows"))
        set_aside = {
            "stack": stack,
            "id": name,
            "message": f"{counted(objects, 'object')} and {counted(rows, 'row')} quarantined: {_tables(aside_of)}",
            **{"batch": name, "objects": objects, "rows": rows},
            **{"tables": aside_of[:TABLES_NAMED], "codes": {}, "keys": []},
        }
        yield OBJECT_QUARANTINED, set_aside
    for table, part in sorted(parts.items()):
        # The ledger leaves out what is null.
        columns = [
            {name: column.get(name) for name in ("column", "change", "from", "to")}
            for column in list(part.get("columns") or ())[:COLUMNS_NAMED]
        ]
        if columns and part.get("state") == COMMITTED:
            changes = ", ".join(f"{column['column']} {column['change']}" for column in columns[:KEYS_NAMED])
            changed = {
                **{"stack": stack, "id": f"{name}#{table}", "message": f"{table} changed its schema: {changes}"},
                **{"batch": name, "table": table, "instant": part.get("instant"), "columns": columns},
            }
            yield SCHEMA_CHANGED, changed


def freshness_late(late: LateTable, *, stack: str) -> dict[str, Any]:
    why = f"; its last error: {_first_line(late.last_error)}" if late.last_error else ""
    return {
        "stack": stack,
        "id": late.episode,
        "message": f"{late.table} is {late.late_s:,} s older than its freshness of {late.freshness_s:,} s allows{why}",
        **{name: getattr(late, name) for name in ("table", "lane", "late_s", "freshness_s", "waiting")},
        "last_commit_at": iso(late.last_commit_at),
        "last_error": None if late.last_error is None else late.last_error[:ERROR_CHARACTERS],
    }


def newly_committed(change: LedgerChange) -> str | None:
    """The batch that a change of an item commits; None for any other change, also a later one of a committed batch."""
    old, new = change.old or {}, change.new or {}
    if new.get("sk") != "batch" or new.get("state") != COMMITTED or old.get("state") == COMMITTED:
        return None
    batch = new.get("batch")
    return batch if isinstance(batch, str) else None


def _is_lost(lane: Mapping[str, Any]) -> bool:
    return lane.get("state") == PAUSED and lane.get("reason") == LEDGER_LOST


def _whole(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) else 0


def _tables(by_table: Iterable[Mapping[str, Any]]) -> str:
    return listed([str(entry["table"] or "of no table") for entry in by_table], KEYS_NAMED)


def _first_line(text: str) -> str:
    return text.splitlines()[0][:300] if text else ""


def iso(epoch_ms: Any) -> str | None:
    """ISO 8601 in UTC of epoch milliseconds; None for anything else."""
    if not isinstance(epoch_ms, (int, float)):
        return None
    at = datetime.fromtimestamp(epoch_ms / 1000, timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
