"""Decides a small part in the driver, by its objects and by the keys in its table's file slices.

`covers` says which parts are small, and whether Hudi's merge handle or pyarrow writes their rows. Nothing is put
anywhere before a part is decided, so that the Spark path can take it over at any point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable

import pyarrow as pa

from sluice.batch.kafka_watch import KafkaWatch, Watched, watched
from sluice.batch.manifest import ManifestObject
from sluice.batch.merged_again import merged_again
from sluice.changes import hidden_columns as hidden
from sluice.config.table import MOR, TableConfig
from sluice.hudi.file_slices import Committed, FileSlice
from sluice.hudi.write_choices import small_file_bytes
from sluice_aws.s3.objects import Objects, ObjectSource
from sluice_formats.records import ReaderPlan
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.few_rows import FewRows, FileToMerge, missing_in_engine
from sluice_spark.hudi.logs import RECORD_KEY
from sluice_spark.hudi.slices import newest_slices
from sluice_spark.hudi.table import HudiTable
from sluice_spark.merge.by_arrow.base_file import has_plain_key, key_text, partition_paths
from sluice_spark.merge.by_arrow.covers import (
    READ_IN_DRIVER,
    SMALL_FILE_BYTES,
    WRITTEN_IN_DRIVER,
    by_merge_handle,
    check_changes,
    check_part,
    check_rewritten,
    check_slices,
    file_for_new_rows,
)
from sluice_spark.merge.by_arrow.decide import (
    NO_CHANGES,
    Key,
    StoredRow,
    as_counts,
    decide_changes,
    keys_of,
    latest_changes,
    newest_changes,
    with_batch,
)
from sluice_spark.merge.by_arrow.driver_read import DecodedObjects, decoded_objects
from sluice_spark.merge.by_arrow.rewrite import FileRows, FileWork, LogRows, Rewrite
from sluice_spark.merge.by_arrow.rows import LeftToSpark, arrow_rows
from sluice_spark.merge.by_arrow.stored import SliceFiles, by_key, rows_of_slice
from sluice_spark.merge.driver_limits import are_few


@dataclass(frozen=True)
class MergedInDriver:
    """The rows to write, None where every change lost or is stored already; counts as those of `decide_rows`.

    `read` is to be set aside in part, before the rows are written.
    """

    rows: FewRows | Rewrite | None
    counts: dict[str, int]
    judged: Watched
    read: DecodedObjects


def merge_in_driver(
    hudi: HudiTable,
    facts: TableFacts,
    *,
    objects: Objects,
    source: ObjectSource,
    shares: Sequence[Sequence[ManifestObject]],
    plan: ReaderPlan,
    before: Mapping[str, str],
    target: Mapping[str, str],
    watch: KafkaWatch,
    source_clock: bool,
) -> MergedInDriver:
    """Read a part's objects and decide which rows they write.

    `objects` is the driver's S3, `source` that of tasks, which read one of the `shares` each; `before` and `target` are
    the table's columns and their types without and with this batch; `watch` is what is known of the table's log, and
    `source_clock` says whether the times of changes are the source's. Raises LeftToSpark.
    """
    config, items = hudi.config, [item for share in shares for item in share]
    check_part(config, facts, before=before, target=target, objects=items)
    missing = missing_in_engine(hudi.jvm.spark, facts.record_index)
    if missing:
        raise LeftToSpark("engine", ", ".join(missing))
    few = are_few(items)
    reading = FileWork(hudi.jvm.spark, objects, source, in_tasks=not few)
    read = decoded_objects(reading, [items] if few else shares, plan)
    changes = arrow_rows(read.batches, plan=plan, target=target)
    check_changes(changes, facts)
    judged = watched(watch, read.seen, config)
    if judged.refused or judged.parked:
        raise LeftToSpark("parked_or_refused")
    again = merged_again(items, read.seen)
    if not changes.num_rows:
        return MergedInDriver(None, {**NO_CHANGES, **again}, judged, read)
    newest = newest_changes(changes, config)
    slices = newest_slices(objects, hudi.path, facts.timeline, partitioned=bool(config.partition_by))
    check_slices(slices)
    stored = _stored(hudi, facts, slices, newest, work=partial(FileWork, hudi.jvm.spark, objects, source))
    latest = None
    if judged.signs is not None:
        keys = [changes.column(name) for name in config.record_key]
        latest = latest_changes(changes, newest, keys, source_clock=source_clock)
    merged = decide_changes(
        newest, read=changes.num_rows, stored=stored, config=config, columns=tuple(target), latest=latest
    )
    counts = {**merged.counts, **again, **judged.outdated(merged.suspicions, keys=newest.num_rows)}
    if not merged.keys:
        return MergedInDriver(None, counts, judged, read)
    rows = with_batch(merged.rows, lineage=config.lineage, batch=plan.batch)
    evolves = dict(before) != dict(target) or _relaxes(rows, facts)
    held = [stored.get(key) for key in merged.keys]
    partitions = partition_paths(rows, config.partition_by).to_pylist()
    moves = _moves(partitions, held, slices)
    unusual = moves or evolves
    if config.table_type != MOR and by_merge_handle(slices, facts, changes=changes.num_rows, unusual=unusual):
        return MergedInDriver(_few_rows(rows, held, slices, partitions, hudi.path), counts, judged, read)
    if None in held and not has_plain_key(target, config.record_key):
        raise LeftToSpark("key")  # Java alone makes its text
    places = _places(
        held, partitions, slices, key_text(rows, config.record_key).to_pylist() if None in held else [], facts, config
    )
    rewritten = [_size(slices[place.number]) for place in places if not place.logs and place.number is not None]
    if not all(place.logs for place in places):
        check_rewritten(rewritten, target)
    work = FileWork(hudi.jvm.spark, objects, source, in_tasks=sum(rewritten) > WRITTEN_IN_DRIVER)
    files = [_file_rows(place, rows, slices, hudi.path) for place in places if not place.logs]
    logs = [_log_rows(place, rows, slices) for place in places if place.logs]
    return MergedInDriver(Rewrite(config.table, hudi.path, files, work, logs, evolves), counts, judged, read)


def _stored(
    hudi: HudiTable,
    facts: TableFacts,
    slices: Sequence[FileSlice],
    newest: pa.Table,
    *,
    work: Callable[..., FileWork],
) -> dict[Key, StoredRow]:
    """The stored rows of the changes' keys. Raises LeftToSpark."""
    wanted, record_key = newest.select(list(hudi.config.record_key)), hudi.config.record_key
    texts = key_text(wanted, record_key).to_pylist() if any(item.logs for item in slices) else []
    find = partial(
        rows_of_slice,
        wanted=wanted,
        record_key=record_key,
        keys=dict(zip(texts, keys_of(wanted, record_key))),
        committed=Committed.of(facts.timeline),
    )
    files = [
        SliceFiles(
            f"{hudi.path}/{item.base.path}", item.base.size, tuple(f"{hudi.path}/{log.path}" for log in item.logs)
        )
        for item in slices
        if item.base is not None
    ]
    found = work(in_tasks=sum(item.size for item in files) > READ_IN_DRIVER).each(find, files)
    if None in found:
        raise LeftToSpark("logs", "of another writer")
    return by_key(row for rows in found if rows is not None for row in rows)


