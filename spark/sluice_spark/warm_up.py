"""Keeps Python workers alive while nothing arrives: Spark ends idle ones after a minute, and a new one costs a second."""

from __future__ import annotations

import importlib
from typing import Any, Iterable, Iterator

from pyspark.sql import SparkSession

POOL = "warm-up"
_READING = "sluice_spark.reading"


def warm_python_workers(spark: SparkSession) -> None:
    """Run one trivial task per core through Python and Arrow, so that workers exist and have imported what reading needs."""
    context = spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", POOL)
    tasks = context.defaultParallelism
    spark.range(0, tasks, 1, tasks).mapInArrow(_imports, "id long").count()


def _imports(batches: Iterable[Any]) -> Iterator[Any]:
    importlib.import_module(_READING)  # for its effect: the next task in this worker finds everything loaded
    yield from batches
