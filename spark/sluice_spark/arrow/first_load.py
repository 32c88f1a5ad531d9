"""Loads an empty table by Arrow: tasks decode objects, pass Arrow batches through one shuffle, and write base files.

Two Spark jobs: one reads the objects into the shuffle and counts the changes, so that everything is decided before
Hudi's instant begins; the other writes a file per part of the shuffle. No row becomes one of Spark's.
"""

from __future__ import annotations

import time
import uuid
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import RDD, TaskContext
from pyspark.sql import SparkSession

from sluice.batch.manifest import ManifestObject
from sluice.changes import hidden_columns as hidden
from sluice.config.table import IGNORE, TableConfig
from sluice.hudi import options as hudi_options
from sluice.hudi import write_choices
from sluice_aws.s3.objects import ObjectSource, task_objects
from sluice_formats.records import ReaderPlan
from sluice_spark.arrow.base_file import can_write, has_plain_key, key_text, parquet_of
from sluice_spark.arrow.decide import as_tombstones, may_share_keys, newest_places, with_batch
from sluice_spark.arrow.rows import LeftToSpark, arrow_rows, check_columns
from sluice_spark.arrow.table_files import write_file
from sluice_spark.errors import RowsDiffer
from sluice_spark.hudi.base_files import NewFiles, marker
from sluice_spark.hudi.facts import BaseFile, TableFacts

MIB = 1024**2
# A part is one task's rows and one file. Of so many bytes as stored, it has several times as many in Arrow.
STORED_BYTES_PER_PART, MOST_PARTS = 16 * MIB, 128
# A write task holds its part's rows, their sorted copy and the Parquet file: at most three times as many bytes.
MOST_PART_BYTES = 128 * MIB
# A read task holds the rows of one object twice, at least so many bytes of small objects, and messages to other tasks.
GATHERED_BYTES, MESSAGE_BYTES = 8 * MIB, MIB

Share = Sequence[ManifestObject]
# Reads a share's objects in a task. Objects and records that can't be read are left in S3 (`merge.read`).
ReadShare = Callable[[Share], Iterator[pa.RecordBatch]]
_KEY = "key"
_NO_ROW = pa.array([hidden.TRUNCATE, hidden.MESSAGE])


@dataclass(frozen=True)
class LoadPlan:
    """What tasks need. `target` has the table's columns, name -> Spark's type name; `lineage` are words."""

    reader: ReaderPlan
    target: Mapping[str, str]
    table_uri: str
    source: ObjectSource
    keep_deleted_values: bool
    lineage: Collection[str]
    most_part_bytes: int = MOST_PART_BYTES

    @property
    def record_key(self) -> tuple[str, ...]:
        """The columns of the record key."""
        return self.reader.record_key


@dataclass(frozen=True)
class FirstLoad:
    """The changes of a first load, in Spark's shuffle, and what became of each (`counts`, as those of a merge)."""

    counts: Mapping[str, int]
    _spark: SparkSession = field(repr=False)
    _parts: RDD[Any] = field(repr=False)
    _filled: Sequence[int] = field(repr=False)
    _plan: LoadPlan = field(repr=False)

    def write(self, new: NewFiles) -> list[BaseFile]:
        """Write each key's newest change into base files, one per part.

        Raises RowsDiffer: where an executor was lost its objects are read again, and one may be gone by then.
        """
        plan = self._plan

        def task(messages: Iterable[tuple[int, bytes]]) -> Iterator[BaseFile]:
            context = TaskContext.get()
            assert context is not None
            token = f"{context.partitionId()}-{context.stageId()}-{context.taskAttemptId()}"
            yield _written(messages, plan, new, number=context.partitionId(), token=token)

        files = self._spark.sparkContext.runJob(self._parts, task, self._filled)
        written, counted = sum(file.rows for file in files), self.counts["winning"]
        if written != counted:
            raise RowsDiffer(
                f"{plan.reader.table}: {written:,} rows were written, and {counted:,} counted",
                table=plan.reader.table,
                counted=counted,
                written=written,
            )
        return files


