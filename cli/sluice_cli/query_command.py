"""`sluice query`: one SELECT over silver, as a table, as JSON lines or as CSV."""
from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from sluice_cli.failures import UsageError
from sluice_cli.output import Stack, chosen_target, print_table, say

TERMINAL_ROWS = 1000  # a table in a terminal is for eyes; --json and --csv print everything
_BATCH_ROWS = 10_000
_LONG_INTEGERS = frozenset({"HUGEINT", "UHUGEINT"})


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT (WITH, FROM, DESCRIBE, SUMMARIZE); `-` reads it from stdin.")],
    json_lines: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV with a header; NULL is empty.")] = False,
    with_deleted: Annotated[bool, typer.Option("--with-deleted", help="Also rows that the source deleted, with the column `__deleted`.")] = False,
    lineage: Annotated[bool, typer.Option("--lineage", help="Also where each row came from: the `_sluice_*` and `_hoodie_*` columns.")] = False,
    stack: Stack = None,
) -> None:
    """Ask the silver tables, in DuckDB's SQL. No Spark is started.

    Tables are named database.table. A merge-on-read table is the merged state under its plain name and
    as `table_rt`, and its base files alone as `table_ro`. Reserved words are quoted.

    In JSON, dates and timestamps are ISO 8601, decimals are strings and bytes are base64.

    Examples:

      sluice query 'select count(*) from tickit.sales'

      sluice query --json 'select * from crm."user" where id = 7'

      sluice query --with-deleted --lineage 'from tickit.users' --csv > users.csv
    """
    # hudi-rs, DuckDB and Arrow take as long to load as all the rest, and no other verb needs them.
    from sluice_cli.sql import run_query
    from sluice_cli.values import column_names

    if json_lines and as_csv:
        raise UsageError("--json and --csv exclude each other", next_step="Give one of them")
    statement = sys.stdin.read() if sql == "-" else sql
    target = chosen_target(stack)
    with run_query(target, statement, with_deleted=with_deleted, lineage=lineage) as relation:
        names = column_names(relation.columns)
        long_integers = frozenset(number for number, kind in enumerate(relation.types) if str(kind) in _LONG_INTEGERS)
        rows = _rows(relation.to_arrow_reader(_BATCH_ROWS), long_integers)
        if json_lines:
            for row in rows:
                sys.stdout.write(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n")
        elif as_csv:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(names)
            writer.writerows([_csv_cell(value) for value in row] for row in rows)
        else:
            _print_rows(names, rows)


def _rows(reader: Any, long_integers: frozenset[int]) -> Iterator[tuple[Any, ...]]:
    from sluice_cli.values import rows_of

    for batch in reader:
        yield from rows_of(batch, whole_numbers=long_integers)


def _print_rows(names: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> None:
    limit = TERMINAL_ROWS if sys.stdout.isatty() else None
    shown = [tuple(_cell(value) for value in row) for row in islice(rows, limit)]
    print_table(names, shown)
    if limit is not None and next(rows, None) is not None:
        say(f"Only the first {limit:,} rows are shown. --json or --csv prints all of them")


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _csv_cell(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return value
    return json.dumps(value, ensure_ascii=False)
