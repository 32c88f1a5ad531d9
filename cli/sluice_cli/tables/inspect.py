"""`sluice table list|show|commits|files|stats`: tables, and one table's schema, commits and files."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.errors import SluiceError
from sluice_cli.tables import catalog as catalog_commands
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.known_names import check_partition
from sluice_cli.terminal.options import Json, Stack, TableName, option
from sluice_cli.terminal.output import print_json, print_line, say, stderr_console
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.tables import print_columns, print_table
from sluice_cli.terminal.words import counted, human_bytes

if TYPE_CHECKING:
    from sluice_aws.stack import Target
    from sluice_cli.tables.details import CommitRow, FileSizes
    from sluice_read.listing import TableListing


app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_tables(as_json: Json = False, stack: Stack = None) -> None:
    """List the tables with data, by the ledger: type, record key, committed changes, the newest commit and its time.

    Changes of replayed objects count once.

    Examples:

      sluice table list
      sluice table list --json | jq -r '.tables[].table'
    """
    from sluice.batch.part_counts import changes_of_table
    from sluice.ledger.keys import UNCOUNTED
    from sluice_cli.account.table import not_counted
    from sluice_read.moments import clock

    target = chosen_target(stack)
    ledger = target.ledger
    listed: list[dict[str, Any]] = [
        {
            "table": state.table,
            "type": (state.pinned or {}).get("table_type"),
            "record_key": (state.pinned or {}).get("record_key"),
            "changes": changes_of_table(state.totals),
            "uncounted_commits": max(0, state.totals.get(UNCOUNTED, 0)),
            "newest_commit": state.last_instant,
            "last_commit_at": state.last_instant_at,
        }
        for state in sorted(ledger.tables.all(), key=lambda state: state.table)
        if state.last_instant is not None
    ]
    if as_json:
        print_json({"tables": listed})
        return
    print_columns(
        listed,
        {
            "table": "table",
            "type": "type",
            "record key": "record_key",
            "#changes": "changes",
            "newest commit": "newest_commit",
            "last commit": lambda row: clock(row["last_commit_at"]),
        },
        minor=["newest commit", "record key"],
    )
    for item in listed:
        if item["uncounted_commits"]:
            say(f"{visible(item['table'])}: {not_counted(item['uncounted_commits'])}")


@app.command("show")
def show(table: TableName, as_json: Json = False, stack: Stack = None) -> None:
    """Show a table's key, partitioning, columns and properties, its newest commit, and how far back it can be read.

    It also names the newest commit that the catalog is synced to, and writes that are pending.

    Examples:

      sluice table show moma.artists
      sluice table show moma.artists --json | jq -r '.columns[].name'
    """
    from sluice_cli.tables.details import describe_table, schema_rows
    from sluice_read.moments import moment_of

    target = chosen_target(stack)
    listing = _listing(target, table)
    about = describe_table(listing.folder)
    newest = listing.timeline.newest
    document = {
        **about,
        "columns": schema_rows(listing.commit(newest).schema) if newest is not None else [],
        "newest_commit": newest.time if newest is not None else None,
        "commits": len(listing.timeline.commits),
        "earliest_readable": listing.earliest if newest is not None else None,
        "pending": [
            {"instant": item.time, "action": item.action, "state": item.state} for item in listing.timeline.pending
        ],
        "catalog": _synced(target, listing.table),
    }
    if as_json:
        print_json(document)
        return
    for name in ("table", "type", "location", "record_key", "partition_by"):
        value = document[name]
        print_line(f"{name.replace('_', ' ')}: {', '.join(value) or 'none' if isinstance(value, list) else value}")
    for name in ("newest_commit", "earliest_readable"):
        instant = document[name]
        print_line(f"{name.replace('_', ' ')}: {f'{instant} ({moment_of(instant)})' if instant else 'none'}")
    print_line(f"active commits: {document['commits']}")
    for item in document["pending"]:
        print_line(f"pending: {item['action']} {item['instant']} is {item['state']}")
    for name, synced in (document["catalog"] or {}).items():
        print_line(f"catalog: {name} is {'synced up to ' + synced if synced else 'not synced'}")
    print()
    columns = {"column": "name", "type": "type", "null": "nullable"}
    print_columns(
        document["columns"], {**columns, "comment": lambda item: "hidden" if item["hidden"] else item["comment"]}
    )
    print()
    print_table(("property", "value"), sorted(document["properties"].items()), apart=(1,))


@app.command("commits")
def commits(
    table: TableName,
    limit: Annotated[int, option("--limit -n N", "The newest N instants.", min=1)] = 20,
    everything: Annotated[bool, option("--all", "The whole active timeline.")] = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """List the timeline, newest first: the operation, rows and bytes of each commit.

    Amplification is bytes written for each byte of changed rows. Rows are Hudi's counts: a row that moved to another
    partition is deleted there and inserted here, and a deletion by the source is an update, since the row stays,
    hidden. The active timeline holds the newest 100 to 160 commits; the table can be read as of older ones, too.
    `sluice history --batch` lists the objects of a commit, by its batch or its instant.

    Examples:

      sluice table commits moma.artists
      sluice table commits moma.works --all --json | jq 'map(.rows_written) | add'
    """
    listing = _listing(chosen_target(stack), table)
    rows = _commit_rows(listing, newest=None if everything else limit)
    if as_json:
        print_json([vars(row) for row in rows])
        return
    print_columns(
        rows,
        {
            "instant": "instant",
            "began": "at",
            "action": lambda row: row.operation or f"{row.action} {row.state}".removesuffix(" completed"),
            "#inserted": "inserted",
            "#updated": "updated",
            "#deleted": "deleted",
            "#written": "rows_written",
            "#bytes": lambda row: human_bytes(row.bytes_written),
            "#files": lambda row: str(row.files_written or -row.files_deleted),
            "#amplification": lambda row: "" if row.write_amplification is None else f"{row.write_amplification:g}",
            "batch": lambda row: visible(row.batch or ""),
        },
        shorten=["batch"],
        minor=["amplification", "written", "files", "began"],
    )
    left = len(listing.timeline.instants) - len(rows)
    if left:
        say(f"{counted(left, 'older instant')} in the active timeline: --all shows them")


@app.command("files")
def files(
    table: TableName,
    partition: Annotated[
        str | None, option("--partition PATH", "Only this partition, by the name of its folder: nationality=German.")
    ] = None,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """List the files that a reader opens now, by partition: base files, sizes, and logs pending compaction.

    Examples:

      sluice table files moma.works
      sluice table files moma.works --partition nationality=German
      sluice table files moma.works --json | jq 'map(.log_bytes) | add'
    """
    from sluice_cli.tables.details import file_rows

    listed = file_rows(_listing(chosen_target(stack), table))
    check_partition(partition, (row.partition for row in listed))
    rows = [row for row in listed if partition in (None, row.partition)]
    if as_json:
        print_json([vars(row) for row in rows])
        return
    print_columns(
        rows,
        {
            "partition": lambda row: row.partition or None,
            "file group": "file_id",
            "base file of": lambda row: row.instant or "none yet",
            "#bytes": lambda row: human_bytes(row.bytes),
            "#logs": "logs",
            "#log bytes": lambda row: human_bytes(row.log_bytes),
        },
        shorten=["partition", "file group"],
    )
    say(f"{counted(len(rows), 'file group')}, {sum(1 for row in rows if row.logs):,} with logs")


@app.command("stats")
def stats(table: TableName, as_json: Json = False, stack: Stack = None) -> None:
    """Show file sizes, small files, logs pending compaction, versions kept for time travel, and the cost of commits.

    Examples:

      sluice table stats moma.works
      sluice table stats moma.works --json | jq .write_amplification
    """
    from sluice_cli.tables.details import SMALL_FILE_BYTES, table_stats

    listing = _listing(chosen_target(stack), table)
    sizes = table_stats(listing, _commit_rows(listing))
    if as_json:
        print_json(asdict(sizes))
        return
    print_line(f"partitions: {sizes.partitions:,}")
    print_line(f"base files: {_sizes(sizes.base)}")
    print_line(f"  below {human_bytes(SMALL_FILE_BYTES)}: {sizes.small_files:,}")
    groups = counted(sizes.file_groups_with_logs, "file group")
    print_line(f"logs pending compaction: {_sizes(sizes.pending_logs)}, in {groups}")
    print_line(f"older versions, for time travel: {_sizes(sizes.older_versions)}")
    print_line(
        f"active commits: {sizes.commits:,}, {counted(sizes.rows_changed, 'row')} changed, "
        f"{sizes.rows_written:,} written, {human_bytes(sizes.bytes_written)}"
    )
    if sizes.write_amplification is not None:
        print_line(f"bytes written for each byte changed: {sizes.write_amplification:g}")
    print()
    print_columns(
        [{"operation": name, **counts} for name, counts in sorted(sizes.by_operation.items())],
        {
            "operation": "operation",
            "#commits": "commits",
            "#rows changed": "rows_changed",
            "#rows written": "rows_written",
            "#bytes written": lambda counts: human_bytes(counts["bytes_written"]),
        },
    )


def _listing(target: Target, table: str) -> TableListing:
    from sluice_read.listing import table_listing
    from sluice_read.place import find_table

    folder, _ = find_table(target, table)
    return table_listing(folder)


def _commit_rows(listing: TableListing, newest: int | None = None) -> list[CommitRow]:
    from sluice_cli.tables.details import commit_rows

    with stderr_console().status("Reading commits") as status:
        return commit_rows(listing, newest=newest, tick=lambda done: status.update(f"{counted(done, 'commit')} read"))


def _synced(target: Target, table: str) -> dict[str, str | None] | None:
    """The catalog's syncs of a table; None, after saying why, where they can't be read."""
    try:
        return catalog_commands.last_syncs(target, table)
    except SluiceError as error:
        say(f"The catalog can't be shown: {error}")
        return None


def _sizes(sizes: FileSizes) -> str:
    if not sizes.files:
        return "none"
    least, median, greatest = (human_bytes(size) for size in (sizes.least, sizes.median, sizes.greatest))
    return f"{sizes.files:,} of {human_bytes(sizes.bytes)} (least {least}, median {median}, greatest {greatest})"