def _moves(partitions: Sequence[str], held: Sequence[StoredRow | None], slices: Sequence[FileSlice]) -> bool:
    """Whether a row leaves its partition, or starts one."""
    there = {item.partition for item in slices}
    return any(
        partition not in there if row is None else partition != slices[row.file].partition
        for partition, row in zip(partitions, held)
    )


def _few_rows(
    rows: pa.Table,
    held: Sequence[StoredRow | None],
    slices: Sequence[FileSlice],
    partitions: Sequence[str],
    root: str,
) -> FewRows:
    columns = _values(rows)
    files = [
        FileToMerge(f"{root}/{item.base.path}", item.file_id, item.base.size, item.partition)
        for item in slices
        if item.base is not None
    ]
    # New rows go into their partition's first file, as Hudi's own choice among small files does.
    first = {file.partition: file for file in reversed(files)}
    return FewRows(
        values=[{name: values[place] for name, values in columns.items()} for place in range(rows.num_rows)],
        ordering=columns[hidden.POSITION],
        files=[first[place] if row is None else files[row.file] for row, place in zip(held, partitions)],
        stored_keys=[None if row is None else row.record_key for row in held],
    )


def _values(rows: pa.Table) -> dict[str, list[Any]]:
    return {name: as_counts(rows.column(name).combine_chunks()).to_pylist() for name in rows.schema.names}


