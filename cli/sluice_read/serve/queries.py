"""Saved queries: a file `name.sql` is a SELECT whose parameters a path gives, bound and never spliced into it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb

from sluice.errors import UsageError
from sluice_read.errors import InvalidParameters, InvalidQuery
from sluice_read.place import SilverPlace
from sluice_read.serve.pages import PageLimits, limited
from sluice_read.sql import opened_duckdb, parameter_names, run_query, table_references
from sluice_read.values import column_names, rows_of

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BATCH_ROWS = 500
TAKEN = frozenset(
    {"tables", "docs", "openapijson", "metrics", "health"}
)  # first parts of paths, as `short_name` has them


@dataclass(frozen=True)
class SavedQuery:
    """A SELECT with the names of its parameters, in the order in which a path gives them, and of its tables."""

    name: str
    sql: str
    parameters: tuple[str, ...]
    tables: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths with the parameters in them, and those that take them as a query: `?name=value`.

        Both come by the short name and, where it differs, by the file's name.
        """
        names, below = (short_name(self.name), self.name), "".join(f"/{{{name}}}" for name in self.parameters)
        return tuple(dict.fromkeys(f"/{name}{end}" for end in (below, "") for name in names))


@dataclass(frozen=True)
class QueryRows:
    """The rows of an answer, each as JSON; `cut` where there are more."""

    rows: tuple[str, ...]
    cut: bool


def short_name(name: str) -> str:
    """The name of a query in its path: `sales_by_seller` answers at /salesbyseller."""
    return re.sub(r"[^a-z0-9]", "", name)


def saved_queries(folder: Path) -> tuple[SavedQuery, ...]:
    """Read the queries of a folder. Raises UsageError for a file that is none, naming it and what is wrong."""
    queries: dict[str, SavedQuery] = {}
    for path in sorted(folder.glob("*.sql")):
        query = _read(path)
        short = short_name(query.name)
        if short in TAKEN or short in queries:
            other = f"{queries[short].name}.sql has it" if short in queries else "the server itself answers there"
            raise UsageError(f"{path}: its path /{short} is taken: {other}", next_step="Rename the file")
        queries[short] = query
    if not queries:
        raise UsageError(f"{folder} has no file that ends with .sql", next_step="Write a SELECT into NAME.sql there")
    return tuple(queries.values())


def _read(path: Path) -> SavedQuery:
    step = "Write one SELECT that names its parameters: ... WHERE sellerid = $seller_id"
    if not _NAME.fullmatch(path.stem):
        raise UsageError(f"{path}: the name is not of a-z, 0-9, _ and -", next_step="Rename the file")
    sql = path.read_text(encoding="utf-8")
    try:
        with opened_duckdb() as connection:
            parameters = parameter_names(connection, sql)
            tables = tuple(f"{schema}.{table}" for schema, table in table_references(connection, sql))
    except InvalidQuery as error:
        raise UsageError(f"{path}: {error.message}", next_step=step) from error
    wrong = [name for name in parameters if not _PARAMETER.fullmatch(name)]
    if wrong:
        raise UsageError(f"{path}: parameter {wrong[0]} has no name", next_step=step)
    return SavedQuery(path.stem, sql, parameters, tables)


def answer_query(
    place: SilverPlace, query: SavedQuery, values: Mapping[str, str], *, rows: int, limits: PageLimits
) -> QueryRows:
    """Run a saved query with the text of its parameters, which DuckDB converts to the types that they stand for.

    Raises InvalidParameters, InvalidQuery, TookTooLong, PageTooLarge, and what reading a table does.
    """
    texts: list[str] = []
    size = 0
    within = partial(limited, query.name, seconds=limits.seconds)
    try:
        opened = run_query(place, query.sql, parameters=values, memory_mib=limits.memory_mib, within=within)
        with opened as (_, relation):
            columns = column_names(relation.columns)  # a member of a name that comes twice would be lost
            for batch in relation.to_arrow_reader(_BATCH_ROWS):
                for row in rows_of(batch):
                    text = json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, separators=(",", ":"))
                    size += len(text.encode())
                    if len(texts) == rows or texts and size > limits.max_bytes:
                        return QueryRows(tuple(texts), cut=True)
                    texts.append(text)
    except duckdb.ConversionException as error:
        raise _not_converted(query, error) from error
    except InvalidQuery as error:
        if isinstance(error.__cause__, duckdb.ConversionException):
            raise _not_converted(query, error.__cause__) from error
        raise
    return QueryRows(tuple(texts), cut=False)


def _not_converted(query: SavedQuery, error: duckdb.ConversionException) -> InvalidParameters:
    reason = str(error).partition("\n")[0].partition(": ")[2]
    return InvalidParameters(f"{query.name}: {reason}")
