"""What is known of table services as plain JSON values: of each table and service the open or last request, and the catalog's last sync."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sluice.claiming import TableState
from sluice.configuration import Configuration
from sluice.service_planning import by_table, due_tables
from sluice.service_policy import CATALOG
from sluice.service_requests import DONE, FAILED, ServiceRequest
from sluice_cli.output import counted, human_age, human_bytes


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
            told_since(entry, now),
            told_report(entry["report"]),
            told_error(entry["error"]),
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


def told_due(due: Mapping[str, str]) -> str:
    """One of `due_entries` as a line."""
    return f"due: {due['service']} of {due['table']}, {due['reason']}"


def told_since(entry: Mapping[str, Any], now: int) -> str:
    """Since when an entry is in its state, and how long it still waits."""
    at = entry["ended_at"] or entry["started_at"] or entry["requested_at"]
    if at is None:
        return "-"
    waits = entry["not_before"] or 0
    later = f", waits {human_age(waits - now)}" if entry["open"] and waits > now else ""
    return f"{human_age(now - int(at))}{later}"


def told_report(report: Mapping[str, Any] | None) -> str:
    """What was done: files and bytes before and after, rows, seconds."""
    if report is None:
        return "-"
    files = f"{counted(report['files_before'], 'file')} of {human_bytes(report['bytes_before'])} -> {counted(report['files_after'], 'file')} of {human_bytes(report['bytes_after'])}"
    return f"{files}, {counted(report['rows'], 'row')}, {report['ms'] / 1000:.1f} s"


def told_error(error: Mapping[str, Any] | None) -> str:
    """An error's code and the first line of what it says."""
    if error is None:
        return "-"
    first = str(error["message"]).splitlines()[0][:200] if error["message"] else ""
    return f"{error['code']}: {first}" if first else str(error["code"])
