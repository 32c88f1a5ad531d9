"""Merges a part of any size by Arrow: tasks decode objects, pass Arrow batches through one shuffle, and write files.

Two Spark jobs: one reads the objects, and the keys of a table's files beside them, into the shuffle and counts the
changes, so that everything is decided before Hudi's instant begins; the other writes files. No row becomes one of
Spark's. Into an empty table without partitions each part of the shuffle is a file; else the other job passes the rows
to write through a second shuffle, to the tasks of their files. Of few objects and a small table the driver does the
same by itself, without a job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import RDD, TaskContext
from pyspark.sql import SparkSession

from sluice.changes import hidden_columns as hidden
from sluice_spark.engine.tasks import task_objects
from sluice_spark.errors import RowsDiffer
from sluice_spark.hudi.facts import BaseFile, LogFile
from sluice_spark.hudi.own_files import NewFiles
from sluice_spark.merge.by_arrow.base_file import partition_paths
from sluice_spark.merge.by_arrow.decide import (
    BYTES,
    BYTES_OF_ROW,
    FILE,
    KEY,
    PATH,
    PartRows,
    decided_part,
)
from sluice_spark.merge.by_arrow.keyed_rows import Key, StoredRow, keys_of
from sluice_spark.merge.by_arrow.large.destinations import Destination, Place, PlacedRows, destinations
from sluice_spark.merge.by_arrow.large.messages import (
    STORED,
    Message,
    messages_of,
    read_ipc,
    stored_messages,
    stored_of,
    to_count,
)
from sluice_spark.merge.by_arrow.large.pieces import ReadShare, Share
from sluice_spark.merge.by_arrow.large.plan import LoadPlan
from sluice_spark.merge.by_arrow.large.write import Routed, packed, routed_rows, stays_of, unpacked, written_files
from sluice_spark.merge.by_arrow.rewrite import FileWork
from sluice_spark.merge.by_arrow.stored import SliceFiles, WantedKeys, stored_values
from sluice_spark.merge.rows import LeftToSpark, rows_schema

# Keys whose stored rows are read with their values, since changes leave values unchanged.
MOST_HISTORIES = 10_000
SLICES_PER_TASK = 16


@dataclass(frozen=True)
class LargeMerge:
    """The changes of a large part, and what became of each (`counts`, as those of a merge).

    `suspicions` counts keys that lost a change that may be later than what they hold. `truncates` are source tables and
    positions; `replaced` says how many rows a full dump deletes, and how many there are after it. `evolves`: the rows
    have columns, or nulls, that the table's schema has not.
    The changes are in the messages of Spark's shuffle, or in those that the driver holds.
    """

    counts: Mapping[str, int]
    suspicions: Mapping[str, int]
    truncates: Collection[tuple[str | None, str]]
    replaced: tuple[int, int]
    _spark: SparkSession = field(repr=False)
    _parts: RDD[Any] | Sequence[Message] = field(repr=False)
    _filled: Sequence[int] = field(repr=False)
    _plan: LoadPlan = field(repr=False)
    _places: Mapping[Place, Destination] = field(default_factory=dict, repr=False)  # where there is a second shuffle
    evolves: bool = False

    @property
    def rows(self) -> int:
        """How many rows are written."""
        return sum(self.counts.get(name, 0) for name in ("winning", "supplied", "truncated"))

    @property
    def in_driver(self) -> bool:
        """Whether the driver writes the rows."""
        return not isinstance(self._parts, RDD)

    def write(self, new: NewFiles) -> list[BaseFile | LogFile]:
        """Write the rows: one file per part, or those of each place.

        Raises RowsDiffer: where an executor was lost its objects are read again, and one may be gone by then.
        """
        if isinstance(self._parts, RDD):
            files = self._written_in_tasks(self._parts, new)
        else:
            routed = routed_rows(self._parts, self._plan, self._places)
            files = written_files(routed, self._plan, new, number=0, token="0-0-0", places=self._places)
        written = sum(file.updated + (file.inserted if isinstance(file, BaseFile) else 0) for file in files)
        if written != self.rows:
            table = self._plan.reader.config.table
            raise RowsDiffer(
                f"{table}: {written:,} rows were written, and {self.rows:,} counted",
                table=table,
                counted=self.rows,
                written=written,
            )
        return files

    def _written_in_tasks(self, parts: RDD[Any], new: NewFiles) -> list[BaseFile | LogFile]:
        plan, places = self._plan, self._places

        def task(messages: Iterable[Message]) -> Iterator[BaseFile | LogFile]:
            context = TaskContext.get()
            assert context is not None
            token = f"{context.partitionId()}-{context.stageId()}-{context.taskAttemptId()}"
            routed: Iterable[Routed] = (unpacked(message) for message in messages)
            if not places:
                routed = routed_rows(messages, plan, places)
            yield from written_files(routed, plan, new, number=context.partitionId(), token=token, places=places)

        def to_files(messages: Iterable[Message]) -> Iterator[Message]:
            return map(packed, routed_rows(messages, plan, places))

        filled = self._filled
        if places:
            filled = range(max(own.tasks.stop for own in places.values()))
            parts = parts.mapPartitions(to_files).partitionBy(len(filled), int)
        return list(self._spark.sparkContext.runJob(parts, task, filled))


def read_in_tasks(
    spark: SparkSession, shares: Sequence[Share], read: ReadShare, plan: LoadPlan, *, parts: int, work: FileWork
) -> LargeMerge:
    """Read the objects, and the keys of the table's slices, into the shuffle and count the changes.

    Raises LeftToSpark where a change needs what Spark alone does, and for a part that is too large. Nothing is written
    then but the reasons for what can't be read.
    """
    context = spark.sparkContext
    slices = [SliceFiles.of(number, item, plan.table_uri) for number, item in enumerate(plan.slices)]
    per_task = max(1, min(SLICES_PER_TASK, -(-len(slices) // context.defaultParallelism)))
    items: list[tuple[Share, Sequence[SliceFiles]]] = [(share, ()) for share in shares]
    items += [((), slices[place : place + per_task]) for place in range(0, len(slices), per_task)]

    def task(items: Iterable[tuple[Share, Sequence[SliceFiles]]]) -> Iterator[Message]:
        for share, own in items:
            try:
                yield from messages_of(read(share), plan, parts)
            except LeftToSpark as left:
                yield parts, left.reason
            for files in own:
                yield from stored_messages(task_objects(plan.source), files, plan, parts)

    shuffled = context.parallelize(items, len(items)).mapPartitions(task).partitionBy(2 * parts, int)

    def counted(plan: LoadPlan) -> list[Any]:
        return list(context.runJob(shuffled, partial(_counted, plan=plan), list(range(parts, 2 * parts))))

    return _merge(spark, shuffled, counted, plan, parts=parts, work=work)


def read_in_driver(
    spark: SparkSession, batches: Iterable[pa.RecordBatch], plan: LoadPlan, *, work: FileWork
) -> LargeMerge:
    """Count the decoded rows of a part, and hold them in the driver. Raises LeftToSpark as `read_in_tasks` does."""
    slices = [SliceFiles.of(number, item, plan.table_uri) for number, item in enumerate(plan.slices)]
    messages = list(messages_of(batches, plan, 1))
    for own in work.each(lambda objects, token, number, files: list(stored_messages(objects, files, plan, 1)), slices):
        messages += own

    def counted(plan: LoadPlan) -> list[Any]:
        return _counted([message for message in messages if message[0] == 1], plan)

    return _merge(spark, [message for message in messages if message[0] == 0], counted, plan, parts=1, work=work)


def _merge(
    spark: SparkSession,
    messages: RDD[Any] | Sequence[Message],
    counted: Callable[[LoadPlan], list[Any]],
    plan: LoadPlan,
    *,
    parts: int,
    work: FileWork,
) -> LargeMerge:
    """The merge of messages, which `counted` counts: again with the stored rows that histories need."""
    results = _without_reasons(counted(plan))
    needs = [one.needs for one, _ in results if one.needs is not None]
    if needs:
        wanted = pa.concat_tables(needs)
        if wanted.num_rows > MOST_HISTORIES:
            raise LeftToSpark("unchanged", f"{wanted.num_rows:,} keys")
        plan = replace(plan, held=held_rows(wanted, plan, plan.target, work=partial(replace, work)))
        results = _without_reasons(counted(plan))
        if any(one.needs is not None for one, _ in results):
            raise LeftToSpark("unchanged", "no stored row")
    counts, placed = total([one.counts for one, _ in results]), _placed_rows([own for _, own in results])
    if not plan.slices and not counts["winning"]:
        raise LeftToSpark("empty")
    sources = {source for one, _ in results for source in one.sources} | set(plan.floors.by_source)
    truncates = results[0][0].truncates
    if len((sources | {source for source, _ in truncates}) - {None}) > 1 and plan.floors.raised(truncates).by_source:
        raise LeftToSpark("sources")  # each has a floor of its own
    places: dict[Place, Destination] = {}
    if plan.second_shuffle:
        spread = parts if not plan.slices else max(parts, 2 * spark.sparkContext.defaultParallelism)
        places = destinations(placed, plan.slices, in_logs=plan.in_logs, rows_stored=plan.rows, parts=spread)
    filled = [part for part, (one, _) in enumerate(results) if one.counts["winning"]]
    replaced = (sum(one.replaced[0] for one, _ in results), sum(one.replaced[1] for one, _ in results))
    suspicions: Counter[str] = Counter()
    for one, _ in results:
        suspicions.update(one.suspicions)
    own: Any = {"suspicions": suspicions, "truncates": truncates, "replaced": replaced}
    if parts == 1 and not plan.slices and isinstance(messages, RDD):
        places = {}  # the only part is written without a second shuffle
    return LargeMerge(counts, **own, _spark=spark, _parts=messages, _filled=filled, _plan=plan, _places=places)


def held_rows(
    needs: pa.Table, plan: LoadPlan, columns: Collection[str], *, work: Callable[..., FileWork]
) -> dict[Key, StoredRow]:
    """The stored rows of the keys that a PartRows `needs`, with their values of `columns`. Raises LeftToSpark."""
    slices = {number: plan.slices[number] for number in pc.unique(needs.column(FILE)).to_pylist()}
    values = pa.schema([item for item in rows_schema(plan.target) if item.name in columns])
    wanted = WantedKeys(needs, plan.record_key)
    texts = dict(zip(keys_of(needs, plan.record_key), needs.column(KEY).to_pylist()))  # a key may be there twice
    rows = stored_values(plan.table_uri, slices, wanted, values, committed=plan.committed, work=work)
    return {
        (*key, texts[key]): replace(
            row,
            values={
                **row.values,
                KEY: texts[key],
                PATH: plan.slices[row.file].partition,
                BYTES: BYTES_OF_ROW,
                hidden.INEXACT: 0,
            },
        )
        for key, row in rows.items()
    }


def _without_reasons(results: Sequence[Any]) -> list[Any]:
    """The results of all parts. Raises LeftToSpark for reasons among them."""
    reasons = [one for one in results if isinstance(one, str)]
    if reasons:
        raise LeftToSpark(min(reasons))
    return list(results)


def total(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The counts of all parts, as those of a merge."""
    totals: Counter[str] = Counter()
    for number, one in enumerate(counts):
        totals.update(one)
        if number:  # each part has every truncate
            totals.subtract(dict.fromkeys(("read", "truncates"), one["truncates"]))
    overtaken = totals["read"] - totals["keys"] - totals["truncates"] - totals["messages"]
    always = ("read", "winning", "deleted", "losing", "repeated")
    made = {**{name: totals[name] for name in always}, "overtaken": overtaken}
    made.update({name: totals[name] for name in ("inexact", "truncates", "messages") if totals[name]})
    return {**made, **{name: totals[name] for name in ("supplied", "owed", "truncated") if name in totals}}