def check_first_load(config: TableConfig, facts: TableFacts, plan: LoadPlan) -> None:
    """Raise LeftToSpark for a table that isn't loaded by Arrow.

    One with an instant is left, also where that was rolled back: what fails here is not tried here again.
    """
    reasons = {
        "instants": facts.newest is not None,
        "floor": facts.floor is not None or facts.purged is not None,
        "partitions": bool(config.partition_by),
        "history": bool(config.history),
        "index": write_choices.wants_record_index(config, has=facts.record_index, rows=0),
        "pyarrow": not can_write(),
        "options": bool(config.hudi),
        "deletes": config.delete_mode == IGNORE,
        "key": not has_plain_key(plan.target, config.record_key),
        "lists": any(map(hudi_options.is_list, plan.target.values())),
    }
    for reason, holds in reasons.items():
        if holds:
            raise LeftToSpark(reason)
    check_columns(plan.reader, plan.target)


def part_count(objects: Sequence[ManifestObject]) -> int:
    """How many files a first load of these objects makes. Raises LeftToSpark for more than it is made for."""
    parts = -(-sum(item.size for item in objects) // STORED_BYTES_PER_PART)
    if parts > MOST_PARTS:
        raise LeftToSpark("size", f"{parts} files")
    return max(1, parts)


def read_first_load(
    spark: SparkSession, shares: Sequence[Share], read: ReadShare, plan: LoadPlan, *, parts: int
) -> FirstLoad:
    """Read the objects into the shuffle and count their changes.

    Raises LeftToSpark where a change needs more than its key's newest one, and for a part that is too large. Nothing is
    written then but the reasons for what can't be read.
    """
    context = spark.sparkContext

    def task(shares: Iterable[Share]) -> Iterator[tuple[int, Any]]:
        for share in shares:
            yield from _messages(read(share), plan, parts)

    shuffled = context.parallelize(shares, len(shares)).mapPartitions(task).partitionBy(2 * parts, _same)
    found = context.runJob(shuffled, partial(_counted, plan=plan), list(range(parts, 2 * parts)))
    reasons = [one for one in found if isinstance(one, str)]
    if reasons:
        raise LeftToSpark(min(reasons))
    totals: dict[str, int] = {name: sum(one[name] for one in found) for name in found[0]}
    if not totals["winning"]:
        raise LeftToSpark("empty")
    if not totals["inexact"]:
        del totals["inexact"]
    counts = {**totals, "overtaken": totals["read"] - totals["winning"], "losing": 0, "repeated": 0}
    return FirstLoad(counts, spark, shuffled, [part for part, one in enumerate(found) if one["winning"]], plan)


def _same(part: int) -> int:
    return part


def _messages(batches: Iterable[pa.RecordBatch], plan: LoadPlan, parts: int) -> Iterator[tuple[int, Any]]:
    """The rows of each part in messages, (part, rows), and what is counted of them, (parts + part, (bytes, columns)).

    After rows that are left to Spark, the reason alone.
    """
    sent = [0] * parts
    for rows in _gathered(batches, plan):
        reason = _unusual(rows)
        if reason is not None:
            yield parts, reason
            return
        for part, own in _divided(rows, plan, parts):
            sent[part] += own.nbytes
            if sent[part] > plan.most_part_bytes:
                yield parts, "size"
                return
            for message in own.to_batches(max_chunksize=max(1, own.num_rows * MESSAGE_BYTES // max(own.nbytes, 1))):
                whole = pa.Table.from_batches([message])
                counted = whole.select([hidden.POSITION, hidden.OP, hidden.DELETED, hidden.INEXACT])
                counted = counted.append_column(_KEY, key_text(whole, plan.record_key))
                yield part, _ipc(whole)
                yield parts + part, (whole.nbytes, _ipc(counted))


def _gathered(batches: Iterable[pa.RecordBatch], plan: LoadPlan) -> Iterator[pa.Table]:
    """The table's rows of the batches, those of small objects together."""
    held: list[pa.Table] = []
    size = 0
    for batch in batches:
        held.append(arrow_rows([batch], plan=plan.reader, target=plan.target))
        size += held[-1].nbytes
        if size >= GATHERED_BYTES:
            yield pa.concat_tables(held).combine_chunks()
            held, size = [], 0
    if held:
        yield pa.concat_tables(held).combine_chunks()


def _unusual(rows: pa.Table) -> str | None:
    """Why these changes are left to Spark; None for changes that each give a whole row."""
    unchanged = rows.column(hidden.UNCHANGED)
    if unchanged.null_count < len(unchanged):
        return "unchanged"
    if pc.any(pc.is_in(rows.column(hidden.OP), _NO_ROW)).as_py():
        return "no_row"
    return None


def _divided(rows: pa.Table, plan: LoadPlan, parts: int) -> Iterator[tuple[int, pa.Table]]:
    if parts == 1:
        yield 0, rows
        return
    keys = key_text(rows, plan.record_key).to_pylist()
    of_row = pa.array([zlib.crc32(key.encode()) % parts for key in keys], pa.int32())
    for part in pc.unique(of_row).to_pylist():
        yield part, rows.filter(pc.equal(of_row, part)).combine_chunks()


def _ipc(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as out:
        out.write_table(rows)
    return bytes(sink.getvalue())


def _counted(messages: Iterable[tuple[int, Any]], plan: LoadPlan) -> list[Any]:
    """The counts of one part, or why it is left to Spark."""
    found = [message for _, message in messages]
    reasons = [one for one in found if isinstance(one, str)]
    if reasons:
        return [min(reasons)]
    if sum(size for size, _ in found) > plan.most_part_bytes:
        return ["size"]
    if not found:
        return [{"read": 0, "winning": 0, "deleted": 0, "inexact": 0}]
    rows = pa.concat_tables(pa.ipc.open_stream(body).read_all() for _, body in found)
    keys, positions = [rows.column(_KEY)], rows.column(hidden.POSITION)
    if not plan.reader.append_only and may_share_keys(keys, positions, rows.column(hidden.OP)):
        return ["shared_keys"]  # perhaps: rows of one snapshot are compared by their values
    newest = rows.take(newest_places(keys, positions))
    return [
        {
            "read": rows.num_rows,
            "winning": newest.num_rows,
            "deleted": pc.sum(newest.column(hidden.DELETED)).as_py(),
            "inexact": pc.sum(newest.column(hidden.INEXACT)).as_py(),
        }
    ]


def _written(
    messages: Iterable[tuple[int, bytes]], plan: LoadPlan, new: NewFiles, *, number: int, token: str
) -> BaseFile:
    """Write a part's file, Hudi's marker first. Each attempt has a file of its own, which its marker lets Hudi find."""
    began = time.monotonic()
    rows = pa.concat_tables(pa.ipc.open_stream(body).read_all() for _, body in messages)
    keys = key_text(rows, plan.record_key)
    places = newest_places([keys], rows.column(hidden.POSITION))
    rows, keys = stored_rows(rows.take(places), plan), keys.take(places)
    name = f"{uuid.uuid4()}-0_{token}_{new.instant}.parquet"
    body = parquet_of(
        rows, keys, instant=new.instant, file_name=name, number=number, avro_schema=new.avro_schema
    ).to_pybytes()
    objects = task_objects(plan.source)
    write_file(objects, f"{plan.table_uri}/{marker(name, new.instant, 'CREATE')}", b"")
    write_file(objects, f"{plan.table_uri}/{name}", body)
    ms = int((time.monotonic() - began) * 1000)
    return BaseFile(name, rows.num_rows, len(body), ms, inserted=rows.num_rows)


def stored_rows(newest: pa.Table, plan: LoadPlan) -> pa.Table:
    """The newest changes as the table stores them: of deleted rows the key alone, and the lineage that is on."""
    if not plan.keep_deleted_values:
        newest = as_tombstones(newest, record_key=plan.record_key)
    rows = with_batch(newest.select(list(plan.target)), lineage=plan.lineage, batch=plan.reader.batch)
    full = hidden.BATCH if "batch" in plan.lineage else None
    return rows.cast(pa.schema([field.with_nullable(field.name != full) for field in rows.schema]))
