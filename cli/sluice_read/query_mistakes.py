"""What DuckDB refuses of a statement, in the first line of its message with the place, and the next step.

DuckDB's messages begin with their kind (`Binder Error:`), and end with the line of the statement and a mark below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import duckdb

from sluice.changes import hidden_columns
from sluice_read.errors import InvalidQuery

RESERVED = 'Reserved words are quoted: crm."user"'
STATEMENTS = ("SELECT", "WITH", "FROM", "DESCRIBE", "SUMMARIZE")
ALLOWED = f"Write {', '.join(STATEMENTS[:-1])} or {STATEMENTS[-1]}"
_DESCRIBE = "`sluice query 'describe DATABASE.TABLE'` lists a table's columns and types"
_TABLES_SHOWN = 20
_KIND = re.compile(r"[A-Z][A-Za-z/]*(?: [A-Za-z]+){0,3} Error: ")
_PLACE = re.compile(r"^LINE ([0-9]+): ", re.MULTILINE)
_CANDIDATES = {"bindings": "Columns with similar names", "tables": "Tables of the statement"}


def plain(message: str) -> str:
    """The first line of a message of DuckDB, without its kind."""
    first = _KIND.sub("", (message.strip().splitlines() or ["no reason is given"])[0], count=1)
    return first[:1].upper() + first[1:].rstrip(".!")


def is_of_duckdb(error: OSError) -> bool:
    """True for an error of DuckDB that comes through Arrow, while rows are read."""
    return error.errno is None and _KIND.match(str(error)) is not None


def explained(error: duckdb.Error | OSError, tables: Callable[[], Sequence[str]]) -> InvalidQuery:
    """The error of Sluice for DuckDB's error about a statement. `tables` returns the tables that there are."""
    message = str(error)
    return InvalidQuery(f"{plain(message)}{_place(message)}", next_step=_next_step(error, message, tables))


def unparsed(message: str, sql: str, offset: int | None) -> InvalidQuery:
    """The error of Sluice for SQL that DuckDB's parser refuses at an offset in bytes."""
    place = ""
    if offset is not None:
        before = sql.encode("utf-8", "replace")[:offset].decode("utf-8", "ignore")
        place = f" (line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))})"
    return InvalidQuery(f"The SQL can't be parsed: {plain(message)}{place}", next_step=RESERVED)


def _place(message: str) -> str:
    """` (line 1)` of a message with a place."""
    match = _PLACE.search(message)
    return f" (line {match[1]})" if match else ""


def _next_step(error: duckdb.Error | OSError, message: str, tables: Callable[[], Sequence[str]]) -> str:
    first = (message.splitlines() or [""])[0]
    advice = _advice([line.strip() for line in message.splitlines()[1:]])
    if isinstance(error, duckdb.CatalogException) and "Table with name" in first:
        names = ", ".join(tables()[:_TABLES_SHOWN])
        return f"Tables are named database.table: {names}" if names else "Tables are named database.table"
    if isinstance(error, duckdb.BinderException) and any(
        name in first for name in ("_sluice_", "_hoodie_", hidden_columns.DELETED)
    ):
        return (
            "_sluice_* and _hoodie_* columns need --lineage, __deleted needs --with-deleted "
            "(in Python lineage=True, with_deleted=True)"
        )
    if isinstance(error, duckdb.PermissionException):
        return "A query reads silver tables and nothing else; `sluice query --files` lets it read files of this machine"
    if isinstance(error, duckdb.OutOfMemoryException):
        return "Read fewer columns or rows, or free memory"
    return advice or (
        _DESCRIBE if isinstance(error, duckdb.BinderException) else "Correct the statement and run it again"
    )


def _advice(lines: Sequence[str]) -> str:
    """What DuckDB itself suggests, in the lines after the first one."""
    for line in lines:
        if match := re.fullmatch(r"Candidate (bindings|tables)[: ]+(.+)", line):
            return f"{_CANDIDATES[match[1]]}: {match[2]}"
        if line.startswith(("Did you mean", "Either add")):
            return line.rstrip(".")
    return ""
