"""What `sluice status` gathers from the ledger: lanes, tables and what was set aside, as plain JSON values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from sluice.claiming import TableState
from sluice.configuration import Configuration
from sluice.lane import LaneState
from sluice.ledger_items import CLAIMED, IGNORED, PARKED, QUARANTINED, SUPERSEDED
from sluice.ledger_records import ObjectRecord, PendingCount
from sluice_cli.service_overview import due_entries, service_entries
from sluice_cli.waiting import told_lane

COUNTED_AT_MOST = 10_000  # objects of one listed state that are looked at; more is said to be more
EXAMPLES = 3


def gather(ledger: Any, now: int, configured: Callable[[], Configuration | None]) -> dict[str, Any]:
    """Everything that `status` shows. `now` is epoch ms; ages and sizes are in milliseconds and bytes.

    `configured` reads the configuration, once the ledger has answered. Without one no lane is known that never had work, and nothing is due.
    """
    states = list(ledger.tables())
    configuration = configured()
    lanes, tables = lanes_and_tables(ledger, now, configuration)
    requests = [request for lane in lanes for request in ledger.service_requests(lane["lane"])]
    aside = {state: _aside(ledger.objects_in_state(state)) for state in (PARKED, QUARANTINED, IGNORED, SUPERSEDED)}
    for table in tables:  # a table's totals are of its batches: what admission set aside came into none
        table["quarantined"]["objects"] += aside[QUARANTINED]["at_admission"].get(table["table"], 0)
    return {
        "lanes": lanes,
        "tables": tables,
        "services": service_entries(states, requests),
        "services_due": due_entries(configuration, states, requests, now),
        "set_aside": aside,
        "quarantined_rows": _rows(ledger.objects_with_quarantined_rows()),
        "ignored_messages": _messages(ledger.ignored_messages()),
    }


def lanes_and_tables(
    ledger: Any, now: int, configuration: Configuration | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What every lane and every table is doing, without what was set aside. A table is in the lane where its objects are, else in the one that its topic's rule names.

    Lanes that are configured and that the ledger has no item of are told when something waits in them: for paused tables none is woken.
    """
    tables: dict[str, dict[str, Any]] = {
        state.table: _table(state, now, _lane_of(state, configuration)) for state in ledger.tables()
    }
    known = list(ledger.lanes())
    configured = set(configuration.lane_names()) if configuration else set()
    known += [
        ledger.lane(name) for name in sorted(configured - {lane.lane for lane in known}) if ledger.pending(name, 1)
    ]
    lanes = []
    for lane in known:
        pending = ledger.pending_counts(lane.lane)
        unsettled = ledger.unsettled(lane.lane)
        lanes.append(_lane(lane, pending, [pointer.batch for pointer in unsettled], now))
        for name, count in pending.items():
            table = tables.setdefault(name, _table(TableState(name), now))
            table["lane"] = lane.lane
            table["pending"] = {"objects": count.objects, "bytes": count.bytes, "oldest_ms": max(0, now - count.oldest)}
        for pointer in unsettled:
            for name, part in ledger.batch_parts(pointer.batch).items():
                if part["state"] == CLAIMED:
                    table = tables.setdefault(name, _table(TableState(name), now))
                    table["lane"] = lane.lane
                    table["claimed"] = {
                        "objects": table["claimed"]["objects"] + part["objects"],
                        "bytes": table["claimed"]["bytes"] + part["bytes"],
                    }
    return lanes, [tables[name] for name in sorted(tables)]


def _lane(lane: LaneState, pending: dict[str, PendingCount], unsettled: list[str], now: int) -> dict[str, Any]:
    oldest = min((count.oldest for count in pending.values()), default=None)
    return {
        "lane": lane.lane,
        "state": lane.state,
        "told": told_lane(lane, now),
        "run": lane.run_id,
        "job_run": lane.job_run_id,
        "last_run": lane.last_run_id,
        "failures": lane.failures + lane.capacity_failures,
        "reason": lane.reason,
        "pending": {
            "objects": sum(count.objects for count in pending.values()),
            "bytes": sum(count.bytes for count in pending.values()),
            "oldest_ms": None if oldest is None else max(0, now - oldest),
        },
        "unsettled_batches": unsettled,
    }


def _lane_of(state: TableState, configuration: Configuration | None) -> str | None:
    topic = (state.pinned or {}).get("topic")
    config = configuration.table_for_topic(topic) if configuration and topic else None
    return config.lane if config else None


def _table(state: TableState, now: int, lane: str | None = None) -> dict[str, Any]:
    backs_off = state.backoff_until is not None and state.backoff_until > now
    return {
        "table": state.table,
        "lane": lane,
        "pending": {"objects": 0, "bytes": 0, "oldest_ms": None},
        "claimed": {"objects": 0, "bytes": 0},
        "committed": {"objects": state.totals.get("objects", 0)},
        "quarantined": {
            "objects": state.totals.get("objects_quarantined", 0),
            "rows": state.totals.get("quarantined_rows", 0),
        },
        "totals": dict(state.totals),
        "last_commit_at": state.last_commit_at,
        "last_instant": state.last_instant,
        "last_batch": state.last_batch,
        "last_error": state.last_error,
        "failures": state.failures,
        "backoff_until": state.backoff_until if backs_off else None,
        "paused": state.paused,
        "notes": [
            *(
                [f"its data is being moved aside: `sluice rebuild table {state.table}` goes on with it"]
                if state.rebuild
                else []
            ),
            *state.notes,
        ],
    }


def _aside(records: Iterable[ObjectRecord]) -> dict[str, Any]:
    """The objects of one listed state by reason, the most frequent first, with a few keys of each; `at_admission` are those of each table that came into no batch."""
    counts: Counter[str] = Counter()
    at_admission: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    found = iter(records)
    for record in islice(found, COUNTED_AT_MOST):
        reason = _why(record)
        counts[reason] += 1
        if record.table and record.batch is None:
            at_admission[record.table] += 1
        if len(examples.setdefault(reason, [])) < EXAMPLES:
            examples[reason].append(record.id.key)
    more = next(found, None) is not None
    reasons = [
        {"reason": reason, "objects": count, "examples": examples[reason]} for reason, count in counts.most_common()
    ]
    return {"objects": counts.total(), "more": more, "reasons": reasons, "at_admission": dict(at_admission)}


def _rows(records: Iterable[ObjectRecord]) -> dict[str, Any]:
    """The quarantined rows of committed objects by code, the most frequent first, with a few keys of each."""
    counts: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    objects = 0
    found = iter(records)
    for record in islice(found, COUNTED_AT_MOST):
        objects += 1
        for code, rows in record.row_codes.items():
            counts[code] += rows
            if len(examples.setdefault(code, [])) < EXAMPLES:
                examples[code].append(record.id.key)
    more = next(found, None) is not None
    reasons = [{"reason": code, "rows": rows, "examples": examples[code]} for code, rows in counts.most_common()]
    return {"rows": counts.total(), "objects": objects, "more": more, "reasons": reasons}


def _why(record: ObjectRecord) -> str:
    if record.state == PARKED and record.topic:
        return f"topic {record.topic}: {record.reason}"
    if record.state == SUPERSEDED:
        return "the bytes are those of a committed version"
    return record.rule or record.reason or record.code or "no reason is recorded"


def _messages(parts: Iterable[Any]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    found = iter(parts)
    for part in islice(found, COUNTED_AT_MOST):
        counts[part.reason] += 1
    more = next(found, None) is not None
    return {
        "messages": counts.total(),
        "more": more,
        "reasons": [{"reason": reason, "messages": count} for reason, count in counts.most_common()],
    }
