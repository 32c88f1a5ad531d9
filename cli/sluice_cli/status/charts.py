"""Draws the charts of the status page as inline SVG, stretched to the available width and in the page's colours."""

from __future__ import annotations

from collections.abc import Sequence

from sluice_cli.status.html import Node, joined, tag
from sluice_cli.status.past import COMMITS_SHOWN, PastCommit, RunPast, Window
from sluice_read.moments import clock

_WIDTH = 1_000  # of every view box; charts are stretched to the available width


def area(values: Sequence[int], *, height: int, label: str) -> Node:
    """A filled line chart."""
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


def commits(made: Sequence[PastCommit], window: Window, *, height: int = 22) -> Node:
    """A tick for each commit, whose height shows the number of changes. Commits with quarantined rows are coloured."""
    most = max([commit.changes for commit in made] + [1])
    ticks = []
    for commit in made[-COMMITS_SHOWN:]:
        tall = 4 + (height - 4) * (commit.changes / most) ** 0.5
        summary = (
            f"{clock(commit.at)} UTC: {commit.changes:,} changes of {commit.objects:,} objects, "
            f"readable {commit.waited_ms / 1000:,.1f} s after the first was admitted"
        )
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
    """A lane's runs: the wait for each start, the time it held the lane, and its commits."""
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
