"""Makes the SELECT that shows a history table as the states of rows: SCD type 2, with their times.

A state is valid from its change's time to that of the next change of its row, by the order of positions. Both are the
times of the source's commits; a truncate of the source ends the states of all its rows. A deletion ends a state and
begins none. A column that a change left unchanged has the value of the state before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Callable

from sluice.changes import hidden_columns as hidden

VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
_OF_STATES = (VALID_FROM, VALID_TO, IS_CURRENT)
_NEXT = "_sluice_next"


@dataclass(frozen=True)
class Dialect:
    """How an engine writes what differs: quotes, the time of epoch milliseconds, the last value that isn't null, text.

    `find` gives the place of a text in another, from 1; where `escapes`, a backslash escapes within a literal.
    """

    quote: str
    moment: str
    last: str = "last_value({0}) IGNORE NULLS"
    find: str = "strpos"
    escapes: bool = False
    text: str = "varchar"

    def quoted(self, name: str) -> str:
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def literal(self, text: str) -> str:
        if self.escapes:
            return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + text.replace("'", "''") + "'"


DUCKDB = Dialect('"', "(epoch_ms({0}) AT TIME ZONE 'UTC')", last="last_value({0} IGNORE NULLS)")
TRINO = Dialect('"', "date_add('millisecond', {0}, TIMESTAMP '1970-01-01 00:00:00.000')")
SPARK = Dialect("`", "timestamp_millis({0})", last="last_value({0}, true)", find="instr", escapes=True, text="string")
# Its DATEADD takes 32 bits: https://docs.aws.amazon.com/redshift/latest/dg/r_DATEADD_function.html
REDSHIFT = Dialect(
    '"',
    "dateadd(ms, CAST({0} % 86400000 AS integer), "
    "dateadd(day, CAST({0} / 86400000 AS integer), TIMESTAMP '1970-01-01 00:00:00'))",
    escapes=True,
)


def names_in_states(columns: Sequence[str]) -> dict[str, str]:
    """The names of the source's columns among the states, by their own: `source_valid_from` for `valid_from`.

    What a state adds keeps its name, whatever the source's columns are called, now or later.
    """
    taken = {*_OF_STATES, *(column.lower() for column in columns)}  # engines compare names without case
    names = {}
    for column in columns:
        names[column] = column
        while column.lower() in _OF_STATES and names[column].lower() in taken:
            names[column] = f"source_{names[column]}"
    return names


def history_view_sql(
    columns: Sequence[str],
    *,
    record_key: Sequence[str],
    source: str,
    dialect: Dialect,
    expressions: Mapping[str, str] = MappingProxyType({}),
    sources: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The SELECT over `source`, which is quoted, with the columns under `names_in_states`.

    `columns` are the source's own, `record_key` those of them that identify a row. `expressions` has the SQL of columns
    that a view doesn't show as they are stored, `sources` the source's names of columns that a catalog calls otherwise.
    """
    names = names_in_states(columns)
    name: Callable[[str], str] = dialect.quoted
    keys = ", ".join(name(column) for column in record_key)
    in_order = f"PARTITION BY {keys} ORDER BY {name(hidden.POSITION)}"
    at = dialect.moment.format(name(hidden.SOURCE_TS_MS))
    inner = [
        (name(column) if names[column] == column else f"{name(column)} AS {name(names[column])}")
        if column in record_key
        else _filled(column, sources.get(column, column), names[column], in_order=in_order, dialect=dialect)
        for column in columns
    ]
    inner += [
        f"coalesce({name(hidden.DELETED)}, false) AS {name(hidden.DELETED)}",
        f"{at} AS {name(VALID_FROM)}",
        f"lead({at}) OVER ({in_order}) AS {name(VALID_TO)}",
        f"lead({name(hidden.POSITION)}) OVER ({in_order}) AS {name(_NEXT)}",
    ]
    shown = [expressions.get(column, name(names[column])) for column in columns]
    shown += [name(VALID_FROM), name(VALID_TO), f"{name(_NEXT)} IS NULL AS {name(IS_CURRENT)}"]
    return (
        f"SELECT {', '.join(shown)} FROM (SELECT {', '.join(inner)} FROM {source}) AS states "
        f"WHERE NOT {name(hidden.DELETED)}"
    )


def _filled(column: str, source: str, shown: str, *, in_order: str, dialect: Dialect) -> str:
    """A column as `shown`, where its change left it unchanged with the last value before, which may be null.

    The last value that isn't null is the last one, unless a later change set the column to null.
    """
    stored, position = dialect.quoted(column), dialect.quoted(hidden.POSITION)
    # OWED is JSON that Sluice wrote: the names of unchanged columns, each with "".
    name = dialect.literal(json.dumps(source, ensure_ascii=False) + ":")
    is_there = f"coalesce({dialect.find}({dialect.quoted(hidden.OWED)}, {name}), 0) = 0"
    over = f"OVER ({in_order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    set_at = f"max(CASE WHEN {is_there} THEN {position} END) {over}"
    not_null_at = f"max(CASE WHEN {is_there} AND {stored} IS NOT NULL THEN {position} END) {over}"
    last = dialect.last.format(f"CASE WHEN {is_there} THEN {stored} END")
    value = f"CASE WHEN {is_there} THEN {stored} WHEN {set_at} = {not_null_at} THEN {last} {over} END"
    return f"{value} AS {dialect.quoted(shown)}"
