"""Decides a small part in the driver, by its objects and by the keys in its table's file slices.

`covers` says which parts are small. Nothing is put anywhere before a part is decided, so that the Spark path can take
it over at any point.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Callable

import pyarrow as pa
from pyspark.sql.types import StructType

from sluice.batch.kafka_watch import KafkaWatch, watched
from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import HISTORY_CHANGES
from sluice.batch.part_counts import merged_again
from sluice.changes import hidden_columns as hidden
from sluice_formats.records import ReaderPlan
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.merge.by_arrow.base_file import key_text
from sluice_spark.merge.by_arrow.covers import WRITTEN_IN_DRIVER, check_changes, check_objects, check_rewritten
from sluice_spark.merge.by_arrow.decide import FILE, KEY, PartRows, decided_part, newest_rows
from sluice_spark.merge.by_arrow.driver_read import DecodedObjects, decoded_objects, leave_unmerged
from sluice_spark.merge.by_arrow.keyed_rows import Key, StoredRow
from sluice_spark.merge.by_arrow.large.merge import held_rows, total
from sluice_spark.merge.by_arrow.large.messages import paths_of
from sluice_spark.merge.by_arrow.large.plan import LoadPlan
from sluice_spark.merge.by_arrow.large.stored_keys import stored_schema
from sluice_spark.merge.by_arrow.large.write import rows_to_store
from sluice_spark.merge.by_arrow.placement import Placed, file_rows, log_rows, places_of_rows, size_of
from sluice_spark.merge.by_arrow.rewrite import FileWork, Rewrite
from sluice_spark.merge.by_arrow.stored import WantedKeys, stored_rows
from sluice_spark.merge.by_arrow.table_plans import PartDecision, TableRows, history_rows, part_plan, with_files
from sluice_spark.merge.by_arrow.unchanged_values import changes_as_rows, unchanged_columns
from sluice_spark.merge.context import PartContext
from sluice_spark.merge.driver_limits import are_few
from sluice_spark.merge.prepare import Prepared
from sluice_spark.merge.read import shared_out
from sluice_spark.merge.rows import LeftToSpark, arrow_rows


def merge_in_driver(part: PartContext, prepared: Prepared) -> PartDecision:
    """Read a part's objects and decide which rows they write; put what is set aside of them. Raises LeftToSpark."""
    config, facts, services = part.config, prepared.facts, part.services
    planned, items = prepared.planned, prepared.objects
    check_objects(items)
    plan = with_files(part, facts, part_plan(part, prepared))
    work = partial(FileWork, part.spark, services.objects, services.source)
    read = _read(part, items, planned.plan, work=work)
    changes = arrow_rows(read.batches, plan=planned.plan, target=plan.target)
    try:
        check_changes(changes, facts)
    except LeftToSpark as left:
        left.read = read
        raise
    judged = watched(KafkaWatch.from_dict(part.claimed.watch), read.seen, config)
    if judged.refused or judged.parked:
        raise LeftToSpark("parked_or_refused")
    clock = None if judged.signs is None else prepared.source_clock
    own = _merged(TableRows(part, facts, planned.target), plan, changes, work=work, source_clock=clock)
    history = (
        history_rows(part, prepared, plan, partial(_history, changes=changes, work=work)) if config.history else None
    )
    keys = sum(own.counts.get(name, 0) for name in ("winning", "losing", "supplied"))
    counts = {
        **own.counts,
        **merged_again(items, read.seen),
        **judged.outdated(own.suspicions, keys=keys),
        **({HISTORY_CHANGES: history.counts["winning"]} if history is not None else {}),
    }
    leave_unmerged(part, read)
    return PartDecision(own.rows, counts, judged, read.seen, history)


def _history(table: TableRows, plan: LoadPlan, *, changes: pa.Table, work: Callable[..., FileWork]) -> TableRows:
    """The changes that the history table doesn't hold. Raises LeftToSpark."""
    if table.facts.empty:
        raise LeftToSpark("first_load")
    key, keep = plan.reader.config.record_key, plan.keep_deleted_values
    return _merged(table, plan, changes_as_rows(changes, target=plan.target, record_key=key, keep=keep), work=work)


