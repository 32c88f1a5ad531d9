"""Decides a small part in the driver, by its objects and by the keys in its table's file slices.

`covers` says which parts are small, and whether Hudi's merge handle or pyarrow writes their rows. Nothing is put
anywhere before a part is decided, so that the Spark path can take it over at any point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Callable

import pyarrow as pa
from pyspark.sql.types import StructType

from sluice.batch.kafka_watch import KafkaWatch, Watched, watched
from sluice.batch.manifest import ManifestObject
from sluice.batch.merged_again import merged_again
from sluice.config.table import MOR
from sluice.hudi.file_slices import Committed
from sluice_formats.records import ReaderPlan
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.few_rows import FewRows, missing_in_engine
from sluice_spark.hudi.slices import newest_slices
from sluice_spark.merge.by_arrow.base_file import has_plain_key, key_text, partition_paths
from sluice_spark.merge.by_arrow.covers import (
    WRITTEN_IN_DRIVER,
    by_merge_handle,
    check_changes,
    check_part,
    check_rewritten,
    check_slices,
)
from sluice_spark.merge.by_arrow.decide import (
    NO_CHANGES,
    decide_changes,
    latest_changes,
    newest_changes,
    with_batch,
)
from sluice_spark.merge.by_arrow.driver_read import DecodedObjects, decoded_objects
from sluice_spark.merge.by_arrow.placement import (
    Placed,
    few_rows,
    file_rows,
    log_rows,
    places_of_rows,
    size_of,
)
from sluice_spark.merge.by_arrow.rewrite import FileWork, Rewrite
from sluice_spark.merge.by_arrow.rows import LeftToSpark, arrow_rows
from sluice_spark.merge.by_arrow.stored import WantedKeys, stored_rows
from sluice_spark.merge.context import PartContext
from sluice_spark.merge.driver_limits import are_few
from sluice_spark.merge.plan import column_types
from sluice_spark.merge.prepare import Prepared
from sluice_spark.merge.read import shared_out


@dataclass(frozen=True)
class MergedInDriver:
    """The rows to write, None where every change lost or is stored already; counts as those of `decide_rows`.

    `read` is to be set aside in part, before the rows are written.
    """

    rows: FewRows | Rewrite | None
    counts: dict[str, int]
    judged: Watched
    read: DecodedObjects


def merge_in_driver(part: PartContext, prepared: Prepared) -> MergedInDriver:
    """Read a part's objects and decide which rows they write. Raises LeftToSpark."""
    hudi, config, facts, services = part.hudi, part.config, prepared.facts, part.services
    spark, plan, items = part.spark, prepared.planned.plan, prepared.objects
    before, target = column_types(facts.schema), column_types(prepared.planned.target)
    check_part(config, facts, before=before, target=target, objects=items)
    missing = missing_in_engine(spark, facts.record_index)
    if missing:
        raise LeftToSpark("engine", ", ".join(missing))
    work = partial(FileWork, spark, services.objects, services.source)
    read = _read(part, items, plan, work=work)
    changes = arrow_rows(read.batches, plan=plan, target=target)
    check_changes(changes, facts)
    judged = watched(KafkaWatch.from_dict(part.claimed.watch), read.seen, config)
    if judged.refused or judged.parked:
        raise LeftToSpark("parked_or_refused")
    again = merged_again(items, read.seen)
    if not changes.num_rows:
        return MergedInDriver(None, {**NO_CHANGES, **again}, judged, read)
    newest = newest_changes(changes, config)
    slices = newest_slices(services.objects, hudi.path, facts.timeline, partitioned=bool(config.partition_by))
    check_slices(slices)
    stored = stored_rows(
        hudi.path,
        slices,
        WantedKeys(newest, config.record_key, has_plain_key(target, config.record_key)),
        committed=Committed.of(facts.timeline),
        rows=facts.rows or 0,
        index=services.keys,
        work=work,
    )
    latest = None
    if judged.signs is not None:
        keys = [changes.column(name) for name in config.record_key]
        latest = latest_changes(changes, newest, keys, source_clock=prepared.source_clock)
    merged = decide_changes(
        newest, read=changes.num_rows, stored=stored, config=config, columns=tuple(target), latest=latest
    )
    counts = {**merged.counts, **again, **judged.outdated(merged.suspicions, keys=newest.num_rows)}
    if not merged.keys:
        return MergedInDriver(None, counts, judged, read)
    rows = Placed(
        with_batch(merged.rows, lineage=config.lineage, batch=plan.batch),
        [stored.get(key) for key in merged.keys],
        partition_paths(merged.rows, config.partition_by).to_pylist(),
        slices,
        hudi.path,
    )
    evolves = _evolves(prepared.planned.target, rows.rows, facts)
    if by_merge_handle(slices, config, facts, changes=changes.num_rows, unusual=rows.moves or evolves):
        return MergedInDriver(few_rows(rows), counts, judged, read)
    texts: Sequence[str] = ()
    if None in rows.held:
        if not has_plain_key(target, config.record_key):
            raise LeftToSpark("key")  # Java alone makes its text
        texts = key_text(rows.rows, config.record_key).to_pylist()
    places = places_of_rows(rows, texts, rows_stored=facts.rows, in_logs=config.table_type == MOR)
    rewritten = [size_of(slices[place.number]) for place in places if not place.logs and place.number is not None]
    if not all(place.logs for place in places):
        check_rewritten(rewritten)
    made = Rewrite(
        config.table,
        hudi.path,
        [file_rows(place, rows) for place in places if not place.logs],
        work(in_tasks=sum(rewritten) > WRITTEN_IN_DRIVER),
        [log_rows(place, rows) for place in places if place.logs],
        evolves,
        services.keys,
    )
    return MergedInDriver(made, counts, judged, read)


def _read(
    part: PartContext, items: Sequence[ManifestObject], plan: ReaderPlan, *, work: Callable[..., FileWork]
) -> DecodedObjects:
    """Read the objects in the driver where they are few, else in tasks. Raises LeftToSpark."""
    if are_few(items):
        try:
            return decoded_objects(work(in_tasks=False), [items], plan)
        except LeftToSpark as left:
            part.event("left_to_tasks", reason=left.reason, detail=left.detail or None)
    return decoded_objects(work(in_tasks=True), shared_out(items, part.spark.sparkContext.defaultParallelism), plan)


def _evolves(target: StructType, rows: pa.Table, facts: TableFacts) -> bool:
    """Whether the rows have columns, or nulls, also in lists, that the table's schema has not."""
    fields = facts.schema.fields if facts.schema is not None else []
    types = {field.name: field.dataType for field in fields}
    relaxed = any(not field.nullable and rows.column(field.name).null_count for field in fields)
    return relaxed or types != {field.name: field.dataType for field in target.fields}
