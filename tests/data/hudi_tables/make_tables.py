"""Writes the small Hudi tables that unit tests read. See README.md beside it."""
from __future__ import annotations

import os
import shutil
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, BinaryType, DataType, DateType, DecimalType, IntegerType, LongType, StringType, StructField, StructType, TimestampType, _parse_datatype_string

from sluice.changes import hidden_columns
from sluice.config.table import COW, MOR, TableConfig
from sluice.hudi.options import BULK_INSERT, UPSERT, write_options
from sluice.hudi.own_metadata import commit_metadata

# A bloom filter for 60,000 keys in every file would be most of the fixture.
SMALL_FILES = {"hoodie.index.bloom.num_entries": "50", "hoodie.bloom.index.filter.type": "SIMPLE", "hoodie.datasource.write.row.writer.enable": "false"}

Columns = list[tuple[str, DataType]]
ARTIST: Columns = [
    ("id", LongType()), ("nationality", StringType()), ("name", StringType()), ("born", DateType()), ("fee", DecimalType(10, 2)),
    ("photo", BinaryType()), ("seen", TimestampType()), ("tags", ArrayType(StringType())),
]
DAY: Columns = [("id", LongType()), ("day", DateType()), ("v", IntegerType())]


def main(bundle: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    tables = Tables(_session(bundle), folder)
    for name, table_type in (("artists", COW), ("works", MOR)):
        config = _config("moma", name, table_type, ("nationality",))
        tables.commit(config, ARTIST, [
            _artist(1, "American", "one", 1), _artist(2, "German", "two", 2), _artist(3, None, "three", 3), _artist(4, "", "four", 4),
            _artist(5, "Côte/d Ivoire=x", "five", 5), _artist(6, "German", "six", 6),
        ], operation=BULK_INSERT)
        tables.commit(config, ARTIST, [_artist(1, "German", "one moved", 11, op="u"), _gone(ARTIST, 2, 12), _artist(6, "German", "six b", 13, op="u")])
    noted = [*ARTIST, ("note", StringType())]
    tables.commit(config, noted, [_artist(7, "American", "seven", 21, "new column"), _artist(6, "German", "six c", 22, "n6", op="u")])
    tables.commit(_config("crm", "user", COW, ()), [("id", LongType()), ("date", DateType()), ("name", StringType())], [
        (1, date(2020, 2, 3), "ann", *_hidden(1)), (2, None, "bob", *_hidden(2)), (3, None, None, *_hidden(3, op="d")),
    ], operation=BULK_INSERT)
    days = _config("ecomm", "date", MOR, ("day",))
    tables.commit(days, DAY, [(1, date(2020, 2, 3), 7, *_hidden(1)), (2, None, 8, *_hidden(2))], operation=BULK_INSERT)
    tables.commit(days, DAY, [(1, date(2020, 2, 4), 9, *_hidden(11, op="u")), _gone(DAY, 2, 13)])
    for checksum in folder.rglob("*.crc"):
        checksum.unlink()


class Tables:
    """Commits rows to tables under one folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def commit(self, config: TableConfig, columns: Columns, rows: list[tuple[Any, ...]], *, operation: str = UPSERT) -> None:
        hidden = [StructField(column.name, _parse_datatype_string(column.spark_type), column.nullable) for column in hidden_columns.HIDDEN]
        schema = StructType([*(StructField(name, kind, True) for name, kind in columns), *hidden])
        writer = self._spark.createDataFrame(rows, schema).write.format("hudi").mode("append")
        writer = writer.options(**write_options(config, operation=operation, parallelism=1, housekeeping=False))
        writer = writer.options(**commit_metadata(batch="b-1", table=config.table, run="run-main-1"))
        writer.save(str(self._folder / config.database / config.name))


def _config(database: str, name: str, table_type: str, partition_by: tuple[str, ...]) -> TableConfig:
    return TableConfig(
        table=f"{database}.{name}", database=database, name=name, topic=name, record_key=("id",), partition_by=partition_by,
        table_type=table_type, hudi=SMALL_FILES,
    )


def _artist(number: int, nationality: str | None, name: str, position: int, *more: str, op: str = "c") -> tuple[Any, ...]:
    return (
        number, nationality, name, date(1900 + number, 1, 2), Decimal("12.50") + number, bytes([0, 255, number]),
        datetime(2024, 1, 1, 10, 0, number, 123456), ["a", None], *more, *_hidden(position, op=op),
    )


def _gone(columns: Columns, number: int, position: int) -> tuple[Any, ...]:
    """A deleted row as it is stored: the key, and nulls."""
    return (number, *[None] * (len(columns) - 1), *_hidden(position, op="d"))


def _hidden(position: int, *, op: str = "c") -> tuple[Any, ...]:
    """The hidden columns in the order of hidden_columns.HIDDEN."""
    source = "bronze/topics/t/t+0+0000000000.avro?versionId=v1"
    return (f"0000.{position:020d}.{position:020d}", op == "d", op, 1_700_000_000_000 + position, source, position, None)


def _session(bundle: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]")
    for name, value in {
        "spark.jars": bundle,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.hadoop.parquet.avro.write-old-list-structure": "false",  # a list may hold nulls
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    main(sys.argv[1], Path(sys.argv[2]).resolve())
