"""The Spark tasks of one table: started in a pool and a job group of its own, and ended before a roll-back.

What tasks and the driver have of their process: S3, and pyarrow without pandas.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Callable
from zipimport import zipimporter

from pyspark.sql import SparkSession

from sluice_aws.s3 import objects
from sluice_spark.errors import TasksLeft

# A task is interrupted; a Python worker is killed two seconds later. A request to S3 that ignores both ends with its
# own time limits and repetitions.
LONGEST_WAIT_S = 180.0
POLL_S = 0.1


@contextmanager
def work_on(spark: SparkSession, table: str, work: str) -> Iterator[None]:
    """Run this thread's jobs as the table's: tables share the executors, and `end_tasks` finds them."""
    context = spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", table)
    context.setJobGroup(table, f"{table} {work}", interruptOnCancel=True)
    yield


def end_tasks(
    spark: SparkSession,
    table: str,
    *,
    longest_s: float = LONGEST_WAIT_S,
    wait: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Cancel the table's jobs, and wait until none of its tasks runs. For the only thread that works on the table.

    A job fails with its first task, while others still write: what they upload after a roll-back would stay. Raises
    TasksLeft after `longest_s` seconds. Tasks of an executor that was lost count as ended.
    """
    spark.sparkContext.cancelJobGroup(table)
    scheduler: Any = spark.sparkContext._jsc.sc()
    until = monotonic() + longest_s
    while True:
        pool = scheduler.getPoolForName(table)
        running = int(pool.get().runningTasks()) if pool.isDefined() else 0
        if not running:
            return
        if monotonic() >= until:
            raise TasksLeft(
                f"{table}: {running} tasks of a failed write still run after {longest_s:g} s",
                table=table,
                tasks=running,
            )
        wait(POLL_S)


def task_objects(source: objects.ObjectSource) -> objects.Objects:
    """S3 for the process of a task, which decodes without pandas from now on, and begins its next task at once."""
    leave_pandas_out()
    forget_archives()
    return objects.task_objects(source)


class _PandasLeftOut:
    """A finder of modules that finds no pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is left out", name=name)


@cache
def leave_pandas_out() -> None:
    """Have pyarrow find no pandas in this process.

    With the first value that it converts, pyarrow imports pandas where there is one, and remembers where there is none.
    No value here is pandas', and its 330 modules are a fifth of the processor time of a driver's imports.
    """
    import pyarrow as pa  # not for the driver's first import, which is before Arrow's

    sys.meta_path.insert(0, _PandasLeftOut)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(_PandasLeftOut)


def forget_archives() -> None:
    """Drop Python's finders of modules in archives; the next import makes them anew of what Python keeps of each.

    Before each task PySpark has all finders forget what they know (`worker.py`), and from Python 3.10 on those of
    archives then read the directory at once: of this code's archive once for each package, and of Spark's jar. That
    takes longer than a small task.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            sys.path_importer_cache.pop(path, None)  # other threads do the same
