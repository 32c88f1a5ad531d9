"""Makes the statements that declare a table to Spark, Redshift or Athena. All identifiers and texts are quoted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable

from sluice.catalog import history_view
from sluice.catalog.columns import CatalogColumn
from sluice.catalog.history_view import Dialect
from sluice.catalog.tables import ATHENA_NATIVE, Wish, wished_table
from sluice.catalog.views import quoted, select_of, view_sql
from sluice.config.catalog import READ_OPTIMIZED, SNAPSHOT, CatalogEntry
from sluice.errors import NoStatement
from sluice.hudi.options import QUERY_AS_READ_OPTIMIZED

SPARK, REDSHIFT, ATHENA = "spark", "redshift", "athena"
_ticked, _text = history_view.SPARK.quoted, history_view.SPARK.literal  # for Hive's SQL, too
_standard_text = history_view.TRINO.literal


def statements(wish: Wish, engine: str, *, region: str = "") -> tuple[str, ...]:
    """The statements for an engine, in order and without semicolons. `region` is the region of the Glue catalog.

    The declared tables always read the newest commit. A new column needs the statements again. Raises NoStatement.
    """
    make: Mapping[str, Callable[[Wish, str], tuple[str, ...]]] = {SPARK: _spark, REDSHIFT: _redshift, ATHENA: _athena}
    return make[engine](wish, region)


def _spark(wish: Wish, region: str) -> tuple[str, ...]:
    """Hudi tables by location, which need no catalog, and views of Spark's own, which can't read Presto's."""
    database = _ticked(wish.names.database)
    made = [f"CREATE DATABASE IF NOT EXISTS {database}"]
    for entry in wish.names.entries:
        table = f"{database}.{_ticked(entry.table)}"
        # Hudi's mark of the two tables of merge-on-read (CreateHoodieTableCommand).
        read_optimized = _text(str(entry.kind == READ_OPTIMIZED).lower())
        reads = (
            f" TBLPROPERTIES ({_text(QUERY_AS_READ_OPTIMIZED)} = {read_optimized})" if entry.kind != SNAPSHOT else ""
        )
        made.append(f"CREATE TABLE IF NOT EXISTS {table} USING hudi{reads} LOCATION {_text(wish.location)}")
        if entry.view:
            select = _select(wish, table, history_view.SPARK)
            made.append(f"CREATE OR REPLACE VIEW {database}.{_ticked(entry.view)} AS {select}")
    return tuple(made)


def _redshift(wish: Wish, region: str) -> tuple[str, ...]:
    """An external schema over the Glue database, and a late-binding view, because Redshift can't read Presto's."""
    (entry, *more) = wish.names.entries
    if more:
        raise NoStatement(
            f"{wish.config.table} is merge-on-read, which Redshift doesn't read",
            table=wish.config.table,
            engine=REDSHIFT,
        )
    schema = quoted(f"{wish.names.database}_lake")
    where = f" REGION {_standard_text(region)}" if region else ""
    view = quoted(entry.view or wish.config.name)
    select = _select(wish, f"{schema}.{quoted(entry.table)}", history_view.REDSHIFT)
    return (
        f"CREATE EXTERNAL SCHEMA IF NOT EXISTS {schema} FROM DATA CATALOG "
        f"DATABASE {_standard_text(wish.names.database)}{where} IAM_ROLE default",
        f"CREATE SCHEMA IF NOT EXISTS {quoted(wish.names.database)}",
        f"CREATE OR REPLACE VIEW {quoted(wish.names.database)}.{view} AS {select} WITH NO SCHEMA BINDING",
    )


def _athena(wish: Wish, region: str) -> tuple[str, ...]:
    """What the sync does by calls, but for partitions: those need the sync or ALTER TABLE ... ADD PARTITION."""
    database = wish.names.database
    made = [f"CREATE DATABASE IF NOT EXISTS {_ticked(database)}"]
    for entry in wish.names.entries:
        made.append(_athena_table(wish, entry))
        if entry.view:
            made.append(f"CREATE OR REPLACE VIEW {quoted(database)}.{quoted(entry.view)} AS {view_sql(wish, entry)}")
    return tuple(made)


def _athena_table(wish: Wish, entry: CatalogEntry) -> str:
    table = wished_table(wish, entry.table, entry.kind, synced=None)
    storage = table["StorageDescriptor"]
    name = f"{_ticked(wish.names.database)}.{_ticked(entry.table)}"
    serde = storage["SerdeInfo"]
    lines = [f"CREATE EXTERNAL TABLE IF NOT EXISTS {name} ({_declared(storage['Columns'])})"]
    if table["PartitionKeys"]:
        lines.append(f"PARTITIONED BY ({_declared(table['PartitionKeys'])})")
    lines.append(
        f"ROW FORMAT SERDE {_text(serde['SerializationLibrary'])} WITH SERDEPROPERTIES ({_pairs(serde['Parameters'])})"
    )
    lines.append(f"STORED AS INPUTFORMAT {_text(storage['InputFormat'])} OUTPUTFORMAT {_text(storage['OutputFormat'])}")
    lines.append(f"LOCATION {_text(storage['Location'])}")
    if ATHENA_NATIVE in table["Parameters"]:
        lines.append(f"TBLPROPERTIES ({_pairs({ATHENA_NATIVE: table['Parameters'][ATHENA_NATIVE]})})")
    return "\n".join(lines)


def _declared(columns: list[dict[str, str]]) -> str:
    return ", ".join(
        f"{_ticked(column['Name'])} {column['Type']}"
        + (f" COMMENT {_text(column['Comment'])}" if column.get("Comment") else "")
        for column in columns
    )


def _select(wish: Wish, source: str, dialect: Dialect) -> str:
    """The SELECT of a view by the names of Hudi's own schema for Spark, and by those of the catalog for others."""

    def name(column: CatalogColumn) -> str:
        return column.name if dialect is history_view.SPARK else column.glue_name

    return select_of(wish, source, dialect, name, lambda column: dialect.quoted(name(column)))


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"{_text(name)} = {_text(value)}" for name, value in values.items())