def _placed_rows(parts: Sequence[Sequence[Mapping[Any, int]]]) -> PlacedRows:
    sums: list[Counter[Any]] = [Counter() for _ in range(4)]
    for part in parts:
        for of_all, own in zip(sums, part):
            of_all.update(own)
    return PlacedRows(*sums)


def _counted(messages: Iterable[Message], plan: LoadPlan) -> list[Any]:
    """The counts of one part, or why it is left to Spark."""
    bodies = [message for _, message in messages]
    reasons = [one for one in bodies if isinstance(one, str)]
    if reasons:
        return [min(reasons)]
    changes = [body for body in bodies if body[0] != STORED]
    if sum(size for size, _ in changes) > plan.most_part_bytes:
        return ["size"]
    stored = stored_of(bodies, plan)
    empty = to_count(rows_schema(plan.target).empty_table(), plan)
    rows = pa.concat_tables([empty, *(read_ipc(body) for _, body in changes)])
    watched = not plan.reader.config.append_only and not plan.reader.config.position_columns and not plan.history
    try:
        decided = decided_part(rows, stored, plan, source_clock=plan.source_clock if watched else None)
    except LeftToSpark as left:
        return [left.reason]
    if decided.needs is not None and decided.needs.num_rows > MOST_HISTORIES:
        return ["unchanged"]
    placed = _placed(decided, stored, plan) if plan.second_shuffle and decided.needs is None else ()
    return [(replace(decided, rows=decided.rows.schema.empty_table()), placed)]


def _placed(decided: PartRows, stored: pa.Table, plan: LoadPlan) -> tuple[Mapping[Any, int], ...]:
    """What PlacedRows has of a part. A row of which only an ignored delete is known has neither path nor bytes."""
    rows, names = decided.rows, plan.partition_columns
    unknown = ""
    if names:
        (unknown,) = partition_paths(pa.table({name: pa.nulls(1, pa.string()) for name in names}), names).to_pylist()
    paths = pc.fill_null(rows.column(PATH), unknown).combine_chunks()
    stays, leaving = stays_of(rows, paths, plan)
    new = pa.table([paths, rows.column(BYTES)], ["path", "bytes"]).filter(pc.invert(stays))
    sums = new.group_by("path").aggregate([("bytes", "sum")])
    sizes = {
        path: size or 0 for path, size in zip(sums.column("path").to_pylist(), sums.column("bytes_sum").to_pylist())
    }
    updated = _numbers(rows.filter(stays))
    return (sizes, updated, {number: len(keys) for number, keys in leaving.items()}, _numbers(stored))


def _numbers(rows: pa.Table) -> dict[int, int]:
    counts = pc.value_counts(rows.column(FILE))
    return {entry["values"]: entry["counts"] for entry in counts.to_pylist()}
