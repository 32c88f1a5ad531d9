"""`sluice status`: shows lanes, tables, services, and the objects that were set aside, with reasons."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from sluice.errors import UsageError
from sluice.ledger.keys import PARKED, QUARANTINED
from sluice_aws.clock import epoch_ms
from sluice_aws.stack import LOCAL
from sluice_cli.account.object import reasons_by_code, rule_steps
from sluice_cli.account.service import describe_due, describe_error, describe_report, describe_since
from sluice_cli.account.steps import OBJECTS_COME, SET_ASIDE
from sluice_cli.account.table import trouble_of_table
from sluice_cli.account.trouble import troubles
from sluice_cli.ingest.set_aside import reasons_of_rows
from sluice_cli.status.overview import gather
from sluice_cli.terminal.guard import escaping_console, visible
from sluice_cli.terminal.interaction import path_given
from sluice_cli.terminal.options import Json, Stack, TimeSpan, at_least, option
from sluice_cli.terminal.output import described_documents, print_json, print_line, say, say_next_step, say_skipped
from sluice_cli.terminal.stack import chosen_target, configuration_in_force
from sluice_cli.terminal.tables import print_columns
from sluice_cli.terminal.words import counted, human_age, human_bytes, path_shortened

REASONS_SHOWN = 10
EXAMPLE, EXAMPLE_INDENT = "(for example {})", 9  # where it has a line of its own, behind a number of one digit
PAGE_LOOKS_BACK = "24h"
EVERY_S, LEAST_EVERY_S = TimeSpan(60), 2.0  # of a watch


def status(
    as_json: Json = False,
    html: Annotated[
        Path | None,
        option("--html FILE", "Write a self-contained HTML page with the recent past instead.", parser=path_given),
    ] = None,
    since: Annotated[
        str | None,
        option(
            "--since TIME",
            "With --html: where the page's time span begins: 2h or 7d ago, or a time with its zone.",
            show_default=PAGE_LOOKS_BACK,
        ),
    ] = None,
    watch: Annotated[
        bool,
        option("--watch", "With --html: write the page again and again until Ctrl-C; a browser that shows it follows."),
    ] = False,
    every: Annotated[
        float,
        option(
            "--every DURATION", "With --watch: the pause between two pages: 30s, 5m.", parser=at_least(LEAST_EVERY_S)
        ),
    ] = EVERY_S,
    stack: Stack = None,
) -> None:
    """Show lanes and tables: objects by state, bytes, ages, active runs, last commits and errors.

    Below follow requested and due table services, then parked, quarantined, superseded and ignored objects, quarantined
    rows and ignored messages, by reason. Times in --json are in milliseconds.

    Examples:

      sluice status
      sluice status --json | jq '.tables[] | select(.last_error)'
      sluice status --html status.html --since 7d
      sluice status --html status.html --watch
    """
    if watch and (html is None or as_json):
        raise UsageError("--watch needs --html", next_step="Name the page's file, without --json")
    if since is not None and html is None:
        raise UsageError("--since needs --html", next_step="Name the page's file")
    if every != EVERY_S and not watch:
        raise UsageError("--every needs --watch", next_step="Add --watch, or leave --every out")
    target = chosen_target(stack)
    now = epoch_ms()
    configured = partial(configuration_in_force, target, without_ledger=True)
    if html is not None:
        from sluice_cli.status.page_file import PageFile  # which only the page needs

        page = PageFile(target, configured, html, since or PAGE_LOOKS_BACK, remembers=watch)
        if watch:
            page.watch(every)
            return
        shown = page.look(now)
        page.write(shown)
        say(f"Written to {html}")
        say_skipped(shown.skipped)
        document = {**shown.document, "skipped_documents": described_documents(shown.skipped)}
    else:
        document = gather(target.ledger, now, configured, reasons_of_rows(target))
    if as_json:
        print_json(document)
    elif html is None:
        print_status(document, now)
        if target.kind != LOCAL:  # local runs cost nothing
            for entry in document["advice"]:
                print_line(f"\nlane {entry['lane']}: {entry['described']}")


def print_services(entries: Iterable[Mapping[str, Any]], now: int) -> None:
    """Print the entries as a table; `now` is in epoch ms."""
    print_columns(
        entries,
        {
            "table": "table",
            "service": "service",
            "state": "state",
            "age": lambda entry: describe_since(entry, now),
            "result": lambda entry: describe_report(entry["report"], entry["instant"]),
            "error": lambda entry: describe_error(entry["error"]),
        },
        apart=["error"],
        states=["state"],
        minor=["result"],
    )


def print_status(document: Mapping[str, Any], now: int) -> None:
    """Print the state that `gather` found at `now` (epoch ms)."""
    unruled, proposed = (document["set_aside"][PARKED][name] for name in ("without_rule", "rules_proposed"))
    steps = rule_steps(proposed, unruled - proposed, document["set_aside"][PARKED]["tables_left"])
    if not document["lanes"] and not document["tables"]:
        waiting = f"{counted(unruled, 'object waits', 'objects wait')} for a rule"
        came = any(counts["objects"] for counts in document["set_aside"].values())
        say(waiting if unruled else "No object is merged yet" if came else "No table has an object yet")
        if unruled or not came:
            for step in steps or [f"{OBJECTS_COME}; {rule_steps(1, 0)[0]}"]:
                say_next_step(step)
    else:
        _print_lanes_and_tables(document, now)
    if document["services"]:
        print()
        print_services(document["services"], now)
    for entry in document["services_due"]:
        print_line(describe_due(entry))
    for state, aside in document["set_aside"].items():
        _print_reasons(state, aside, "objects")
        if state == PARKED and unruled and (document["lanes"] or document["tables"]):
            for step in steps:
                print_line(f"  {step}")
        if state == QUARANTINED and aside["reasons"]:
            print_line(f"  {SET_ASIDE}")
    _print_reasons("quarantined rows of committed objects", document["quarantined_rows"], "rows")
    if document["quarantined_rows"]["reasons"] and not document["set_aside"][QUARANTINED]["reasons"]:
        print_line(f"  {SET_ASIDE}")
    _print_reasons("ignored messages", document["ignored_messages"], "messages")
    # The steps of what was set aside stand below its reasons; of several lanes at rest one step is the same.
    wrong = [one for one in troubles(document) if one.advice and one.name not in (PARKED, QUARANTINED)]
    for step in dict.fromkeys(f"{one.name}: {one.advice}" for one in wrong):
        say_next_step(step)


def _print_lanes_and_tables(document: Mapping[str, Any], now: int) -> None:
    print_columns(
        document["lanes"],
        {
            "lane": "lane",
            "state": "summary",
            "#pending": lambda lane: lane["pending"]["objects"],
            "#bytes": lambda lane: human_bytes(lane["pending"]["bytes"]),
            "#oldest": lambda lane: human_age(lane["pending"]["oldest_ms"]),
            "#open batches": lambda lane: len(lane["unsettled_batches"]),
            "run": "run",
        },
        states=["state"],
        minor=["run", "open batches", "bytes"],
    )
    print()
    print_columns(
        document["tables"],
        {
            "table": "table",
            "lane": "lane",
            "#pending": lambda table: table["pending"]["objects"],
            "#bytes": lambda table: human_bytes(table["pending"]["bytes"] + table["claimed"]["bytes"]),
            "#oldest": lambda table: human_age(table["pending"]["oldest_ms"]),
            "#claimed": lambda table: table["claimed"]["objects"],
            "#committed": lambda table: table["committed"]["objects"],
            "#quarantined": lambda table: table["quarantined"]["objects"],
            "#quarantined rows": lambda table: table["quarantined"]["rows"],
            "last commit": lambda table: table["last_commit_at"] and f"{human_age(now - table['last_commit_at'])} ago",
            "trouble": lambda table: "; ".join(trouble_of_table(table, now)) or None,
        },
        apart=["trouble"],
        states=["trouble"],
        minor=["lane", "bytes", "claimed", "committed", "oldest", "quarantined rows", "quarantined"],
    )


def _print_reasons(title: str, aside: Mapping[str, Any], unit: str) -> None:
    if not aside["reasons"]:
        return
    print_line(f"\n{title}: {aside[unit]:,}{' and more' if aside['more'] else ''}")
    reasons = reasons_by_code(aside["reasons"], unit)
    for number, texts in reasons[:REASONS_SHOWN]:
        first = texts[0]
        example = _example(first.get("examples"))
        several = f"{first['code']}, {len(texts):,} texts, most often: " if texts[1:] else ""
        reason = f"  {number:>6,}  {several}{visible(first['reason'])}"
        print_line(f"{reason}  {example}" if example else reason, whole=example)
    if len(reasons) > REASONS_SHOWN:
        print_line(f"  ... {counted(len(reasons) - REASONS_SHOWN, 'more reason')} (--json lists all)")


def _example(keys: Sequence[str] | None) -> str:
    """The first key in brackets. A terminal shows as much of its end as stands on one line, which `trace` takes."""
    if not keys:
        return ""
    key = visible(keys[0])
    if sys.stdout.isatty():
        key = path_shortened(key, escaping_console().width - len(EXAMPLE.format("")) - EXAMPLE_INDENT)
    return EXAMPLE.format(key)
