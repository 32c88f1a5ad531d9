"""Renders the status page: a self-contained HTML document of `sluice status --json` and the recent past."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sluice.services.requests import FAILED, OPEN, RUNNING
from sluice_cli.status.charts import area, commits, run_strip
from sluice_cli.status.html import CHARACTERS, Node, age, badge, cut, head, long, nothing, number, table, tag
from sluice_cli.status.overview import describe_trouble
from sluice_cli.status.past import RunPast, TablePast, Window
from sluice_cli.status.service_entries import describe_error, describe_report, describe_since
from sluice_cli.terminal.output import counted, human_age, human_bytes, shortened
from sluice_read.moments import clock

ROWS_SHOWN = 200  # of services; `sluice services list` shows all
DUE = "due"
_KINDS: Mapping[str, str] = {FAILED: "bad", RUNNING: "good"}


def services(entries: Sequence[Mapping[str, Any]], due: Sequence[Mapping[str, str]], now: int) -> Node:
    """The section of table services: failures, open requests, services that are due, then the last results."""
    listed = sorted(
        entries,
        key=lambda entry: (entry["state"] != FAILED, entry["state"] not in OPEN, entry["table"], entry["service"]),
    )
    urgent = [entry for entry in listed if entry["state"] == FAILED or entry["state"] in OPEN]
    rows = [_row(entry, now) for entry in urgent]
    rows += [
        (
            head(each["table"]),
            tag("td", each["service"]),
            badge(DUE, "warn"),
            number("-"),
            long(each["reason"]),
            long("-"),
        )
        for each in due
    ]
    rows += [_row(entry, now) for entry in listed[len(urgent) :]]
    left = len(rows) - ROWS_SHOWN
    more = nothing(f"{counted(left, 'more row')}: `sluice services list` shows all") if left > 0 else None
    columns = ("table", "service", "state", "#for", "result, or reason why it is due", "error")
    return tag(
        "section",
        tag("h2", "Table services"),
        table(columns, rows[:ROWS_SHOWN], "No service was requested yet, and none is due"),
        more,
    )


def services_tile(
    entries: Sequence[Mapping[str, Any]], due: Sequence[Mapping[str, str]]
) -> tuple[str, str, str | None]:
    """The number of failed and open services, a note, and the colour."""
    failed, still = sum(entry["state"] == FAILED for entry in entries), sum(entry["state"] in OPEN for entry in entries)
    return f"{failed + still:,}", f"{failed:,} failed, {still:,} open, {len(due):,} due", "bad" if failed else None


def _row(entry: Mapping[str, Any], now: int) -> tuple[Node, ...]:
    error = describe_error(entry["error"])
    return (
        head(entry["table"]),
        tag("td", entry["service"]),
        badge(entry["state"], _KINDS.get(entry["state"], "warn" if entry["state"] in OPEN else "faint")),
        number(describe_since(entry, now)),
        long(describe_report(entry["report"])),
        long(cut(error), None if entry["error"] is None else "bad"),
    )


RUNS_LISTED = 12
_STYLE = Node("""
:root{color-scheme:light dark;--bg:#f6f8fa;--card:#fff;--text:#1b1f24;--faint:#59636e;--line:#d1d9e0;--accent:#0969da;
--soft:#0969da33;--good:#1a7f37;--wait:#afb8c1;--bad:#cf222e;--warn:#9a6700}
@media(prefers-color-scheme:dark){:root{--bg:#010409;--card:#0d1117;--text:#e6edf3;--faint:#9198a1;--line:#30363d;
--accent:#4493f8;--soft:#4493f840;--good:#3fb950;--wait:#484f58;--bad:#f85149;--warn:#d29922}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--text);
font:14px/1.45 ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1180px;margin:0 auto;padding:24px 16px 48px}header{display:flex;flex-wrap:wrap;gap:4px 16px;
align-items:baseline;margin-bottom:16px}
h1{font-size:20px;margin:0}h2{font-size:15px;margin:0 0 10px}.faint{color:var(--faint)}small{font-size:12px}
section,.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px}
section{margin-top:14px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px}.tile b{display:block;
font-size:22px;font-weight:600;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto;margin:0 -16px;padding:0 16px}table{border-collapse:collapse;width:100%}th,td{text-align:left;
padding:6px 14px 6px 0;border-top:1px solid var(--line);vertical-align:top}
thead th{border-top:0;color:var(--faint);font-weight:500;font-size:12px;white-space:nowrap}td.n,th.n{text-align:right;
font-variant-numeric:tabular-nums;white-space:nowrap}tbody th{font-weight:600;overflow-wrap:anywhere;min-width:150px;
padding-right:14px}
td.long{overflow-wrap:anywhere;min-width:200px}td>code{white-space:nowrap}td.long code{white-space:normal}
svg{display:block;width:100%}svg .fill{fill:var(--soft)}svg .stroke{stroke:var(--accent);stroke-width:1.5}
svg .mark{fill:var(--good)}svg .none{fill:var(--wait)}svg .wait{fill:var(--wait)}svg .bad{fill:var(--bad)}
.strip{display:grid;grid-template-columns:210px 1fr 190px;gap:2px 14px;align-items:center;
border-top:1px solid var(--line);padding:5px 0}.strip>:first-child{font-weight:600;overflow-wrap:anywhere}
.strip>:last-child{text-align:right}
.strip+.axis{border-top:1px solid var(--line)}.axis.under{margin:0 204px 10px 224px}.axis{display:flex;
justify-content:space-between;color:var(--faint);font-size:12px;padding-top:4px}.good{color:var(--good)}
.bad{color:var(--bad)}.warn{color:var(--warn)}
.state{display:inline-block;padding:0 8px;border-radius:999px;border:1px solid currentColor;font-size:12px;
white-space:nowrap}
code{font:12px ui-monospace,SFMono-Regular,Menlo,monospace;overflow-wrap:anywhere}
@media(max-width:640px){main{padding:16px 10px 32px}.tile b{font-size:18px}.tiles{grid-template-columns:1fr 1fr;
gap:8px}.strip{grid-template-columns:1fr auto}.strip>svg{grid-row:2;grid-column:1/3}section{padding:12px}
.axis.under{margin:0 0 10px}.wide{margin:0 -12px;padding:0 12px}}
""")
_HEALTH: Mapping[str, str] = {"running": "good", "starting": "good", "idle": "faint", "paused": "warn", "halted": "bad"}


def page(
    status: Mapping[str, Any],
    *,
    described: str,
    now: int,
    window: Window,
    tables: Sequence[TablePast],
    backlog: Sequence[int],
    runs: Sequence[RunPast],
    unread: int,
    skipped: int = 0,
) -> str:
    """Render the document. `status` is the output of `sluice status --json`.

    `unread` counts manifests beyond the limit, `skipped` documents that can't be read.
    """
    return (
        "<!doctype html>\n"
        + tag(
            "html",
            tag(
                "head",
                tag("meta", charset="utf-8"),
                tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
                tag(
                    "meta",
                    http_equiv="Content-Security-Policy",
                    content="default-src 'none'; style-src 'unsafe-inline'",
                ),
                tag("title", f"Sluice: {described}"),
                tag("style", _STYLE),
            ),
            tag(
                "body",
                tag(
                    "main",
                    _header(described, now, window, unread, skipped),
                    _tiles(status, tables),
                    _backlog(backlog, window),
                    _lanes(status["lanes"]),
                    _tables(status["tables"], tables, now),
                    services(status["services"], status["services_due"], now),
                    _commits(tables, window),
                    _runs(runs, window, now),
                    _set_aside(status),
                ),
            ),
            lang="en",
        )
        + "\n"
    )


def _header(described: str, now: int, window: Window, unread: int, skipped: int) -> Node:
    back = f"looks back {human_age(window.ms)}"
    more = f"; {unread:,} batches before {clock(window.begins)} were not read" if unread else ""
    more += f"; {counted(skipped, 'document')} can't be read and left out" if skipped else ""
    return tag(
        "header",
        tag("h1", "Sluice"),
        tag("span", described),
        tag("span", f"{clock(now)} UTC, {back}{more}", class_="faint"),
    )


def _tiles(status: Mapping[str, Any], tables: Sequence[TablePast]) -> Node:
    pending = sum(lane["pending"]["objects"] for lane in status["lanes"])
    size = sum(lane["pending"]["bytes"] for lane in status["lanes"])
    oldest = max((lane["pending"]["oldest_ms"] or 0 for lane in status["lanes"]), default=0)
    made = [commit for table in tables for commit in table.commits]
    aside, rows = status["set_aside"]["quarantined"], status["quarantined_rows"]
    return tag(
        "div",
        _tile("waiting", f"{pending:,}", human_bytes(size) if pending else "nothing is waiting"),
        _tile("oldest", human_age(oldest) if pending else "-", "since it was admitted"),
        _tile(
            "committed",
            f"{sum(commit.objects for commit in made):,}",
            f"objects in {len({commit.batch for commit in made}):,} batches",
        ),
        _tile("changes", f"{sum(commit.changes for commit in made):,}", f"in {len(tables):,} tables"),
        _tile(
            "quarantined",
            f"{aside['objects']:,}{'+' if aside['more'] else ''}",
            f"objects, and {rows['rows']:,} rows",
            "bad" if aside["objects"] or rows["rows"] else None,
        ),
        _tile("services", *services_tile(status["services"], status["services_due"])),
        class_="tiles",
    )


def _tile(name: str, value: str, note: str, kind: str | None = None) -> Node:
    return tag(
        "div",
        tag("span", name, class_="faint"),
        tag("b", value, class_=kind),
        tag("small", note, class_="faint"),
        class_="tile",
    )


def _backlog(values: Sequence[int], window: Window) -> Node:
    return tag(
        "section",
        tag("h2", "Backlog"),
        tag("small", f"objects admitted and not yet readable; at most {max([*values, 0]):,}", class_="faint"),
        area(values, height=120, label="backlog over time"),
        _axis(window),
    )


def _lanes(lanes: Sequence[Mapping[str, Any]]) -> Node:
    rows = [
        (
            head(lane["lane"]),
            badge(lane["state"], _HEALTH.get(lane["state"], "faint")),
            long(lane["summary"]),
            number(lane["pending"]["objects"]),
            number(human_bytes(lane["pending"]["bytes"])),
            number(age(lane["pending"]["oldest_ms"])),
            number(len(lane["unsettled_batches"])),
            tag("td", tag("code", lane["run"] or lane["last_run"] or "-")),
        )
        for lane in lanes
    ]
    return tag(
        "section",
        tag("h2", "Lanes"),
        table(
            ("lane", "state", "activity", "#waiting", "#bytes", "#oldest", "#open batches", "run"),
            rows,
            "No lane has had work yet",
        ),
    )


def _tables(states: Sequence[Mapping[str, Any]], pasts: Sequence[TablePast], now: int) -> Node:
    past = {table.table: table for table in pasts}
    rows = []
    for state in states:
        own = past.get(state["table"])
        last = state["last_commit_at"]
        rows.append(
            (
                head(state["table"]),
                number(state["pending"]["objects"] + state["claimed"]["objects"]),
                number(age(state["pending"]["oldest_ms"])),
                number("-" if last is None else f"{human_age(now - last)} ago"),
                number(age(own.p50_ms if own else None)),
                number(age(own.p95_ms if own else None)),
                number("-" if own is None or own.freshness_s is None else human_age(own.freshness_s * 1000)),
                number(state["committed"]["objects"]),
                number(f"{state['quarantined']['objects']:,} / {state['quarantined']['rows']:,}"),
                _trouble(state, now),
            )
        )
    columns = (
        "table",
        "#waiting",
        "#oldest",
        "#last commit",
        "#readable after, p50",
        "#p95",
        "#freshness",
        "#objects",
        "#quarantined objects / rows",
        "trouble",
    )
    return tag("section", tag("h2", "Tables"), table(columns, rows, "No table has a commit yet"))


def _trouble(state: Mapping[str, Any], now: int) -> Node:
    parts = describe_trouble(state, now, characters=CHARACTERS) + [cut(note) for note in state["notes"]]
    return long("; ".join(parts) or "-", "bad" if state["last_error"] else "warn" if parts else None)


def _commits(tables: Sequence[TablePast], window: Window) -> Node:
    strips = [
        tag(
            "div",
            tag("span", table.table),
            commits(table.commits, window),
            tag(
                "small",
                ", ".join(
                    (
                        counted(len(table.commits), "commit"),
                        counted(sum(commit.changes for commit in table.commits), "change"),
                    )
                ),
                class_="faint",
            ),
            class_="strip",
        )
        for table in tables
    ]
    return tag(
        "section",
        tag("h2", "Commits"),
        *([*strips, _axis(window, strips=True)] if strips else [nothing("No commit in this time")]),
    )


def _runs(runs: Sequence[RunPast], window: Window, now: int) -> Node:
    lanes = sorted({run.lane for run in runs})
    strips = []
    for lane in lanes:
        own = [run for run in runs if run.lane == lane]
        busy = sum((run.ended_at if run.ended_at is not None else now) - run.began_at for run in own)
        strips.append(
            tag(
                "div",
                tag("span", lane),
                run_strip(own, window, now),
                tag("small", f"{counted(len(own), 'run')}, {human_age(busy)} in all", class_="faint"),
                class_="strip",
            )
        )
    rows = [
        (
            tag("td", tag("code", run.run)),
            number(clock(run.began_at)),
            number(age(None if run.requested_at is None else max(0, run.began_at - run.requested_at))),
            number(human_age((run.ended_at if run.ended_at is not None else now) - run.began_at)),
            number(run.batches),
            number(run.changes),
            badge(
                "running" if run.ended_at is None else run.state,
                "bad" if run.reason else "good" if run.ended_at is None else "faint",
            ),
            long(cut(run.reason or "-"), "bad" if run.reason else None),
        )
        for run in reversed(runs[-RUNS_LISTED:])
    ]
    columns = ("run", "#started", "#waited", "#held for", "#batches", "#changes", "state", "reason")
    return tag(
        "section",
        tag("h2", "Runs"),
        *strips,
        *([_axis(window, strips=True)] if strips else []),
        table(columns, rows, "No run in this time"),
    )


def _set_aside(status: Mapping[str, Any]) -> Node:
    sections = [
        *((state, found, "objects") for state, found in status["set_aside"].items()),
        ("quarantined rows of committed objects", status["quarantined_rows"], "rows"),
        ("ignored messages", status["ignored_messages"], "messages"),
    ]
    blocks = []
    for title, found, unit in sections:
        if found["reasons"]:
            rows = [
                (
                    number(item[unit]),
                    long(cut(item["reason"])),
                    tag("td", *_examples(item.get("examples", ())), class_="long"),
                )
                for item in found["reasons"][:20]
            ]
            blocks += [
                tag("h2", f"{title}: {found[unit]:,}{' and more' if found['more'] else ''}"),
                table((f"#{unit}", "reason", "examples"), rows, ""),
            ]
    return tag(
        "section",
        *(blocks or [tag("h2", "Set aside"), nothing("Nothing is quarantined, parked, superseded or ignored")]),
    )


def _examples(keys: Iterable[str]) -> Iterable[Node]:
    for key in keys:
        yield tag("div", tag("code", shortened(key, CHARACTERS)))


def _axis(window: Window, *, strips: bool = False) -> Node:
    middle = window.begins + window.ms // 2
    return tag(
        "div",
        *(tag("span", clock(at)[5:16]) for at in (window.begins, middle, window.ends)),
        class_="axis under" if strips else "axis",
    )
