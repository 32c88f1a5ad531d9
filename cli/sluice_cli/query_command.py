"""`sluice query`: one SELECT over silver, as a table, JSON lines, CSV or a Parquet file."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Annotated

import typer

from sluice_aws.clock import epoch_ms
from sluice_cli.moments import AsOf, Since, Until, span_of
from sluice_cli.output import Stack, chosen_target, stderr_console
from sluice_cli.row_output import Csv, Form, JsonLines, Lineage, Parquet, WithDeleted, write_rows

_BATCH_ROWS = 10_000
_LONG_INTEGERS = frozenset({"HUGEINT", "UHUGEINT"})


def query(
    sql: Annotated[
        str,
        typer.Argument(metavar="SQL", help="One SELECT (WITH, FROM, DESCRIBE, SUMMARIZE); `-` reads it from stdin."),
    ],
    as_of: AsOf = None,
    since: Since = None,
    until: Until = None,
    json_lines: JsonLines = False,
    as_csv: Csv = False,
    parquet: Parquet = None,
    with_deleted: WithDeleted = False,
    lineage: Lineage = False,
    stack: Stack = None,
) -> None:
    """Ask the silver tables, in DuckDB's SQL. No Spark is started.

    Tables are named database.table. A merge-on-read table is the merged state under its plain name and
    as `table_rt`, and its base files alone as `table_ro`. Reserved words are quoted.

    With --as-of every table is seen as it was then; with --since or --until only rows that changed in between, each as it
    was last, deleted ones included, with the column `__deleted`. A moment is an instant (`sluice table commits`), a time with its
    zone, or so long ago: 15min, 2h, 7d.

    In JSON, dates and timestamps are ISO 8601, decimals are strings and bytes are base64.

    Examples:

      sluice query 'select count(*) from tickit.sales'

      sluice query --json 'select * from crm."user" where id = 7'

      sluice query --as-of 2026-05-01T10:15:00Z 'select * from moma.artists where id = 299'

      sluice query --as-of 1d 'select count(*) from moma.artists'

      sluice query --since 20260501101500123 'select op, count(*) from (select __deleted as op from moma.works) group by op'

      sluice query --with-deleted --lineage 'from tickit.users' --csv > users.csv
    """
    # hudi-rs, DuckDB and Arrow take as long to load as all the rest, and few other verbs need them.
    from sluice_cli.sql import run_query

    form, span = (
        Form(json_lines=json_lines, csv=as_csv, parquet=parquet),
        span_of(as_of=as_of, since=since, until=until, now=epoch_ms()),
    )
    statement = sys.stdin.read() if sql == "-" else sql
    target = chosen_target(stack)
    with ExitStack() as held:
        with stderr_console().status("Reading the tables that the statement names"):
            relation = held.enter_context(
                run_query(target, statement, with_deleted=with_deleted, lineage=lineage, span=span)
            )
        long_integers = frozenset(number for number, kind in enumerate(relation.types) if str(kind) in _LONG_INTEGERS)
        write_rows(relation.to_arrow_reader(_BATCH_ROWS), form, whole_numbers=long_integers)
