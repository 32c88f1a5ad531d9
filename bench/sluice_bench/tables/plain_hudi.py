"""A table written by Hudi's data source with its defaults: upserts of a batch's rows, deletes by Hudi's own mark."""

import io
from collections.abc import Iterable
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

NAMESPACE = "hoodie"
DELETED = f"_{NAMESPACE}_is_deleted"
KEY, ORDER = "salesid", "__pos"
_ARROW = {"int": pa.int32(), "long": pa.int64(), "string": pa.string()}


def options(name: str, table_type: str) -> dict[str, str]:
    """The required options of a table without partitions. All others have Hudi's defaults.

    Inline compaction is an exception, since a plain batch write to a merge-on-read table never compacts. Its default is
    every fifth delta commit.
    """
    summary = {
        "table.name": name,
        "datasource.write.table.type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[table_type],
        "datasource.write.recordkey.field": KEY,
        "datasource.write.precombine.field": ORDER,
        "datasource.write.partitionpath.field": "",
    }
    if table_type == "mor":
        summary["compact.inline"] = "true"
    return {f"{NAMESPACE}.{option}": value for option, value in summary.items()}


def as_parquet(bodies: Iterable[bytes], file: Path) -> Path:
    """Write the records of Avro objects to a file for Spark, with Hudi's mark of deletes."""
    records: list[dict] = []
    for body in bodies:
        reader = fastavro.reader(io.BytesIO(body))
        schema = reader.writer_schema
        records += reader
    fields = [pa.field(field["name"], _arrow(field["type"])) for field in schema["fields"]]
    for one in records:
        one[DELETED] = one["__deleted"] == "true"
    pq.write_table(pa.Table.from_pylist(records, pa.schema([*fields, pa.field(DELETED, pa.bool_())])), file)
    return file


def _arrow(avro) -> pa.DataType:
    if isinstance(avro, list):
        return _arrow(next(kind for kind in avro if kind != "null"))
    if isinstance(avro, dict):
        return (
            pa.decimal128(avro["precision"], avro["scale"])
            if avro.get("logicalType") == "decimal"
            else _arrow(avro["type"])
        )
    return _ARROW[avro]


class PlainTable:
    """A table at a path. Every write is an upsert, the data source's default."""

    def __init__(self, spark, home: Path, name: str, table_type: str) -> None:
        self._spark = spark
        self._options = options(name, table_type)
        self.path = home / name

    def write(self, file: Path) -> None:
        """Commit the rows of a file."""
        self._spark.read.parquet(file.as_uri()).write.format("hudi").options(**self._options).mode("append").save(
            self.path.as_uri()
        )
