"""Reads change objects into a frame, in Spark tasks that make the table's types of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, LongType, StringType, StructType

from sluice.batch.manifest import ManifestObject
from sluice.changes import hidden_columns as hidden
from sluice_aws.s3.objects import ObjectSource
from sluice_formats.records import ReaderPlan
from sluice_spark.merge.plan import column_types
from sluice_spark.merge.read import SeenObjects, share_reader, shared_out
from sluice_spark.merge.rows import stored_batches


def read_changes(
    spark: SparkSession,
    *,
    objects: Sequence[ManifestObject],
    plan: ReaderPlan,
    target: StructType,
    source: ObjectSource,
    seen: SeenObjects,
) -> DataFrame:
    """The changes in the objects in the columns of `target`, with UNCHANGED and INEXACT (`share_reader`, `arrow_rows`).

    `seen` is filled once the rows were computed.
    """
    shares = shared_out(objects, spark.sparkContext.defaultParallelism)
    read, kinds = share_reader(plan, source, seen), column_types(target)

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from stored_batches(read(shares[number]), plan=plan, target=kinds)

    schema = StructType([*target.fields]).add(hidden.UNCHANGED, ArrayType(StringType()))
    schema = schema.add(hidden.INEXACT, LongType())
    return spark.range(0, len(shares), 1, len(shares)).mapInArrow(task, schema)
