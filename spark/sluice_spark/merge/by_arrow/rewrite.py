"""Writes a part's rows into logs, and into base files by pyarrow: in the driver, or in Spark tasks for large files."""

from __future__ import annotations

import json
import secrets
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Callable, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from sluice.hudi.file_slices import FileSlice
from sluice_aws.s3.objects import Objects, ObjectSource
from sluice_spark.engine.tasks import task_objects
from sluice_spark.errors import RowsDiffer
from sluice_spark.hudi.facts import BaseFile, LogFile
from sluice_spark.hudi.logs import log_of, new_blocks
from sluice_spark.hudi.own_files import NewFiles, partition_metadata
from sluice_spark.hudi.table_files import read_file, refuse_undone, write_data_file, write_file
from sluice_spark.merge.by_arrow.base_file import Rewritten, parquet_of, rewritten
from sluice_spark.merge.key_index import KeyIndex

AT_ONCE_IN_DRIVER = 4
TASKS_PER_CORE = 8
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class FileWork:
    """Where the files of a table are read and written: in the driver by `objects`, or in Spark tasks by `source`."""

    spark: SparkSession = field(repr=False)
    objects: Objects = field(repr=False)
    source: ObjectSource
    in_tasks: bool

    def each(self, work: Callable[[Objects, str, int, T], R], items: Sequence[T], *, first: int = 0) -> list[R]:
        """What `work` gives of each item, in order. It gets S3, the attempt's write token and the item's number.

        The numbers begin with `first`.
        """
        numbered = list(enumerate(items, first))
        if not self.in_tasks:
            return _by_threads(lambda item: work(self.objects, f"{item[0]}-0-0", *item), numbered)
        source = self.source  # and nothing else of this, which has the session

        def task(item: tuple[int, T]) -> R:
            context: Any = TaskContext.get()
            token = f"{context.partitionId()}-{context.stageId()}-{context.taskAttemptId()}"
            return work(task_objects(source), token, *item)

        context = self.spark.sparkContext
        tasks = min(len(items), TASKS_PER_CORE * context.defaultParallelism)
        return list(context.parallelize(numbered, tasks).map(task).collect())


