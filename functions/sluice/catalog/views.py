"""Makes the views for Athena and Trino, which hide deleted rows, lineage and Hudi's own columns."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Callable

from sluice.catalog.columns import CatalogColumn, counted_timestamps, shown_columns, trino_type
from sluice.catalog.debezium_columns import columns_as_stored, debezium_columns, debezium_expression
from sluice.catalog.history_view import (
    IS_CURRENT,
    TRINO,
    VALID_FROM,
    VALID_TO,
    Dialect,
    history_view_sql,
    names_in_states,
)
from sluice.catalog.tables import OWNER, VIEW, TableInput, Wish, glue_column
from sluice.changes.hidden_columns import DELETED
from sluice.config.catalog import REAL_TIME, CatalogEntry

CATALOG = "awsdatacatalog"  # Athena's name of the Glue catalog; a Trino catalog of that name reads the views too
_PREFIX, _SUFFIX = "/* Presto View: ", " */"
EXPANDED = "/* Presto View */"
quoted = TRINO.quoted


def wished_view(wish: Wish, entry: CatalogEntry, name: str) -> TableInput:
    """The Glue table of a view, in the form that Athena's CREATE VIEW makes and Trino's PrestoViewReader reads.

    The encoding: https://trino.io/docs/current/connector/hive.html#hive-views
    """
    shown = view_columns(wish)
    columns = [{"name": column.glue_name, "type": trino_type(column.type)} for column in shown]
    document = {
        "originalSql": view_sql(wish, entry),
        "catalog": CATALOG,
        "schema": wish.names.database,
        "columns": columns,
    }
    return {
        "Name": name,
        "TableType": VIEW,
        "Parameters": {"presto_view": "true", "comment": "Presto View", OWNER: wish.config.table},
        "PartitionKeys": [],
        "ViewOriginalText": encoded(document),
        "ViewExpandedText": EXPANDED,
        "StorageDescriptor": {
            "Columns": [glue_column(column) for column in shown],
            "Location": "",
            "SerdeInfo": {},
        },
    }


def view_columns(wish: Wish) -> tuple[CatalogColumn, ...]:
    """The columns of a view: the source's own; of a history table also the times of each state.

    With `catalog: {debezium: true}` Hudi's too, and Debezium's metadata.
    """
    shown = shown_columns(wish.columns)
    if not wish.config.is_history:
        as_debezium = wish.config.catalog.debezium
        return (*columns_as_stored(wish.columns), *debezium_columns(wish.columns)) if as_debezium else shown
    names = names_in_states([column.glue_name for column in shown])
    shown = tuple(replace(column, name=names[column.glue_name]) for column in shown)
    times = (CatalogColumn(VALID_FROM, "timestamp"), CatalogColumn(VALID_TO, "timestamp"))
    return (*shown, *times, CatalogColumn(IS_CURRENT, "boolean"))


def view_sql(wish: Wish, entry: CatalogEntry) -> str:
    """The SELECT of a view in Trino's SQL."""
    source, expression = f"{quoted(wish.names.database)}.{quoted(entry.table)}", partial(_expression, kind=entry.kind)
    return select_of(wish, source, TRINO, lambda column: column.glue_name, expression)


def select_of(
    wish: Wish,
    source: str,
    dialect: Dialect,
    name: Callable[[CatalogColumn], str],
    expression: Callable[[CatalogColumn], str],
) -> str:
    """The SELECT of a view over `source`, which is quoted: living rows, or all as Debezium's, or a history's states.

    `name` is what the source calls a stored column, and `expression` gives it.
    """
    shown = shown_columns(wish.columns)
    if wish.config.is_history:
        names = names_in_states([name(column) for column in shown])
        return history_view_sql(
            list(names),
            record_key=[name(column) for column in shown if column.name in wish.config.record_key],
            source=source,
            dialect=dialect,
            expressions={name(column): expression(replace(column, name=names[name(column)])) for column in shown},
            sources={name(column): column.name for column in shown},
        )
    if wish.config.catalog.debezium:
        selected = [expression(column) for column in columns_as_stored(wish.columns)]
        made = debezium_columns(wish.columns)
        selected += [debezium_expression(column.name, wish.columns, wish.config, dialect) for column in made]
        return f"SELECT {', '.join(selected)} FROM {source}"
    marked = any(column.name == DELETED for column in wish.columns)
    living = f" WHERE NOT coalesce({dialect.quoted(DELETED)}, false)" if marked else ""
    return f"SELECT {', '.join(map(expression, shown))} FROM {source}{living}"


def encoded(document: Mapping[str, Any]) -> str:
    """The text of a view in the catalog."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return _PREFIX + base64.b64encode(text.encode("utf-8")).decode("ascii") + _SUFFIX


def decoded(text: str | None) -> dict[str, Any] | None:
    """The document in the text of a view, None unless it is a Presto view."""
    if not text or not (text.startswith(_PREFIX) and text.endswith(_SUFFIX)):
        return None
    try:
        document = json.loads(base64.b64decode(text[len(_PREFIX) : -len(_SUFFIX)], validate=True))
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def column_changes(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[str]:
    old = {column["name"]: column["type"] for column in (before or {}).get("columns", ())}
    new = {column["name"]: column["type"] for column in after["columns"]}
    summary = [f"adds {name} {kind}" for name, kind in new.items() if name not in old]
    summary += [f"{name} becomes {kind}" for name, kind in new.items() if name in old and old[name] != kind]
    return summary + [f"no longer shows {name}" for name in old if name not in new]


def _expression(column: CatalogColumn, kind: str) -> str:
    """A column cast to the type that the view declares, at whatever precision the engine reads timestamps."""
    name = quoted(column.glue_name)
    if "timestamp" not in column.type:
        return name
    if kind != REAL_TIME:
        return f"CAST({name} AS {trino_type(column.type)}) AS {name}"
    if counted_timestamps(column.type) != "bigint":
        return (
            f"transform({name}, x -> date_add('millisecond', x / 1000, TIMESTAMP '1970-01-01 00:00:00.000')) AS {name}"
        )
    return f"date_add('millisecond', {name} / 1000, TIMESTAMP '1970-01-01 00:00:00.000') AS {name}"
