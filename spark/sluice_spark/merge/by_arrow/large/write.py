"""Writes the rows of a large merge: to the tasks of their files, and there into new files, rewritten ones and logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.changes import hidden_columns as hidden
from sluice_aws.s3.objects import Objects
from sluice_spark.engine.tasks import task_objects
from sluice_spark.hudi.facts import BaseFile, LogFile
from sluice_spark.hudi.own_files import NewFiles
from sluice_spark.hudi.table_files import refuse_undone
from sluice_spark.merge.by_arrow.base_file import key_text
from sluice_spark.merge.by_arrow.covers import MOST_FILES
from sluice_spark.merge.by_arrow.decide import FILE, KEY, decided_part, with_batch
from sluice_spark.merge.by_arrow.keyed_rows import as_tombstones
from sluice_spark.merge.by_arrow.large.destinations import NEW, Destination, Place
from sluice_spark.merge.by_arrow.large.messages import (
    Message,
    by_key_of,
    divided,
    in_messages,
    ipc,
    paths_of,
    read_ipc,
    stored_of,
)
from sluice_spark.merge.by_arrow.large.plan import LoadPlan
from sluice_spark.merge.by_arrow.placement import log_values
from sluice_spark.merge.by_arrow.rewrite import FileRows, LogRows, made_base, write_base, write_log

# A task puts several new files at once; it rewrites fewer, each of which it holds before and after.
FILES_AT_ONCE, REWRITTEN_AT_ONCE = 8, 2


@dataclass(frozen=True)
class Routed:
    """Rows for a file, with KEY and FILE, which is null for rows that its slice doesn't hold; keys that leave it."""

    task: int
    place: Place
    rows: pa.Table
    removed: Sequence[str] = ()


def packed(routed: Routed) -> Message:
    return routed.task, (routed.place, ipc(routed.rows), routed.removed)


def unpacked(message: Message) -> Routed:
    task, (place, rows, removed) = message
    return Routed(task, place, read_ipc(rows), removed)


def routed_rows(messages: Iterable[Message], plan: LoadPlan, places: Mapping[Place, Destination]) -> Iterator[Routed]:
    """The rows to write of a part, by the tasks of their places."""
    bodies = [body for _, body in messages]
    changes = [read_ipc(body) for body in bodies if isinstance(body, bytes)]  # else what was counted
    if not changes:
        return
    rows = pa.concat_tables(changes)
    stored = stored_of(bodies, plan)
    rows = decided_part(rows.append_column(KEY, key_text(rows, plan.record_key)), stored, plan).rows
    paths = paths_of(rows, plan)
    if not places:
        yield from (Routed(0, (path, NEW), share) for path, share in divided(rows, paths))
        return
    stays, leaving = stays_of(rows, paths, plan)
    files = pc.if_else(stays, rows.column(FILE), pa.scalar(None, pa.int32()))
    rows = rows.drop_columns([FILE]).append_column(FILE, files)
    for place, task, share in _shares(rows, paths, files, places):
        for message in in_messages(share):
            yield Routed(task, place, message)
    for number, keys in leaving.items():
        place = (plan.slices[number].partition, number)
        yield Routed(places[place].tasks.start, place, rows.slice(0, 0), keys)


