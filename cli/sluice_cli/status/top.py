"""`sluice top`: shows lanes, tables, freshness, rates and runs, and refreshes them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sluice.batch.part_counts import changes_of_table
from sluice.config.document import Configuration
from sluice_aws.clock import epoch_ms
from sluice_aws.failures import is_transient
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.configuration import ConfigStore
from sluice_cli.account.lane import LAPSED, batches_of_run, run_ms
from sluice_cli.account.table import trouble_of_table
from sluice_cli.status.overview import lanes_and_tables
from sluice_cli.terminal.guard import escaping_console, visible
from sluice_cli.terminal.options import Json, Stack, TimeSpan, at_least, option
from sluice_cli.terminal.output import print_json
from sluice_cli.terminal.run import AWS_ERRORS, unanswered
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.tables import GAP, state_text
from sluice_cli.terminal.words import counted, human_age, human_bytes
from sluice_read.moments import clock

EVERY_S, LEAST_EVERY_S = TimeSpan(2), 0.5
PIPE_WIDTH = 180
SHARE = 4  # times the last read is the shortest pause, so that a long backlog is read less often


def top(
    every: Annotated[
        float, option("--every DURATION", "Time between two refreshes: 5s, 1m.", parser=at_least(LEAST_EVERY_S))
    ] = EVERY_S,
    once: Annotated[bool, option("--once", "Show the state once and exit.")] = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Watch lanes, pending objects, freshness and runs until Ctrl-C.

    While AWS throttles or doesn't answer, the last state stays, with the reason above it. With --json, or if stdout is
    not a terminal, shows the state once. `sluice status` lists set-aside objects.

    Examples:

      sluice top
      sluice top --every 5s
      sluice top --json | jq '.tables[] | select(.late)'
    """
    target = chosen_target(stack)
    ledger, store = target.ledger, ConfigStore(target.objects, target.artifacts)  # which goes on without a pushed one
    document = look(ledger, epoch_ms(), store.load())
    if as_json:
        print_json(document)
        return
    if not sys.stdout.isatty():
        escaping_console(width=PIPE_WIDTH).print(screen(document, height=sys.maxsize, width=PIPE_WIDTH))
        return
    console = escaping_console()
    if once:
        console.print(_fitted(document, console))
        return
    _watch(ledger, store, document, every, console)


def _watch(ledger: Ledger, store: ConfigStore, document: dict[str, Any], every: float, console: Console) -> None:
    try:
        with Live(_fitted(document, console), console=console, screen=True, auto_refresh=False) as live:
            took = 0.0
            while True:
                time.sleep(max(every, SHARE * took))
                began, failure = time.monotonic(), None
                try:
                    document = look(ledger, epoch_ms(), store.load(), document)
                except AWS_ERRORS as error:
                    if not is_transient(error):
                        raise
                    failure = unanswered(error)
                took = time.monotonic() - began
                live.update(_fitted(document, console, failure), refresh=True)
    except KeyboardInterrupt:
        console.print(_fitted(document, console))


def _fitted(document: dict[str, Any], console: Console, failure: str | None = None) -> RenderableType:
    """The screen; with the `failure` of the last look above the state of the one before."""
    shown = screen(document, height=console.height - (1 if failure else 0), width=console.width)
    return Group(Text(f"{visible(failure)}: trying again", "red"), shown) if failure else shown


_WRAPPED, WRAPPED_LEAST = ("state", "trouble", "reason"), 12  # columns of texts, and their least width
WIDE, NARROW, NARROWEST = 120, 80, 50  # characters, below which a terminal shows fewer columns