def _merged(
    table: TableRows,
    plan: LoadPlan,
    changes: pa.Table,
    *,
    work: Callable[..., FileWork],
    source_clock: bool | None = None,
) -> TableRows:
    """The table with the rows that changes write into it. Raises LeftToSpark.

    `source_clock`: the changes' times are the source's; None where Kafka's order says nothing of them.
    """
    if not changes.num_rows:
        return table
    config, services = table.part.config, table.part.services
    changes, wanted = with_keys(changes, plan.record_key)
    index = None if plan.history else services.keys  # the keys of a history rise, and few are read again
    stored = stored_rows(
        plan.table_uri, plan.slices, wanted, committed=plan.committed, rows=plan.rows or 0, index=index, work=work
    )
    read_values = partial(held_rows, work=work)
    decided = decided_by_key(changes, wanted, stored, plan, read_values=read_values, source_clock=source_clock)
    table = replace(table, counts=total([decided.counts]), suspicions=decided.suspicions)
    if not decided.rows.num_rows:
        return table
    texts = decided.rows.column(KEY).to_pylist()
    placed = Placed(
        rows_to_store(decided.rows, plan),
        [stored.get(wanted.by_text[text]) for text in texts],
        paths_of(decided.rows, plan).to_pylist(),
        plan.slices,
        plan.table_uri,
    )
    places = places_of_rows(placed, texts, rows_stored=plan.rows, in_logs=plan.in_logs)
    rewritten = [size_of(plan.slices[place.number]) for place in places if not place.logs and place.number is not None]
    check_rewritten(rewritten)
    rows = Rewrite(
        config.table,
        plan.table_uri,
        [file_rows(place, placed) for place in places if not place.logs],
        work(in_tasks=sum(rewritten) > WRITTEN_IN_DRIVER),
        log_rows([place for place in places if place.logs], placed),
        _evolves(table.target, placed.rows, table.facts),
        services.keys,
    )
    return replace(table, rows=rows)


def with_keys(changes: pa.Table, record_key: tuple[str, ...]) -> tuple[pa.Table, WantedKeys]:
    """The changes with KEY, and the key of each with the position of its newest change."""
    changes = changes.append_column(KEY, key_text(changes, record_key)).combine_chunks()
    return changes, WantedKeys(newest_rows(changes).combine_chunks(), record_key)


def decided_by_key(
    changes: pa.Table,
    wanted: WantedKeys,
    stored: Mapping[Key, StoredRow],
    plan: LoadPlan,
    *,
    read_values: Callable[[pa.Table, LoadPlan, Collection[str]], Mapping[Key, StoredRow]],
    source_clock: bool | None = None,
) -> PartRows:
    """What `decided_part` decides about changes with KEY, of whose `wanted` keys the table has the `stored` rows.

    `read_values` reads the values of some columns of these. Raises LeftToSpark.
    """
    held = list(map(stored.get, wanted.positions))
    rows = [row for row in held if row is not None]
    keys = wanted.rows if len(rows) == len(held) else wanted.rows.filter(pa.array([row is not None for row in held]))
    own = {
        hidden.POSITION: [row.position for row in rows],
        hidden.DELETED: [False] * len(rows),  # nothing but a truncate asks for it
        hidden.OWED: [row.owed for row in rows],
        hidden.PARTITION: [row.partition for row in rows],
        hidden.SOURCE_TS_MS: [row.source_ts_ms for row in rows],
        FILE: [row.file for row in rows],
    }
    schema = stored_schema(plan.target, plan.record_key)
    columns = [pa.array(own[item.name], item.type) if item.name in own else keys.column(item.name) for item in schema]
    table_rows = pa.table(columns, schema=schema)
    decide = partial(decided_part, changes, table_rows, source_clock=source_clock, newest=wanted.rows)
    decided = decide(plan)
    if decided.needs is None:
        return decided
    # A row that stays in place is written again whole.
    names = plan.target if decided.needs_whole else unchanged_columns(changes)
    plan = replace(plan, held=read_values(decided.needs, plan, names))
    decided = decide(plan)
    if decided.needs is not None:
        raise LeftToSpark("unchanged", "no stored row")
    return decided


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
