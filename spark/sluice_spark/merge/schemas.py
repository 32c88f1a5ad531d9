"""Finds the writer schemas of a part's objects, and records them with the table's own columns.

A schema is stored by admission, in the object's own head, or in its JSON records. JSON and CSV are scanned, since their
records may carry several schemas or none: in the driver where they are few, else in Spark tasks.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Callable

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sluice.admission.routing import MARKER, PARQUET
from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import ObjectError
from sluice.config.rules.columns import ColumnRules
from sluice.config.table import TableConfig
from sluice.errors import ExpansionLimit, SluiceError
from sluice.objects import ObjectId
from sluice.schema.avro import WriterForm, WriterSchema, fingerprint, read_writer_schema
from sluice.schema.evolution import DROPPED, NARROWER, SAME, Evolution
from sluice.schema.history import StoredColumns, seen
from sluice.schema.table_row import row_for_table
from sluice.silver_keys import schema_key
from sluice_aws.admission.heads import read_head
from sluice_aws.s3.objects import Objects, ObjectSource
from sluice_aws.s3.schemas import SchemaHistory, SchemaStore
from sluice_formats.decode import is_scanned, read_or_refused, schemas_of
from sluice_formats.json.schema import agreed
from sluice_spark.engine.tasks import task_objects
from sluice_spark.merge.driver_limits import for_driver
from sluice_spark.merge.plan import column_types
from sluice_spark.merge.read import bodies, shared_out

_FIELDS = "object string, fingerprint string, schema string, inferred boolean, code string, reason string"
_NANOS = '"timestamp-nanos"'
_ARROW = pa.schema(
    [(name, pa.bool_() if name == "inferred" else pa.string()) for name, _ in map(str.split, _FIELDS.split(", "))]
)


@dataclass(frozen=True)
class Scanned:
    """What a scan found: schemas (Avro form) by fingerprint, and each object's own fingerprints.

    `inferred` are those that no record carries; `errors` has the objects without a schema.
    """

    schemas: Mapping[str, Mapping[str, Any]]
    inferred: frozenset[str]
    of_object: Mapping[str, tuple[str, ...]]
    errors: tuple[ObjectError, ...]


def scan_schemas(
    spark: SparkSession, *, objects: Sequence[ManifestObject], config: TableConfig, source: ObjectSource
) -> Scanned:
    """Read objects of JSON and CSV for their schemas alone; a few lines per object come back, never data.

    An object that can't be read is in `errors`. Transient errors of S3 are raised, and Spark runs the task again.
    """
    shares = shared_out(objects, spark.sparkContext.defaultParallelism)
    rows = spark.range(0, len(shares), 1, len(shares)).mapInArrow(_task(shares, config, source), _FIELDS).collect()
    return _scanned([row.asDict() for row in rows])


def scan_in_driver(s3: Objects, *, objects: Sequence[ManifestObject], config: TableConfig) -> Scanned | None:
    """What `scan_schemas` finds of a few objects; None where one of them is too large for the driver."""
    sent = set[str]()
    rows: list[dict[str, Any]] = []
    for item, body in bodies(s3, objects, config.limits.object_bytes):
        within = replace(
            config, limits=for_driver(config.limits, format=item.format, objects=len(objects), in_tasks=False)
        )
        item_rows = list(_scan(item, body, within, sent))
        if any(row.get("code") == ExpansionLimit.code for row in item_rows):
            return None
        rows += item_rows
    return _scanned(rows)


def _scanned(rows: Sequence[Mapping[str, Any]]) -> Scanned:
    texts: dict[str, str] = {row["fingerprint"]: row["schema"] for row in rows if row.get("schema") is not None}
    of_object: dict[str, tuple[str, ...]] = {}
    for row in rows:
        if row.get("fingerprint") is not None:
            of_object[row["object"]] = (*of_object.get(row["object"], ()), row["fingerprint"])
    return Scanned(
        {mark: json.loads(text) for mark, text in texts.items()},
        frozenset(row["fingerprint"] for row in rows if row["inferred"]),
        of_object,
        tuple(ObjectError(row["object"], row["code"], row["reason"]) for row in rows if row.get("code") is not None),
    )


def _task(
    shares: Sequence[Sequence[ManifestObject]], config: TableConfig, source: ObjectSource
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        s3 = task_objects(source)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows: list[dict[str, Any]] = []
                sent: set[str] = set()
                for item, body in bodies(s3, shares[number], config.limits.object_bytes):
                    rows.extend(_scan(item, body, config, sent))
                yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)

    return run


def _scan(
    item: ManifestObject, body: Callable[[], bytes], config: TableConfig, sent: set[str]
) -> Iterator[dict[str, Any]]:
    """One row per schema of the object, with the schema's text only where the task has not `sent` it before."""
    try:
        content = body()
        schemas, inferred = read_or_refused(lambda: schemas_of(content, item.format, config, item.key))
    except SluiceError as error:
        if error.retriable:
            raise
        yield {**vars(ObjectError.of(item.id.hash, error)), "inferred": False}
        return
    for schema in schemas:
        mark = fingerprint(schema)
        text = None if mark in sent else json.dumps(schema, sort_keys=True)
        sent.add(mark)
        yield {"object": item.id.hash, "fingerprint": mark, "schema": text, "inferred": inferred}


