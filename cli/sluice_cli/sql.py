"""One SELECT over silver tables by DuckDB: only the tables that it names are opened."""
from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb

from sluice import hidden_columns
from sluice_cli.failures import UsageError
from sluice_cli.reading import SilverPlace, open_table, tables_in

_OWN_SCHEMAS = frozenset({"information_schema", "pg_catalog", "main", "temp"})


class InvalidQuery(UsageError):
    """The statement isn't one SELECT that DuckDB can run over these tables."""

    code = "invalid_query"


def table_references(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[tuple[str, str], ...]:
    """The (schema, table) pairs that a SELECT names, each once, in the order of the statement.

    DuckDB's own parser says which; names without a schema are the statement's own (WITH) and not
    in the answer. Raises InvalidQuery for more than one statement and for anything but a SELECT.
    """
    parsed = json.loads(connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()[0])
    if parsed.get("error"):
        if parsed.get("error_type") == "not implemented":
            raise InvalidQuery("`sluice query` reads: the statement is not a SELECT", next_step="Write SELECT, WITH, FROM, DESCRIBE or SUMMARIZE")
        raise InvalidQuery(f"The SQL can't be parsed: {parsed.get('error_message')}", next_step='Reserved words are quoted: crm."user"')
    if len(parsed["statements"]) != 1:
        raise InvalidQuery(f"One statement at a time, not {len(parsed['statements'])}", next_step="Run `sluice query` once for each")
    return tuple(dict.fromkeys(_walk(parsed["statements"][0]["node"])))


def _walk(node: Any) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        if node.get("type") == "SHOW_REF" and not node.get("query"):
            raise InvalidQuery("SHOW would list nothing here: tables are opened when a statement names them", next_step="`sluice status` lists them")
        if node.get("type") == "BASE_TABLE" and node.get("schema_name"):
            yield node["schema_name"], node["table_name"]
        for value in node.values():
            yield from _walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from _walk(value)


@contextmanager
def run_query(place: SilverPlace, sql: str, *, with_deleted: bool = False, lineage: bool = False) -> Iterator[duckdb.DuckDBPyRelation]:
    """The result of one SELECT, readable inside the `with`.

    Raises InvalidQuery, UnknownTable, Unreadable.
    """
    with tempfile.TemporaryDirectory(prefix="sluice-query-") as spill:
        # Nothing is fetched from elsewhere, and no Python variable becomes a table by its name.
        config = {
            "temp_directory": spill,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
        }
        with duckdb.connect(config=config) as connection:
            # DuckDB compares names without case, so two spellings are one table.
            named = {(schema.lower(), table.lower()): (schema, table) for schema, table in table_references(connection, sql)}
            connection.execute("SET TimeZone = 'UTC'")
            for schema, table in (pair for folded, pair in named.items() if folded[0] not in _OWN_SCHEMAS):
                _load(connection, place, schema, table, with_deleted=with_deleted, lineage=lineage)
            try:
                yield connection.sql(sql)
            except duckdb.Error as error:
                raise _explained(place, error) from error


def _load(connection: duckdb.DuckDBPyConnection, place: SilverPlace, schema: str, table: str, *, with_deleted: bool, lineage: bool) -> None:
    # Into DuckDB's own storage, which a statement may scan twice and which spills to disk.
    reader = open_table(place, f"{schema}.{table}").reader(with_deleted=with_deleted, lineage=lineage)
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(schema)}")
    connection.register("sluice_reader", reader)
    connection.execute(f"CREATE TABLE {_quoted(schema)}.{_quoted(table)} AS FROM sluice_reader")
    connection.unregister("sluice_reader")


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def _explained(place: SilverPlace, error: duckdb.Error) -> InvalidQuery:
    told = str(error).strip().splitlines() or [type(error).__name__]
    if isinstance(error, duckdb.CatalogException):
        tables = tables_in(place)
        step = f"Tables are named database.table: {', '.join(tables[:20])}" if tables else "Tables are named database.table"
    elif isinstance(error, duckdb.BinderException) and any(name in told[0] for name in ("_sluice_", "_hoodie_", hidden_columns.DELETED)):
        step = "Lineage and _hoodie_* columns need --lineage, __deleted needs --with-deleted"
    else:
        step = ""
    return InvalidQuery(told[0], next_step=step)
