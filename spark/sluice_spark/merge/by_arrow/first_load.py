"""Loads an empty table by Arrow: tasks decode objects, pass Arrow batches through one shuffle, and write base files.

Two Spark jobs: one reads the objects into the shuffle and counts the changes, so that everything is decided before
Hudi's instant begins; the other writes a file per part of the shuffle. No row becomes one of Spark's. Of a table with
partitions the other job passes each key's newest change through a second shuffle, to the tasks of its partition. Of few
objects the driver does the same by itself, without a job.
"""

from __future__ import annotations

import time
import uuid
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import RDD, TaskContext
from pyspark.sql import SparkSession

from sluice.batch.manifest import ManifestObject
from sluice.changes import hidden_columns as hidden
from sluice.changes.source_tables import Floors
from sluice.config.hudi_overrides import are_of_files
from sluice.config.table import TableConfig
from sluice.hudi import write_choices
from sluice_aws.s3.objects import ObjectSource, task_objects
from sluice_formats.records import ReaderPlan
from sluice_spark.errors import RowsDiffer
from sluice_spark.hudi.facts import BaseFile, TableFacts
from sluice_spark.hudi.own_files import NewFiles, partition_metadata
from sluice_spark.hudi.table_files import refuse_undone, write_data_file, write_file
from sluice_spark.merge.by_arrow.base_file import (
    can_write,
    has_plain_key,
    has_plain_partitions,
    key_text,
    parquet_of,
    partition_paths,
)
from sluice_spark.merge.by_arrow.decide import (
    PLACE_COLUMNS,
    latest_changes,
    may_share_keys,
    newest_places,
    suspicions_of_keys,
    with_batch,
)
from sluice_spark.merge.by_arrow.keyed_rows import as_tombstones, keys_of
from sluice_spark.merge.by_arrow.rows import LeftToSpark, arrow_rows, check_columns
from sluice_spark.merge.by_arrow.unchanged_values import completed_rows, is_partial

MIB = 1024**2
# A part is one task's rows and one file. Of so many bytes as stored, it has several times as many in Arrow.
STORED_BYTES_PER_PART, MOST_PARTS = 16 * MIB, 512
# A write task holds its part's rows, their sorted copy and the Parquet file: at most three times as many bytes.
MOST_PART_BYTES = 128 * MIB
# A read task holds the rows of one object twice, at least so many bytes of small objects, and messages to other tasks.
GATHERED_BYTES, MESSAGE_BYTES = 8 * MIB, MIB
# Files of a table with partitions, each of which the commit names. A task puts several at once.
MOST_FILES, FILES_AT_ONCE = 5_000, 8

Share = Sequence[ManifestObject]
# Reads a share's objects in a task. Objects and records that can't be read are left in S3 (`merge.read`).
ReadShare = Callable[[Share], Iterator[pa.RecordBatch]]
_KEY, _PARTITION, _BYTES = "key", "partition", "bytes"
_SUMS = ("read", "winning", "deleted", "inexact")
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
    source_clock: bool = True  # the times of changes are the source's
    ignore_deletes: bool = False
    most_part_bytes: int = MOST_PART_BYTES

    @property
    def record_key(self) -> tuple[str, ...]:
        """The columns of the record key."""
        return self.reader.record_key


