"""Reads and decides a small part in the driver, without a Spark job: its objects, and the base files of its table.

`covers` says which parts are small. Nothing is put anywhere before a part is decided, so that the Spark path can take
it over at any point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa

from sluice.batch.kafka_watch import KafkaWatch, Watched, watched
from sluice.batch.manifest import ManifestObject
from sluice.batch.unexpected import unexpected_in
from sluice.changes import hidden_columns as hidden
from sluice.changes.log_restart import SeenObject
from sluice.errors import SluiceError
from sluice_aws.s3.objects import Objects
from sluice_formats.decode import decode
from sluice_formats.records import ReaderPlan
from sluice_spark.arrow.covers import (
    MOST_CHANGES,
    MOST_DECODED_BYTES,
    MOST_FILE_BYTES,
    MOST_FILES,
    check_changes,
    check_part,
)
from sluice_spark.arrow.decide import DecidedChanges, as_counts, decide_changes, newest_changes, with_batch
from sluice_spark.arrow.rows import LeftToSpark, arrow_rows
from sluice_spark.arrow.stored import stored_rows
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.few_rows import FewRows, FileToMerge, base_files, missing_in_engine
from sluice_spark.hudi.table import HudiTable

READS_AT_ONCE = 8


@dataclass(frozen=True)
class MergedInDriver:
    """The rows to write, None where every change lost or is stored already; counts as those of `decide_rows`.

    `unexpected` are those of `unexpected_in`.
    """

    rows: FewRows | None
    counts: dict[str, int]
    judged: Watched
    unexpected: Mapping[str, int]


def merge_in_driver(
    hudi: HudiTable,
    facts: TableFacts,
    *,
    objects: Objects,
    items: Sequence[ManifestObject],
    plan: ReaderPlan,
    before: Mapping[str, str],
    target: Mapping[str, str],
    watch: KafkaWatch,
) -> MergedInDriver:
    """Read a part's objects and decide which rows they write.

    `objects` is the driver's S3; `before` and `target` are the table's columns and their types without and with this
    batch; `watch` is what is known of the table's log. Raises LeftToSpark.
    """
    config = hudi.config
    check_part(config, facts, before=before, target=target, objects=items)
    missing = missing_in_engine(hudi.jvm.spark)
    if missing:
        raise LeftToSpark("engine", ", ".join(missing))
    changes, seen = _changes(objects, items, plan, target)
    check_changes(changes)
    judged = watched(watch, seen, config)
    if judged.refused or judged.parked:
        raise LeftToSpark("parked_or_refused")
    newest = newest_changes(changes, config)
    files = base_files(hudi, facts, MOST_FILES)
    if not files or sum(file.size for file in files) > MOST_FILE_BYTES:
        raise LeftToSpark("files")
    stored = stored_rows([_body(objects, file) for file in files], newest, config.record_key)
    decided = decide_changes(newest, read=changes.num_rows, stored=stored, config=config, columns=tuple(target))
    if not decided.keys:
        return MergedInDriver(None, decided.counts, judged, unexpected_in(seen))
    held = [stored.get(key) for key in decided.keys]
    values = _values(decided, config.lineage, plan.batch)
    _check_nulls(values, facts)
    rows = FewRows(
        values=values,
        ordering=decided.rows.column(hidden.POSITION).to_pylist(),
        # New rows go into the first file, as Hudi's own choice among small files does while there is room.
        files=[files[0 if row is None else row.file] for row in held],
        stored_keys=[None if row is None else row.record_key for row in held],
    )
    return MergedInDriver(rows, decided.counts, judged, unexpected_in(seen))


def _changes(
    objects: Objects, items: Sequence[ManifestObject], plan: ReaderPlan, target: Mapping[str, str]
) -> tuple[pa.Table, list[SeenObject]]:
    """The changes of all objects in the table's columns, and each object's place in Kafka, in order of admission."""
    in_order = sorted(items, key=lambda item: (item.admitted_at, item.id))
    batches: list[pa.RecordBatch] = []
    seen: list[SeenObject] = []
    limits = replace(
        plan.limits,
        object_rows=min(MOST_CHANGES, plan.limits.object_rows),
        decoded_bytes=min(MOST_DECODED_BYTES, plan.limits.decoded_bytes),
    )
    plan = replace(plan, limits=limits)
    try:
        for item, body in zip(in_order, _bodies(objects, in_order, plan.limits.object_bytes)):
            decoded = decode(body, item, plan)
            if decoded.rows:
                raise LeftToSpark("rows_aside")
            batches += decoded.batches
            seen.append(decoded.seen)
    except SluiceError as error:  # a task puts the reason in S3, and asks S3 again
        raise LeftToSpark("object", error.code) from error
    return arrow_rows(batches, plan=plan, target=target), seen


def _bodies(objects: Objects, items: Sequence[ManifestObject], limit: int) -> list[bytes]:
    if len(items) == 1:
        return [objects.whole(items[0].id, limit)]
    with ThreadPoolExecutor(min(READS_AT_ONCE, len(items)), thread_name_prefix="read") as pool:
        return list(pool.map(lambda item: objects.whole(item.id, limit), items))


def _body(objects: Objects, file: FileToMerge) -> bytes:
    """A base file as a whole. Tables lie in S3, those of tests on a disk."""
    scheme, _, rest = file.path.partition(":")
    if scheme == "file":
        with open("/" + rest.lstrip("/"), "rb") as body:
            return body.read()
    bucket, _, key = rest.lstrip("/").partition("/")
    return objects.data_file(bucket, key)


def _check_nulls(values: Sequence[Mapping[str, object]], facts: TableFacts) -> None:
    """Raise LeftToSpark for a null in a column that the table's schema has without nulls: Spark's write relaxes it."""
    full = [field.name for field in facts.schema.fields if not field.nullable] if facts.schema is not None else []
    for name in full:
        if any(row[name] is None for row in values):
            raise LeftToSpark("columns", f"{name} becomes nullable")


def _values(decided: DecidedChanges, lineage: Sequence[str], batch: str) -> list[dict[str, object]]:
    rows = with_batch(decided.rows, lineage=lineage, batch=batch)
    columns = {name: as_counts(rows.column(name).combine_chunks()).to_pylist() for name in rows.schema.names}
    return [{name: values[place] for name, values in columns.items()} for place in range(rows.num_rows)]
