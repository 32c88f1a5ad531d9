"""Rewrites base files with a part's rows by pyarrow: in the driver where they are small, else in a Spark task each."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Callable, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from sluice_aws.s3.objects import Objects, ObjectSource, task_objects
from sluice_spark.errors import RowsDiffer
from sluice_spark.hudi.base_files import NewFiles, partition_metadata
from sluice_spark.hudi.facts import BaseFile
from sluice_spark.merge.by_arrow.base_file import Rewritten, parquet_of, rewritten
from sluice_spark.merge.by_arrow.table_files import read_file, write_data_file, write_file

AT_ONCE_IN_DRIVER = 4
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class FileWork:
    """Where the files of a table are read and written: in the driver by `objects`, or in Spark tasks by `source`."""

    spark: SparkSession = field(repr=False)
    objects: Objects = field(repr=False)
    source: ObjectSource
    in_tasks: bool

    def each(self, work: Callable[[Objects, str, int, T], R], items: Sequence[T]) -> list[R]:
        """What `work` gives of each item, in order. It gets S3, the attempt's write token and the item's number."""
        if not self.in_tasks:
            with ThreadPoolExecutor(AT_ONCE_IN_DRIVER, thread_name_prefix="file") as pool:
                return list(pool.map(lambda item: work(self.objects, f"{item[0]}-0-0", *item), enumerate(items)))
        source = self.source  # and nothing else of this, which has the session

        def task(item: tuple[int, T]) -> R:
            context: Any = TaskContext.get()
            token = f"{context.partitionId()}-{context.stageId()}-{context.taskAttemptId()}"
            return work(task_objects(source), token, *item)

        return list(self.spark.sparkContext.parallelize(list(enumerate(items)), len(items)).map(task).collect())


@dataclass(frozen=True)
class FileRows:
    """Rows for one base file at `path`, None for a new one, in the table's columns; `partition` is its folder's path.

    `keys` are Hudi's texts of their keys, `updates` how many of them the file holds already, and `removed` the keys of
    rows that leave the file. `starts`: the partition is new.
    """

    path: str | None
    rows: pa.Table
    keys: pa.Array
    updates: int
    partition: str = ""
    removed: Sequence[str] = ()
    starts: bool = False


@dataclass(frozen=True)
class Rewrite:
    """A part's rows to write, by file of a table whose folder is `table_uri`."""

    table: str
    table_uri: str
    files: Sequence[FileRows]
    work: FileWork

    def write(self, new: NewFiles) -> list[BaseFile]:
        """Write the files, each behind Hudi's marker. Raises RowsDiffer for a file that doesn't hold what was found."""
        return self.work.each(partial(_write, table=self.table, table_uri=self.table_uri, new=new), self.files)


def _write(
    objects: Objects, token: str, number: int, share: FileRows, *, table: str, table_uri: str, new: NewFiles
) -> BaseFile:
    """Write one file. Each attempt has a file of its own, which its marker lets Hudi find."""
    began = time.monotonic()
    before = None if share.path is None else share.path.rpartition("/")[2]
    name = f"{before.split('_', 1)[0] if before else f'{uuid.uuid4()}-0'}_{token}_{new.instant}.parquet"
    rows = share.rows.cast(_schema(share.rows.schema, new.avro_schema))
    own: Any = {"instant": new.instant, "file_name": name, "number": number, "avro_schema": new.avro_schema}
    own["partition"] = share.partition
    if share.path is None:
        found = Rewritten(parquet_of(rows, share.keys, **own), rows.num_rows, 0, 0)
    else:
        found = rewritten(read_file(objects, share.path), rows, share.keys, removed=share.removed, **own)
    counted, written = share.updates + len(share.removed), found.updated + found.removed
    if (found.updated, written) != (share.updates, counted):
        raise RowsDiffer(
            f"{table}: {counted:,} rows of {before} were to be updated or removed, and {written:,} were",
            table=table,
            counted=counted,
            written=written,
        )
    body, inserted = found.body.to_pybytes(), rows.num_rows - found.updated
    file = BaseFile(
        name, found.rows, len(body), 0, before, found.updated, inserted, share.partition, removed=found.removed
    )
    if share.starts:
        place, content = partition_metadata(share.partition, new.instant)
        write_file(objects, f"{table_uri}/{place}", content)
    kind = "CREATE" if before is None else "MERGE"
    write_data_file(objects, table_uri, file.path, body, new=new, kind=kind)
    return replace(file, ms=int((time.monotonic() - began) * 1000))


def _schema(rows: pa.Schema, avro_schema: str) -> pa.Schema:
    """The rows' schema with the columns required that the Avro schema has without null."""
    kinds = {item["name"]: item["type"] for item in json.loads(avro_schema)["fields"]}
    return pa.schema([item.with_nullable("null" in kinds[item.name]) for item in rows])
