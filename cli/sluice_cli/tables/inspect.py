"""`sluice table show|commits|files|stats`: a table's inside, from its listing and its timeline. (`ddl` is catalog_commands'.)"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluice.errors import SluiceError
from sluice_cli.tables import catalog as catalog_commands
from sluice_cli.terminal.output import (
    Json,
    Stack,
    chosen_target,
    counted,
    human_bytes,
    print_json,
    print_table,
    say,
    stderr_console,
)

if TYPE_CHECKING:
    from sluice_aws.stack import Target
    from sluice_cli.tables.details import FileSizes
    from sluice_read.state import TableState


app = typer.Typer(
    name="table",
    no_args_is_help=True,
    help="Look into a table: schema, commits, files, statistics. Nothing is started, and no row is read.",
    rich_markup_mode="markdown",
)

TableName = Annotated[str, typer.Argument(metavar="TABLE", help="database.table", show_default=False)]


@app.command("show")
def show(table: TableName, as_json: Json = False, stack: Stack = None) -> None:
    """What a table is: its key, partitioning, columns and properties, its newest commit, from when on it can be read as it was, and up to where the catalog is synced.

    Examples:

      sluice table show moma.artists

      sluice table show moma.artists --json | jq -r '.columns[] | select(.hidden | not) | .name'
    """
    from sluice_cli.tables.details import described, schema_rows
    from sluice_read.moments import moment_of

    target = chosen_target(stack)
    state = _state(target, table)
    about = described(state.folder)
    newest = state.timeline.newest
    document = {
        **about,
        "columns": schema_rows(state.commit(newest).schema) if newest is not None else [],
        "newest_commit": newest.time if newest is not None else None,
        "commits": len(state.timeline.commits),
        "earliest_readable": state.earliest if newest is not None else None,
        "pending": [
            {"instant": item.time, "action": item.action, "state": item.state} for item in state.timeline.pending
        ],
        "catalog": _synced(target, state.table),
    }
    if as_json:
        print_json(document)
        return
    for name in ("table", "type", "location", "record_key", "partition_by"):
        print(
            f"{name.replace('_', ' ')}: {', '.join(document[name]) or 'none' if isinstance(document[name], list) else document[name]}"
        )
    for name in ("newest_commit", "earliest_readable"):
        print(
            f"{name.replace('_', ' ')}: {document[name]} ({moment_of(document[name])})"
            if document[name]
            else f"{name.replace('_', ' ')}: none"
        )
    print(f"active commits: {document['commits']}")
    for item in document["pending"]:
        print(f"pending: {item['action']} {item['instant']} is {item['state']}")
    for name, synced in (document["catalog"] or {}).items():
        print(f"catalog: {name} is {'synced up to ' + synced if synced else 'not synced'}")
    print()
    print_table(
        ("column", "type", "null", "comment"),
        [
            (
                item["name"],
                item["type"],
                "yes" if item["nullable"] else "no",
                "hidden" if item["hidden"] else item["comment"],
            )
            for item in document["columns"]
        ],
    )
    print()
    print_table(("property", "value"), sorted(document["properties"].items()))


@app.command("commits")
def commits(
    table: TableName,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="The newest so many instants.")] = 20,
    everything: Annotated[bool, typer.Option("--all", help="The whole active timeline.")] = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """The timeline, the newest first: what each commit did, how many rows and bytes, and how many bytes were written for each one changed.

    Rows are counted by Hudi: one that moved to another partition is deleted there and inserted here, and a deletion by the source is an update, since
    the row stays, hidden. The active timeline holds the newest 100 to 160 commits; the table can be read as of older ones, too.

    Examples:

      sluice table commits moma.artists

      sluice table commits moma.artists --all --json | jq 'map(.bytes_written) | add'
    """
    from sluice_cli.tables.details import commit_rows, document

    state = _state(chosen_target(stack), table)
    with stderr_console().status("Reading commits") as status:
        rows = commit_rows(
            state,
            newest=None if everything else limit,
            tick=lambda done: status.update(f"{counted(done, 'commit')} read"),
        )
    if as_json:
        print_json([document(row) for row in rows])
        return
    print_table(
        ("instant", "at", "action", "inserted", "updated", "deleted", "written", "bytes", "files", "amplification"),
        [
            (
                row.instant,
                row.at,
                row.operation or (row.action if row.state == "completed" else f"{row.action} {row.state}"),
                *_numbers(row.inserted, row.updated, row.deleted, row.rows_written),
                human_bytes(row.bytes_written),
                f"{row.files_written}" if row.files_written or not row.files_deleted else f"-{row.files_deleted}",
                "" if row.write_amplification is None else f"{row.write_amplification:g}",
            )
            for row in rows
        ],
        right=(3, 4, 5, 6, 7, 8, 9),
    )
    left = len(state.timeline.instants) - len(rows)
    if left:
        say(f"{counted(left, 'older instant')} in the active timeline: --all shows them")


@app.command("files")
def files(
    table: TableName,
    partition: Annotated[
        str | None,
        typer.Option(
            "--partition",
            metavar="PATH",
            help="Only this partition, as its folder is called: nationality=German.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """The files that a reader opens now, by partition: base file, size, and the log files that wait for compaction.

    Examples:

      sluice table files moma.works

      sluice table files moma.works --partition nationality=German --json | jq 'map(.log_bytes) | add'
    """
    from sluice_cli.tables.details import document, file_rows

    rows = file_rows(_state(chosen_target(stack), table), partition=partition)
    if as_json:
        print_json([document(row) for row in rows])
        return
    print_table(
        ("partition", "file group", "base file of", "bytes", "logs", "log bytes"),
        [
            (
                row.partition or "-",
                row.file_id,
                row.instant or "none yet",
                human_bytes(row.bytes),
                str(row.logs),
                human_bytes(row.log_bytes),
            )
            for row in rows
        ],
        right=(3, 4, 5),
    )
    say(f"{counted(len(rows), 'file group')}, {sum(1 for row in rows if row.logs):,} with logs")


@app.command("stats")
def stats(table: TableName, as_json: Json = False, stack: Stack = None) -> None:
    """File sizes, small files, logs that wait for compaction, what is kept for time travel, and what the active commits cost.

    Examples:

      sluice table stats moma.works

      sluice table stats moma.works --json | jq .write_amplification
    """
    from sluice_cli.tables.details import SMALL_FILE_BYTES, commit_rows, document, table_stats

    state = _state(chosen_target(stack), table)
    with stderr_console().status("Reading commits") as status:
        found = table_stats(
            state, commit_rows(state, tick=lambda done: status.update(f"{counted(done, 'commit')} read"))
        )
    if as_json:
        print_json(document(found))
        return
    print(f"partitions: {found.partitions:,}")
    print(f"base files: {_sizes(found.base)}")
    print(f"  below {human_bytes(SMALL_FILE_BYTES)}: {found.small_files:,}")
    print(
        f"logs pending compaction: {_sizes(found.pending_logs)}, in {counted(found.file_groups_with_logs, 'file group')}"
    )
    print(f"older versions, for time travel: {_sizes(found.older_versions)}")
    print(
        f"active commits: {found.commits:,}, {found.rows_changed:,} rows changed, {found.rows_written:,} written, {human_bytes(found.bytes_written)}"
    )
    if found.write_amplification is not None:
        print(f"bytes written for each byte changed: {found.write_amplification:g}")
    print()
    print_table(
        ("operation", "commits", "rows changed", "rows written", "bytes written"),
        [
            (
                name,
                *_numbers(summary["commits"], summary["rows_changed"], summary["rows_written"]),
                human_bytes(summary["bytes_written"]),
            )
            for name, summary in sorted(found.by_operation.items())
        ],
        right=(1, 2, 3, 4),
    )


def _state(target: Target, table: str) -> TableState:
    from sluice_read.place import find_table
    from sluice_read.state import table_state

    folder, _ = find_table(target, table)
    return table_state(folder)


def _synced(target: Target, table: str) -> dict[str, str | None] | None:
    """What the catalog has of a table; None, and said why, where that can't be had: the table is shown all the same."""
    try:
        return catalog_commands.last_syncs(target, table)
    except SluiceError as error:
        say(f"The catalog isn't shown: {error}")
        return None


def _numbers(*values: int) -> tuple[str, ...]:
    return tuple(f"{value:,}" for value in values)


def _sizes(found: FileSizes) -> str:
    if not found.files:
        return "none"
    return f"{found.files:,} of {human_bytes(found.bytes)} (least {human_bytes(found.least)}, median {human_bytes(found.median)}, greatest {human_bytes(found.greatest)})"
