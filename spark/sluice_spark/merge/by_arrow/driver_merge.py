"""Decides a small part in the driver, by its objects and by the keys in its table's base files.

`covers` says which parts are small, and whether Hudi's merge handle or pyarrow writes their rows. Nothing is put
anywhere before a part is decided, so that the Spark path can take it over at any point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from sluice.batch.kafka_watch import KafkaWatch, Watched, watched
from sluice.batch.manifest import ManifestObject
from sluice.batch.merged_again import merged_again
from sluice.changes import hidden_columns as hidden
from sluice.config.table import MOR
from sluice.hudi.write_choices import small_file_bytes
from sluice_aws.s3.objects import Objects, ObjectSource
from sluice_formats.records import ReaderPlan
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.few_rows import FewRows, FileToMerge, base_files, missing_in_engine, new_file
from sluice_spark.hudi.logs import rows_in_logs
from sluice_spark.hudi.table import HudiTable
from sluice_spark.merge.by_arrow.base_file import has_plain_key, key_text, partition_paths
from sluice_spark.merge.by_arrow.covers import (
    BYTES_IN_DRIVER,
    MOST_FILES,
    by_merge_handle,
    check_changes,
    check_logs,
    check_part,
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
from sluice_spark.merge.by_arrow.rewrite import FileRows, FileWork, Rewrite
from sluice_spark.merge.by_arrow.rows import LeftToSpark, arrow_rows
from sluice_spark.merge.by_arrow.stored import by_key, rows_in
from sluice_spark.merge.by_arrow.table_files import read_file
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
    logs = config.table_type == MOR
    missing = missing_in_engine(hudi.jvm.spark, facts.record_index, logs)
    if missing:
        raise LeftToSpark("engine", ", ".join(missing))
    few = are_few(items)
    reading = FileWork(hudi.jvm.spark, objects, source, in_tasks=not few)
    read = decoded_objects(reading, [items] if few else shares, plan)
    changes = arrow_rows(read.batches, plan=plan, target=target)
    check_changes(changes)
    judged = watched(watch, read.seen, config)
    if judged.refused or judged.parked:
        raise LeftToSpark("parked_or_refused")
    again = merged_again(items, read.seen)
    if not changes.num_rows:
        return MergedInDriver(None, {**NO_CHANGES, **again}, judged, read)
    newest = newest_changes(changes, config)
    files = base_files(hudi, facts, MOST_FILES)
    if not files:
        raise LeftToSpark("files")
    sizes = [file.size for file in files]
    if logs:
        check_logs(files, changes=changes.num_rows)
    by_handle = logs or by_merge_handle(sizes, facts, changes=changes.num_rows, target=target)
    work = FileWork(hudi.jvm.spark, objects, source, in_tasks=sum(sizes) > BYTES_IN_DRIVER)
    wanted = newest.select(list(config.record_key))
    found = work.each(partial(_stored, wanted=wanted, record_key=config.record_key), [file.path for file in files])
    stored = by_key(row for rows in found for row in rows)
    if logs:
        texts = key_text(wanted, config.record_key).to_pylist()
        stored = _with_logs(hudi, facts, stored, files, dict(zip(texts, keys_of(wanted, config.record_key))))
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
    _check_nulls(rows, facts)
    held = [stored.get(key) for key in merged.keys]
    partitions = partition_paths(rows, config.partition_by).to_pylist()
    if logs:
        made: FewRows | Rewrite = _for_logs(rows, held, files, partitions, facts)
        return MergedInDriver(made, counts, judged, read)
    if by_handle and _moves(partitions, held, files):
        by_handle = by_merge_handle(sizes, facts, changes=changes.num_rows, target=target, moves=True)
    if by_handle:
        # New rows go into their partition's first file, as Hudi's own choice among small files does.
        first = {file.partition: file for file in reversed(files)}
        made = _few_rows(rows, held, files, partitions, first)
    else:
        files_rows = _by_file(rows, held, files, partitions, target, config.record_key)
        made = Rewrite(config.table, hudi.path, files_rows, work)
    return MergedInDriver(made, counts, judged, read)


def _stored(
    objects: Objects, token: str, number: int, path: str, *, wanted: pa.Table, record_key: Sequence[str]
) -> list[tuple[Key, StoredRow]]:
    return rows_in(read_file(objects, path), wanted, record_key, number)


def _moves(partitions: Sequence[str], held: Sequence[StoredRow | None], files: Sequence[FileToMerge]) -> bool:
    """Whether a row leaves its partition, or starts one."""
    there = {file.partition for file in files}
    return any(
        partition not in there if row is None else partition != files[row.file].partition
        for partition, row in zip(partitions, held)
    )


def _with_logs(
    hudi: HudiTable,
    facts: TableFacts,
    stored: Mapping[Key, StoredRow],
    files: Sequence[FileToMerge],
    keys: Mapping[str, Key],
) -> dict[Key, StoredRow]:
    """The stored rows as the logs of their files leave them. `keys` are the wanted ones by Hudi's text.

    Raises LeftToSpark for a key that a log removes, and for one that two file groups hold.
    """
    newest = dict(stored)
    for number, file in enumerate(files):
        found = rows_in_logs(hudi, facts, file.logs, partition=file.partition, keys=keys) if file.logs else {}
        for text, row in found.items():
            held = newest.get(keys[text])
            if row is None:
                raise LeftToSpark("removed")
            if held is not None and held.file != number:
                raise LeftToSpark("stored_twice")
            if held is None or row.position >= held.position:
                newest[keys[text]] = StoredRow(row.position, row.owed, text, number, row.partition, row.source_ts_ms)
    return newest


def _for_logs(
    rows: pa.Table,
    held: Sequence[StoredRow | None],
    files: Sequence[FileToMerge],
    partitions: Sequence[str],
    facts: TableFacts,
) -> FewRows:
    """The rows by the file that they go into: new ones into a small file without logs, as Hudi chooses, or a new one.

    Raises LeftToSpark for a row that leaves its partition.
    """
    if any(row is not None and files[row.file].partition != place for row, place in zip(held, partitions)):
        raise LeftToSpark("moves")
    small = small_file_bytes(facts.rows)
    for_new: dict[str, FileToMerge] = {}
    for place in {place for row, place in zip(held, partitions) if row is None}:
        fitting = [file for file in files if file.partition == place and not file.logs and file.size < small]
        for_new[place] = min(fitting, key=lambda file: file.size) if fitting else new_file(place)
    return _few_rows(rows, held, files, partitions, for_new)


def _few_rows(
    rows: pa.Table,
    held: Sequence[StoredRow | None],
    files: Sequence[FileToMerge],
    partitions: Sequence[str],
    for_new: Mapping[str, FileToMerge],
) -> FewRows:
    columns = {name: as_counts(rows.column(name).combine_chunks()).to_pylist() for name in rows.schema.names}
    return FewRows(
        values=[{name: values[place] for name, values in columns.items()} for place in range(rows.num_rows)],
        ordering=columns[hidden.POSITION],
        files=[for_new[place] if row is None else files[row.file] for row, place in zip(held, partitions)],
        stored_keys=[None if row is None else row.record_key for row in held],
    )


def _by_file(
    rows: pa.Table,
    held: Sequence[StoredRow | None],
    files: Sequence[FileToMerge],
    partitions: Sequence[str],
    target: Mapping[str, str],
    record_key: Sequence[str],
) -> list[FileRows]:
    """The rows by the file that they go into, and the keys of those that leave a file for another partition.

    Raises LeftToSpark where Java alone makes the text of a new row's key.
    """
    stays = [row is not None and files[row.file].partition == place for row, place in zip(held, partitions)]
    numbers = [row.file if row is not None and stayed else None for row, stayed in zip(held, stays)]
    new = None in held
    if new and not has_plain_key(target, record_key):
        raise LeftToSpark("key")
    texts = key_text(rows, record_key).to_pylist() if new else []
    keys = [texts[place] if row is None else row.record_key for place, row in enumerate(held)]
    touched = {row.file for row in held if row is not None}
    leaving: dict[int, list[str]] = {}
    for row, stayed in zip(held, stays):
        if row is not None and not stayed:
            leaving.setdefault(row.file, []).append(row.record_key)
    for_new = {
        partition: file_for_new_rows(
            {number: file.size for number, file in enumerate(files) if file.partition == partition}, touched
        )
        for partition in {partitions[place] for place, number in enumerate(numbers) if number is None}
    }
    places: dict[tuple[str, int | None], list[int]] = {(files[number].partition, number): [] for number in leaving}
    for place, (partition, number) in enumerate(zip(partitions, numbers)):
        places.setdefault((partition, for_new[partition] if number is None else number), []).append(place)
    there = {file.partition for file in files}
    return [
        FileRows(
            None if number is None else files[number].path,
            rows.take(pa.array(own, pa.int64())),
            pa.array([keys[place] for place in own], pa.string()),
            sum(stays[place] for place in own),
            partition,
            () if number is None else leaving.get(number, ()),
            starts=partition not in there,
        )
        for (partition, number), own in places.items()
    ]


def _check_nulls(rows: pa.Table, facts: TableFacts) -> None:
    """Raise LeftToSpark for a null in a column that the table's schema has without nulls: Spark's write relaxes it."""
    for field in facts.schema.fields if facts.schema is not None else []:
        if not field.nullable and rows.column(field.name).null_count:
            raise LeftToSpark("columns", f"{field.name} becomes nullable")
