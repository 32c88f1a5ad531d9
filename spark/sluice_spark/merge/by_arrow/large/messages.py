"""The messages of a large merge: Arrow batches of rows for a part of the shuffle, and what is counted of them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.changes import hidden_columns as hidden
from sluice_aws.s3.objects import Objects
from sluice_spark.hudi.logs import UnreadableLog
from sluice_spark.merge.by_arrow.base_file import key_text, partition_paths
from sluice_spark.merge.by_arrow.decide import BYTES, KEY, NO_ROW, PATH, PLACE_COLUMNS
from sluice_spark.merge.by_arrow.keyed_rows import as_tombstones
from sluice_spark.merge.by_arrow.large.plan import MIB, LoadPlan
from sluice_spark.merge.by_arrow.large.stored_keys import stored_in_slice, stored_schema
from sluice_spark.merge.by_arrow.stored import SliceFiles
from sluice_spark.merge.by_arrow.unchanged_values import changes_as_rows
from sluice_spark.merge.rows import LeftToSpark, arrow_rows

# A read task holds the rows of one object twice, at least so many bytes of small objects, and messages to other tasks.
GATHERED_BYTES, MESSAGE_BYTES = 8 * MIB, MIB

# A message is of a part of the shuffle: rows, or stored rows (STORED, rows). Behind the parts that are written, as many
# have what is counted of them: (bytes, rows), (STORED, rows), or why the merge is left to Spark.
Message = tuple[int, Any]
STORED = "stored"


def messages_of(batches: Iterable[pa.RecordBatch], plan: LoadPlan, parts: int) -> Iterator[Message]:
    """The rows of each part in messages, and what is counted of them. After what is left to Spark, the reason alone.

    Every part gets every truncate.
    """
    sent = [0] * parts
    for gathered in _gathered(batches, plan):
        if plan.history:
            no_row = pc.is_in(gathered.column(hidden.OP), value_set=pa.array(NO_ROW))
            if pc.any(pc.equal(gathered.column(hidden.OP), hidden.TRUNCATE)).as_py():
                yield parts, "truncate"  # it ends the states of rows
                return
            gathered = changes_as_rows(
                gathered.filter(pc.invert(no_row)),
                target=plan.target,
                record_key=plan.reader.config.record_key,
                keep=plan.keep_deleted_values,
            ).combine_chunks()
        if _is_partition_unknown(gathered, plan):
            yield parts, "unchanged"
            return
        for part, own in _by_part(gathered, plan, parts):
            sent[part] += own.nbytes
            if sent[part] > plan.most_part_bytes:
                yield parts, "size"
                return
            for whole in in_messages(own):
                yield part, ipc(whole)
                yield parts + part, (whole.nbytes, ipc(to_count(whole, plan)))


def _by_part(rows: pa.Table, plan: LoadPlan, parts: int) -> Iterator[tuple[int, pa.Table]]:
    ops = rows.column(hidden.OP)
    beside = pc.is_in(ops, value_set=pa.array(NO_ROW))
    if pc.any(beside).as_py():
        truncates = rows.filter(pc.equal(ops, hidden.TRUNCATE))
        if truncates.num_rows:
            yield from ((part, truncates) for part in range(parts))
        messages = rows.filter(pc.equal(ops, hidden.MESSAGE))
        if messages.num_rows:
            yield 0, messages
        rows = rows.filter(pc.invert(beside)).combine_chunks()
    if rows.num_rows:
        yield from divided(rows, by_key_of(key_text(rows, plan.record_key), [range(parts)] * rows.num_rows))


def stored_messages(objects: Objects, files: SliceFiles, plan: LoadPlan, parts: int) -> Iterator[Message]:
    """The stored rows of each part, to be written and to be counted."""
    schema = stored_schema(plan.target, plan.record_key)
    try:
        rows = stored_in_slice(
            objects, files, schema=schema, record_key=plan.record_key, committed=plan.committed
        ).combine_chunks()
    except (LeftToSpark, UnreadableLog) as left:
        yield parts, left.reason if isinstance(left, LeftToSpark) else "logs"
        return
    if not rows.num_rows:
        return
    for part, own in divided(rows, by_key_of(rows.column(KEY), [range(parts)] * rows.num_rows)):
        body = ipc(own)
        yield part, (STORED, body)
        yield parts + part, (STORED, body)


def to_count(rows: pa.Table, plan: LoadPlan) -> pa.Table:
    """What is counted of rows."""
    source = [name for name in (hidden.SOURCE,) if name in rows.schema.names]
    names = (*plan.record_key, *PLACE_COLUMNS, hidden.DELETED, hidden.INEXACT, hidden.UNCHANGED, *source)
    counted = rows.select(list(dict.fromkeys(names)))
    counted = counted.append_column(KEY, key_text(rows, plan.record_key))
    if not plan.second_shuffle:
        return counted
    texts = [column for column in rows.columns if pa.types.is_string(column.type) or pa.types.is_binary(column.type)]
    sizes = reduce(pc.add, (pc.fill_null(pc.binary_length(column), 0) for column in texts)).cast(pa.int64())
    counted = counted.append_column(BYTES, pc.add(sizes, 8 * rows.num_columns))
    return counted.append_column(PATH, paths_of(rows, plan))


def paths_of(rows: pa.Table, plan: LoadPlan) -> pa.Array:
    """The partition paths of rows as they are stored: a deleted one has no values, or those that it keeps."""
    if not plan.partition_columns:
        return pa.repeat(pa.scalar(""), rows.num_rows)
    places = rows.select(list(dict.fromkeys((*plan.partition_columns, hidden.DELETED))))
    if not plan.keep_deleted_values:
        places = as_tombstones(places, record_key=plan.record_key)
    return partition_paths(places, plan.partition_columns)


def stored_of(bodies: Iterable[Any], plan: LoadPlan) -> pa.Table:
    """The stored rows among the messages of a part."""
    empty = stored_schema(plan.target, plan.record_key).empty_table()
    own = [read_ipc(body[1]) for body in bodies if isinstance(body, tuple) and body[0] == STORED]
    return pa.concat_tables([empty, *own]).combine_chunks()


def in_messages(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows in messages."""
    for message in rows.to_batches(max_chunksize=max(1, rows.num_rows * MESSAGE_BYTES // max(rows.nbytes, 1))):
        yield pa.Table.from_batches([message])


def _gathered(batches: Iterable[pa.RecordBatch], plan: LoadPlan) -> Iterator[pa.Table]:
    """The table's rows of the batches, those of small objects together."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.get_total_buffer_size()
        if size >= GATHERED_BYTES:
            yield arrow_rows(held, plan=plan.reader, target=plan.target).combine_chunks()
            held, size = [], 0
    if held:
        yield arrow_rows(held, plan=plan.reader, target=plan.target).combine_chunks()


def _is_partition_unknown(rows: pa.Table, plan: LoadPlan) -> bool:
    unchanged = pc.list_flatten(rows.column(hidden.UNCHANGED))
    return bool(pc.any(pc.is_in(unchanged, pa.array(plan.partition_columns, pa.string()))).as_py())


def by_key_of(keys: Any, tasks: Sequence[range]) -> pa.Array:
    """Of the tasks that each row may go to the one that its key chooses. `keys` are the texts of the rows' keys."""
    if max(map(len, set(tasks)), default=1) == 1:
        return pa.array([own.start for own in tasks], pa.int32())
    chosen = (own[zlib.crc32(key.encode()) % len(own)] for key, own in zip(keys.to_pylist(), tasks))
    return pa.array(chosen, pa.int32())


def divided(rows: pa.Table, groups: pa.Array) -> Iterator[tuple[Any, pa.Table]]:
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


def ipc(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as out:
        out.write_table(rows)
    return bytes(sink.getvalue())


def read_ipc(body: bytes) -> pa.Table:
    return pa.ipc.open_stream(body).read_all()