@dataclass(frozen=True)
class _Place:
    """Where rows are written: a slice by its number, None for a new file of the partition; a log or the base file.

    `rows` are the numbers of the rows and `keys` Hudi's texts of theirs, `updates` how many of them the slice holds,
    `removed` the keys of those that leave it. `starts`: the partition is new.
    """

    number: int | None
    partition: str
    logs: bool
    rows: Sequence[int]
    keys: Sequence[str]
    updates: int
    removed: Sequence[str]
    starts: bool


def _places(
    held: Sequence[StoredRow | None],
    partitions: Sequence[str],
    slices: Sequence[FileSlice],
    texts: Sequence[str],
    facts: TableFacts,
    config: TableConfig,
) -> list[_Place]:
    """Where each row is written. `texts` are the rows' keys, needed where some are new.

    A row stays in its slice, unless it leaves the partition. What a merge-on-read table holds goes into logs; new rows
    go into a small base file without logs, all of whose rows are then written there, or into a new one.
    """
    there: dict[str, list[int]] = {}
    for number, item in enumerate(slices):
        there.setdefault(item.partition, []).append(number)
    stays = [row is not None and slices[row.file].partition == place for row, place in zip(held, partitions)]
    stays_in = [row.file if row is not None and stayed else None for row, stayed in zip(held, stays)]
    touched = {row.file for row in held if row is not None}
    leaving: dict[int, list[str]] = {}
    for row, stayed in zip(held, stays):
        if row is not None and not stayed:
            leaving.setdefault(row.file, []).append(row.record_key)
    taking = {partition for partition, stayed in zip(partitions, stays) if not stayed}
    in_logs = config.table_type == MOR
    below = small_file_bytes(facts.rows, partitions=len(taking)) if in_logs else SMALL_FILE_BYTES
    for_new = {
        partition: file_for_new_rows(
            {number: _size(slices[number]) for number in there.get(partition, ()) if not slices[number].logs},
            touched,
            below=below,
        )
        for partition in taking
    }
    rewritten = set(for_new.values())
    own: dict[tuple[str, int | None], list[int]] = {(slices[number].partition, number): [] for number in leaving}
    for place, (partition, stay) in enumerate(zip(partitions, stays_in)):
        own.setdefault((partition, for_new[partition] if stay is None else stay), []).append(place)
    return [
        _Place(
            number,
            partition,
            in_logs and number is not None and number not in rewritten,
            places,
            [_key(held[place], texts, place) for place in places],
            sum(stays[place] for place in places),
            () if number is None else leaving.get(number, ()),
            partition not in there,
        )
        for (partition, number), places in own.items()
    ]


def _key(row: StoredRow | None, texts: Sequence[str], place: int) -> str:
    return texts[place] if row is None else row.record_key


def _size(item: FileSlice) -> int:
    """Bytes of a slice's base file."""
    return 0 if item.base is None else item.base.size


def _file_rows(place: _Place, rows: pa.Table, slices: Sequence[FileSlice], root: str) -> FileRows:
    base = None if place.number is None else slices[place.number].base
    return FileRows(
        None if base is None else f"{root}/{base.path}",
        rows.take(pa.array(place.rows, pa.int64())),
        pa.array(place.keys, pa.string()),
        place.updates,
        place.partition,
        place.removed,
        starts=place.starts,
    )


def _log_rows(place: _Place, rows: pa.Table, slices: Sequence[FileSlice]) -> LogRows:
    columns = _values(rows.take(pa.array(place.rows, pa.int64())))
    columns[RECORD_KEY] = list(place.keys)
    values = [dict(zip(columns, row)) for row in zip(*columns.values())]
    return LogRows(slices[place.number or 0], values, place.removed)


def _relaxes(rows: pa.Table, facts: TableFacts) -> bool:
    """Whether a row has null in a column that the table's schema has without nulls."""
    fields = facts.schema.fields if facts.schema is not None else []
    return any(not field.nullable and rows.column(field.name).null_count for field in fields)