def _shares(
    rows: pa.Table, paths: pa.Array, files: pa.Array, places: Mapping[Place, Destination]
) -> Iterator[tuple[Place, int, pa.Table]]:
    """The rows for each file and task. `files` has the number of the slice that each row stays in, or null."""
    if not rows.num_rows:
        return
    partitions, slices = paths.dictionary_encode(), pc.fill_null(files, NEW).combine_chunks().dictionary_encode()
    width = len(slices.dictionary)
    own = pc.add(pc.multiply(partitions.indices.cast(pa.int64()), width), slices.indices).dictionary_encode()
    names, numbers = partitions.dictionary.to_pylist(), slices.dictionary.to_pylist()
    targets = [places[names[code // width], numbers[code % width]] for code in own.dictionary.to_pylist()]
    if all(len(target.tasks) == 1 for target in targets):
        tasks = pa.array([target.tasks.start for target in targets], pa.int64()).take(own.indices)
    else:
        tasks = by_key_of(rows.column(KEY), [targets[number].tasks for number in own.indices.to_pylist()])
    written = list(dict.fromkeys((target.partition, target.number) for target in targets))
    at = {place: number for number, place in enumerate(written)}
    files_of_rows = pa.array([at[target.partition, target.number] for target in targets], pa.int64()).take(own.indices)
    most = max(target.tasks.stop for target in targets)
    for code, share in divided(rows, pc.add(pc.multiply(files_of_rows, most), tasks)):
        yield written[code // most], code % most, share


def stays_of(rows: pa.Table, paths: pa.Array, plan: LoadPlan) -> tuple[pa.Array, dict[int, list[str]]]:
    """Whether each row stays in the slice that holds it, and the keys of those that leave one, by its number."""
    files = rows.column(FILE).combine_chunks()
    partitions = pa.array([item.partition for item in plan.slices], pa.string())
    stays = pc.fill_null(pc.equal(partitions.take(files), paths), False)
    moved = rows.filter(pc.and_(pc.is_valid(files), pc.invert(stays)))
    leaving: dict[int, list[str]] = {}
    for number, key in zip(moved.column(FILE).to_pylist(), moved.column(KEY).to_pylist()):
        leaving.setdefault(number, []).append(key)
    return stays, leaving


def written_files(
    routed: Iterable[Routed],
    plan: LoadPlan,
    new: NewFiles,
    *,
    number: int,
    token: str,
    places: Mapping[Place, Destination],
) -> list[BaseFile | LogFile]:
    """Write the files of a task."""
    shares: dict[Place, list[Routed]] = {}
    for share in routed:
        shares.setdefault(share.place, []).append(share)
    numbered = [
        (number * MOST_FILES + at, place, pa.concat_tables(item.rows for item in own).combine_chunks(), own)
        for at, (place, own) in enumerate(shares.items())
    ]
    objects = task_objects(plan.source)
    of_table: Any = {"table": plan.reader.config.table, "table_uri": plan.table_uri, "alone": False}
    written: list[BaseFile | LogFile] = []

    def rewrite(at: int, place: Place, rows: pa.Table, own: Sequence[Routed]) -> BaseFile | LogFile:
        removed = [key for share in own for key in share.removed]
        return _rewritten(objects, places[place], rows, removed, plan, new, at, token)

    with ThreadPoolExecutor(REWRITTEN_AT_ONCE, thread_name_prefix="rewrite") as pool:
        held = [pool.submit(rewrite, *share) for share in numbered if share[1][1] != NEW]
        written += [put.result() for put in held]
    # Made one after the other: threads that make files at once take twice the processor's time.
    with ThreadPoolExecutor(FILES_AT_ONCE, thread_name_prefix="file") as pool:
        puts = []
        for at, (partition, slice_number), rows, _ in numbered:
            if slice_number == NEW:
                keys = rows.column(KEY)
                made = FileRows(None, rows_to_store(rows, plan), keys, 0, partition, starts=bool(partition))
                puts.append(pool.submit(made_base(objects, token, at, made, new=new, **of_table)))
        written += [put.result() for put in puts]
    refuse_undone(objects, plan.table_uri, [file.path for file in written], new=new)
    return written


def _rewritten(
    objects: Objects,
    place: Destination,
    rows: pa.Table,
    removed: Sequence[str],
    plan: LoadPlan,
    new: NewFiles,
    number: int,
    token: str,
) -> BaseFile | LogFile:
    """Write rows into the log or the base file of a slice."""
    item, keys, own = plan.slices[place.number], rows.column(KEY), rows_to_store(rows, plan)
    if place.logs:
        share = LogRows(item, log_values(own, keys.to_pylist()), removed)
        return write_log(objects, token, number, share, table_uri=plan.table_uri, new=new)
    assert item.base is not None
    updates = rows.num_rows - rows.column(FILE).null_count
    path = f"{plan.table_uri}/{item.base.path}"
    files = FileRows(path, own, keys.combine_chunks(), updates, place.partition, removed)
    return write_base(
        objects, token, number, files, table=plan.reader.config.table, table_uri=plan.table_uri, new=new, alone=False
    )


def rows_to_store(newest: pa.Table, plan: LoadPlan) -> pa.Table:
    """The newest changes as the table stores them: of deleted rows the key alone, and the lineage that is on."""
    if not (plan.keep_deleted_values or plan.history):
        newest = as_tombstones(newest, record_key=plan.record_key)
    rows = with_batch(newest.select(list(plan.target)), lineage=plan.lineage, batch=plan.reader.batch)
    full = hidden.BATCH if "batch" in plan.lineage else None
    return rows.cast(pa.schema([field.with_nullable(field.name != full) for field in rows.schema]))
