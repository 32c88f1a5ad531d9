"""Columns of views that show a table as Debezium's flattened records have it: its metadata, and Hudi's own columns.

With them, queries over tables of Hudi Streamer run unchanged. Deleted rows are there, as `__deleted` = 'true'.
"""

from __future__ import annotations

from sluice.catalog.columns import META_COLUMNS, CatalogColumn, shown_columns
from sluice.catalog.history_view import Dialect
from sluice.changes import hidden_columns as hidden
from sluice.config.table import TableConfig

_NUMBERS = ("__lsn", "__source_ts_ms")
_PARTS = ("__db", "__schema", "__table")  # of the source table's name
_POSTGRES_LENGTH = 46  # of a position of PostgreSQL: 4 digits of the generation, 20 of the LSN, 20 of the offset


def debezium_columns(columns: tuple[CatalogColumn, ...]) -> tuple[CatalogColumn, ...]:
    """The metadata that the source's own columns of a table lack; `source_columns` may have stored some."""
    names = {column.glue_name for column in shown_columns(columns)}
    return tuple(
        CatalogColumn(name, "bigint" if name in _NUMBERS else "string")
        for name in ("__op", *_PARTS, *_NUMBERS, hidden.DELETED)
        if name not in names
    )


def columns_as_stored(columns: tuple[CatalogColumn, ...]) -> tuple[CatalogColumn, ...]:
    """The other columns of such a view: Hudi's, then the source's own."""
    return (*(column for column in columns if column.name in META_COLUMNS), *shown_columns(columns))


def debezium_expression(name: str, columns: tuple[CatalogColumn, ...], config: TableConfig, dialect: Dialect) -> str:
    """The SQL of one of `debezium_columns`, of the table's `columns`."""
    position = dialect.quoted(hidden.POSITION)
    if name in _PARTS:
        stored = any(column.name == hidden.SOURCE for column in columns)
        first = 2 if config.source_column("name") in config.record_key else 1  # behind the server
        made = _part(_PARTS.index(name) + first, dialect) if stored else "NULL"
    else:
        made = {
            "__op": dialect.quoted(hidden.OP),
            "__source_ts_ms": dialect.quoted(hidden.SOURCE_TS_MS),
            "__lsn": f"CASE WHEN length({position}) = {_POSTGRES_LENGTH} THEN substr({position}, 6, 20) END"
            if config.position is None  # a position of columns may have the same length
            else "NULL",
            hidden.DELETED: f"CASE WHEN {dialect.quoted(hidden.DELETED)} THEN 'true' ELSE 'false' END",
        }[name]
    return f"CAST({made} AS {'bigint' if name in _NUMBERS else dialect.text}) AS {dialect.quoted(name)}"


def _part(number: int, dialect: Dialect) -> str:
    """A part of the source table's name, whose dots and backslashes are escaped (`source_tables.source_table`)."""
    slash, text = dialect.literal("\\"), dialect.quoted(hidden.SOURCE)
    marked = f"replace({text}, {dialect.literal(chr(92) * 2)}, chr(1))"
    marked = f"replace({marked}, {dialect.literal(chr(92) + '.')}, chr(2))"
    part = f"split_part({marked}, '.', {number})"
    return f"nullif(replace(replace({part}, chr(2), '.'), chr(1), {slash}), '')"
