"""`sluice ops catalog sync|show` and `sluice table ddl`: the tables' entries in the Glue catalog and other engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import Enum
from typing import Annotated, Any

import typer

from sluice.catalog import ddl as table_ddl
from sluice.catalog.table_change import is_current, synced_until
from sluice.catalog.tables import VIEW, names_of
from sluice.config.pinned_topic import config_in_force
from sluice.config.table import TableConfig
from sluice.errors import FAILED, NotConfigured, PartitionKeysDiffer, SluiceError
from sluice_aws.catalog.glue import AT_ONCE, GlueCatalog
from sluice_aws.catalog.sync import CatalogSync
from sluice_aws.s3.schemas import CommentStore
from sluice_aws.s3.timelines import TimelineReader
from sluice_aws.stack import Target
from sluice_cli.config.risks import drop_command
from sluice_cli.errors import NotInCatalog
from sluice_cli.terminal.known_names import check_table, known_table
from sluice_cli.terminal.options import DryRun, Json, Stack, TableName, argument, option
from sluice_cli.terminal.output import print_json, say, say_error, stderr_console
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.tables import print_columns, print_table
from sluice_cli.terminal.words import counted

app = typer.Typer(no_args_is_help=True)


class Engine(str, Enum):
    """The engines with statements of their own."""

    spark = table_ddl.SPARK
    redshift = table_ddl.REDSHIFT
    athena = table_ddl.ATHENA


@app.command("sync")
def sync(
    tables: Annotated[
        list[str] | None, argument("[TABLE...]", "database.table. Default: every table with data.")
    ] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Sync the catalog with the tables' newest commits: databases, tables, columns, partitions, views.

    The stack does this itself after commits; an extra sync does no harm. Your own properties, comments,
    descriptions, columns and permissions stay. A table that can't be synced keeps no other from it; the exit code is
    then 1.

    Examples:

      sluice ops catalog sync --dry-run
      sluice ops catalog sync moma.artists
    """
    target = chosen_target(stack)
    catalog, ledger, configuration = _catalog(target), target.ledger, target.configuration()
    states = ledger.tables.get_many(tables) if tables else {state.table: state for state in ledger.tables.all()}
    for table in tables or ():
        if not states[table].pinned:
            check_table(target, table)
    listed = tables or [state.table for state in states.values() if state.pinned]

    def one(table: str) -> list[dict[str, Any]] | SluiceError:
        try:
            config = config_in_force(configuration, table, states[table].pinned)
            both = (config, config.history_table) if config.history else (config,)
            plans = [(catalog.plan(entry) if dry_run else catalog.sync(entry)).to_dict() for entry in both]
            if not dry_run and (failure := states[table].catalog_failed):
                ledger.tables.clear_catalog_failure(table, failure)
            return plans
        except PartitionKeysDiffer as error:
            drop = drop_command(target, names_of(config).database, error.facts["name"])
            again = f"`{drop}`, then {Step('catalog sync', table)}"
            error.next_step = f"Glue can't change them. Drop the table in the catalog, its data stays: {again}"
            return error
        except SluiceError as error:
            return error

    done: list[dict[str, Any]] = []
    failed: list[tuple[str, SluiceError]] = []
    with (
        stderr_console().status("Reading the catalog") as status,
        ThreadPoolExecutor(AT_ONCE, thread_name_prefix="catalog") as pool,
    ):
        for number, (table, outcome) in enumerate(zip(listed, pool.map(one, listed), strict=True), 1):
            status.update(f"{table} ({number} of {len(listed)})")
            if isinstance(outcome, SluiceError):
                failed.append((table, outcome))
            else:
                done += outcome
    if as_json:
        described = [{"table": table, "code": error.code, "message": str(error)} for table, error in failed]
        print_json({"dry_run": dry_run, "tables": done, "failed": described})
    else:
        _print_done(done)
        changed = sum(report["changed"] for report in done)
        verb = "would change" if dry_run else "changed"
        say(f"{counted(changed, 'table')} {verb}, {len(done) - changed:,} up to date")
        for table, error in failed:
            say_error(f"{table}: {error.message}", error.next_step)
    if failed:
        raise typer.Exit(FAILED)


