"""Finds out, in Spark tasks, which schemas the objects have whose heads don't tell."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Mapping, Sequence, Set, Tuple

import pyarrow as pa
from pyspark.sql import SparkSession

from sluice.avro_schema import fingerprint
from sluice.errors import SluiceError
from sluice.manifest import ManifestObject
from sluice.outcome import ObjectError
from sluice.table_config import TableConfig
from sluice_aws.task_objects import ObjectSource, task_objects
from sluice_spark.decoding import read_or_refused
from sluice_spark.json_records import json_schemas
from sluice_spark.reading import balanced, bodies, task_count, told

_FIELDS = "object string, fingerprint string, schema string, inferred boolean, code string, reason string"
_ARROW = pa.schema(
    [
        ("object", pa.string()),
        ("fingerprint", pa.string()),
        ("schema", pa.string()),
        ("inferred", pa.bool_()),
        ("code", pa.string()),
        ("reason", pa.string()),
    ]
)


@dataclass(frozen=True)
class Scanned:
    """What a scan found: schemas (Avro form) by fingerprint, which of them were inferred, each object's own, and objects without."""

    schemas: Mapping[str, Mapping[str, Any]]
    inferred: FrozenSet[str]
    of_object: Mapping[str, Tuple[str, ...]]
    errors: Tuple[ObjectError, ...]


def scan_schemas(
    spark: SparkSession, *, objects: Sequence[ManifestObject], config: TableConfig, source: ObjectSource
) -> Scanned:
    """Read JSON objects for their schemas alone; a few lines per object come back, never data.

    An object that can't be read is in `errors`; S3's passing troubles raise, and Spark runs the task again.
    """
    shares = balanced(objects, task_count(objects, spark.sparkContext.defaultParallelism))
    found = spark.range(0, len(shares), 1, len(shares)).mapInArrow(_task(shares, config, source), _FIELDS).collect()
    texts: Dict[str, str] = {row["fingerprint"]: row["schema"] for row in found if row["schema"] is not None}
    of_object: Dict[str, Tuple[str, ...]] = {}
    for row in found:
        if row["fingerprint"] is not None:
            of_object[row["object"]] = (*of_object.get(row["object"], ()), row["fingerprint"])
    return Scanned(
        {mark: json.loads(text) for mark, text in texts.items()},
        frozenset(row["fingerprint"] for row in found if row["inferred"]),
        of_object,
        tuple(ObjectError(row["object"], row["code"], row["reason"]) for row in found if row["code"] is not None),
    )


def _task(
    shares: Sequence[Sequence[ManifestObject]], config: TableConfig, source: ObjectSource
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        s3 = task_objects(source)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows: List[Dict[str, Any]] = []
                sent: Set[str] = set()
                for item, body in bodies(s3, shares[number], config.limits.object_bytes):
                    rows.extend(_scan(item, body, config, sent))
                yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)

    return run


def _scan(
    item: ManifestObject, body: Callable[[], bytes], config: TableConfig, sent: Set[str]
) -> Iterator[Dict[str, Any]]:
    """One row per schema of the object; its text only the first time that a task meets it."""
    try:
        text = body()
        schemas, inferred = read_or_refused(
            lambda: json_schemas(text, config.json_types, config.limits, config.unavailable_value)
        )
    except SluiceError as error:
        if error.retriable:
            raise
        yield {"object": item.id.hash, "inferred": False, "code": error.code, "reason": told(error)}
        return
    for schema in schemas:
        mark = fingerprint(schema)
        text = None if mark in sent else json.dumps(schema, sort_keys=True)
        sent.add(mark)
        yield {"object": item.id.hash, "fingerprint": mark, "schema": text, "inferred": inferred}
