"""Prepares the merge of a part: looks at the table and the writer schemas, plans the read, refuses what doesn't fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import SCHEMAS_STAGE, TABLE_STAGE, ObjectError
from sluice.config.table import TableConfig
from sluice.schema.avro import WriterSchema, left_out_note
from sluice.schema.concealment import unknown_columns
from sluice_formats.checks.expectations import check_patterns
from sluice_spark.hudi.came_back import rolled_back_lately
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.late_files import remove_late_files
from sluice_spark.hudi.recovery import recovered_facts, refuse_missing
from sluice_spark.iceberg.keep_up import keep_up_or_log
from sluice_spark.log import failure_place
from sluice_spark.merge.context import PartContext
from sluice_spark.merge.driver_limits import are_few
from sluice_spark.merge.plan import PlannedRead, column_types, plan_read
from sluice_spark.merge.schemas import (
    Scanned,
    WriterSchemas,
    remember_columns,
    remember_schemas,
    scan_in_driver,
    scan_schemas,
    writer_schemas,
)
from sluice_spark.merge.table_folders import refused_files


@dataclass(frozen=True)
class Prepared:
    """A part that can be read.

    `objects` are those whose schemas fit the plan, `refused` the others; `notes` are for operators. `unordered`: the
    changes are plain rows, and no name of an object holds an offset. `source_clock`: their times are the source's.
    """

    facts: TableFacts
    planned: PlannedRead
    objects: tuple[ManifestObject, ...]
    refused: tuple[ObjectError, ...]
    notes: tuple[str, ...]
    unordered: bool = False
    source_clock: bool = True


def prepare(part: PartContext) -> Prepared:
    """Look at the table, create it if there is none, and plan the read. Records schemas and refused objects in S3."""
    with part.stages.timed(TABLE_STAGE):
        facts = table_facts(part)
        if facts.commits == 1:  # before a merge finds rows in files that a lost task of the first load wrote late
            late = remove_late_files(part.hudi, part.check_held)
            if late:
                part.event("late_files_removed", level="warning", files=list(late))
    with part.stages.timed(SCHEMAS_STAGE):
        schemas = writer_schemas(
            part.services.objects,
            part.services.silver_bucket,
            part.claimed.objects,
            scan=lambda objects: _scan(part, objects),
            stored=column_types(facts.schema),
            shape=part.config.form,
            rules=part.config.columns,
        )
    hash_key = b"" if part.services.hash_keys is None else part.services.hash_keys.of(part.config)
    check_patterns(part.config.expect)
    planned = _planned(part, schemas, facts, hash_key)
    planned = replace(planned, plan=replace(planned.plan, attempt=part.attempt))
    remember_schemas(
        part.services.history,
        part.config,
        writers=schemas.in_order,
        inferred=schemas.inferred.values(),
        verdicts=planned.verdicts,
        at=part.services.clock.now_ms(),
        batch=part.manifest.batch,
    )
    # Also here, and not only after a commit: a run may have died between its commit and this.
    remember_columns(part.services.history, part.config, facts.schema)
    refused = (*schemas.errors, *_refused(planned, part.claimed.objects, schemas.of_object))
    if not any(writer.of_changes for writer in schemas.in_order):
        before = {error.object for error in refused}
        files = refused_files(part.services.objects, part.claimed.objects, part.config, first=facts.empty)
        refused += tuple(error for error in files if error.object not in before)
    for error in refused:
        part.aside.refuse(error)
    unread = {error.object for error in refused}
    unread |= {hash for hash, own in schemas.of_object.items() if not planned.without_table.isdisjoint(own)}
    objects = tuple(item for item in part.claimed.objects if item.id.hash not in unread)
    unordered = (
        all(not writer.of_changes for writer in schemas.in_order)
        and all(item.offset is None for item in objects)
        and not (part.config.coordinates or part.config.marks_of_rows.marks)  # the name then gives the order
    )
    notes = (
        *_without_position(schemas.in_order),
        *left_out_notes(schemas.in_order, part.config),
        *unknown_columns_notes(schemas.in_order, part.config, columns=planned.target.names, empty=facts.empty),
    )
    source_clock = all(writer.has_source_clock for writer in schemas.in_order if writer.meta.source_ts_ms is not None)
    return Prepared(facts, planned, objects, refused, notes, unordered, source_clock)


def table_facts(part: PartContext) -> TableFacts:
    """The facts of a part's table: as this run left it, or looked up, where it is created if there is none."""
    clock = part.services.clock
    facts = part.services.tables.take(part.config)
    if facts is None or rolled_back_lately(facts, clock.now_ms()):
        last_instant = part.claimed.history_instant if part.config.is_history else part.claimed.last_instant
        refuse_missing(part.hudi, last_instant)
        if part.hudi.ensure_created():
            part.event("table_created")
        part.check_held()
        facts = recovered_facts(part.hudi, part.services.log, last_instant)
        keep_up_or_log(part.hudi, facts, part.services, part.check_held)
    return part.hudi.date_anew(facts, now_ms=clock.now_ms, wait=clock.wait)


