"""HTML and SVG put together from nodes, so that whatever is not a node is escaped: there is no way to forget it.

Tables of the status page, cell by cell.

The charts of the status page: inline SVG that takes the width it is given, in the page's own colours.

Table services on the status page: what failed, runs, waits, is due by policy, and was done last.

The status page: one HTML document with everything in it, out of what `sluice status --json` tells and the recent past.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sluice.services.requests import FAILED, OPEN, RUNNING
from sluice_cli.status.overview import describe_error, describe_report, describe_since
from sluice_cli.status.past import COMMITS_SHOWN, Commit, RunPast, TablePast, Window
from sluice_cli.terminal.output import counted, human_age, human_bytes, marked_up, shortened
from sluice_read.moments import clock

_VOID = frozenset({"meta", "br", "hr", "rect", "line", "path"})


class Node(str):
    """Text that is markup. Only `tag`, `joined` and constants of this project make one."""


def tag(name: str, /, *children: object, **attributes: object) -> Node:
    """An element. Children that are no nodes are text, None is left out; of an attribute `class_` means class and `_` a dash."""
    summary = "".join(
        f' {_attribute(key)}="{marked_up(str(value))}"' for key, value in attributes.items() if value is not None
    )
    if name in _VOID and not children:
        return Node(f"<{name}{summary}/>")
    return Node(f"<{name}{summary}>{joined(*children)}</{name}>")


def joined(*children: object) -> Node:
    """Nodes and texts one after another."""
    return Node(
        "".join(child if isinstance(child, Node) else marked_up(str(child)) for child in children if child is not None)
    )


def _attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


CHARACTERS = 160  # of a reason or an error


def head(value: str) -> Node:
    """The first cell of a row: what the row is about."""
    return tag("th", value, scope="row")


def number(value: object) -> Node:
    """A cell of a number, or of what is set like one."""
    return tag("td", f"{value:,}" if isinstance(value, int) else value, class_="n")


def long(value: str, kind: str | None = None) -> Node:
    """A cell whose text may break anywhere; `kind` is its colour."""
    return tag("td", value, class_=" ".join(["long", *([kind] if kind else [])]))


def badge(value: str, kind: str) -> Node:
    """A cell of a state in its colour."""
    return tag("td", tag("span", value, class_=f"state {kind}"))


def table(columns: Sequence[str], rows: Sequence[Sequence[Node]], empty: str) -> Node:
    """Rows under the names of their columns, numbers' with `#` before them; the text `empty` where there is none."""
    if not rows:
        return nothing(empty)
    heads = [tag("th", name.lstrip("#"), class_="n" if name.startswith("#") else None) for name in columns]
    return tag(
        "div",
        tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *(tag("tr", *row) for row in rows))),
        class_="wide",
    )


def nothing(text: str) -> Node:
    """What is said instead of an empty table."""
    return tag("p", text, class_="faint")


