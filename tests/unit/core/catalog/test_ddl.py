"""Statements that create a table for an engine: their quoting, and their views' rows."""

import json

import duckdb
import pytest

from sluice.catalog.columns import columns_of_commit
from sluice.catalog.ddl import statements
from sluice.catalog.tables import Wish, names_of
from sluice.catalog.views import decoded, view_sql, wished_view
from sluice.config.catalog import CatalogRule
from sluice.config.table import COW, MOR, TableConfig
from sluice.errors import NoStatement

AWKWARD = (
    '{"type": "record", "name": "r", "fields": [{"name": "Id", "type": "long"}, {"name": "order", "type": '
    '["null", "string"], "doc": "it\'s"}, {"name": "__deleted", "type": "boolean"}]}'
)


def wish(table_type=COW, **settings):
    config = TableConfig("shop.orders", "shop", "orders", "t", ("Id",), table_type=table_type, **settings)
    return Wish(config, names_of(config), "s3://lake/shop/orders", columns_of_commit("shop.orders", AWKWARD), "1")


def test_every_identifier_of_a_statement_is_quoted_and_every_text_escaped():
    assert statements(wish(), "spark") == (
        "CREATE DATABASE IF NOT EXISTS `shop`",
        "CREATE TABLE IF NOT EXISTS `shop`.`orders_all` USING hudi LOCATION 's3://lake/shop/orders'",
        "CREATE OR REPLACE VIEW `shop`.`orders` AS SELECT `Id`, `order` FROM `shop`.`orders_all` WHERE NOT "
        "coalesce(`__deleted`, false)",
    )
    assert (
        statements(wish(), "redshift", region="eu-central-1")[0]
        == "CREATE EXTERNAL SCHEMA IF NOT EXISTS \"shop_lake\" FROM DATA CATALOG DATABASE 'shop' REGION "
        "'eu-central-1' IAM_ROLE default"
    )
    assert statements(wish(), "redshift")[2].startswith(
        'CREATE OR REPLACE VIEW "shop"."orders" AS SELECT "id", "order" FROM "shop_lake"."orders_all" WHERE'
    )
    assert "`order` string COMMENT 'it\\'s'" in statements(wish(), "athena")[1]
    native = statements(wish(catalog=CatalogRule(athena_native=True)), "athena")[1]
    assert native.endswith("TBLPROPERTIES ('athena_enable_native_hudi_connector_implementation' = 'true')")
    with pytest.raises(NoStatement):
        statements(wish(MOR), "redshift")


def test_the_read_optimized_table_of_spark_reads_base_files_alone():
    optimized, real_time = (one for one in statements(wish(MOR), "spark") if one.startswith("CREATE TABLE"))
    assert "TBLPROPERTIES ('hoodie.query.as.ro.table' = 'true')" in optimized
    assert "TBLPROPERTIES ('hoodie.query.as.ro.table' = 'false')" in real_time


def test_a_views_statement_gives_the_living_rows_and_no_hidden_column():
    asked = wish()
    with duckdb.connect() as connection:
        names = ", ".join(
            f'"{column.name}" {"boolean" if column.type == "boolean" else "varchar"}' for column in asked.columns
        )
        connection.execute(f"create schema shop; create table shop.orders_all ({names})")
        connection.execute(
            "insert into shop.orders_all (id, \"order\", __deleted) values (1, 'a', false), (2, 'b', true), (3, "
            "'c', null)"
        )
        result = connection.execute(view_sql(asked, asked.names.entries[0]))
        assert [column[0].lower() for column in result.description] == ["id", "order"]
        assert result.fetchall() == [("1", "a"), ("3", "c")]


def test_the_view_of_a_history_table_shows_states_with_their_times():
    config = TableConfig("shop.orders", "shop", "orders", "t", ("Id",), history=True).history_table
    hidden = ("_sluice_position", "_sluice_owed", "_sluice_source_ts_ms")
    fields = [{"name": "Id", "type": "long"}, {"name": "Total", "type": ["null", "string"]}]
    fields += [{"name": name, "type": ["null", "long" if name.endswith("ms") else "string"]} for name in hidden]
    schema = json.dumps({"type": "record", "name": "r", "fields": [*fields, {"name": "__deleted", "type": "boolean"}]})
    asked = Wish(config, names_of(config), "s3://lake/shop/h", columns_of_commit(config.table, schema), "1")
    (entry,) = asked.names.entries
    assert (entry.table, entry.view) == ("orders_history_all", "orders_history")
    document = decoded(wished_view(asked, entry, "orders_history")["ViewOriginalText"])
    assert [column["name"] for column in document["columns"]] == ["id", "total", "valid_from", "valid_to", "is_current"]
    assert document["originalSql"] == view_sql(asked, entry)
    assert 'FROM "shop"."orders_history_all"' in view_sql(asked, entry)
    assert "'\"Total\":'" in view_sql(asked, entry), "the source's name, which the catalog writes in lower case"
    assert "PARTITION BY `Id` ORDER BY `_sluice_position`" in statements(asked, "spark")[2]
    of_redshift = statements(asked, "redshift")[2]
    assert of_redshift.startswith(
        'CREATE OR REPLACE VIEW "shop"."orders_history" AS SELECT "id", "total", "valid_from"'
    )
    assert 'FROM "shop_lake"."orders_history_all") AS states' in of_redshift and "'\"Total\":'" in of_redshift
    assert of_redshift.endswith(" WITH NO SCHEMA BINDING")