def look(
    ledger: Ledger, now: int, configuration: Configuration | None, before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The state as JSON values. `before` is the last state, for rates. Times are in epoch ms, ages in ms."""
    lanes, tables = lanes_and_tables(ledger, now, configuration)
    runs = [
        _run(name, ledger.history.run(name), now)
        for lane in lanes
        for name in dict.fromkeys((lane["run"], lane["last_run"]))
        if name
    ]
    document: dict[str, Any] = {
        "at": now,
        "lanes": lanes,
        "tables": [_table(table, now) for table in tables],
        "runs": runs,
    }
    document["rates"] = _rates(document, before)
    return document


def _table(table: Mapping[str, Any], now: int) -> dict[str, Any]:
    return {
        "table": table["table"],
        "lane": table["lane"],
        "waiting": table["pending"]["objects"],
        "bytes": table["pending"]["bytes"],
        "oldest_ms": table["pending"]["oldest_ms"],
        "claimed": table["claimed"]["objects"],
        **{name: table[name] for name in ("freshness_s", "late", "last_commit_at")},
        "age_ms": None if table["last_commit_at"] is None else max(0, now - table["last_commit_at"]),
        "changes": changes_of_table(table["totals"]),
        "objects": table["committed"]["objects"],
        "quarantined": table["quarantined"]["objects"],
        **{name: table[name] for name in ("paused", "blocked", "backoff_until", "last_error", "notes")},
    }


def _run(name: str, item: Mapping[str, Any] | None, now: int) -> dict[str, Any]:
    item = item or {}
    return {
        "run": name,
        **{name: item.get(name) for name in ("lane", "state", "requested_at", "started_at", "ended_at")},
        "held_ms": run_ms(item, now),
        # Of a run that died the ledger counts none of the batches that it committed; `sluice ops runs` reads them.
        "batches": None if item.get("state") == LAPSED else item.get("batches"),
        "reason": item.get("reason"),
    }


def _rates(document: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, float] | None:
    """Objects and changes per second since the last state."""
    if before is None or document["at"] <= before["at"]:
        return None
    seconds = (document["at"] - before["at"]) / 1000
    return {
        name: round(max(0, _sum(document["tables"], name) - _sum(before["tables"], name)) / seconds, 1)
        for name in ("objects", "changes")
    }


def _sum(tables: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(table[name] for table in tables)


def screen(document: Mapping[str, Any], *, height: int, width: int) -> RenderableType:
    """The state for a terminal, in about `height` lines, with fewer columns below WIDE, NARROW and NARROWEST.

    Tables that are late or have work come first.
    """
    wide, narrow, narrowest = width >= WIDE, width < NARROW, width < NARROWEST
    pending = _sum(document["tables"], "waiting")
    rates = document["rates"]
    head = Text.assemble(
        (clock(document["at"]), "bold"),
        f"  {pending:,} pending, {_sum(document['tables'], 'claimed'):,} claimed",
        f"  {rates['objects']:,} objects/s, {rates['changes']:,} changes/s" if rates else "",
    )
    lanes = _grid("lane", "state", "#pending", "#oldest", *(() if narrow else ("#open batches",)))
    for lane in document["lanes"]:
        lanes.add_row(
            Text(lane["lane"], "bold"),
            state_text(visible(lane["summary"])),
            f"{lane['pending']['objects']:,}",
            human_age(lane["pending"]["oldest_ms"]),
            *(() if narrow else (f"{len(lane['unsettled_batches']):,}",)),
        )
    tables = _grid(
        "table",
        "#pending",
        *(() if narrow else ("#oldest",)),
        *(() if narrowest else ("#last commit",)),
        *(("#bytes", "#claimed", "#freshness", "#committed", "#changes") if wide else ()),
        "trouble",
    )
    room = max(3, height - len(document["lanes"]) - 2 * len(document["runs"]) - 9)
    order = sorted(document["tables"], key=_urgency)
    for table in order[:room]:
        more = (
            human_bytes(table["bytes"]),
            f"{table['claimed']:,}",
            "-" if table["freshness_s"] is None else human_age(table["freshness_s"] * 1000),
            f"{table['objects']:,}",
            f"{table['changes']:,}",
        )
        tables.add_row(
            Text(table["table"], "bold red" if table["late"] else "bold"),
            f"{table['waiting']:,}",
            *(() if narrow else (human_age(table["oldest_ms"]),)),
            *(() if narrowest else ("-" if table["age_ms"] is None else f"{human_age(table['age_ms'])} ago",)),
            *(more if wide else ()),
            _wrong(visible("; ".join(trouble_of_table(table, document["at"], characters=80))) or "-"),
        )
    runs = _grid("run", "state", *(() if narrow else ("#duration", "#batches")), "reason")
    for run in document["runs"]:
        counts = (human_age(run["held_ms"]), batches_of_run(run["state"], run["batches"]))
        runs.add_row(
            Text(run["run"]),
            state_text(run["state"] or "ended"),
            *(() if narrow else counts),
            _wrong(visible(run["reason"] or "-")[:120]),
        )
    left = len(order) - room
    rest = [Text(f"and {counted(left, 'more table')}", "bright_black")] if left > 0 else []
    lanes, tables, runs = (_within(listed, width) for listed in (lanes, tables, runs))
    below: list[RenderableType] = [Text(""), runs] if document["runs"] else []
    return Group(head, Text(""), lanes, Text(""), tables, *rest, *below)


def _urgency(table: Mapping[str, Any]) -> tuple[bool, bool, int, str]:
    return (
        not table["late"],
        not (table["waiting"] or table["claimed"] or table["last_error"]),
        -(table["last_commit_at"] or 0),
        table["table"],
    )


def _wrong(text: str) -> Text:
    return Text(text, "" if text == "-" else "red")


def _grid(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(
            Text(name.lstrip("#")),
            justify="right" if name.startswith("#") else "left",
            no_wrap=name not in _WRAPPED,
            overflow="fold",
        )
    table.columns[0].no_wrap = False
    return table


def _within(table: Table, width: int) -> Table:
    """Give the first column, of names and ids, what room the numbers leave it; longer names are folded."""
    first, *others = (
        (column, max(cell_len(str(cell)) for cell in (column.header, *column.cells))) for column in table.columns
    )
    taken = sum(
        (min(length, WRAPPED_LEAST) if str(column.header) in _WRAPPED else length) + GAP for column, length in others
    )
    first[0].width = min(first[1], max(WRAPPED_LEAST, width - taken))
    return table
