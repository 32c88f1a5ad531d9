"""`sluice table schema list|history|diff|verdict`: the writer schemas of a table, and the verdict on a new one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sluice.changes.hidden_columns import NAMES
from sluice.errors import CommandFailed, Incompatible, UsageError
from sluice.schema.avro import read_writer_schema
from sluice.schema.evolution import INCOMPATIBLE, ColumnChange, compare, evolve_table, refused
from sluice.schema.history import SeenSchema, seen
from sluice.schema.table_row import row_with_types
from sluice_aws.clock import epoch_ms
from sluice_aws.s3.schemas import SchemaHistory, SchemaStore
from sluice_aws.stack import Target
from sluice_cli.errors import UnknownSchema, plain_reason
from sluice_cli.terminal.known_names import check_table, configured_table, known_table
from sluice_cli.terminal.options import Json, Stack, TableName, argument
from sluice_cli.terminal.output import described_documents, print_json, print_line, say, say_skipped
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.tables import print_columns
from sluice_cli.terminal.words import counted, human_age

SHORT = 12  # digits shown of a fingerprint
STORED = "stored"  # in place of a fingerprint: the table's own columns

app = typer.Typer(
    no_args_is_help=True,
    help="The writer schemas of a table: their history, their differences, and the verdict on a new one.",
)


@app.command("list")
def list_tables(as_json: Json = False, stack: Stack = None) -> None:
    """List the tables with their numbers of columns and schemas, and the last verdict.

    Example:

      sluice table schema list
    """
    target = chosen_target(stack)
    history = target.schema_history
    tables: list[dict[str, Any]] = []
    for table in history.tables():
        schemas, stored = history.schemas(table), history.columns(table)
        tables.append(
            {
                "table": table,
                "columns": 0 if stored is None else len(_data(stored.columns)),
                "schemas": len(schemas),
                "incompatible": sum(schema.verdict == INCOMPATIBLE for schema in schemas),
                "last_verdict": schemas[-1].verdict if schemas else None,
            }
        )
    say_skipped(history.skipped)
    if as_json:
        print_json({"tables": tables, "skipped_documents": described_documents(history.skipped)})
        return
    print_columns(
        tables,
        {
            "table": "table",
            **{f"#{name}": name for name in ("columns", "schemas", "incompatible")},
            "last verdict": "last_verdict",
        },
    )
    if not tables:
        say("No schema is known yet: a run stores those of the objects that it merges")


@app.command("history")
def history(table: TableName, as_json: Json = False, stack: Stack = None) -> None:
    """List every writer schema of a table, oldest first, each with its verdict and its changes.

    A verdict is new_table, same, dropped, narrower, added, promoted, rewritten or incompatible: the strongest of the
    columns'. It judges the table as it was when the schema first came, with the schemas before it. Schemas of one batch
    follow their objects: by offset within a Kafka partition, otherwise as the objects were admitted. Times in --json
    are epoch milliseconds.

    Examples:

      sluice table schema history shop.orders
      sluice table schema history shop.orders --json | jq '.schemas[-1].verdict'
    """
    target = chosen_target(stack)
    store = target.schema_history
    schemas, stored = store.schemas(table), store.columns(table)
    say_skipped(store.skipped)
    if not schemas and stored is None:
        check_table(target, table)
        raise UnknownSchema(f"No schema of {table} is known", table=table, name=table)
    columns = {} if stored is None else _data(stored.columns)
    if as_json:
        print_json(
            {
                "table": table,
                "columns": columns,
                "schemas": [_describe(schema) for schema in schemas],
                "skipped_documents": described_documents(store.skipped),
            }
        )
        return
    now = epoch_ms()
    print_columns(
        schemas,
        {
            "schema": lambda schema: schema.fingerprint[:SHORT],
            "first seen": lambda schema: f"{human_age(now - schema.judged[0].at)} ago",
            "#columns": lambda schema: len(schema.columns),
            "verdict": lambda schema: " then ".join(judged.verdict for judged in schema.judged),
            "changes": lambda schema: (
                "; ".join(item["described"] for judged in schema.judged for item in judged.changes) or None
            ),
        },
    )


@app.command("diff")
def diff(
    table: TableName,
    old: Annotated[str | None, argument("[OLD]", "The beginning of a schema's fingerprint, or `stored`.")] = None,
    new: Annotated[str | None, argument("[NEW]", "The other schema.")] = None,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Show how two schemas of a table differ, column by column.

    By default the table's own columns are compared with the newest schema.

    Examples:

      sluice table schema diff shop.orders
      sluice table schema diff shop.orders 5f1c 9ab0
    """
    target = chosen_target(stack)
    store = target.schema_history
    schemas = store.schemas(table)
    say_skipped(store.skipped)
    with known_table(target, table):
        if new is None and not schemas:
            raise UnknownSchema(f"No schema of {table} is known", table=table, name=table)
        first, second = old or STORED, new or schemas[-1].fingerprint
        changes = compare(_types(store, table, schemas, first), _types(store, table, schemas, second))
    if as_json:
        print_json({"table": table, "old": first, "new": second, "changes": list(map(vars, changes))})
        return
    _print_changes(changes, f" between {_named(first)} and {_named(second)}")


