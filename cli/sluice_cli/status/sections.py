"""The sections of the status page about the present: lanes, tables, services, runs, objects that were set aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sluice.services.requests import FAILED, OPEN
from sluice_cli.account.lane import log_of, state_of_lane
from sluice_cli.account.object import traced
from sluice_cli.account.service import describe_error, describe_report, describe_since
from sluice_cli.account.steps import ALL_SERVICES
from sluice_cli.account.table import objects_of, state_of_table, trouble_of_table
from sluice_cli.status.html import (
    FAILS,
    NONE,
    PAUSES,
    RESTS,
    RUNNING,
    WAITS,
    WARNS,
    Cell,
    Node,
    age,
    badge,
    breakable,
    code,
    count,
    head,
    joined,
    kind_of,
    long,
    nothing,
    number,
    section,
    table,
    tag,
    words,
    wrong,
)
from sluice_cli.status.past import RunPast, TablePast
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.words import LONGEST_TEXT, counted, cut, human_age, human_bytes
from sluice_read.moments import clock

ROWS_SHOWN = 200  # of services; `sluice ops services list` shows all
REASONS_SHOWN = 20
RUNS_LISTED = 12
DUE = "due"
_WORST_FIRST = (FAILS, WARNS, PAUSES, RUNNING, WAITS, RESTS)


def lanes_section(lanes: Sequence[Mapping[str, Any]], links: Mapping[str, str]) -> Node:
    """The section of the lanes. `links` are ids of the page by run."""
    rows = []
    for lane in lanes:
        run = lane["run"] or lane["last_run"] or NONE
        size = lane["pending"]["bytes"]
        rows.append(
            (
                head(lane["lane"]),
                badge(state_of_lane(lane)),
                long(NONE if lane["summary"] == lane["state"] else lane["summary"]),
                count(lane["pending"]["objects"]),
                number(human_bytes(size) if size else None),
                number(age(lane["pending"]["oldest_ms"])),
                count(len(lane["unsettled_batches"])),
                code(run, links.get(run)),
            )
        )
    columns = ("lane", "state", "since when, why", "#pending", "#bytes", "#oldest", "#open batches", "run")
    return section("Lanes", table(columns, rows, "No lane has had work yet"), identity="lanes")


def tables_section(
    states: Sequence[Mapping[str, Any]], pasts: Sequence[TablePast], links: Mapping[str, str], now: int
) -> Node:
    """The section of the tables, the ones in trouble first. `links` are ids of the page by table."""
    past = {table.table: table for table in pasts}
    listed = sorted(states, key=lambda state: (_WORST_FIRST.index(kind_of(state_of_table(state))), state["table"]))
    rows = [_table(state, past.get(state["table"]), links.get(state["table"]), now) for state in listed]
    times = ("#last commit", "#readable after: median", "#readable after: 95\u00a0%", "#freshness")
    counts = ("#committed", "#quarantined", "#quarantined rows")
    columns = ("table", "state", "#pending", "#claimed", "#oldest", *times, *counts, "trouble")
    return section("Tables", table(columns, rows, "No table has a commit yet"), identity="tables")


def _table(state: Mapping[str, Any], own: TablePast | None, link: str | None, now: int) -> tuple[Cell, ...]:
    last = state["last_commit_at"]
    freshness = state["freshness_s"]
    own_state = state_of_table(state)
    parts = [part for part in trouble_of_table(state, now, characters=LONGEST_TEXT) if part != own_state]
    colour = "bad" if state["last_error"] or state["blocked"] else "warn" if parts else None
    return (
        head(state["table"], link),
        badge(own_state),
        count(state["pending"]["objects"]),
        count(state["claimed"]["objects"]),
        number(age(state["pending"]["oldest_ms"])),
        number(None if last is None else f"{human_age(now - last)} ago"),
        number(age(own.p50_ms if own else None)),
        number(age(own.p95_ms if own else None)),
        number(None if freshness is None else human_age(freshness * 1000)),
        count(state["committed"]["objects"]),
        count(state["quarantined"]["objects"]),
        count(state["quarantined"]["rows"]),
        long("; ".join(parts) or NONE, colour),
    )


def services_section(entries: Sequence[Mapping[str, Any]], due: Sequence[Mapping[str, str]], now: int) -> Node:
    """The section of table services: failures, open requests, services that are due, then the last results."""
    listed = sorted(
        entries,
        key=lambda entry: (entry["state"] != FAILED, entry["state"] not in OPEN, entry["table"], entry["service"]),
    )
    urgent = [entry for entry in listed if entry["state"] == FAILED or entry["state"] in OPEN]
    rows = [_service(entry, now) for entry in urgent]
    rows += [
        (head(entry["table"]), words(entry["service"]), badge(DUE), number(None), long(entry["reason"]), long(NONE))
        for entry in due
    ]
    rows += [_service(entry, now) for entry in listed[len(urgent) :]]
    left = len(rows) - ROWS_SHOWN
    more = nothing(f"{counted(left, 'more row')}: {ALL_SERVICES}") if left > 0 else None
    columns = ("table", "service", "state", "#age", "result, or reason why it is due", "error")
    return section(
        "Table services",
        table(columns, rows[:ROWS_SHOWN], "No service was requested yet, and none is due"),
        more,
        identity="services",
    )


def services_tile(entries: Sequence[Mapping[str, Any]], due: Sequence[Mapping[str, str]]) -> tuple[str, Node]:
    """The number of services that failed, are open or due, and how many of each; only what failed is in colour."""
    failed, still = sum(entry["state"] == FAILED for entry in entries), sum(entry["state"] in OPEN for entry in entries)
    return (
        f"{failed + still + len(due):,}",
        joined(wrong(f"{failed:,} failed", failed), f", {still:,} open, {len(due):,} due"),
    )


def _service(entry: Mapping[str, Any], now: int) -> tuple[Cell, ...]:
    error = describe_error(entry["error"])
    return (
        head(entry["table"]),
        words(entry["service"]),
        badge(entry["state"]),
        number(describe_since(entry, now)),
        long(describe_report(entry["report"], entry["instant"])),
        long(cut(error), None if entry["error"] is None else "bad"),
    )


def runs_section(strips: Sequence[Node], runs: Sequence[RunPast], links: Mapping[str, str], now: int) -> Node:
    """The section of the runs: the strips of the lanes, and the newest runs. `links` are ids of the page by run."""
    rows = [
        (
            code(run.run, links.get(run.run)),
            number(clock(run.began_at)),
            number(age(None if run.requested_at is None else max(0, run.began_at - run.requested_at))),
            number(human_age((run.ended_at if run.ended_at is not None else now) - run.began_at)),
            count(run.batches),
            count(run.changes),
            badge(
                "running" if run.ended_at is None else run.state,
                FAILS if run.reason else RUNNING if run.ended_at is None else RESTS,
            ),
            long(cut(run.reason or NONE), "bad" if run.reason else None),
        )
        for run in newest(runs)
    ]
    columns = ("run", "#started", "#waited", "#duration", "#batches", "#changes", "state", "reason")
    return section("Runs", *strips, table(columns, rows, "No run in this time"), identity="runs")


def newest(runs: Sequence[RunPast]) -> Sequence[RunPast]:
    """The runs that the page lists, newest first."""
    return runs[-RUNS_LISTED:][::-1]


def aside_section(status: Mapping[str, Any]) -> Node:
    """The section of what was set aside, by reason, each with the commands that trace its examples."""
    parts = [
        *((state, counts, "objects") for state, counts in status["set_aside"].items()),
        ("quarantined rows of committed objects", status["quarantined_rows"], "rows"),
        ("ignored messages", status["ignored_messages"], "messages"),
    ]
    blocks: list[Node] = []
    for title, aside, unit in parts:
        if aside["reasons"]:
            rows = [
                (number(item[unit]), long(cut(item["reason"])), _traces(item))
                for item in aside["reasons"][:REASONS_SHOWN]
            ]
            name = f"{title[0].upper()}{title[1:]}"
            blocks += [
                tag("h3", f"{name}: {aside[unit]:,}{' and more' if aside['more'] else ''}"),
                table((f"#{unit}", "reason", "trace an example"), rows, ""),
            ]
    nothing_aside = nothing("Nothing is quarantined, parked, superseded or ignored")
    return section("Set aside", *(blocks or [nothing_aside]), identity="aside")


def _traces(reason: Mapping[str, Any]) -> Cell:
    keys = reason.get("examples", ())
    shown: list[Node] = [shell(traced(key)) for key in keys]
    if len(keys) == 1 and reason.get("objects", 1) > 1:
        shown.append(tag("small", f" {reason['objects']:,} versions of this key", class_="faint"))
    return Cell(joined(*shown), "long", empty=not shown)


def shell(step: Step) -> Node:
    """The command of a step, which one click selects whole."""
    return tag("code", breakable(step.command), class_="command")


def look_section(
    tables: Sequence[tuple[str, Sequence[tuple[str, str]]]], runs: Sequence[str]
) -> tuple[Node | None, Mapping[str, str], Mapping[str, str]]:
    """The section of commands that look closer, and its ids by table and by run.

    `tables` holds for each table what can be traced, each with its key.
    """
    entries, by_table, by_run = [], {}, {}
    for place, (name, keys) in enumerate(tables):
        by_table[name] = f"table-{place}"
        lines = [(f"trace the {what}", traced(key)) for what, key in keys]
        entries.append(_look(name, by_table[name], [*lines, ("its objects", objects_of(name))]))
    for place, name in enumerate(runs):
        by_run[name] = f"run-{place}"
        entries.append(_look(name, by_run[name], [("its log", log_of(name))]))
    if not entries:
        return None, by_table, by_run
    return section("Look closer", tag("div", *entries, class_="look"), identity="look"), by_table, by_run


def _look(name: str, identity: str, lines: Sequence[tuple[str, Step]]) -> Node:
    shown = [tag("p", tag("small", what), shell(step)) for what, step in lines]
    return tag("div", tag("h3", breakable(name)), *shown, id=identity)
