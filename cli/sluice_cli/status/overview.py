"""What `sluice status` gathers from the ledger: lanes, tables and what was set aside, as plain JSON values.

What is known of table services as plain JSON values: of each table and service the open or last request, and the catalog's last sync.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from sluice.batch.claim import TableState
from sluice.config.document import Configuration
from sluice.config.pinned_topic import config_by_pinned_topic
from sluice.lane.machine import LaneState
from sluice.ledger.keys import CLAIMED, IGNORED, PARKED, QUARANTINED, SUPERSEDED
from sluice.ledger.ports import Ledger
from sluice.ledger.records import ObjectRecord, PendingCount
from sluice.services.planning import by_table, due_tables
from sluice.services.policy import CATALOG
from sluice.services.requests import DONE, FAILED, ServiceRequest
from sluice_cli.ingest.survey import describe_lane
from sluice_cli.terminal.output import counted, human_age, human_bytes

COUNTED_AT_MOST = 10_000  # objects of one listed state that are looked at; more is said to be more
EXAMPLES = 3


def gather(ledger: Ledger, now: int, configured: Callable[[], Configuration | None]) -> dict[str, Any]:
    """Everything that `status` shows. `now` is epoch ms; ages and sizes are in milliseconds and bytes.

    `configured` reads the configuration, once the ledger has answered. Without one no lane is known that never had work, and nothing is due.
    """
    states = list(ledger.tables.all())
    configuration = configured()
    lanes, tables = lanes_and_tables(ledger, now, configuration)
    requests = [request for lane in lanes for request in ledger.services.of_lane(lane["lane"])]
    aside = {state: _aside(ledger.objects.in_state(state)) for state in (PARKED, QUARANTINED, IGNORED, SUPERSEDED)}
    for table in tables:  # a table's totals are of its batches: what admission set aside came into none
        table["quarantined"]["objects"] += aside[QUARANTINED]["at_admission"].get(table["table"], 0)
    return {
        "lanes": lanes,
        "tables": tables,
        "services": service_entries(states, requests),
        "services_due": due_entries(configuration, states, requests, now),
        "set_aside": aside,
        "quarantined_rows": _rows(ledger.quarantine.objects_with_rows()),
        "ignored_messages": _messages(ledger.history.ignored_messages()),
    }


def lanes_and_tables(
    ledger: Ledger, now: int, configuration: Configuration | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What every lane and every table is doing, without what was set aside. A table is in the lane where its objects are, else in the one that its topic's rule names.

    Lanes that are configured and that the ledger has no item of are told when something waits in them: for paused tables none is woken.
    """
    tables: dict[str, dict[str, Any]] = {
        state.table: _table(state, now, _lane_of(state, configuration)) for state in ledger.tables.all()
    }
    known = list(ledger.lanes.all())
    configured = set(configuration.lane_names()) if configuration else set()
    known += [
        ledger.lanes.get(name)
        for name in sorted(configured - {lane.lane for lane in known})
        if ledger.pending.oldest(name, 1)
    ]
    lanes = []
    for lane in known:
        pending = ledger.pending.counts(lane.lane)
        unsettled = ledger.batches.unsettled(lane.lane)
        lanes.append(_lane(lane, pending, [pointer.batch for pointer in unsettled], now))
        for name, count in pending.items():
            table = tables.setdefault(name, _table(TableState(name), now))
            table["lane"] = lane.lane
            table["pending"] = {"objects": count.objects, "bytes": count.bytes, "oldest_ms": max(0, now - count.oldest)}
        for pointer in unsettled:
            for name, part in ledger.batches.parts(pointer.batch).items():
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
        "told": describe_lane(lane, now),
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
    config = config_by_pinned_topic(configuration, state.table, state.pinned)
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