Scan = Callable[[Sequence[ManifestObject]], Scanned]


@dataclass(frozen=True)
class WriterSchemas:
    """The distinct schemas, in the order in which their first objects came, and each object's own.

    `inferred` has the schemas (JSON) of objects whose records carry none, by the object's hash: read tasks need them.
    `errors` has the objects without a schema.
    """

    in_order: tuple[WriterSchema, ...]
    of_object: Mapping[str, tuple[str, ...]]
    errors: tuple[ObjectError, ...]
    inferred: Mapping[str, str] = field(default_factory=dict)


def writer_schemas(
    objects: Objects,
    silver_bucket: str,
    items: Sequence[ManifestObject],
    *,
    scan: Scan,
    stored: Mapping[str, str] | None = None,
    shape: WriterForm = None,
    rules: ColumnRules | None = None,
) -> WriterSchemas:
    """Look up every schema once: by the fingerprint that admission stored, else from the object's own head.

    JSON and CSV are read by `scan`. `stored` has the types (Spark's names) of the table's columns, `shape` and `rules`
    are its rule's. An object whose schema can't be found or has no stored form is in `errors`. Transient errors of S3
    are raised.
    """
    by_fingerprint: dict[str, WriterSchema] = {}
    of_object: dict[str, tuple[str, ...]] = {}
    errors: list[ObjectError] = []
    in_order = _in_order(items)
    texts, inferred = _by_scan(
        objects,
        silver_bucket,
        [item for item in in_order if is_scanned(item.format, shape)],
        scan,
        stored or {},
        rules,
        errors,
    )
    refused = {error.object for error in errors}
    for item in in_order:
        if item.id.hash in refused:
            continue
        try:
            if item.format == MARKER:
                writers = []
            elif is_scanned(item.format, shape):
                writers = [_understood(text, shape) for text in texts[item.id.hash]]
            elif item.schema in by_fingerprint:
                writers = [by_fingerprint[item.schema or ""]]
            else:
                text = _stored(objects, silver_bucket, item.schema) if item.schema else None
                if text is not None and item.format == PARQUET and _NANOS in text:
                    text = None  # before timestamps of type INT96 were read as microseconds, they had the same schema
                if text is None:
                    text = json.dumps(read_head(objects, item.id, item.format), sort_keys=True)
                writers = [_understood(text, shape)]
        except SluiceError as error:
            if error.retriable:
                raise
            errors.append(ObjectError(item.id.hash, error.code, str(error)))
            continue
        for writer in writers:
            by_fingerprint.setdefault(writer.fingerprint, writer)
        of_object[item.id.hash] = tuple(writer.fingerprint for writer in writers)
    return WriterSchemas(tuple(by_fingerprint.values()), of_object, tuple(errors), inferred)


