"""The status page: one HTML document with everything in it, out of what `sluice status --json` tells and the recent past."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sluice_cli import page_tables as cells
from sluice_cli.html_nodes import Node, tag
from sluice_cli.output import counted, human_age, human_bytes
from sluice_cli.page_charts import area, commits, run_strip
from sluice_cli.page_services import services, services_tile
from sluice_cli.plain_text import shortened
from sluice_cli.points_in_time import clock
from sluice_cli.recent_past import RunPast, TablePast, Window

RUNS_LISTED = 12
_STYLE = Node("""
:root{color-scheme:light dark;--bg:#f6f8fa;--card:#fff;--text:#1b1f24;--faint:#59636e;--line:#d1d9e0;--accent:#0969da;--soft:#0969da33;--good:#1a7f37;--wait:#afb8c1;--bad:#cf222e;--warn:#9a6700}
@media(prefers-color-scheme:dark){:root{--bg:#010409;--card:#0d1117;--text:#e6edf3;--faint:#9198a1;--line:#30363d;--accent:#4493f8;--soft:#4493f840;--good:#3fb950;--wait:#484f58;--bad:#f85149;--warn:#d29922}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--text);font:14px/1.45 ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1180px;margin:0 auto;padding:24px 16px 48px}header{display:flex;flex-wrap:wrap;gap:4px 16px;align-items:baseline;margin-bottom:16px}
h1{font-size:20px;margin:0}h2{font-size:15px;margin:0 0 10px}.faint{color:var(--faint)}small{font-size:12px}
section,.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px}section{margin-top:14px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px}.tile b{display:block;font-size:22px;font-weight:600;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto;margin:0 -16px;padding:0 16px}table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:6px 14px 6px 0;border-top:1px solid var(--line);vertical-align:top}
thead th{border-top:0;color:var(--faint);font-weight:500;font-size:12px;white-space:nowrap}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}tbody th{font-weight:600;overflow-wrap:anywhere;min-width:150px;padding-right:14px}
td.long{overflow-wrap:anywhere;min-width:200px}td>code{white-space:nowrap}td.long code{white-space:normal}
svg{display:block;width:100%}svg .fill{fill:var(--soft)}svg .stroke{stroke:var(--accent);stroke-width:1.5}svg .mark{fill:var(--good)}svg .none{fill:var(--wait)}svg .wait{fill:var(--wait)}svg .bad{fill:var(--bad)}
.strip{display:grid;grid-template-columns:210px 1fr 190px;gap:2px 14px;align-items:center;border-top:1px solid var(--line);padding:5px 0}.strip>:first-child{font-weight:600;overflow-wrap:anywhere}.strip>:last-child{text-align:right}
.strip+.axis{border-top:1px solid var(--line)}.axis.under{margin:0 204px 10px 224px}.axis{display:flex;justify-content:space-between;color:var(--faint);font-size:12px;padding-top:4px}.good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}
.state{display:inline-block;padding:0 8px;border-radius:999px;border:1px solid currentColor;font-size:12px;white-space:nowrap}
code{font:12px ui-monospace,SFMono-Regular,Menlo,monospace;overflow-wrap:anywhere}
@media(max-width:640px){main{padding:16px 10px 32px}.tile b{font-size:18px}.tiles{grid-template-columns:1fr 1fr;gap:8px}.strip{grid-template-columns:1fr auto}.strip>svg{grid-row:2;grid-column:1/3}section{padding:12px}.axis.under{margin:0 0 10px}.wide{margin:0 -12px;padding:0 12px}}
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
) -> str:
    """The whole document. `status` is what `sluice status --json` prints; `unread` manifests of the window were too many to read."""
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
                    _header(described, now, window, unread),
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