def service_entries(states: Iterable[TableState], requests: Iterable[ServiceRequest]) -> list[dict[str, Any]]:
    """By table and service, those that were ever asked for or done; times are epoch ms."""
    entries = [_request(request) for request in requests]
    for state in states:
        synced = state.services.get(CATALOG)
        if state.catalog_failed:
            failed = state.catalog_failed
            entries.append(
                _entry(
                    state.table,
                    CATALOG,
                    FAILED,
                    ended_at=failed.get("at"),
                    error={
                        "code": str(failed.get("error", "")),
                        "message": f"`sluice catalog sync {state.table}` says why, and tries again",
                    },
                    done_at=(synced or {}).get("at"),
                )
            )
        elif synced:
            entries.append(
                _entry(
                    state.table,
                    CATALOG,
                    DONE,
                    ended_at=synced.get("at"),
                    done_at=synced.get("at"),
                    instant=synced.get("instant"),
                )
            )
    return sorted(entries, key=lambda entry: (entry["table"], entry["service"]))


def service_rows(entries: Iterable[Mapping[str, Any]], now: int) -> list[tuple[str, ...]]:
    """The entries as rows of a table: table, service, state, since when, what was done, the error."""
    return [
        (
            entry["table"],
            entry["service"],
            entry["state"],
            describe_since(entry, now),
            describe_report(entry["report"]),
            describe_error(entry["error"]),
        )
        for entry in entries
    ]


COLUMNS = ("table", "service", "state", "for", "what was done", "error")


def _request(request: ServiceRequest) -> dict[str, Any]:
    report = request.report.to_dict() if request.slices or request.state == DONE else None
    error = {"code": request.error.code, "message": request.error.message} if request.error is not None else None
    return _entry(
        request.table,
        request.service,
        request.state,
        lane=request.lane,
        request=request.request,
        requested_at=request.requested_at,
        requested_by=request.requested_by,
        not_before=request.not_before,
        started_at=request.started_at,
        ended_at=request.ended_at,
        slices=request.slices,
        failures=request.failures,
        report=report,
        error=error,
        instant=request.report.instant,
        open=request.open,
    )


def _entry(table: str, service: str, state: str, **known: Any) -> dict[str, Any]:
    return {
        "table": table,
        "service": service,
        "state": state,
        "lane": None,
        "request": None,
        "requested_at": None,
        "requested_by": None,
        "not_before": None,
        "started_at": None,
        "ended_at": None,
        "slices": 0,
        "failures": 0,
        "report": None,
        "error": None,
        "instant": None,
        "open": False,
        **known,
    }


def due_entries(
    configuration: Configuration | None, states: Iterable[TableState], requests: Sequence[ServiceRequest], now: int
) -> list[dict[str, str]]:
    """What is due by the tables' policies now and isn't asked for yet, with the reason; none while there is no configuration."""
    found = () if configuration is None else due_tables(configuration, states, by_table(requests), now)
    return [
        {"table": each.table, "service": each.service, "reason": each.reason} for table in found for each in table.due
    ]


def describe_due(due: Mapping[str, str]) -> str:
    """One of `due_entries` as a line."""
    return f"due: {due['service']} of {due['table']}, {due['reason']}"


def describe_since(entry: Mapping[str, Any], now: int) -> str:
    """Since when an entry is in its state, and how long it still waits."""
    at = entry["ended_at"] or entry["started_at"] or entry["requested_at"]
    if at is None:
        return "-"
    waits = entry["not_before"] or 0
    later = f", waits {human_age(waits - now)}" if entry["open"] and waits > now else ""
    return f"{human_age(now - int(at))}{later}"


def describe_report(report: Mapping[str, Any] | None) -> str:
    """What was done: files and bytes before and after, rows, seconds."""
    if report is None:
        return "-"
    files = f"{counted(report['files_before'], 'file')} of {human_bytes(report['bytes_before'])} -> {counted(report['files_after'], 'file')} of {human_bytes(report['bytes_after'])}"
    return f"{files}, {counted(report['rows'], 'row')}, {report['ms'] / 1000:.1f} s"


def describe_error(error: Mapping[str, Any] | None) -> str:
    """An error's code and the first line of what it says."""
    if error is None:
        return "-"
    first = str(error["message"]).splitlines()[0][:200] if error["message"] else ""
    return f"{error['code']}: {first}" if first else str(error["code"])
