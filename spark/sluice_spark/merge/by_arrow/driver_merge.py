"""Decides a small part in the driver, by its objects and by the keys in its table's file slices.

`covers` says which parts are small. Nothing is put anywhere before a part is decided, so that the Spark path can take
it over at any point.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Callable

import pyarrow as pa
from pyspark.sql.types import StructType

from sluice.batch.kafka_watch import KafkaWatch, Watched, watched
from sluice.batch.manifest import ManifestObject
from sluice.batch.merged_again import merged_again
from sluice.batch.outcome import HISTORY_CHANGES
from sluice.changes.log_restart import SeenObject
from sluice.config.table import MOR
from sluice.hudi.file_slices import Committed
from sluice_formats.records import ReaderPlan
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.needed_members import missing_in_engine
from sluice_spark.hudi.slices import newest_slices
from sluice_spark.merge.by_arrow.base_file import key_text, partition_paths
from sluice_spark.merge.by_arrow.covers import (
    WRITTEN_IN_DRIVER,
    check_changes,
    check_objects,
    check_rewritten,
    check_slices,
    check_table,
)
from sluice_spark.merge.by_arrow.decide import (
    NO_CHANGES,
    decide_changes,
    latest_changes,
    newest_changes,
    with_batch,
)
from sluice_spark.merge.by_arrow.driver_read import DecodedObjects, decoded_objects, leave_unmerged
from sluice_spark.merge.by_arrow.keyed_rows import Key, StoredRow
from sluice_spark.merge.by_arrow.large.merge import LargeMerge
from sluice_spark.merge.by_arrow.placement import (
    Placed,
    file_rows,
    log_rows,
    places_of_rows,
    size_of,
)
from sluice_spark.merge.by_arrow.rewrite import FileWork, Rewrite
from sluice_spark.merge.by_arrow.rows import LeftToSpark, arrow_rows
from sluice_spark.merge.by_arrow.stored import WantedKeys, stored_rows, stored_values
from sluice_spark.merge.by_arrow.unchanged_values import changes_as_rows
from sluice_spark.merge.context import PartContext
from sluice_spark.merge.driver_limits import are_few
from sluice_spark.merge.history_table import history_part, history_plan
from sluice_spark.merge.plan import PlannedRead, column_types
from sluice_spark.merge.prepare import Prepared, table_facts
from sluice_spark.merge.read import shared_out


@dataclass(frozen=True)
class TableRows:
    """The rows to write into a table, None for none, and what became of the changes, as `decide_rows` counts them.

    `target` has the table's columns after this batch. `suspicions` are those of DecidedChanges.
    """

    part: PartContext
    facts: TableFacts
    target: StructType
    rows: LargeMerge | Rewrite | None
    counts: Mapping[str, int]
    suspicions: Mapping[str, int] = field(default_factory=dict)
    keys: int = 0


@dataclass(frozen=True)
class PartDecision:
    """The rows to write, None where no change is left, and what was seen of each object.

    Those of the history table are written first; None where it has none.
    """

    rows: LargeMerge | Rewrite | None
    counts: Mapping[str, int]
    judged: Watched
    seen: Sequence[SeenObject]
    history: TableRows | None = None
    truncates: Collection[tuple[str | None, str]] = ()


def merge_in_driver(part: PartContext, prepared: Prepared) -> PartDecision:
    """Read a part's objects and decide which rows they write; put what is set aside of them. Raises LeftToSpark."""
    config, facts, services = part.config, prepared.facts, part.services
    spark, planned, items = part.spark, prepared.planned, prepared.objects
    check_objects(items)
    check_table(config, facts, column_types(planned.target))
    missing = missing_in_engine(spark, facts.record_index)
    if missing:
        raise LeftToSpark("engine", ", ".join(missing))
    work = partial(FileWork, spark, services.objects, services.source)
    read = _read(part, items, planned.plan, work=work)
    changes = arrow_rows(read.batches, plan=planned.plan, target=column_types(planned.target))
    try:
        check_changes(changes, facts)
    except LeftToSpark as left:
        left.read = read
        raise
    judged = watched(KafkaWatch.from_dict(part.claimed.watch), read.seen, config)
    if judged.refused or judged.parked:
        raise LeftToSpark("parked_or_refused")
    clock = None if judged.signs is None else prepared.source_clock
    own = _table_rows(part, facts, planned.target, changes, work=work, source_clock=clock)
    history = _history(part, planned, changes, work=work) if config.history else None
    counts = {
        **own.counts,
        **merged_again(items, read.seen),
        **judged.outdated(own.suspicions, keys=own.keys),
        **({HISTORY_CHANGES: history.counts["winning"]} if history is not None else {}),
    }
    leave_unmerged(part, read)
    return PartDecision(own.rows, counts, judged, read.seen, history)


