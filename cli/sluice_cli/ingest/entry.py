"""An entry in quarantine, or a parked object: its kind, codes and reason, and what people and scripts see of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sluice.ledger.keys import PARKED
from sluice.ledger.records import Decision, ObjectRecord
from sluice_cli.terminal.step import completed
from sluice_cli.terminal.words import counted, first_names, human_bytes
from sluice_read.moments import clock

TABLES_NAMED = 3  # in a question
OBJECT, ROWS = "object", "rows"


def described(records: Sequence[ObjectRecord]) -> str:
    """The number of entries, by kind and by table: `3 entries (2 objects, rows of 1 object) of crm.user`."""
    kinds = Counter(map(kind, records))
    words = {OBJECT: "{}", ROWS: "rows of {}", PARKED: "{} parked"}
    parts = ", ".join(words[name].format(counted(kinds[name], "object")) for name in sorted(kinds))
    tables = sorted({record.table or record.topic or "no table" for record in records})
    return f"{counted(len(records), 'entry', 'entries')} ({parts}) of {first_names(tables, TABLES_NAMED)}"


def codes(record: ObjectRecord) -> tuple[str, ...]:
    """The codes of an entry: the object's, or those of its rows. A parked object that waits for a rule has none."""
    if record.state == PARKED:
        return () if record.code is None else (record.code,)
    return tuple(sorted(record.row_codes)) if record.quarantined_rows else (record.code or "unknown",)


def reason_of(record: ObjectRecord) -> str | None:
    """The reason, whose commands name the entry's table and lane."""
    return None if record.reason is None else completed(record.reason, TABLE=record.table, LANE=record.lane)


def kind(record: ObjectRecord) -> str:
    """The kind of an entry: rows of an object, a whole object, or a parked object."""
    return ROWS if record.quarantined_rows else PARKED if record.state == PARKED else OBJECT


def describe(record: ObjectRecord) -> dict[str, Any]:
    """An entry as plain JSON values. Times are epoch ms."""
    listed_at = int(record.listed_at) if record.listed_at else None
    return {
        "id": record.id.hash,
        "kind": kind(record),
        "bucket": record.id.bucket,
        "key": record.id.key,
        "version": record.id.version,
        "bytes": record.size,
        "table": record.table,
        "topic": record.topic,
        "codes": list(codes(record)),
        "reason": reason_of(record),
        "rows": record.quarantined_rows,
        "rows_by_code": dict(record.row_codes),
        "batch": record.batch,
        "attempt": record.attempt,
        "admitted_at": record.admitted_at,
        **({"parked_at": listed_at} if record.state == PARKED else {"quarantined_at": listed_at}),
    }


def describe_decision(decision: Decision) -> dict[str, Any]:
    """An entry of the audit trail as plain JSON values."""
    fields = asdict(decision)
    identity = fields.pop("id")
    del identity["also_for"]  # `table` says it
    return {"id": decision.id.hash, **identity, **fields}


def lines_of(record: ObjectRecord) -> list[tuple[str, str]]:
    """An entry for people: what it has, each with its name."""
    listed = clock(int(record.listed_at)) if record.listed_at else None
    parked = record.state == PARKED
    by_code = ", ".join(f"{rows:,} {code}" for code, rows in sorted(record.row_codes.items()))
    facts = {
        "id": record.id.hash,
        "kind": kind(record),
        "key": record.id.key,
        "bucket": record.id.bucket,
        "version": record.id.version,
        "size": human_bytes(record.size),
        "table": record.table,
        "topic": record.topic,
        "code": None if record.quarantined_rows else ", ".join(codes(record)),
        "rows": by_code if record.quarantined_rows else None,
        "reason": reason_of(record),
        "batch": record.batch,
        "retries": str(record.attempt) if record.attempt else None,
        "admitted": clock(record.admitted_at),
        "parked": listed if parked else None,
        "quarantined": None if parked else listed,
    }
    return [(name, value) for name, value in facts.items() if value]
