"""`sluice query|diff`: the rows of silver tables, by SQL, of one table, or between two moments of it."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

from sluice.errors import UsageError
from sluice_aws.clock import epoch_ms
from sluice_cli.tables.prompt import prompt
from sluice_cli.terminal.guard import is_text
from sluice_cli.terminal.options import Stack, argument, option
from sluice_cli.terminal.output import json_text, say, stderr_console
from sluice_cli.terminal.rows import (
    Csv,
    Form,
    JsonLines,
    Lineage,
    Parquet,
    Spreadsheet,
    WithDeleted,
    cell,
    write_csv,
    write_rows,
)
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.tables import print_table
from sluice_cli.terminal.words import counted
from sluice_local.cache import cache_directory
from sluice_read.moments import Span, instant_at, moment_of, span_of

if TYPE_CHECKING:
    from sluice_aws.stack import Target
    from sluice_read.reading import Shown

_BATCH_ROWS = 10_000
_TABLE = re.compile(r"[\w-]*\w[\w.-]*")
_LONG_INTEGERS = frozenset({"HUGEINT", "UHUGEINT"})

AsOf = Annotated[
    str | None, option("--as-of MOMENT", "The table as it was: an instant, a time with its zone, or 15m, 2h or 7d ago.")
]
Since = Annotated[
    str | None, option("--since MOMENT", "Only rows that changed after this moment, each as its last change left it.")
]
Until = Annotated[str | None, option("--until MOMENT", "Only changes until this moment; with --since or alone.")]


def query(
    sql: Annotated[
        str | None,
        argument(
            "[TABLE|SQL]",
            "database.table (of a merge-on-read table also database.table_ro or _rt), or one SELECT "
            "(WITH, FROM, DESCRIBE, SUMMARIZE); `-` reads it from stdin. Without it, in a terminal, a prompt opens.",
        ),
    ] = None,
    as_of: AsOf = None,
    since: Since = None,
    until: Until = None,
    columns: Annotated[
        list[str] | None,
        option("--column -c NAME", "Of a TABLE: only this column. Repeat it for more, in the order of the output."),
    ] = None,
    limit: Annotated[int | None, option("--limit -n N", "Of a TABLE: at most N rows.", min=1)] = None,
    json_lines: JsonLines = False,
    as_csv: Csv = False,
    spreadsheet: Spreadsheet = False,
    parquet: Parquet = None,
    with_deleted: WithDeleted = False,
    lineage: Lineage = False,
    files: Annotated[
        bool, option("--files", "Let the statement also read files of this machine, as with read_csv('x.csv').")
    ] = False,
    stack: Stack = None,
) -> None:
    """Query the silver tables in DuckDB's SQL, or print a whole table, without Spark.

    A TABLE is read batch by batch: its rows come in no order, and --limit ends after any N of them. A statement loads
    the columns that it names. For a merge-on-read table, the plain name and `table_rt` are the merged state, and
    `table_ro` its base files alone. Quote reserved words in statements.

    --as-of reads every table as it was then: as far back as `time_travel` keeps its files, and with `history: true` as
    the source had it before. --since or --until read only rows that changed in between, each as its last change left
    it, deleted ones included, with the column `__deleted`. A moment is an instant (`sluice table commits`), a time with
    its zone, or a duration ago: 15m, 2h, 7d. The columns are those of the newest commit.

    A statement reads silver tables and nothing else, unless --files lets it read files of this machine. Without one, a
    prompt opens in a terminal, with history and completion.

    In JSON, dates and timestamps are ISO 8601, decimals are strings and bytes are base64.

    Examples:

      sluice query tickit.sales --limit 20
      sluice query moma.artists --as-of 2026-05-01T10:15:00Z --parquet old.parquet
      sluice query moma.works_ro -c id -c name --csv > works.csv
      sluice query moma.artists --since 20260501101500123 --json | jq .id
      sluice query 'select count(*) from tickit.sales'
      sluice query --json 'select * from crm."user" where id = 7'
      sluice query --as-of 1d 'select count(*) from moma.artists'
      sluice query --since 2h 'select count(*) from moma.works where __deleted'
      sluice query --with-deleted --lineage 'from tickit.users' --csv > users.csv
    """
    # hudi-rs, DuckDB and Arrow take as long to load as all the rest, and few other verbs need them.
    from sluice_read.place import tables_in
    from sluice_read.reading import Shown
    from sluice_read.sql import interruptible, run_query

    form = Form(json_lines=json_lines, csv=as_csv, parquet=parquet, spreadsheet=spreadsheet)
    span = span_of(as_of=as_of, since=since, until=until, now=epoch_ms())
    if sql is not None and _TABLE.fullmatch(sql):
        shown = Shown(with_deleted=with_deleted, lineage=lineage, columns=tuple(columns) if columns else None)
        _print_rows(chosen_target(stack), sql, span, shown, limit, form)
        return
    if columns or limit is not None:
        raise UsageError("--column and --limit need a table", next_step="Name columns and LIMIT in the statement")
    if sql is None and not sys.stdin.isatty():
        raise UsageError("No statement was given", next_step="Give one, or `-` to read it from stdin")
    target = chosen_target(stack)

    def run(statement: str) -> None:
        notes: list[str] = []
        with ExitStack() as held:
            with stderr_console().status("Reading the tables that the statement names"):
                opened = run_query(
                    target,
                    statement,
                    with_deleted=with_deleted,
                    lineage=lineage,
                    span=span,
                    files=files,
                    note=notes.append,
                )
                connection, relation = held.enter_context(opened)
            for sentence in notes:
                say(sentence)
            long = frozenset(number for number, kind in enumerate(relation.types) if str(kind) in _LONG_INTEGERS)
            with stderr_console().status("Running the statement"):
                reader = interruptible(connection, lambda: relation.to_arrow_reader(_BATCH_ROWS))
            count = write_rows(reader, form, whole_numbers=long)
            if form.parquet is not None:
                say(f"{counted(count, 'row')} written to {form.parquet}")
            elif not count and sys.stdout.isatty():
                say(counted(count, "row"))  # else its headings alone look like a result that is cut

    if sql is None:
        prompt(run, lambda: tables_in(target), cache_directory(os.environ) / "query-history")
    else:
        run(_of_stdin() if sql == "-" else sql)


def _of_stdin() -> str:
    """The statement that stdin holds. Raises UsageError where it is no text."""
    try:
        statement = sys.stdin.read()
    except UnicodeDecodeError:
        statement = None
    if statement is None or not is_text(statement):
        raise UsageError("The statement is not UTF-8", next_step="Save it in UTF-8")
    return statement


def _print_rows(target: Target, table: str, span: Span, shown: Shown, limit: int | None, form: Form) -> None:
    """Print or save the rows of one table, holding one batch of them in memory."""
    from sluice_read.past_states import PastStates, open_as_of
    from sluice_read.reading import first_rows
    from sluice_read.sql import past_rows, rows_reader

    opened = open_as_of(target, table, span=span, states=not (shown.with_deleted or shown.lineage))
    with ExitStack() as held:
        if isinstance(opened, PastStates):
            say(opened.note)
            count = write_rows(first_rows(held.enter_context(past_rows(opened, shown)), limit), form)
        else:
            say(
                f"{opened.table}{opened.view} as of {opened.instant} ({moment_of(opened.instant)})"
                + ("" if span.since is None else f", changed after {span.since} ({moment_of(span.since)})")
            )
            count = write_rows(first_rows(rows_reader(opened, shown), limit), form)
    say(counted(count, "row") if form.parquet is None else f"{counted(count, 'row')} written to {form.parquet}")
    if count == limit:
        say("There may be more rows: --limit shows more")


_HEADER = ("difference", "key", "column", "before", "after")


def diff(
    table: Annotated[str, argument("TABLE", "database.table; for a merge-on-read table also database.table_ro.")],
    first: Annotated[
        str, option("--from MOMENT", "The earlier moment: an instant, a time with its zone, or 15m, 2h or 7d ago.")
    ],
    last: Annotated[str | None, option("--to MOMENT", "The later moment. Default: the newest commit.")] = None,
    json_lines: JsonLines = False,
    as_csv: Csv = False,
    spreadsheet: Spreadsheet = False,
    stack: Stack = None,
) -> None:
    """Show which rows were added, changed or removed between two moments, and in which columns.

    A row that the source deleted is removed; a row that moved to another partition is changed. The columns are those of
    the newest commit: a column added in between is null before. Only files that differ are read. Differences come in no
    order, and are counted at the end.

    Each line of JSON has `difference`, `key`, `columns` (those that differ; all of an added or removed row), `before`
    and `after`.

    Examples:

      sluice diff moma.artists --from 20260501101500123 --to 20260501101700456
      sluice diff moma.artists --from 2h
      sluice diff moma.works --from 1d --json | jq -r .difference | sort | uniq -c
    """
    from sluice_read.diff import ADDED, CHANGED, REMOVED, RowDifference, differences, key_columns, refuse_wrong_order
    from sluice_read.past_states import PastStates, newest_of, open_as_of

    form = Form(json_lines=json_lines, csv=as_csv, spreadsheet=spreadsheet)
    now = epoch_ms()
    start, end = instant_at(first, now), None if last is None else instant_at(last, now)
    refuse_wrong_order(start, end)  # before either is looked for: one that can't be read would be blamed for it
    target = chosen_target(stack)
    before, after = (open_as_of(target, table, span=Span(as_of=moment)) for moment in (start, end))
    earlier, later = (f"{item.instant} ({moment_of(item.instant)})" for item in (before, after))
    newest = newest_of(after)
    say(f"{newest.table}{newest.view} from {earlier} to {later}")
    for opened in (before, after):
        if isinstance(opened, PastStates):
            say(opened.note)
    key, counts = key_columns(newest), Counter[str]()

    def counted_rows(rows: Iterator[RowDifference]) -> Iterator[RowDifference]:
        for item in rows:
            counts[item.kind] += 1
            yield item

    with ExitStack() as held:
        with stderr_console().status("Reading the files that differ"):
            compared = held.enter_context(differences(before, after))
        if form.json_lines:
            for item in counted_rows(compared):
                sys.stdout.write(json_text(_document(item, key)) + "\n")
        elif form.csv or form.spreadsheet:
            lines = (line for item in counted_rows(compared) for line in _lines(item, key))
            write_csv(_HEADER, lines, spreadsheet=form.spreadsheet)
        else:
            print_table(
                _HEADER,
                ([cell(value) for value in line] for item in counted_rows(compared) for line in _lines(item, key)),
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
    """One line per column that differs; of an added or removed row, per column that isn't null."""
    shown = item.key[0] if len(item.key) == 1 else json.dumps(dict(zip(key, item.key, strict=True)), ensure_ascii=False)
    for name in item.columns:
        old, new = None if item.before is None else item.before[name], None if item.after is None else item.after[name]
        if item.before is not None and item.after is not None or old is not None or new is not None:
            yield item.kind, shown, name, old, new