@app.command("show")
def show(table: TableName, as_json: Json = False, stack: Stack = None) -> None:
    """Show a table's entries in the catalog: tables and views, their columns, and the commit they are synced to.

    Examples:

      sluice ops catalog show moma.artists
      sluice ops catalog show moma.artists --json | jq '.entries[] | .parameters'
    """
    target = chosen_target(stack)
    with known_table(target, table):
        config = _config(target, table)
    entries_found = _catalog(target).found(config) or {}
    names = names_of(config)
    entries = [_entry(name, entries_found.get(name), config) for name in names.all]
    if as_json:
        print_json({"table": table, "database": names.database, "in_catalog": config.catalog.sync, "entries": entries})
        return
    if not config.catalog.sync:
        say(f"{table} is kept out of the catalog (`catalog: off`)")
    print_columns(
        entries,
        {
            "name": lambda entry: f"{names.database}.{entry['name']}",
            "is": "is",
            "synced up to": "synced",
            "#columns": lambda entry: len(entry["columns"]),
            "partitioned by": "partition_keys",
            "as the sync left it": "untouched",
        },
    )
    for entry in entries:
        if entry["columns"]:
            print()
            print_table(
                (entry["name"], "type", "comment"),
                [(column["name"], column["type"], column["comment"]) for column in entry["columns"]],
            )


def last_syncs(target: Target, table: str) -> dict[str, str | None]:
    """The commit that each of a table's catalog tables is synced to, by its name there; None: not synced.

    Raises a SluiceError where the table isn't configured or the catalog refuses.
    """
    config = _config(target, table)
    entries_found = _catalog(target).found(config) or {}
    names = names_of(config)
    return (
        {f"{names.database}.{entry.table}": synced_until(entries_found.get(entry.table)) for entry in names.entries}
        if config.catalog.sync
        else {}
    )


def ddl(
    table: TableName,
    engine: Annotated[Engine, option("--engine", "The engine that runs the statements.")],
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Print the statements that declare a table and its view to an engine, by the table's present schema.

    Athena and Trino need none where the catalog is synced. Spark and Redshift can't read the catalog's views and get
    views of their own.

    Examples:

      sluice table ddl moma.artists --engine spark
      sluice table ddl moma.artists --engine redshift > artists.sql
    """
    target = chosen_target(stack)
    with known_table(target, table):
        wish = _catalog(target).wish(_config(target, table))
    if wish is None:
        raise NotInCatalog(f"{table} has no commit yet", table=table)
    made = table_ddl.statements(wish, engine.value, region=target.region)
    if as_json:
        print_json({"table": table, "engine": engine.value, "statements": list(made)})
        return
    print("\n\n".join(f"{statement};" for statement in made))


def _catalog(target: Target) -> CatalogSync:
    return CatalogSync(
        catalog=GlueCatalog(target.client("glue")),
        timelines=TimelineReader(target.silver_files),
        comments=CommentStore(target.client("s3"), target.silver),
        silver_bucket=target.silver,
    )


def _config(target: Target, table: str) -> TableConfig:
    """The configuration of a table, or of another table's history table. Raises NotConfigured."""
    configuration, tables = target.configuration(), target.ledger.tables
    try:
        return config_in_force(configuration, table, tables.get(table).pinned)
    except NotConfigured:
        for state in tables.all():
            with suppress(NotConfigured):
                config = config_in_force(configuration, state.table, state.pinned)
                if config.history and config.history_table.table == table:
                    return config.history_table
        raise


def _print_done(done: Sequence[Mapping[str, Any]]) -> None:
    rows = []
    for report in done:
        where = report["database"]
        if report["creates_database"] and (where, "create", "database") not in rows:
            rows.append((where, "create", "database"))
        for entry in (*report["tables"], *report["views"]):
            if entry["does"] != "nothing":
                rows.append((f"{where}.{entry['name']}", entry["does"], "; ".join(entry["changes"])))
            partitions = entry.get("partitions", {})
            counts = [
                f"{partitions[what]:,} {what}" for what in ("added", "dropped", "corrected") if partitions.get(what)
            ]
            if counts:
                rows.append((f"{where}.{entry['name']}", "partitions", ", ".join(counts)))
    if rows:
        print_table(("in the catalog", "does", "what"), rows)


def _entry(name: str, entry: Mapping[str, Any] | None, config: TableConfig) -> dict[str, Any]:
    held = entry or {}
    columns = (held.get("StorageDescriptor") or {}).get("Columns") or []
    return {
        "name": name,
        "is": "not there" if entry is None else "view" if entry.get("TableType") == VIEW else "table",
        "synced": synced_until(entry),
        "untouched": entry is not None and is_current(entry, config, None),
        "partition_keys": [column["Name"] for column in held.get("PartitionKeys") or ()],
        "columns": [
            {"name": column["Name"], "type": column.get("Type", ""), "comment": column.get("Comment", "")}
            for column in columns
        ],
        "parameters": dict(held.get("Parameters") or {}),
    }
