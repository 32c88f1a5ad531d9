"""What is said of table services: per table and service the open or last request, and what is due."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sluice.batch.claim import TableState
from sluice.config.document import Configuration
from sluice.services.planning import by_table, due_tables
from sluice.services.policy import CATALOG
from sluice.services.requests import DONE, FAILED, ServiceRequest
from sluice_cli.terminal.known_names import code_of
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.words import counted, cut, human_age, human_bytes

# What only a request has, and a catalog sync lacks.
_OF_REQUEST = ("lane", "request", "requested_at", "requested_by", "not_before", "started_at", "ended_at")


def service_entries(states: Iterable[TableState], requests: Iterable[ServiceRequest]) -> list[dict[str, Any]]:
    """The services that were ever requested or done, sorted by table and service. Times are in epoch ms."""
    entries = [_request(request) for request in requests]
    for state in states:
        synced, failed = state.services.get(CATALOG) or {}, state.catalog_failed
        if failed:
            code, step = code_of(str(failed.get("error", ""))), Step("catalog sync", state.table)
            error = {"code": code, "message": f"{step} shows the reason and retries"}
            ended = {"ended_at": failed.get("at"), "error": error}
            entries.append(_entry(state.table, CATALOG, FAILED, **ended, done_at=synced.get("at")))
        elif synced:
            ended = {"ended_at": synced.get("at"), "instant": synced.get("instant")}
            entries.append(_entry(state.table, CATALOG, DONE, **ended, done_at=synced.get("at")))
    return sorted(entries, key=lambda entry: (entry["table"], entry["service"]))


def _request(request: ServiceRequest) -> dict[str, Any]:
    report = request.report.to_dict() if request.slices or request.state == DONE else None
    error = {"code": request.error.code, "message": request.error.message} if request.error is not None else None
    facts = {name: getattr(request, name) for name in (*_OF_REQUEST, "slices", "failures", "open")}
    facts.update(report=report, error=error, instant=request.report.instant)
    return _entry(request.table, request.service, request.state, **facts)


def _entry(table: str, service: str, state: str, **facts: Any) -> dict[str, Any]:
    named = {"table": table, "service": service, "state": state, **dict.fromkeys(_OF_REQUEST)}
    return {**named, "slices": 0, "failures": 0, "report": None, "error": None, "instant": None, "open": False, **facts}


def due_entries(
    configuration: Configuration | None, states: Iterable[TableState], requests: Sequence[ServiceRequest], now: int
) -> list[dict[str, str]]:
    """The services that are due and not requested yet, each with the reason; none without a configuration."""
    due = () if configuration is None else due_tables(configuration, states, by_table(requests), now)
    return [
        {"table": item.table, "service": item.service, "reason": item.reason} for table in due for item in table.due
    ]


def describe_due(due: Mapping[str, str]) -> str:
    """Describe one of `due_entries` in a line."""
    return f"due: {due['service']} of {due['table']}, {due['reason']}"


def describe_since(entry: Mapping[str, Any], now: int) -> str:
    """Describe how long an entry has been in its state, and how long it still waits."""
    at = entry["ended_at"] or entry["started_at"] or entry["requested_at"]
    if at is None:
        return "-"
    waits = entry["not_before"] or 0
    later = f", waits {human_age(waits - now)}" if entry["open"] and waits > now else ""
    return f"{human_age(now - int(at))}{later}"


def describe_report(report: Mapping[str, Any] | None, instant: str | None = None) -> str:
    """Describe the work of a service: files and bytes before and after, rows, seconds.

    A catalog sync has no report, but the `instant` up to which the catalog knows the table.
    """
    if report is None:
        return "-" if instant is None else f"instant {instant}"
    before, after = (
        f"{counted(report[f'files_{when}'], 'file')} of {human_bytes(report[f'bytes_{when}'])}"
        for when in ("before", "after")
    )
    took = f"{report['ms'] / 1000:.1f} s"
    if not any(report[name] for name in ("files_before", "files_after", "rows")):
        return f"nothing to do, {took}"
    return f"{before} -> {after}, {counted(report['rows'], 'row')}, {took}"


def describe_error(error: Mapping[str, Any] | None) -> str:
    """Describe an error by its code and the first line of its message."""
    if error is None:
        return "-"
    first = cut(str(error["message"] or ""), 200)
    return f"{error['code']}: {first}" if first else str(error["code"])


def steps_of_service(entry: Mapping[str, Any]) -> tuple[Step, ...]:
    """What helps a service that failed, or shows more of it."""
    return (Step("catalog sync" if entry["service"] == CATALOG else "services list", entry["table"]),)


def synced_again(tables: Collection[str]) -> Step:
    """What syncs tables whose last catalog sync failed, and says why."""
    return Step("catalog sync", *(tables if len(tables) == 1 else ()))
