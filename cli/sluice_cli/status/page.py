"""Renders the status page: a self-contained HTML document of `sluice status --json` and the recent past.

What is wrong stands first, in words. Nothing is fetched, and no script runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice_aws.s3.objects import SkippedDocument
from sluice_cli.account.trouble import Trouble, troubles
from sluice_cli.status.charts import backlog_section, commits_section, runs_strips
from sluice_cli.status.html import CALM, FAILS, KINDS, Node, joined, kind_of, prose, state, tag, wrong
from sluice_cli.status.past import RunPast, TablePast, Window
from sluice_cli.status.sections import (
    aside_section,
    lanes_section,
    look_section,
    newest,
    runs_section,
    services_section,
    services_tile,
    shell,
    tables_section,
)
from sluice_cli.status.style import STYLE
from sluice_cli.terminal.words import counted, human_age, human_bytes
from sluice_read.moments import clock


@dataclass(frozen=True)
class Look:
    """What one look at a stack found. `now` is in epoch ms, `document` the output of `sluice status --json`.

    `oldest` has the key of the oldest waiting object by table. `unread` counts manifests beyond the limit, `skipped`
    are documents that can't be read.
    """

    now: int
    document: Mapping[str, Any]
    window: Window
    tables: Sequence[TablePast]
    backlog: Sequence[int]
    runs: Sequence[RunPast]
    oldest: Mapping[str, str]
    unread: int = 0
    skipped: Sequence[SkippedDocument] = ()


def page(look: Look, described: str, *, every_s: int | None = None, note: str | None = None) -> str:
    """Render the document of a look at the stack that is `described`.

    With `every_s` a browser reads the page again after so many seconds. `note` says why the page is not updated.
    """
    status, window, runs = look.document, look.window, look.runs
    all_troubles = troubles(status)
    traceable, traced = _traceable(status["tables"], look.tables, look.oldest), _named(status["lanes"], runs)
    closer, by_table, by_run = look_section(traceable, traced)
    refresh = tag("meta", http_equiv="refresh", content=str(every_s)) if every_s is not None else None
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
                refresh,
                tag("title", f"{f'({len(all_troubles)}) ' if all_troubles else ''}Sluice: {described}"),
                tag("style", STYLE),
            ),
            tag(
                "body",
                tag(
                    "main",
                    _header(look, described, every_s, note),
                    _trouble(all_troubles),
                    _tiles(status, look.tables, window),
                    tag("div", *(state(kind.words, kind) for kind in KINDS), class_="legend", id="legend"),
                    backlog_section(look.backlog, window),
                    commits_section(look.tables, window),
                    lanes_section(status["lanes"], by_run),
                    tables_section(status["tables"], look.tables, by_table, look.now),
                    services_section(status["services"], status["services_due"], look.now),
                    runs_section(runs_strips(runs, window, look.now), runs, by_run, look.now),
                    aside_section(status),
                    closer,
                ),
            ),
            lang="en",
        )
        + "\n"
    )


def _header(look: Look, described: str, every_s: int | None, note: str | None) -> Node:
    unread, begins = counted(look.unread, "batch", "batches"), clock(look.window.begins)
    parts = [f"{clock(look.now)}, looks back {look.window.length}"]
    parts += [f"not read: {unread} before {begins}"] if look.unread else []
    parts += [f"{counted(len(look.skipped), 'document')} can't be read and left out"] if look.skipped else []
    parts += [f"renewed every {human_age(round(every_s * 1000))}"] if every_s is not None else []
    return tag(
        "header",
        tag("h1", "Sluice"),
        tag("span", described),
        tag("span", "; ".join(parts), class_="faint"),
        tag("span", note, class_="bad") if note else None,
    )


def _trouble(all_troubles: Sequence[Trouble]) -> Node:
    if not all_troubles:
        calm = joined(
            state("Nothing is wrong", CALM), tag("span", ": nothing is halted, failing, quarantined, late or parked")
        )
        return tag("section", calm, class_="trouble none", id="trouble")
    items = [
        tag(
            "li",
            state(trouble.name, kind_of(trouble.name)),
            tag("div", prose(trouble.text), " ", tag("a", "show", href=f"#{trouble.section}")),
            tag("div", *map(shell, trouble.steps), class_="commands") if trouble.steps else None,
            tag("div", prose(trouble.words)) if trouble.words else None,
        )
        for trouble in all_troubles
    ]
    mild = "" if any(kind_of(trouble.name) == FAILS for trouble in all_troubles) else " mild"
    return tag("section", tag("h2", "What is wrong"), tag("ul", *items), class_=f"trouble{mild}", id="trouble")


def _tiles(status: Mapping[str, Any], tables: Sequence[TablePast], window: Window) -> Node:
    pending = sum(lane["pending"]["objects"] for lane in status["lanes"])
    size = sum(lane["pending"]["bytes"] for lane in status["lanes"])
    oldest = max((lane["pending"]["oldest_ms"] or 0 for lane in status["lanes"]), default=0)
    made = [commit for table in tables for commit in table.commits]
    batches = {commit.batch for commit in made if commit.objects}
    within = f"within {window.length}"
    aside, rows = status["set_aside"]["quarantined"], status["quarantined_rows"]
    return tag(
        "div",
        _tile("pending", f"{pending:,}", human_bytes(size) if pending else "no object is pending"),
        _tile("oldest", *((human_age(oldest), "the longest wait") if pending else ("-", "no object is pending"))),
        _tile(
            "committed",
            f"{sum(commit.objects for commit in made):,}",
            f"objects in {counted(len(batches), 'batch', 'batches')} {within}",
        ),
        _tile("changes", f"{sum(commit.changes for commit in made):,}", f"in {counted(len(tables), 'table')} {within}"),
        _tile(
            "quarantined",
            wrong(f"{aside['objects']:,}{'+' if aside['more'] else ''}", aside["objects"]),
            joined("objects, and ", wrong(counted(rows["rows"], "row"), rows["rows"])),
        ),
        _tile("services", *services_tile(status["services"], status["services_due"])),
        class_="tiles",
    )


def _tile(name: str, value: str, note: str) -> Node:
    return tag(
        "div", tag("span", name, class_="faint"), tag("b", value), tag("small", note, class_="faint"), class_="tile"
    )


def _traceable(
    states: Sequence[Mapping[str, Any]], pasts: Sequence[TablePast], oldest: Mapping[str, str]
) -> Sequence[tuple[str, Sequence[tuple[str, str]]]]:
    """For each table the objects that tell most, with their keys."""
    past = {table.table: table for table in pasts}
    keyed = []
    for name in (table["table"] for table in states):
        keys = [("oldest pending object", oldest[name])] if name in oldest else []
        keys += [("object that waited longest", past[name].slowest)] if name in past else []
        keyed.append((name, keys))
    return keyed


def _named(lanes: Sequence[Mapping[str, Any]], runs: Sequence[RunPast]) -> Sequence[str]:
    """The runs that the page names, each once."""
    of_lanes = [run for lane in lanes for run in (lane["run"] or lane["last_run"],) if run]
    return list(dict.fromkeys([*of_lanes, *(run.run for run in newest(runs))]))