@app.command("verdict")
def verdict(
    table: TableName,
    schema: Annotated[
        str, argument("SCHEMA", "A file with an Avro schema (.avsc), or the fingerprint of a known schema.")
    ],
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Show what a writer schema would change in a table now. The exit code is 1 if it would be refused.

    The rule in force decides with it: the table's key, partition columns and raw columns.

    Examples:

      sluice table schema verdict shop.orders orders-v7.avsc
      sluice table schema verdict shop.orders 5f1c --json
    """
    target = chosen_target(stack)
    store = target.schema_history
    config, _ = configured_table(target, table)
    writer = read_writer_schema(_document(target, store, table, schema), config.form)
    stored = store.columns(table)
    row = row_with_types(writer, config, {} if stored is None else stored.columns)
    try:
        evolution = evolve_table(
            None if stored is None else stored.columns,
            row,
            config,
            untyped=writer.untyped,
            of_changes=writer.of_changes,
        )
    except Incompatible as error:
        evolution = refused(error)
    if as_json:
        print_json(
            {
                "table": table,
                **_describe(seen(table, writer.fingerprint, row, evolution, at=epoch_ms())),
                "shape": writer.shape,
            }
        )
    else:
        print_line(
            f"{evolution.verdict}: {writer.fingerprint[:SHORT]}, {counted(len(row.columns), 'column')}, {writer.shape}"
        )
        _print_changes(evolution.changes)
    if evolution.verdict == INCOMPATIBLE:
        raise typer.Exit(1)


def _describe(schema: SeenSchema) -> dict[str, Any]:
    return {
        "fingerprint": schema.fingerprint,
        "verdict": schema.verdict,
        "first_seen_at": schema.judged[0].at,
        "columns": [vars(column) for column in schema.columns],
        "judged": [
            {"at": judged.at, "batch": judged.batch or None, "verdict": judged.verdict, "changes": list(judged.changes)}
            for judged in schema.judged
        ],
    }


def _print_changes(changes: Sequence[ColumnChange], between: str = "") -> None:
    if not changes:
        print_line(f"no column differs{between}")
        return
    types = {"old": lambda one: one.old or None, "new": lambda one: one.new or None}
    print_columns(changes, {"column": "column", "change": "change", **types, "effect": "described"})


def _named(name: str) -> str:
    return "the table's own columns" if name == STORED else f"the schema {name[:SHORT]}"


def _types(store: SchemaHistory, table: str, schemas: Sequence[SeenSchema], name: str) -> Mapping[str, str]:
    if name != STORED:
        return _one(schemas, table, name).types
    stored = store.columns(table)
    if stored is None:
        raise UnknownSchema(f"{table} has no commit yet", table=table, name=name)
    return _data(stored.columns)


def _one(schemas: Sequence[SeenSchema], table: str, name: str) -> SeenSchema:
    matching = [schema for schema in schemas if schema.fingerprint.startswith(name)]
    if len(matching) != 1:
        raise UnknownSchema(f"{len(matching) or 'No'} schemas of {table} begin with {name!r}", table=table, name=name)
    return matching[0]


def _data(columns: Mapping[str, str]) -> dict[str, str]:
    return {name: kind for name, kind in columns.items() if name not in NAMES}


def _document(target: Target, store: SchemaHistory, table: str, name: str) -> Any:
    """The Avro schema in a file, or of a fingerprint."""
    if Path(name).is_file():
        try:
            return json.loads(Path(name).read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise CommandFailed(
                f"{name} can't be read: {plain_reason(error)}", next_step="Give an Avro schema in UTF-8"
            ) from error
        except json.JSONDecodeError as error:
            raise CommandFailed(
                f"{name} is not JSON at line {error.lineno}, column {error.colno}",
                next_step="Give an Avro schema in JSON, as a registry has it",
            ) from error
    if name and not name.isalnum():
        raise UsageError(
            f"{name} can't be read: there is no such file",
            next_step=f"Name a file with an Avro schema, or a fingerprint of {Step('schema history', table)}",
        )
    fingerprint = _one(store.schemas(table), table, name).fingerprint
    schema = SchemaStore(target.objects, target.silver).load(fingerprint)
    if schema is None:
        raise UnknownSchema(f"The schema {fingerprint} is no longer in the silver bucket", table=table, name=name)
    return schema
