"""Reads an Iceberg table's snapshots by DuckDB or Spark, in a process of its own: each set of rows as a line of JSON.

duckdb FOLDER SNAPSHOT... (of an environment that has `duckdb_ext`), or JAR FOLDER SNAPSHOT...
"""

import json
import sys
from pathlib import Path


def by_duckdb(folder: str, snapshots: list[str]) -> None:
    import duckdb
    import duckdb_ext

    database = duckdb.connect(config={"allow_unsigned_extensions": True})
    for extension in ("avro", "iceberg"):
        (file,) = Path(duckdb_ext.__path__[0]).glob(f"extensions/*/*/{extension}.duckdb_extension")
        database.execute(f"LOAD '{file}'")
    for snapshot in snapshots:
        rows = database.execute(f"FROM iceberg_scan('{folder}', snapshot_from_id = {snapshot})")
        names = [column[0] for column in rows.description]
        show(names, rows.fetchall())


def by_spark(jar: str, folder: str, snapshots: list[str]) -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", jar)
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC -XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    for snapshot in snapshots:
        rows = spark.read.format("iceberg").option("snapshot-id", snapshot).load(folder)
        show(rows.columns, rows.collect())
    spark.stop()


def show(names: list[str], rows: list) -> None:
    print(json.dumps([dict(zip(names, row)) for row in rows]))


reader, *arguments = sys.argv[1:]
if reader == "duckdb":
    by_duckdb(arguments[0], arguments[1:])
else:
    by_spark(reader, arguments[0], arguments[1:])
