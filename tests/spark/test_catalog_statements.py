"""Spark runs the output of `sluice table ddl --engine spark`, and finds the catalog's schema in the table."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sluice.catalog.columns import columns_of_commit, spark_schema
from sluice.catalog.ddl import statements
from sluice.catalog.tables import Wish, names_of
from sluice.config.catalog import CatalogRule
from sluice.config.table import COW, MOR, TableConfig
from sluice.hudi.timeline import Commit, Timeline

TABLES = Path(__file__).resolve().parents[1] / "data" / "hudi_tables" / "silver"


def wish_of(table: str, table_type: str, folder: Path) -> Wish:
    """What the catalog would say of a copy of a test table."""
    database, _, name = table.partition(".")
    place = folder / database / name
    shutil.copytree(TABLES / database / name, place)
    newest = Timeline.of(path.name for path in (place / ".hoodie").iterdir()).newest
    assert newest is not None
    config = TableConfig(table, database, name, "t", ("id",), ("nationality",), table_type)
    return Wish(
        config,
        names_of(config),
        place.as_uri(),
        columns_of_commit(table, Commit.of(newest, (place / ".hoodie" / newest.file).read_bytes()).schema),
        newest.time,
    )


@pytest.mark.parametrize(("table", "table_type"), [("moma.artists", COW), ("moma.works", MOR)])
def test_spark_runs_the_statements_and_its_views_give_the_living_rows(
    spark: SparkSession, tmp_path: Path, table: str, table_type: str
) -> None:
    wish = wish_of(table, table_type, tmp_path)
    try:
        for statement in statements(wish, "spark"):
            spark.sql(statement)
        for entry in wish.names.entries:
            whole = spark.table(f"moma.{entry.table}")
            shown = spark.table(f"moma.{entry.view}")
            assert not [name for name in shown.columns if name.startswith("_")]
            assert sorted(row.id for row in shown.collect()) == sorted(
                row.id for row in whole.filter("not __deleted").collect()
            )
        if table_type == MOR:

            def held(frame: DataFrame) -> set[tuple[object, str]]:
                return {(row.id, row.asDict()["_hoodie_commit_time"]) for row in frame.collect()}

            optimized, real_time = (held(spark.table(f"moma.{entry.table}")) for entry in wish.names.entries)
            assert optimized == held(
                spark.read.format("hudi").option("hoodie.datasource.query.type", "read_optimized").load(wish.location)
            )
            assert real_time == held(spark.read.format("hudi").load(wish.location)) != optimized
    finally:
        spark.sql("DROP DATABASE IF EXISTS moma CASCADE")


def test_sparks_view_with_debeziums_columns_has_every_row(spark: SparkSession, tmp_path: Path) -> None:
    wish = wish_of("moma.artists", COW, tmp_path)
    wish = replace(wish, config=replace(wish.config, catalog=CatalogRule(debezium=True)))
    try:
        for statement in statements(wish, "spark"):
            spark.sql(statement)
        whole, shown = spark.table("moma.artists_all"), spark.table("moma.artists")
        wanted = sorted((row.id, str(row["__deleted"]).lower()) for row in whole.collect())
        assert sorted((row.id, row["__deleted"]) for row in shown.collect()) == wanted
        assert (
            dict(shown.dtypes).items() >= {"__lsn": "bigint", "__db": "string", "_hoodie_commit_time": "string"}.items()
        )
        ops = {(row.id, row["_sluice_op"]) for row in whole.collect()}
        assert {(row.id, row["__op"]) for row in spark.sql("select id, __op from moma.artists").collect()} == ops
    finally:
        spark.sql("DROP DATABASE IF EXISTS moma CASCADE")


def test_the_schema_in_the_catalog_is_the_one_that_spark_finds(spark: SparkSession, tmp_path: Path) -> None:
    wish = wish_of("moma.works", MOR, tmp_path)
    summary = StructType.fromJson(json.loads(spark_schema(wish.columns, ("nationality",))))
    schema = spark.read.format("hudi").load(wish.location).schema
    assert {field.name: field.dataType for field in summary} == {field.name: field.dataType for field in schema}
    assert summary.names[-1] == "nationality" and summary.names[:-1] == [
        name for name in schema.names if name != "nationality"
    ]