def _in_order(items: Sequence[ManifestObject]) -> list[ManifestObject]:
    """The objects in the order in which their source wrote them, as far as their names say.

    Objects of one Kafka partition follow their offsets. Those without an offset, and partitions among each other,
    follow the order of admission.
    """
    queues: dict[tuple[str, int | None] | None, list[ManifestObject]] = {}
    for item in sorted(items, key=_admission):
        queues.setdefault(None if item.offset is None else (item.topic, item.kafka_partition), []).append(item)
    for queue in queues.values():
        queue.sort(key=lambda item: item.offset or 0)
    # The merge takes the first of the queue whose first was admitted earliest: it needs no queue sorted by that.
    return list(heapq.merge(*queues.values(), key=_admission))


def _admission(item: ManifestObject) -> tuple[int, ObjectId]:
    return item.admitted_at, item.id


def _by_scan(
    objects: Objects,
    silver_bucket: str,
    items: Sequence[ManifestObject],
    scan: Scan,
    stored: Mapping[str, str],
    rules: ColumnRules | None,
    errors: list[ObjectError],
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The schemas (JSON) of scanned objects by the object's hash: all of them, and the inferred ones."""
    if not items:
        return {}, {}
    scanned = scan(items)
    errors.extend(scanned.errors)
    marks = list(scanned.schemas)
    guessed = [mark for mark in marks if mark in scanned.inferred]
    # One shared text per schema: tasks get it once, however many objects have it.
    texts = {mark: json.dumps(schema, sort_keys=True) for mark, schema in scanned.schemas.items()}
    for mark, schema in zip(guessed, agreed([scanned.schemas[mark] for mark in guessed], stored, rules)):
        texts[mark] = json.dumps(schema, sort_keys=True)
    store = SchemaStore(objects, silver_bucket)
    for item in items:
        for mark in scanned.of_object.get(item.id.hash, ()):
            if mark not in scanned.inferred and mark != item.schema:
                store.keep(scanned.schemas[mark])  # one that admission didn't find in the object's head
    of_object = {hash: [texts[mark] for mark in own] for hash, own in scanned.of_object.items()}
    return of_object, {hash: texts[own[0]] for hash, own in scanned.of_object.items() if own[0] in scanned.inferred}


def _stored(objects: Objects, silver_bucket: str, schema_id: str | None) -> str | None:
    """The schema (JSON) that admission stored; None where there is none, or where it has another fingerprint."""
    document = objects.get(silver_bucket, schema_key(schema_id or ""))
    if document is None:
        return None
    text = document.data.decode("utf-8")
    return text if fingerprint(json.loads(text)) == schema_id else None


@lru_cache(maxsize=512)
def _understood(schema: str, shape: WriterForm) -> WriterSchema:
    return read_writer_schema(json.loads(schema), shape)


_CHANGES_NO_TABLE = (SAME, DROPPED, NARROWER)


def remember_schemas(
    history: SchemaHistory,
    config: TableConfig,
    *,
    writers: Sequence[WriterSchema],
    inferred: Iterable[str],
    verdicts: Mapping[str, Evolution],
    at: int,
    batch: str,
) -> None:
    """Record every writer schema with its verdict, before the commit, so that no merged object is without its schema.

    `inferred` are the schemas (JSON) of records that carry none. Of these only the ones that change the table are
    recorded, since there any selection of the table's columns is a schema of its own. `at` is in epoch milliseconds, of
    the first one; each further one is a millisecond later, so that the history keeps their order.
    """
    made_up = {fingerprint(json.loads(text)) for text in set(inferred)}
    for number, writer in enumerate(writers):
        verdict = verdicts[writer.fingerprint]
        if writer.fingerprint in made_up and verdict.verdict in _CHANGES_NO_TABLE:
            continue
        row = row_for_table(writer, config)
        history.note(seen(config.table, writer.fingerprint, row, verdict, at=at + number, batch=batch))


def remember_columns(history: SchemaHistory, config: TableConfig, stored: StructType | None) -> None:
    """Record the table's columns as of its newest commit, with which admission compares, and its history's own name."""
    if stored is not None:
        history_text = config.history if isinstance(config.history, str) else None
        history.keep_columns(StoredColumns(config.table, column_types(stored), history_text))