@dataclass(frozen=True)
class FirstLoad:
    """The changes of a first load, and what became of each (`counts`, as those of a merge).

    `suspicions` counts keys that lost a change that may be later than what they hold.
    They are in the messages of Spark's shuffle, or in those that the driver holds.
    """

    counts: Mapping[str, int]
    suspicions: Mapping[str, int]
    _spark: SparkSession = field(repr=False)
    _parts: RDD[Any] | Sequence[tuple[int, bytes]] = field(repr=False)
    _filled: Sequence[int] = field(repr=False)
    _plan: LoadPlan = field(repr=False)
    _tasks: Mapping[str, range] = field(default_factory=dict, repr=False)  # of each partition, where there are several

    def write(self, new: NewFiles) -> list[BaseFile]:
        """Write each key's newest change into base files: one per part, or per partition and task.

        Raises RowsDiffer: where an executor was lost its objects are read again, and one may be gone by then.
        """
        if isinstance(self._parts, RDD):
            files = self._written_in_tasks(self._parts, new)
        else:
            files = _written(self._parts, self._plan, new, number=0, token="0-0-0")
        written, counted = sum(file.rows for file in files), self.counts["winning"]
        if written != counted:
            table = self._plan.reader.table
            raise RowsDiffer(
                f"{table}: {written:,} rows were written, and {counted:,} counted",
                table=table,
                counted=counted,
                written=written,
            )
        return files

    def _written_in_tasks(self, parts: RDD[Any], new: NewFiles) -> list[BaseFile]:
        plan, tasks = self._plan, self._tasks

        def task(messages: Iterable[tuple[int, bytes]]) -> Iterator[BaseFile]:
            context = TaskContext.get()
            assert context is not None
            token = f"{context.partitionId()}-{context.stageId()}-{context.taskAttemptId()}"
            yield from _written(messages, plan, new, number=context.partitionId(), token=token)

        def to_partitions(messages: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, bytes]]:
            return _to_partitions(messages, plan, tasks)

        filled = self._filled
        if tasks:
            filled = range(max(own.stop for own in tasks.values()))
            parts = parts.mapPartitions(to_partitions).partitionBy(len(filled), _same)
        return list(self._spark.sparkContext.runJob(parts, task, filled))


