"""Draws the recent past on the status page: the backlog, each table's commits, each lane's runs.

The charts are inline SVG, stretched to the available width. What differs in colour differs in shape, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice_cli.status.html import Node, breakable, joined, nothing, tag
from sluice_cli.status.past import COMMITS_SHOWN, PastCommit, RunPast, TablePast, Window
from sluice_cli.terminal.words import counted, human_age, round_number
from sluice_read.moments import clock

_WIDTH = 1_000  # of every view box
_HEIGHT = 120  # of the backlog
_STRIP = 22  # the height of a strip
_QUARTERS = range(5)
_HALF_A_TICK = 2
_SHORT_MS = 3_600_000  # windows whose labels show seconds


def backlog_section(values: Sequence[int], window: Window) -> Node:
    """The section of the backlog, a filled line with both its axes labelled."""
    top = round_number(max([*values, 1]))
    labels = [top, top // 2, 0] if top % 2 == 0 else [top, 0]
    return tag(
        "section",
        tag("h2", "Backlog"),
        tag("small", "objects admitted and not yet readable, over time (UTC)", class_="faint"),
        tag(
            "div",
            tag("div", *(tag("span", f"{label:,}") for label in labels), class_="scale"),
            _area(values, top, len(labels)),
            _axis(window),
            class_="plot",
        ),
        class_="half",
    )


def commits_section(tables: Sequence[TablePast], window: Window) -> Node:
    """The section of the commits: a strip for each table."""
    strips = [_strip(table.table, _commits(table.commits, window), _changes(table)) for table in tables]
    legend = _legend(
        (
            "commit, its height in proportion to the table's largest",
            tag("rect", class_="mark", x=9, y=1, width=4, height=11),
        ),
        ("no commit: nothing changed", tag("rect", class_="none", x=9, y=8, width=4, height=4)),
        ("commit with quarantined rows", _exclamation(9, 0, 12)),
    )
    body = [*strips, _axis(window, under=True), legend] if strips else [nothing("No commit in this time")]
    return tag("section", tag("h2", "Commits"), *body, id="commits", class_="half")


def runs_strips(runs: Sequence[RunPast], window: Window, now: int) -> Sequence[Node]:
    """A strip for each lane with its runs, their axis and their legend."""
    strips = []
    for lane in sorted({run.lane for run in runs}):
        own = [run for run in runs if run.lane == lane]
        busy = sum((run.ended_at if run.ended_at is not None else now) - run.began_at for run in own)
        strips.append(_strip(lane, _runs(own, window, now), f"{counted(len(own), 'run')}, {human_age(busy)} in all"))
    legend = _legend(
        ("waits for its start", tag("rect", class_="wait", x=0, y=4, width=22, height=4)),
        ("holds the lane", tag("rect", class_="held", x=1, y=1, width=20, height=10)),
        ("failed", *_crossed(1, 1, 20, 10)),
        ("commit", tag("rect", class_="mark", x=10, y=2, width=2, height=8)),
    )
    return [*strips, _axis(window, under=True), legend] if strips else []


def _area(values: Sequence[int], top: int, lines: int) -> Node:
    step = _WIDTH / max(1, len(values))
    points = []
    for number, value in enumerate(values):
        y = _HEIGHT - _HEIGHT * value / top
        points.append(f"{number * step:.1f},{y:.1f} {(number + 1) * step:.1f},{y:.1f}")
    line = " ".join(points)
    return _svg(
        _HEIGHT,
        f"backlog over time, at most {max([*values, 0]):,} objects",
        tag("path", class_="fill", d=f"M0,{_HEIGHT} L{line} L{_WIDTH},{_HEIGHT} Z"),
        *(_line(0, _WIDTH, y, y) for y in (_HEIGHT * number / (lines - 1) for number in range(lines))),
        *(_line(x, x, 0, _HEIGHT) for x in (_WIDTH * quarter / 4 for quarter in _QUARTERS)),
        tag("path", class_="stroke", d=f"M{line}", fill="none", vector_effect="non-scaling-stroke"),
    )


def _line(x1: float, x2: float, y1: float, y2: float) -> Node:
    ends = {name: f"{value:.0f}" for name, value in (("x1", x1), ("x2", x2), ("y1", y1), ("y2", y2))}
    return tag("line", class_="grid", **ends, vector_effect="non-scaling-stroke")


def _commits(made: Sequence[PastCommit], window: Window) -> Node:
    most = max([commit.changes for commit in made] + [1])
    shown = counted(sum(not commit.no_change for commit in made), "commit")
    return _svg(_STRIP, shown, *(_commit(commit, most, window) for commit in made[-COMMITS_SHOWN:]))


def _commit(commit: PastCommit, most: int, window: Window) -> Node:
    summary = f"{clock(commit.at)}: {'no commit, nothing changed' if commit.no_change else 'objects merged again'}"
    if commit.waited_ms is not None and not commit.no_change:
        summary = (
            f"{clock(commit.at)}: {counted(commit.changes, 'change')} of {counted(commit.objects, 'object')}, "
            f"readable {commit.waited_ms / 1000:,.1f} s after the first was admitted"
        )
    if commit.rows_quarantined:
        summary += f"; {counted(commit.rows_quarantined, 'row')} quarantined"
    title, x = tag("title", summary), _WIDTH * window.at(commit.at) - _HALF_A_TICK
    if commit.rows_quarantined and not commit.no_change:
        return tag("g", title, _exclamation(x, 0, _STRIP))
    tall = 4 if commit.no_change else 5 + (_STRIP - 5) * (commit.changes / most) ** 0.5
    kind = "none" if commit.no_change else "mark"
    return _rect(kind, x, _STRIP - tall, 2 * _HALF_A_TICK, tall, title)


def _exclamation(x: float, y: float, height: float) -> Node:
    """A tick of full height with a gap, unlike any other."""
    wide, above = 3 * _HALF_A_TICK, height * 0.6
    return tag("g", _rect("bad", x - 1, y, wide, above), _rect("bad", x - 1, y + above + 2, wide, height - above - 2))


def _runs(runs: Sequence[RunPast], window: Window, now: int) -> Node:
    parts: list[Node] = []
    for run in runs:
        held, ended = window.at(run.began_at), window.at(run.ended_at if run.ended_at is not None else now)
        requested = held if run.requested_at is None else window.at(min(run.requested_at, run.began_at))
        parts.append(_rect("wait", _WIDTH * requested, 9, _WIDTH * (held - requested), 4))
        summary = f"{run.run}: {clock(run.began_at)}, {counted(run.batches, 'batch', 'batches')}"
        title = tag("title", f"{summary}; {run.reason}" if run.reason else summary)
        x, wide = _WIDTH * held, max(3.0, _WIDTH * (ended - held))
        if run.reason:
            parts.append(tag("g", title, *_crossed(x, 1, wide, _STRIP - 2)))
        else:
            parts.append(_rect("held", x, 4, wide, 14, title))
        parts += [_rect("mark", _WIDTH * window.at(at) - 0.5, 7, 1, 8) for at in run.commits]
    return _svg(_STRIP, counted(len(runs), "run"), *parts)


def _crossed(x: float, y: float, width: float, height: float) -> Sequence[Node]:
    """A crossed-out box."""
    right, bottom = f"{x + width:.1f}", f"{y + height:.1f}"
    left, top = f"{x:.1f}", f"{y:.1f}"
    box = f"M{left} {top}H{right}V{bottom}H{left}ZL{right} {bottom}M{right} {top}L{left} {bottom}"
    return [tag("path", class_="failed", d=box, vector_effect="non-scaling-stroke")]


def _rect(kind: str, x: float, y: float, width: float, height: float, *children: Node) -> Node:
    sizes = (("x", x), ("y", y), ("width", width), ("height", height))
    box = {name: f"{value:.1f}" for name, value in sizes}
    return tag("rect", *children, class_=kind, **box, vector_effect="non-scaling-stroke")


def _changes(table: TablePast) -> str:
    commits = sum(not commit.no_change for commit in table.commits)
    changes = sum(commit.changes for commit in table.commits)
    return f"{counted(commits, 'commit')}, {counted(changes, 'change')}"


def _strip(name: str, chart: Node, summary: str) -> Node:
    return tag("div", tag("span", breakable(name)), chart, tag("small", summary, class_="faint"), class_="strip")


def _legend(*entries: tuple[str | Node, ...]) -> Node:
    samples = [
        tag("span", tag("svg", *drawn, class_="chart", viewBox="0 0 22 12", aria_hidden="true"), text)
        for text, *drawn in entries
    ]
    return tag("div", *samples, class_="legend")


def _axis(window: Window, *, under: bool = False) -> Node:
    """The times at the quarters of the window: the date where it differs from the one before, seconds of short ones."""
    labels, day = [], ""
    end = 19 if window.ms < _SHORT_MS else 16
    for quarter in _QUARTERS:
        text = clock(window.begins + window.ms * quarter // 4)
        labels.append(text[11:end] if text[:10] == day else text[5:end].replace("T", " "))
        day = text[:10]
    return tag("div", *(tag("span", label) for label in labels), class_="axis under" if under else "axis")


def _svg(height: int, label: str, *children: Node) -> Node:
    return tag(
        "svg",
        joined(*children),
        class_="chart",
        viewBox=f"0 0 {_WIDTH} {height}",
        preserveAspectRatio="none",
        height=height,
        role="img",
        aria_label=label,
    )
