"""One SELECT over silver tables in DuckDB, which opens only the tables that it names."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from sluice.catalog.history_view import DUCKDB, history_view_sql
from sluice.changes import hidden_columns
from sluice.errors import SluiceError
from sluice_read.errors import InvalidQuery, Unreadable
from sluice_read.moments import NOW, Span
from sluice_read.place import SilverPlace, tables_in
from sluice_read.reading import Shown, open_table

_OWN_SCHEMAS = frozenset({"information_schema", "pg_catalog", "main", "temp"})
_ADVICE = ("Candidate bindings", "Did you mean", "Either add")  # how DuckDB's own next steps begin


def table_references(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[tuple[str, str], ...]:
    """The (schema, table) pairs that a SELECT names, each once, in the order of the statement.

    DuckDB's own parser finds them. Names without a schema are defined in the statement (WITH) and left out. Raises
    InvalidQuery for more than one statement and for anything but a SELECT.
    """
    (serialized,) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()[0]
    parsed = json.loads(serialized)
    if parsed.get("error"):
        if parsed.get("error_type") == "not implemented":
            raise InvalidQuery(
                "The statement is not a SELECT, and `sluice query` only reads",
                next_step="Write SELECT, WITH, FROM, DESCRIBE or SUMMARIZE",
            )
        raise InvalidQuery(
            f"The SQL can't be parsed: {parsed.get('error_message')}", next_step='Reserved words are quoted: crm."user"'
        )
    if len(parsed["statements"]) != 1:
        raise InvalidQuery(
            f"{len(parsed['statements'])} statements were given, and one is allowed",
            next_step="Run `sluice query` once for each",
        )
    return tuple(dict.fromkeys(_walk(parsed["statements"][0]["node"])))


def _walk(node: Any) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        if node.get("type") == "SHOW_REF" and not node.get("query"):
            raise InvalidQuery(
                "SHOW lists nothing here: tables are opened when a statement names them",
                next_step="`sluice status` lists them",
            )
        if node.get("type") == "BASE_TABLE" and node.get("schema_name"):
            yield node["schema_name"], node["table_name"]
        for value in node.values():
            yield from _walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from _walk(value)


@contextmanager
def run_query(
    place: SilverPlace,
    sql: str,
    *,
    with_deleted: bool = False,
    lineage: bool = False,
    span: Span = NOW,
    files: bool = False,
) -> Iterator[duckdb.DuckDBPyRelation]:
    """Run one SELECT, its result readable inside the `with`. Every table is read over the same span.

    With `files` the statement may also read files of this machine. Raises InvalidQuery and what `open_table` does.
    """
    with opened_duckdb(files=files) as connection:
        # DuckDB compares names without case, so two spellings are one table.
        named = {
            (schema.lower(), table.lower()): (schema, table) for schema, table in table_references(connection, sql)
        }
        for schema, table in (pair for folded, pair in named.items() if folded[0] not in _OWN_SCHEMAS):
            _load(connection, place, schema, table, Shown(with_deleted=with_deleted, lineage=lineage), span)
        try:
            yield connection.sql(sql)
        except duckdb.Error as error:
            raise _explained(place, error) from error


@contextmanager
def opened_duckdb(*, files: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a separate DuckDB, which spills tables that don't fit in memory to a temporary folder.

    Statements reach no file and no network, or with `files` the files of this machine.
    """
    with tempfile.TemporaryDirectory(prefix="sluice-query-") as spill:
        # No extension is downloaded, and no Python variable becomes a table by its name.
        config: dict[str, str | bool | int | float | list[str]] = {
            "temp_directory": spill,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
        }
        with duckdb.connect(config=config) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            # On by itself where Python runs no file (`python -c`): it would be written between the rows on stdout.
            connection.execute("SET enable_progress_bar = false")
            if not files:  # the folder for spilling stays reachable: DuckDB lists it when access ends
                connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            yield connection


def load(connection: duckdb.DuckDBPyConnection, name: str, reader: pa.RecordBatchReader) -> None:
    """Load batches into a new table, one by one. The caller quotes `name`. Raises what the reader does, Unreadable."""
    failed: list[SluiceError] = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from reader
        except SluiceError as error:
            failed.append(error)
            raise

    connection.register("sluice_reader", pa.RecordBatchReader.from_batches(reader.schema, batches()))
    try:
        connection.execute(f"CREATE TABLE {name} AS FROM sluice_reader")
    except duckdb.Error as error:
        if failed:  # DuckDB's own error has it only as text, with its traceback
            raise failed[0] from None
        raise Unreadable(
            f"{name} could not be loaded into DuckDB: {_first_line(error)}",
            table=name,
            next_step="Free some disk or memory, or read less: `sluice read` holds one batch at a time",
        ) from error
    connection.unregister("sluice_reader")


def quoted(identifier: str) -> str:
    """Quote a name for SQL."""
    return '"' + identifier.replace('"', '""') + '"'


def _load(
    connection: duckdb.DuckDBPyConnection, place: SilverPlace, schema: str, table: str, shown: Shown, span: Span
) -> None:
    # DuckDB's own storage can be scanned twice, and spills to disk.
    opened = open_table(place, f"{schema}.{table}", span=span)
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
    name = f"{quoted(schema)}.{quoted(table)}"
    if hidden_columns.POSITION not in opened.record_key or shown.with_deleted or shown.lineage or span.changes:
        load(connection, name, opened.reader(shown))
        return
    changes = f"{quoted(schema)}.{quoted(f'_changes_of_{table}')}"
    load(connection, changes, opened.reader(Shown(with_deleted=True, lineage=True)))
    key = [column for column in opened.record_key if column != hidden_columns.POSITION]
    states = history_view_sql(opened.schema().names, record_key=key, source=changes, dialect=DUCKDB)
    connection.execute(f"CREATE VIEW {name} AS {states}")


def _first_line(error: duckdb.Error) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _explained(place: SilverPlace, error: duckdb.Error) -> InvalidQuery:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if isinstance(error, duckdb.CatalogException) and "Table with name" in lines[0]:
        tables = tables_in(place)
        step = (
            f"Tables are named database.table: {', '.join(tables[:20])}"
            if tables
            else "Tables are named database.table"
        )
    elif isinstance(error, duckdb.BinderException) and any(
        name in lines[0] for name in ("_sluice_", "_hoodie_", hidden_columns.DELETED)
    ):
        step = "_sluice_* and _hoodie_* columns need --lineage, __deleted needs --with-deleted"
    elif isinstance(error, duckdb.PermissionException):
        step = "A statement reads silver tables and nothing else; --files lets it read files of this machine"
    else:
        step = next((line.strip() for line in lines[1:] if line.strip().startswith(_ADVICE)), "")
    return InvalidQuery(lines[0], next_step=step)