def test_a_history_view_names_the_sources_own_valid_from_apart():
    config = TableConfig("shop.prices", "shop", "prices", "t", ("Id",), history=True).history_table
    fields = [{"name": "Id", "type": "long"}, {"name": "Valid_From", "type": ["null", "string"]}]
    fields += [{"name": name, "type": ["null", "string"]} for name in ("_sluice_position", "_sluice_owed")]
    fields += [{"name": "_sluice_source_ts_ms", "type": "long"}, {"name": "__deleted", "type": "boolean"}]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    asked = Wish(config, names_of(config), "s3://lake/shop/h", columns_of_commit(config.table, schema), "1")
    view = wished_view(asked, asked.names.entries[0], "prices_history")
    names = ["id", "source_valid_from", "valid_from", "valid_to", "is_current"]
    assert [column["Name"] for column in view["StorageDescriptor"]["Columns"]] == names
    assert [column["name"] for column in decoded(view["ViewOriginalText"])["columns"]] == names
    assert view_sql(asked, asked.names.entries[0]).startswith('SELECT "id", "source_valid_from", "valid_from", ')
    assert "AS `source_Valid_From`" in statements(asked, "spark")[2]
    assert 'AS "source_valid_from"' in statements(asked, "redshift")[2]


SALE = (
    '{"type": "record", "name": "r", "fields": [{"name": "salesid", "type": "int"}, {"name": "pricepaid", "type": '
    '["null", "double"]}, {"name": "_sluice_position", "type": "string"}, {"name": "__deleted", "type": "boolean"}, '
    '{"name": "_sluice_op", "type": ["null", "string"]}, {"name": "_sluice_source_ts_ms", "type": ["null", "long"]}'
)
SOURCE = ', {"name": "_sluice_source", "type": ["null", "string"]}'


def as_debezium(schema, select, rows, **settings):
    """What a SELECT over a view with Debezium's columns gives, of rows as they are stored."""
    config = TableConfig("shop.sale", "shop", "sale", "t", ("salesid",), catalog=CatalogRule(debezium=True), **settings)
    asked = Wish(config, names_of(config), "s3://lake/shop/sale", columns_of_commit("shop.sale", schema + "]}"), "1")
    document = decoded(wished_view(asked, asked.names.entries[0], "sale")["ViewOriginalText"])
    with duckdb.connect() as connection:
        kinds = {"boolean": "boolean", "bigint": "bigint", "int": "int", "double": "double"}
        names = ", ".join(f'"{column.name}" {kinds.get(column.type, "varchar")}' for column in asked.columns)
        connection.execute(f"create schema shop; create table shop.sale_all ({names})")
        marks = ", ".join("?" * len(asked.columns))
        connection.executemany(
            f"insert into shop.sale_all values ({marks})", [("1", "1_1", "k", "", "f", *row) for row in rows]
        )
        connection.execute(f"create view shop.sale as {document['originalSql']}")
        shown = [(name, kind) for name, kind, *_ in connection.execute("describe shop.sale").fetchall()]
        assert [name for name, _ in shown] == [column["name"] for column in document["columns"]]
        assert [kind.lower() for _, kind in shown] == [column["type"] for column in document["columns"]]
        return connection.execute(select).fetchall()


def test_a_view_with_debeziums_columns_answers_the_queries_of_flattened_records():
    lsn = f"0000.{3_668_438_941_848:020d}.{7:020d}"
    rows = [
        (200, 999.0, lsn, False, "u", 1_640_705_109_121, "ecomm..sale"),
        (201, None, f"0000.{1:020d}.{2:020d}.{0:010d}.{7:020d}", True, "d", None, r"a\\\.b.public.sa\.le"),
        (202, 1.0, f"0000.{7:020d}", False, None, None, None),
    ]
    asked = "select _hoodie_commit_time, __op, salesid, pricepaid from shop.sale where salesid = 200"
    assert as_debezium(SALE + SOURCE, asked, rows) == [("1", "u", 200, 999.0)]
    asked = "select __lsn, __source_ts_ms, __db, __schema, __table, __deleted from shop.sale order by salesid"
    assert as_debezium(SALE + SOURCE, asked, rows) == [
        (3_668_438_941_848, 1_640_705_109_121, "ecomm", None, "sale", "false"),
        (None, None, "a\\.b", "public", "sa.le", "true"),
        (None, None, None, None, None, "false"),
    ]
    without_source = [row[:-1] for row in rows]
    assert as_debezium(SALE, "select __db, __op from shop.sale where __deleted = 'true'", without_source) == [
        (None, "d")
    ]
    asked = "select __lsn from shop.sale where salesid = 200"
    assert as_debezium(SALE, asked, without_source, position="changed_at") == [(None,)]


def test_metadata_that_the_table_stores_as_columns_are_shown_as_they_are():
    schema = SALE + ', {"name": "__db", "type": ["null", "string"]}'
    row = (1, 1.0, "p", False, "r", 1, "of the column")
    assert as_debezium(schema, "select __db, __table from shop.sale", [row]) == [("of the column", None)]