def check_first_load(config: TableConfig, facts: TableFacts, plan: LoadPlan) -> None:
    """Raise LeftToSpark for a table that isn't loaded by Arrow.

    One with an instant is left, also where that was rolled back: what fails here is not tried here again.
    """
    reasons = {
        "instants": facts.newest is not None,
        "floor": bool(facts.floor) or facts.purged is not None,
        "partitions": not has_plain_partitions(plan.target, config.partition_columns),
        "history": bool(config.history),
        "index": write_choices.wants_record_index(config, has=facts.record_index, rows=0),
        "pyarrow": not can_write(),
        "options": are_of_files(config.hudi),
        "key": not has_plain_key(plan.target, config.record_key),
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
    results = context.runJob(shuffled, partial(_counted, plan=plan), list(range(parts, 2 * parts)))
    counts = _total(results)
    filled = [part for part, one in enumerate(results) if one["winning"]]
    tasks = tasks_by_partition([one["bytes"] for one in results], parts)
    return FirstLoad(counts, _suspicions(results), spark, shuffled, filled, plan, tasks if parts > 1 else {})


def load_in_driver(spark: SparkSession, batches: Iterable[pa.RecordBatch], plan: LoadPlan) -> FirstLoad:
    """Count the decoded rows of a part and hold them in the driver. Raises LeftToSpark as `read_first_load` does."""
    messages = list(_messages(batches, plan, 1))
    results = _counted([message for message in messages if message[0] == 1], plan)
    counts = _total(results)
    tasks_by_partition([results[0]["bytes"]], 1)  # for its check of the number of files
    held = [message for message in messages if message[0] == 0]
    return FirstLoad(counts, _suspicions(results), spark, held, [0], plan)


def _total(results: Sequence[Any]) -> dict[str, int]:
    """The counts of all parts. Raises LeftToSpark for reasons among them, and for a load without a row."""
    reasons = [one for one in results if isinstance(one, str)]
    if reasons:
        raise LeftToSpark(min(reasons))
    totals: dict[str, int] = {name: sum(one[name] for one in results) for name in _SUMS}
    if not totals["winning"]:
        raise LeftToSpark("empty")
    if not totals["inexact"]:
        del totals["inexact"]
    owed = [one["owed"] for one in results if one["owed"] is not None]
    of_histories = {"supplied": 0, "owed": sum(owed)} if owed else {}
    return {**totals, "overtaken": totals["read"] - totals["winning"], "losing": 0, "repeated": 0, **of_histories}


def _suspicions(results: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in results:
        total.update(one["suspicions"])
    return dict(total)


def tasks_by_partition(sizes: Sequence[Mapping[str, int]], parts: int) -> dict[str, range]:
    """The tasks that write each partition, of some `parts` in all: several share a task, or a large one has several.

    `sizes` are the bytes of rows by partition. Raises LeftToSpark for more files than a commit should have.
    """
    totals: dict[str, int] = {}
    for partition_sizes in sizes:
        for partition, size in partition_sizes.items():
            totals[partition] = totals.get(partition, 0) + size
    most, held, next_task = max(1, -(-sum(totals.values()) // parts)), 0, 0
    tasks = {}
    for partition, size in sorted(totals.items()):
        if held and held + size > most:
            held, next_task = 0, next_task + 1
        last = next_task + max(0, size - 1) // most
        tasks[partition] = range(next_task, last + 1)
        held, next_task = (0, last + 1) if size > most else (held + size, next_task)
    files = sum(map(len, tasks.values()))
    if files > MOST_FILES:
        raise LeftToSpark("partitions", f"{files:,} files")
    return tasks


def _same(part: int) -> int:
    return part


def _messages(batches: Iterable[pa.RecordBatch], plan: LoadPlan, parts: int) -> Iterator[tuple[int, Any]]:
    """The rows of each part in messages, (part, rows), and what is counted of them, (parts + part, (bytes, columns)).

    After rows that are left to Spark, the reason alone.
    """
    sent = [0] * parts
    for rows in _gathered(batches, plan):
        reason = _unusual(rows, plan)
        if reason is not None:
            yield parts, reason
            return
        for part, own in _divided(rows, _by_key(rows, plan, [range(parts)] * rows.num_rows)):
            sent[part] += own.nbytes
            if sent[part] > plan.most_part_bytes:
                yield parts, "size"
                return
            for whole in _in_messages(own):
                yield part, _ipc(whole)
                yield parts + part, (whole.nbytes, _ipc(_to_count(whole, plan)))


def _to_count(rows: pa.Table, plan: LoadPlan) -> pa.Table:
    """What is counted of rows."""
    counted = rows.select([*PLACE_COLUMNS, hidden.DELETED, hidden.INEXACT, hidden.UNCHANGED])
    counted = counted.append_column(_KEY, key_text(rows, plan.record_key))
    if not plan.reader.partition_columns:
        return counted
    texts = [column for column in rows.columns if pa.types.is_string(column.type) or pa.types.is_binary(column.type)]
    sizes = reduce(pc.add, (pc.fill_null(pc.binary_length(column), 0) for column in texts)).cast(pa.int64())
    counted = counted.append_column(_BYTES, pc.add(sizes, 8 * rows.num_columns))
    return counted.append_column(_PARTITION, _paths(rows, plan))


def _paths(rows: pa.Table, plan: LoadPlan) -> pa.Array:
    """The partition paths of rows as they are stored: a deleted one has no values, or those that it keeps."""
    places = rows.select(list(dict.fromkeys((*plan.reader.partition_columns, hidden.DELETED))))
    if not plan.keep_deleted_values:
        places = as_tombstones(places, record_key=plan.record_key)
    return partition_paths(places, plan.reader.partition_columns)


def _to_partitions(
    messages: Iterable[tuple[int, Any]], plan: LoadPlan, tasks: Mapping[str, range]
) -> Iterator[tuple[int, bytes]]:
    """The newest change of each key of a part, in messages to the tasks of its partition."""
    bodies = [body for _, body in messages if isinstance(body, bytes)]  # else what was counted
    if not bodies:
        return
    rows = _newest(bodies, plan)
    own_tasks = [tasks[path] for path in _paths(rows, plan).to_pylist()]
    for task, own in _divided(rows, _by_key(rows, plan, own_tasks)):
        for message in _in_messages(own):
            yield task, _ipc(message)


def _newest(messages: Iterable[bytes], plan: LoadPlan) -> pa.Table:
    rows = pa.concat_tables(pa.ipc.open_stream(body).read_all() for body in messages)
    places = newest_places([key_text(rows, plan.record_key)], rows.column(hidden.POSITION))
    newest = rows if len(places) == rows.num_rows else rows.take(places)
    return _completed(rows, newest, plan.record_key, plan)[0]


def _completed(rows: pa.Table, newest: pa.Table, key: Sequence[str], plan: LoadPlan) -> tuple[pa.Table, int | None]:
    """One row per key, and how many of them lack a value; None where each key's newest change alone gives its row."""
    partial_changes = is_partial(newest, ignore_deletes=plan.ignore_deletes)
    if not pc.any(partial_changes).as_py():
        return newest, None
    keys = dict.fromkeys(keys_of(newest.filter(partial_changes), key))
    completed = completed_rows(rows, keys, record_key=key, floors=Floors(), ignore_deletes=plan.ignore_deletes)
    return pa.concat_tables([newest.filter(pc.invert(partial_changes)), completed.rows]), completed.owed


def _in_messages(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows in messages."""
    for message in rows.to_batches(max_chunksize=max(1, rows.num_rows * MESSAGE_BYTES // max(rows.nbytes, 1))):
        yield pa.Table.from_batches([message])


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


def _unusual(rows: pa.Table, plan: LoadPlan) -> str | None:
    """Why these changes are left to Spark; None for changes of rows whose partitions are known."""
    unchanged = pc.list_flatten(rows.column(hidden.UNCHANGED))
    if pc.any(pc.is_in(unchanged, pa.array(plan.reader.partition_columns, pa.string()))).as_py():
        return "unchanged"
    if pc.any(pc.is_in(rows.column(hidden.OP), _NO_ROW)).as_py():
        return "no_row"
    return None


def _by_key(rows: pa.Table, plan: LoadPlan, tasks: Sequence[range]) -> pa.Array:
    """Of the tasks that each row may go to the one that its key chooses."""
    if max(map(len, set(tasks)), default=1) == 1:
        return pa.array([own.start for own in tasks], pa.int32())
    keys = key_text(rows, plan.record_key).to_pylist()
    chosen = (own[zlib.crc32(key.encode()) % len(own)] for key, own in zip(keys, tasks))
    return pa.array(chosen, pa.int32())


def _divided(rows: pa.Table, groups: pa.Array) -> Iterator[tuple[Any, pa.Table]]:
    """The rows of each group, in their order. `groups` has a group for each row."""
    encoded = groups.dictionary_encode()
    if len(encoded.dictionary) < 2:
        yield from ((group, rows) for group in encoded.dictionary.to_pylist())
        return
    rows, begin = rows.take(pc.sort_indices(encoded.indices)).combine_chunks(), 0
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(encoded.indices).to_pylist()}
    for number, group in enumerate(encoded.dictionary.to_pylist()):
        yield group, rows.slice(begin, counts[number])
        begin += counts[number]


def _ipc(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as out:
        out.write_table(rows)
    return bytes(sink.getvalue())


def _counted(messages: Iterable[tuple[int, Any]], plan: LoadPlan) -> list[Any]:
    """The counts of one part, or why it is left to Spark."""
    bodies = [message for _, message in messages]
    reasons = [one for one in bodies if isinstance(one, str)]
    if reasons:
        return [min(reasons)]
    if sum(size for size, _ in bodies) > plan.most_part_bytes:
        return ["size"]
    if not bodies:
        return [{**dict.fromkeys(_SUMS, 0), "owed": None, "bytes": {}, "suspicions": {}}]
    rows = pa.concat_tables(pa.ipc.open_stream(body).read_all() for _, body in bodies)
    keys, positions = [rows.column(_KEY)], rows.column(hidden.POSITION)
    if not plan.reader.append_only and may_share_keys(keys, positions, rows.column(hidden.OP)):
        return ["shared_keys"]  # perhaps: rows of one snapshot are compared by their values
    newest = rows.take(newest_places(keys, positions))
    if plan.reader.append_only and newest.num_rows < rows.num_rows:
        return ["came_before"]  # perhaps: the records are compared
    completed, owed = _completed(rows, newest, [_KEY], plan)
    return [
        {
            "read": rows.num_rows,
            "winning": newest.num_rows,
            "deleted": pc.sum(completed.column(hidden.DELETED)).as_py(),
            "inexact": pc.sum(newest.column(hidden.INEXACT)).as_py(),
            "owed": owed,
            "bytes": _bytes(completed, plan) if plan.reader.partition_columns else {},
            "suspicions": _later_by_clock(rows, newest, keys, plan),
        }
    ]


def _later_by_clock(rows: pa.Table, newest: pa.Table, keys: Sequence[Any], plan: LoadPlan) -> dict[str, int]:
    if plan.reader.append_only or plan.reader.position or not plan.source_clock:
        return {}
    return suspicions_of_keys(latest_changes(rows, newest, keys, source_clock=True), newest)


def _bytes(rows: pa.Table, plan: LoadPlan) -> dict[str, int]:
    """The bytes of rows by partition. A row of which only an ignored delete is known has neither."""
    sums = rows.group_by(_PARTITION).aggregate([(_BYTES, "sum")])
    names = plan.reader.partition_columns
    (unknown,) = partition_paths(pa.table({name: pa.nulls(1, pa.string()) for name in names}), names).to_pylist()
    sizes: Counter[str] = Counter()
    for partition, size in zip(sums.column(_PARTITION).to_pylist(), sums.column(f"{_BYTES}_sum").to_pylist()):
        sizes[unknown if partition is None else partition] += size or 0
    return dict(sizes)


def _written(
    messages: Iterable[tuple[int, bytes]], plan: LoadPlan, new: NewFiles, *, number: int, token: str
) -> list[BaseFile]:
    """Write the files of a part: one, or one per partition."""
    rows = _newest((body for _, body in messages), plan)
    shares = [("", rows)]
    if plan.reader.partition_columns:
        shares = list(_divided(rows, _paths(rows, plan)))
    # Made one after the other: threads that make files at once take twice the processor's time.
    with ThreadPoolExecutor(FILES_AT_ONCE, thread_name_prefix="file") as pool:
        puts = [
            pool.submit(_file(*share, plan, new, number=number * MOST_FILES + place, token=token))
            for place, share in enumerate(shares)
        ]
        files = [put.result() for put in puts]
    refuse_undone(task_objects(plan.source), plan.table_uri, [file.path for file in files], new=new)
    return files


def _file(
    partition: str, rows: pa.Table, plan: LoadPlan, new: NewFiles, *, number: int, token: str
) -> Callable[[], BaseFile]:
    """Make a file, and return what puts it. Each attempt has a file of its own, which its marker lets Hudi find."""
    began = time.monotonic()
    keys, rows = key_text(rows, plan.record_key), stored_rows(rows, plan)
    name = f"{uuid.uuid4()}-0_{token}_{new.instant}.parquet"
    own: Any = {"instant": new.instant, "file_name": name, "number": number, "avro_schema": new.avro_schema}
    body = parquet_of(rows, keys, partition=partition, **own).to_pybytes()
    file = BaseFile(name, rows.num_rows, len(body), 0, inserted=rows.num_rows, partition=partition)
    objects = task_objects(plan.source)

    def put() -> BaseFile:
        if partition:
            place, content = partition_metadata(partition, new.instant)
            write_file(objects, f"{plan.table_uri}/{place}", content)
        write_data_file(objects, plan.table_uri, file.path, body, new=new, kind="CREATE", alone=False)
        return replace(file, ms=int((time.monotonic() - began) * 1000))

    return put


def stored_rows(newest: pa.Table, plan: LoadPlan) -> pa.Table:
    """The newest changes as the table stores them: of deleted rows the key alone, and the lineage that is on."""
    if not plan.keep_deleted_values:
        newest = as_tombstones(newest, record_key=plan.record_key)
    rows = with_batch(newest.select(list(plan.target)), lineage=plan.lineage, batch=plan.reader.batch)
    full = hidden.BATCH if "batch" in plan.lineage else None
    return rows.cast(pa.schema([field.with_nullable(field.name != full) for field in rows.schema]))