def _by_threads(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """What `work` gives of each item, in order. A thread takes one item after the other: a future of each costs more.

    After an exception the threads take no more items.
    """
    waiting, results = iter(range(len(items))), {}

    def work_on() -> None:
        for place in waiting:
            try:
                results[place] = work(items[place])
            except BaseException:
                deque(waiting, maxlen=0)
                raise

    with ThreadPoolExecutor(AT_ONCE_IN_DRIVER, thread_name_prefix="file") as pool:
        for share in [pool.submit(work_on) for _ in range(min(AT_ONCE_IN_DRIVER, len(items)))]:
            share.result()
    return [results[place] for place in range(len(items))]


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
class LogRows:
    """Rows for a new log of a file slice, column -> value, each with RECORD_KEY; and the keys of rows that leave it.

    Dates are days, timestamps microseconds since 1970.
    """

    slice: FileSlice
    rows: Sequence[Mapping[str, Any]]
    removed: Sequence[str] = ()


@dataclass(frozen=True)
class Rewrite:
    """A part's rows to write, by file of a table whose folder is `table_uri`: into base files, and into logs.

    `evolves`: the rows have columns, or nulls, that the table's schema has not. `index` keeps what the logs hold.
    """

    table: str
    table_uri: str
    files: Sequence[FileRows]
    work: FileWork
    logs: Sequence[LogRows] = ()
    evolves: bool = False
    index: KeyIndex | None = None

    @property
    def in_driver(self) -> bool:
        """Whether the driver writes the files."""
        return not self.work.in_tasks

    def write(self, new: NewFiles) -> list[BaseFile | LogFile]:
        """Write the files, each behind Hudi's marker.

        Raises RowsDiffer for a file that doesn't hold what was found, and WriteUndone.
        """
        uri, alone = self.table_uri, self.work.in_tasks
        base = partial(write_base, table=self.table, table_uri=uri, new=new, alone=alone)

        def write_share(objects: Objects, token: str, number: int, share: FileRows | LogRows) -> BaseFile | LogFile:
            if isinstance(share, FileRows):
                return base(objects, token, number, share)
            return write_log(objects, token, number, share, table_uri=uri, new=new)

        by_driver: Sequence[FileRows | LogRows] = self.logs if alone else [*self.files, *self.logs]
        written = replace(self.work, in_tasks=False).each(write_share, by_driver, first=len(self.files) if alone else 0)
        logs = [file for file in written if isinstance(file, LogFile)]
        if alone:
            written += self.work.each(base, self.files)
        if logs and self.index is not None:
            blocks = (new_blocks(share.rows, share.removed, instant=new.instant) for share in self.logs)
            self.index.keep(uri, {file.path: own for file, own in zip(logs, blocks)})
        together = [file.path for file in written if isinstance(file, LogFile) or not alone]
        if together:
            refuse_undone(self.work.objects, uri, together, new=new)
        return written


def write_log(objects: Objects, token: str, number: int, share: LogRows, *, table_uri: str, new: NewFiles) -> LogFile:
    """Write one log. Its name has a token of its own: it has no instant but its base file's.

    A late put of a driver that is dead by now would replace what another one committed.
    """
    began, file = time.monotonic(), share.slice
    if file.base is None:
        raise ValueError(f"{file.file_id} has no base file")
    base = file.base.path.rpartition("/")[2]
    version = 1 + max((log.version or 0 for log in file.logs if log.instant == file.base.instant), default=0)
    token = f"0-{secrets.randbelow(2**31)}-{secrets.randbelow(2**31)}"  # three numbers are a token's form
    name = f".{file.file_id}_{file.base.instant}.log.{version}_{token}"
    own: Any = {"instant": new.instant, "number": number, "partition": file.partition, "file_id": file.file_id}
    body = log_of(share.rows, share.removed, avro_schema=new.avro_schema, **own)
    before = tuple(log.path.rpartition("/")[2] for log in file.logs)
    made = LogFile(
        name,
        file.file_id,
        base,
        version,
        len(body),
        0,
        before,
        len(share.rows),
        file.partition,
        len(share.removed),
    )
    write_data_file(objects, table_uri, made.path, body, new=new, kind="APPEND", alone=False)
    return replace(made, ms=int((time.monotonic() - began) * 1000))


def write_base(objects: Objects, token: str, number: int, share: FileRows, *, new: NewFiles, **given: Any) -> BaseFile:
    """Write one file, with the arguments of `made_base`. Its rows may be of another nullability than the table's."""
    rows = share.rows.cast(_schema(share.rows.schema, new.avro_schema))
    return made_base(objects, token, number, replace(share, rows=rows), new=new, **given)()


def made_base(
    objects: Objects,
    token: str,
    number: int,
    share: FileRows,
    *,
    table: str,
    table_uri: str,
    new: NewFiles,
    alone: bool = True,
) -> Callable[[], BaseFile]:
    """Make one file, and return what puts it. Each attempt has a file of its own, which its marker lets Hudi find."""
    began, rows = time.monotonic(), share.rows
    before = None if share.path is None else share.path.rpartition("/")[2]
    name = f"{before.split('_', 1)[0] if before else f'{uuid.uuid4()}-0'}_{token}_{new.instant}.parquet"
    own: Any = {"instant": new.instant, "file_name": name, "number": number, "avro_schema": new.avro_schema}
    own["partition"] = share.partition
    if share.path is None:
        result = Rewritten(parquet_of(rows, share.keys, **own), rows.num_rows, 0, 0)
    else:
        result = rewritten(read_file(objects, share.path), rows, share.keys, removed=share.removed, **own)
    counted, written = share.updates + len(share.removed), result.updated + result.removed
    if (result.updated, written) != (share.updates, counted):
        raise RowsDiffer(
            f"{table}: {counted:,} rows of {before} were to be updated or removed, and {written:,} were",
            table=table,
            counted=counted,
            written=written,
        )
    body, inserted = result.body.to_pybytes(), rows.num_rows - result.updated
    file = BaseFile(
        name, result.rows, len(body), 0, before, result.updated, inserted, share.partition, removed=result.removed
    )
    partition, starts = share.partition, share.starts  # without the rows, which a waiting put would hold

    def put() -> BaseFile:
        if starts:
            place, content = partition_metadata(partition, new.instant)
            write_file(objects, f"{table_uri}/{place}", content)
        kind = "CREATE" if before is None else "MERGE"
        write_data_file(objects, table_uri, file.path, body, new=new, kind=kind, alone=alone)
        return replace(file, ms=int((time.monotonic() - began) * 1000))

    return put


def _schema(rows: pa.Schema, avro_schema: str) -> pa.Schema:
    """The rows' schema with the columns required that the Avro schema has without null."""
    kinds = {item["name"]: item["type"] for item in json.loads(avro_schema)["fields"]}
    return pa.schema([item.with_nullable("null" in kinds[item.name]) for item in rows])