def _scan(part: PartContext, objects: Sequence[ManifestObject]) -> Scanned:
    services = part.services
    if services.in_driver and are_few(objects):
        try:
            scanned = scan_in_driver(services.objects, objects=objects, config=part.config)
        except Exception as failure:  # of any kind: tasks try their reads again
            part.event("left_to_tasks", level="warning", reason="failed", detail=failure_place(failure))
        else:
            if scanned is not None:
                return scanned
    return scan_schemas(part.spark, objects=objects, config=part.config, source=services.source)


def _planned(part: PartContext, schemas: WriterSchemas, facts: TableFacts, hash_key: bytes) -> PlannedRead:
    """The plan, without the schemas whose columns would have the table rewritten where it is too large for that."""
    plan = partial(
        plan_read,
        part.config,
        batch=part.manifest.batch,
        writers=schemas.in_order,
        stored=facts.schema,
        inferred=schemas.inferred,
        hash_key=hash_key,
    )
    planned = plan()
    if planned.rewritten and part.hudi.size_bytes(facts) > part.config.rewrite_limit_bytes:
        return plan(may_rewrite=False)
    return planned


def _refused(
    planned: PlannedRead, objects: Sequence[ManifestObject], schemas_of: Mapping[str, tuple[str, ...]]
) -> list[ObjectError]:
    """The objects with a writer schema that fits neither the table nor the rest of the batch."""
    errors = []
    for item in objects:
        refusals = [planned.refused[mark] for mark in schemas_of.get(item.id.hash, ()) if mark in planned.refused]
        if refusals:
            errors.append(ObjectError(item.id.hash, refusals[0].code, str(refusals[0])))
    return errors


def _without_position(writers: Sequence[WriterSchema]) -> tuple[str, ...]:
    """Advice for connectors whose changes carry no log position, each once. Plain records have none to carry."""
    shapes = [writer for writer in writers if writer.of_changes]
    return tuple(sorted({writer.meta.position.advice for writer in shapes if writer.meta.position.advice}))


def left_out_notes(writers: Sequence[WriterSchema], config: TableConfig) -> tuple[str, ...]:
    """The note on fields of these schemas that are left out of the table."""
    names = sorted({name for writer in writers for name in writer.left_out_of(config.source_words)})
    return (left_out_note(names),) if names else ()


def unknown_columns_notes(
    writers: Sequence[WriterSchema], config: TableConfig, *, columns: Sequence[str], empty: bool
) -> tuple[str, ...]:
    """Notes about columns that the rule names and nothing has. `columns` are the table's after this batch.

    What `columns` names is the source's: it is compared with a table's first batch, while the table is `empty`.
    """
    notes = []
    unknown = unknown_columns([writer.row for writer in writers], config.columns) if empty else ()
    if unknown:
        notes.append(f"`columns` names {', '.join(unknown)}, which no object has: check the names")
    absent = config.expect.absent_from(columns)
    if absent:
        notes.append(f"`expect` names {', '.join(absent)}, which neither the table nor an object has: check the names")
    return tuple(notes)
