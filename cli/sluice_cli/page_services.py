"""Table services on the status page: what failed, runs, waits, is due by policy, and was done last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sluice.service_requests import FAILED, OPEN, RUNNING
from sluice_cli import page_tables as cells
from sluice_cli.html_nodes import Node, tag
from sluice_cli.output import counted
from sluice_cli.service_overview import told_error, told_report, told_since

ROWS_SHOWN = 200  # the rest is for `sluice services list`
DUE = "due"
_KINDS: Mapping[str, str] = {FAILED: "bad", RUNNING: "good"}


def services(entries: Sequence[Mapping[str, Any]], due: Sequence[Mapping[str, str]], now: int) -> Node:
    """The section. What needs somebody comes first: failures, then what is open, then what is due, then the last reports."""
    listed = sorted(
        entries,
        key=lambda entry: (entry["state"] != FAILED, entry["state"] not in OPEN, entry["table"], entry["service"]),
    )
    urgent = [entry for entry in listed if entry["state"] == FAILED or entry["state"] in OPEN]
    rows = [_row(entry, now) for entry in urgent]
    rows += [
        (
            cells.head(each["table"]),
            tag("td", each["service"]),
            cells.badge(DUE, "warn"),
            cells.number("-"),
            cells.long(each["reason"]),
            cells.long("-"),
        )
        for each in due
    ]
    rows += [_row(entry, now) for entry in listed[len(urgent) :]]
    left = len(rows) - ROWS_SHOWN
    more = cells.nothing(f"{counted(left, 'more row')}: `sluice services list` shows all") if left > 0 else None
    columns = ("table", "service", "state", "#for", "what was done, or why it is due", "error")
    return tag(
        "section",
        tag("h2", "Table services"),
        cells.table(columns, rows[:ROWS_SHOWN], "No service was asked for yet, and none is due"),
        more,
    )


def services_tile(
    entries: Sequence[Mapping[str, Any]], due: Sequence[Mapping[str, str]]
) -> tuple[str, str, str | None]:
    """How many failed or are open, what they are, and the colour."""
    failed, still = sum(entry["state"] == FAILED for entry in entries), sum(entry["state"] in OPEN for entry in entries)
    return f"{failed + still:,}", f"{failed:,} failed, {still:,} open, {len(due):,} due", "bad" if failed else None


def _row(entry: Mapping[str, Any], now: int) -> tuple[Node, ...]:
    error = told_error(entry["error"])
    return (
        cells.head(entry["table"]),
        tag("td", entry["service"]),
        cells.badge(entry["state"], _KINDS.get(entry["state"], "warn" if entry["state"] in OPEN else "faint")),
        cells.number(told_since(entry, now)),
        cells.long(told_report(entry["report"])),
        cells.long(cells.cut(error), None if entry["error"] is None else "bad"),
    )
