"""`sluice diff`: what is different between two moments of one table."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated, Any

import typer

from sluice_aws.clock import epoch_ms
from sluice_cli.moments import Span, instant_at, moment_of
from sluice_cli.output import Stack, chosen_target, print_table, say, stderr_console
from sluice_cli.row_output import Csv, Form, JsonLines, cell, write_csv

_HEADER = ("difference", "key", "column", "before", "after")


def diff(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="database.table; of a merge-on-read table also database.table_ro.", show_default=False
        ),
    ],
    first: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="MOMENT",
            help="The earlier moment: an instant, a time with its zone, or 15min, 2h or 7d ago.",
            show_default=False,
        ),
    ],
    last: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="MOMENT",
            help="The later moment; the newest commit where it is left out.",
            show_default=False,
        ),
    ] = None,
    json_lines: JsonLines = False,
    as_csv: Csv = False,
    stack: Stack = None,
) -> None:
    """Show which rows were added, changed or removed between two moments, and in which columns.

    A row that the source deleted is removed; one that moved to another partition is changed. Columns are those of the newest commit: one that
    came in between is null before. Only files that differ are read. Differences come in no order; how many there are is said at the end.

    In JSON a line has `difference`, `key`, `columns` (what differs; all of an added or removed row), `before` and `after`.

    Examples:

      sluice diff moma.artists --from 20260501101500123 --to 20260501101700456

      sluice diff moma.artists --from 2h

      sluice diff tickit.sales --from 2026-05-01T00:00:00Z --json | jq -r .difference | sort | uniq -c
    """
    from sluice_cli.reading import open_table
    from sluice_cli.table_diff import ADDED, CHANGED, REMOVED, RowDifference, differences, key_columns

    form = Form(json_lines=json_lines, csv=as_csv)
    now = epoch_ms()
    start, end = instant_at(first, now), None if last is None else instant_at(last, now)
    target = chosen_target(stack)
    before, after = open_table(target, table, span=Span(as_of=start)), open_table(target, table, span=Span(as_of=end))
    say(
        f"{after.table}{after.view} from {before.instant} ({moment_of(before.instant)}) to {after.instant} ({moment_of(after.instant)})"
    )
    key, counts = key_columns(after), Counter[str]()

    def counted_rows(found: Iterator[RowDifference]) -> Iterator[RowDifference]:
        for item in found:
            counts[item.kind] += 1
            yield item

    with ExitStack() as held:
        with stderr_console().status("Reading the files that differ"):
            found = held.enter_context(differences(before, after))
        if form.json_lines:
            for item in counted_rows(found):
                sys.stdout.write(json.dumps(_document(item, key), ensure_ascii=False) + "\n")
        elif form.csv:
            write_csv(sys.stdout, _HEADER, (line for item in counted_rows(found) for line in _lines(item, key)))
        else:
            print_table(
                _HEADER, ([cell(value) for value in line] for item in counted_rows(found) for line in _lines(item, key))
            )
    say(", ".join(f"{counts[kind]:,} {kind}" for kind in (ADDED, CHANGED, REMOVED)))


def _document(item: Any, key: tuple[str, ...]) -> dict[str, Any]:
    def of(values: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if values is None else {name: values[name] for name in item.columns}

    return {
        "difference": item.kind,
        "key": dict(zip(key, item.key, strict=True)),
        "columns": list(item.columns),
        "before": of(item.before),
        "after": of(item.after),
    }


def _lines(item: Any, key: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """One line for each column that differs; of an added or removed row, for each that holds something."""
    told = item.key[0] if len(item.key) == 1 else json.dumps(dict(zip(key, item.key, strict=True)), ensure_ascii=False)
    for name in item.columns:
        old, new = None if item.before is None else item.before[name], None if item.after is None else item.after[name]
        if item.before is not None and item.after is not None or old is not None or new is not None:
            yield item.kind, told, name, old, new