def _header(described: str, now: int, window: Window, unread: int) -> Node:
    back = f"looks back {human_age(window.ms)}"
    more = f"; {unread:,} batches before {clock(window.begins)} were not read" if unread else ""
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
        _tile("waiting", f"{pending:,}", human_bytes(size) if pending else "nothing waits"),
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
            cells.head(lane["lane"]),
            cells.badge(lane["state"], _HEALTH.get(lane["state"], "faint")),
            cells.long(lane["told"]),
            cells.number(lane["pending"]["objects"]),
            cells.number(human_bytes(lane["pending"]["bytes"])),
            cells.number(cells.age(lane["pending"]["oldest_ms"])),
            cells.number(len(lane["unsettled_batches"])),
            tag("td", tag("code", lane["run"] or lane["last_run"] or "-")),
        )
        for lane in lanes
    ]
    return tag(
        "section",
        tag("h2", "Lanes"),
        cells.table(
            ("lane", "state", "does", "#waiting", "#bytes", "#oldest", "#open batches", "run"),
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
                cells.head(state["table"]),
                cells.number(state["pending"]["objects"] + state["claimed"]["objects"]),
                cells.number(cells.age(state["pending"]["oldest_ms"])),
                cells.number("-" if last is None else f"{human_age(now - last)} ago"),
                cells.number(cells.age(own.p50_ms if own else None)),
                cells.number(cells.age(own.p95_ms if own else None)),
                cells.number("-" if own is None or own.freshness_s is None else human_age(own.freshness_s * 1000)),
                cells.number(state["committed"]["objects"]),
                cells.number(f"{state['quarantined']['objects']:,} / {state['quarantined']['rows']:,}"),
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
    return tag("section", tag("h2", "Tables"), cells.table(columns, rows, "No table has a commit yet"))


def _trouble(state: Mapping[str, Any], now: int) -> Node:
    parts = ["paused"] if state["paused"] else []
    if state["backoff_until"]:
        parts.append(f"backs off for {human_age(state['backoff_until'] - now)}")
    if state["last_error"]:
        parts.append(cells.cut(state["last_error"].splitlines()[0]))
    parts += [cells.cut(note) for note in state["notes"]]
    return cells.long("; ".join(parts) or "-", "bad" if state["last_error"] else "warn" if parts else None)


def _commits(tables: Sequence[TablePast], window: Window) -> Node:
    strips = [
        tag(
            "div",
            tag("span", table.table),
            commits(table.commits, window),
            tag(
                "small",
                f"{counted(len(table.commits), 'commit')}, {counted(sum(commit.changes for commit in table.commits), 'change')}",
                class_="faint",
            ),
            class_="strip",
        )
        for table in tables
    ]
    return tag(
        "section",
        tag("h2", "Commits"),
        *([*strips, _axis(window, strips=True)] if strips else [cells.nothing("No commit in this time")]),
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
            cells.number(clock(run.began_at)),
            cells.number(cells.age(None if run.requested_at is None else max(0, run.began_at - run.requested_at))),
            cells.number(human_age((run.ended_at if run.ended_at is not None else now) - run.began_at)),
            cells.number(run.batches),
            cells.number(run.changes),
            cells.badge(
                "lives" if run.ended_at is None else run.state,
                "bad" if run.reason else "good" if run.ended_at is None else "faint",
            ),
            cells.long(cells.cut(run.reason or "-"), "bad" if run.reason else None),
        )
        for run in reversed(runs[-RUNS_LISTED:])
    ]
    columns = ("run", "#began", "#after a wait of", "#held for", "#batches", "#changes", "state", "reason")
    return tag(
        "section",
        tag("h2", "Runs"),
        *strips,
        *([_axis(window, strips=True)] if strips else []),
        cells.table(columns, rows, "No run in this time"),
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
                    cells.number(item[unit]),
                    cells.long(cells.cut(item["reason"])),
                    tag("td", *_examples(item.get("examples", ())), class_="long"),
                )
                for item in found["reasons"][:20]
            ]
            blocks += [
                tag("h2", f"{title}: {found[unit]:,}{' and more' if found['more'] else ''}"),
                cells.table((f"#{unit}", "reason", "such as"), rows, ""),
            ]
    return tag(
        "section",
        *(blocks or [tag("h2", "Set aside"), cells.nothing("Nothing is quarantined, parked, superseded or ignored")]),
    )


def _examples(keys: Iterable[str]) -> Iterable[Node]:
    for key in keys:
        yield tag("div", tag("code", shortened(key, cells.CHARACTERS)))


def _axis(window: Window, *, strips: bool = False) -> Node:
    middle = window.begins + window.ms // 2
    return tag(
        "div",
        *(tag("span", clock(at)[5:16]) for at in (window.begins, middle, window.ends)),
        class_="axis under" if strips else "axis",
    )