def cut(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= CHARACTERS else text[: CHARACTERS - 1] + "…"


def age(ms: int | None) -> str:
    """A time that passed, or a dash."""
    return "-" if ms is None else f"{ms / 1000:.1f} s" if ms < 10_000 else human_age(ms)


_WIDTH = 1_000  # of every view box: charts are stretched to the width they get, so only their lines' ends are exact


def area(values: Sequence[int], *, height: int, label: str) -> Node:
    """A filled line, the highest value at the top."""
    top = max([*values, 1])
    step = _WIDTH / max(1, len(values))
    points = []
    for number, value in enumerate(values):
        y = height - 2 - (height - 6) * value / top
        points.append(f"{number * step:.1f},{y:.1f} {(number + 1) * step:.1f},{y:.1f}")
    line = " ".join(points)
    return _svg(
        height,
        label,
        tag("path", class_="fill", d=f"M0,{height} L{line} L{_WIDTH},{height} Z"),
        tag("path", class_="stroke", d=f"M{line}", fill="none", vector_effect="non-scaling-stroke"),
    )


def commits(made: Sequence[Commit], window: Window, *, height: int = 22) -> Node:
    """A tick for every commit, the higher the more changes it brought; a commit with quarantined rows has the colour of trouble."""
    most = max([commit.changes for commit in made] + [1])
    ticks = []
    for commit in made[-COMMITS_SHOWN:]:
        tall = 4 + (height - 4) * (commit.changes / most) ** 0.5
        summary = f"{clock(commit.at)} UTC: {commit.changes:,} changes of {commit.objects:,} objects, readable {commit.waited_ms / 1000:,.1f} s after the first was admitted"
        ticks.append(
            tag(
                "rect",
                tag("title", summary),
                class_="bad" if commit.rows_quarantined else "none" if commit.no_change else "mark",
                x=f"{_WIDTH * window.at(commit.at) - 2:.1f}",
                y=f"{height - tall:.1f}",
                width=4,
                height=f"{tall:.1f}",
            )
        )
    return _svg(height, f"{len(made)} commits", *ticks)


def run_strip(runs: Sequence[RunPast], window: Window, now: int, *, height: int = 22) -> Node:
    """A lane's runs from request to end: the wait for each start, the time it held the lane, its commits."""
    parts = []
    for run in runs:
        held, ended = window.at(run.began_at), window.at(run.ended_at if run.ended_at is not None else now)
        asked = held if run.requested_at is None else window.at(min(run.requested_at, run.began_at))
        parts.append(
            tag("rect", class_="wait", x=f"{_WIDTH * asked:.1f}", y=8, width=f"{_WIDTH * (held - asked):.1f}", height=8)
        )
        summary = f"{run.run}: {clock(run.began_at)} UTC, {run.batches:,} batches"
        parts.append(
            tag(
                "rect",
                tag("title", summary),
                class_="bad" if run.reason else "fill",
                x=f"{_WIDTH * held:.1f}",
                y=4,
                width=f"{max(2.0, _WIDTH * (ended - held)):.1f}",
                height=16,
            )
        )
        parts += [
            tag("rect", class_="mark", x=f"{_WIDTH * window.at(at) - 0.5:.1f}", y=8, width=1, height=8)
            for at in run.commits
        ]
    return _svg(height, f"{len(runs)} runs", *parts)


def _svg(height: int, label: str, *children: Node) -> Node:
    return tag(
        "svg",
        joined(*children),
        viewBox=f"0 0 {_WIDTH} {height}",
        preserveAspectRatio="none",
        height=height,
        role="img",
        aria_label=label,
    )


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
    columns = ("table", "service", "state", "#for", "what was done, or why it is due", "error")
    return tag(
        "section",
        tag("h2", "Table services"),
        table(columns, rows[:ROWS_SHOWN], "No service was asked for yet, and none is due"),
        more,
    )


def services_tile(
    entries: Sequence[Mapping[str, Any]], due: Sequence[Mapping[str, str]]
) -> tuple[str, str, str | None]:
    """How many failed or are open, what they are, and the colour."""
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
            head(lane["lane"]),
            badge(lane["state"], _HEALTH.get(lane["state"], "faint")),
            long(lane["told"]),
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
    parts = ["paused"] if state["paused"] else []
    if state["backoff_until"]:
        parts.append(f"backs off for {human_age(state['backoff_until'] - now)}")
    if state["last_error"]:
        parts.append(cut(state["last_error"].splitlines()[0]))
    parts += [cut(note) for note in state["notes"]]
    return long("; ".join(parts) or "-", "bad" if state["last_error"] else "warn" if parts else None)


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
                "lives" if run.ended_at is None else run.state,
                "bad" if run.reason else "good" if run.ended_at is None else "faint",
            ),
            long(cut(run.reason or "-"), "bad" if run.reason else None),
        )
        for run in reversed(runs[-RUNS_LISTED:])
    ]
    columns = ("run", "#began", "#after a wait of", "#held for", "#batches", "#changes", "state", "reason")
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
                table((f"#{unit}", "reason", "such as"), rows, ""),
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