def _history(part: PartContext, planned: PlannedRead, changes: pa.Table, *, work: Callable[..., FileWork]) -> TableRows:
    """The changes that the history table doesn't hold. Raises LeftToSpark."""
    own = history_part(part)
    facts = table_facts(own)
    try:
        target = history_plan(planned, facts).target
        kinds = column_types(target)
        check_table(own.config, facts, kinds)
        keep = part.config.keep_deleted_values
        rows = changes_as_rows(changes, target=kinds, record_key=part.config.record_key, keep=keep)
        return _table_rows(own, facts, target, rows, work=work)
    except LeftToSpark as left:
        own.services.tables.keep(own.config, facts)
        raise LeftToSpark("history", f"{left}") from left


def _table_rows(
    part: PartContext,
    facts: TableFacts,
    target: StructType,
    changes: pa.Table,
    *,
    work: Callable[..., FileWork],
    source_clock: bool | None = None,
) -> TableRows:
    """The rows that changes write into a table. Raises LeftToSpark.

    `source_clock`: the changes' times are the source's; None where Kafka's order says nothing of them.
    """
    hudi, config = part.hudi, part.config
    if not changes.num_rows:
        return TableRows(part, facts, target, None, NO_CHANGES)
    newest = newest_changes(changes, config)
    slices = newest_slices(part.services.objects, hudi.path, facts.timeline, partitioned=bool(config.partition_by))
    check_slices(slices)
    index = None if config.is_history else part.services.keys  # the keys of a history rise, and few are read again
    find: dict[str, Any] = {"committed": Committed.of(facts.timeline), "work": work}
    wanted = WantedKeys(newest, config.record_key)
    stored = stored_rows(hudi.path, slices, wanted, rows=facts.rows or 0, index=index, **find)

    def values(rows: pa.Table, columns: Sequence[str]) -> Mapping[Key, StoredRow]:
        own = replace(wanted, rows=rows)
        slices_of_rows = {stored[key].file: slices[stored[key].file] for key in own.positions}
        schema = pa.schema([rows.schema.field(name) for name in columns])
        return stored_values(hudi.path, slices_of_rows, own, schema, **find)

    latest = None
    if source_clock is not None:
        keys = [changes.column(name) for name in config.record_key]
        latest = latest_changes(changes, newest, keys, source_clock=source_clock)
    merged = decide_changes(
        newest,
        changes,
        stored=stored,
        read_values=values,
        config=config,
        floors=facts.floor,
        latest=latest,
    )
    decided = TableRows(part, facts, target, None, merged.counts, merged.suspicions, newest.num_rows)
    if not merged.keys:
        return decided
    placed = Placed(
        with_batch(merged.rows, lineage=config.lineage, batch=part.manifest.batch),
        [stored.get(key) for key in merged.keys],
        partition_paths(merged.rows, config.partition_columns).to_pylist(),
        slices,
        hudi.path,
    )
    texts = key_text(placed.rows, config.record_key).to_pylist() if None in placed.held else ()
    places = places_of_rows(placed, texts, rows_stored=facts.rows, in_logs=config.table_type == MOR)
    rewritten = [size_of(slices[place.number]) for place in places if not place.logs and place.number is not None]
    check_rewritten(rewritten)
    made = Rewrite(
        config.table,
        hudi.path,
        [file_rows(place, placed) for place in places if not place.logs],
        work(in_tasks=sum(rewritten) > WRITTEN_IN_DRIVER),
        [log_rows(place, placed) for place in places if place.logs],
        _evolves(target, placed.rows, facts),
        part.services.keys,
    )
    return replace(decided, rows=made)


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
