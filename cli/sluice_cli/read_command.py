"""`sluice read`: one table's rows, streamed: now, as of a moment, or what changed between two."""

from __future__ import annotations

from typing import Annotated

import typer

from sluice_aws.clock import epoch_ms
from sluice_cli.moments import AsOf, Since, Until, moment_of, span_of
from sluice_cli.output import Stack, chosen_target, counted, say
from sluice_cli.row_output import Csv, Form, JsonLines, Lineage, Parquet, WithDeleted, write_rows


def read(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="database.table; of a merge-on-read table also database.table_ro and database.table_rt.",
            show_default=False,
        ),
    ],
    as_of: AsOf = None,
    since: Since = None,
    until: Until = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            "-c",
            metavar="NAME",
            help="Only this column; repeat for more, in the order wanted.",
            show_default=False,
        ),
    ] = None,
    json_lines: JsonLines = False,
    as_csv: Csv = False,
    parquet: Parquet = None,
    with_deleted: WithDeleted = False,
    lineage: Lineage = False,
    stack: Stack = None,
) -> None:
    """Print or save a table's rows. No Spark is started, and a batch of rows at a time is held in memory.

    --as-of is the table as it was, as long as `time_travel` keeps its files; an earlier moment is refused with the earliest
    that can be had. --since and --until are changes: every row whose last change until then is after --since, once, as it was
    left by it; deleted ones are there with `__deleted` true. --until alone is every row that was ever written until then.

    A moment is an instant, as `sluice table commits` lists them, a time with its zone, or so long ago: 15min, 2h, 7d. Rows come in no
    order. Columns are those of the newest commit, whatever the moment.

    Examples:

      sluice read moma.artists --as-of 2026-05-01T10:15:00Z

      sluice read moma.artists --since 20260501101500123 --json | jq .id

      sluice read tickit.sales --since 2h --csv

      sluice read moma.works_ro -c id -c name --csv > works.csv

      sluice read tickit.sales --as-of '2026-05-01 12:15:00+02:00' --parquet sales.parquet
    """
    from sluice_cli.reading import Shown, open_table

    form, span = (
        Form(json_lines=json_lines, csv=as_csv, parquet=parquet),
        span_of(as_of=as_of, since=since, until=until, now=epoch_ms()),
    )
    opened = open_table(chosen_target(stack), table, span=span)
    say(
        f"{opened.table}{opened.view} as of {opened.instant} ({moment_of(opened.instant)})"
        + ("" if span.since is None else f", changed after {span.since} ({moment_of(span.since)})")
    )
    shown = Shown(with_deleted=with_deleted, lineage=lineage, columns=tuple(columns) if columns else None)
    count = write_rows(opened.reader(shown), form)
    say(counted(count, "row") if form.parquet is None else f"{counted(count, 'row')} written to {form.parquet}")
