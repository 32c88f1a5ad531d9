"""The Merger port on Spark. Each table works in a scheduler pool of its own.

Merges and services are imported beside the claim, which needs none of their libraries: half a second (local).

Python workers are kept alive while nothing arrives: Spark ends idle ones after a minute, and a new one takes a second.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable

from pyspark.sql import SparkSession

from sluice.batch.claim import TableState
from sluice.batch.manifest import Manifest
from sluice.batch.outcome import SPARK_STAGE, Outcome, Stage
from sluice.config.table import TableConfig
from sluice.ports import Log
from sluice.services.requests import ServiceRequest, SliceDone
from sluice_spark.engine.session import SparkProcess
from sluice_spark.engine.tasks import leave_pandas_out, work_on
from sluice_spark.errors import SparkDied
from sluice_spark.merge.context import MergeServices

if TYPE_CHECKING:
    from sluice_spark.services.slice import SliceRates

_MERGES = "sluice_spark.merge.part"
WARM_EVERY_S = 30.0  # Spark ends Python workers that were idle for a minute


class SparkMerger:
    """Starts the session with `prepare` and waits for it where it is first needed. Safe in several threads."""

    def __init__(
        self, spark: SparkProcess, services: MergeServices, log: Log, begun: Callable[[], None] = lambda: None
    ) -> None:
        """`begun` is called with `prepare`, once the lane is held."""
        self._begun = begun
        self._spark = spark
        self._services = services
        self._log = log
        self._used_at = time.monotonic()
        self._warming: threading.Thread | None = None
        self._rates: SliceRates | None = None

    def prepare(self) -> None:
        """Start Spark, then the Python workers of executors, and import merges beside.

        Where tasks run in the driver's own process, the first batch starts its workers: earlier they would take the
        processors from the start of Spark and from the claim.
        """
        self._begun()
        self._spark.session()
        threading.Thread(target=importlib.import_module, args=(_MERGES,), name="imports", daemon=True).start()
        self._warm_in_background(only_executors=True)

    def merge_part(self, manifest: Manifest, table: str, still_held: Callable[[], bool]) -> Outcome:
        """Read, merge and commit one table's part."""
        asked_at, ready = self._services.clock.now_ms(), self._spark.ready()
        with self._pool(table, manifest.batch) as spark:
            waited = () if ready else (Stage(SPARK_STAGE, asked_at, self._services.clock.now_ms() - asked_at),)
            from sluice_spark.merge.part import merge_part

            return merge_part(
                spark, manifest=manifest, table=table, services=self._services, still_held=still_held, before=waited
            )

    def resolve_part(self, manifest: Manifest, table: str, still_held: Callable[[], bool]) -> Outcome | None:
        """Roll back what is unfinished and look for the part on the timeline."""
        with self._pool(table, manifest.batch) as spark:
            from sluice_spark.merge.part import resolve_part

            return resolve_part(spark, manifest=manifest, table=table, services=self._services, still_held=still_held)

    def serve_table(
        self,
        config: TableConfig,
        request: ServiceRequest,
        state: TableState,
        still_held: Callable[[], bool],
        slice_s: int,
        raise_floor: Callable[[Mapping[int, str]], None],
    ) -> SliceDone:
        """Do one slice of a table service."""
        with self._pool(config.table, request.service) as spark:
            from sluice_spark.services.slice import SliceRates, serve_table

            if self._rates is None:
                self._rates = SliceRates(cores=spark.sparkContext.defaultParallelism)
            return serve_table(
                spark,
                config=config,
                service=request.service,
                services=self._services,
                rates=self._rates,
                still_held=still_held,
                slice_s=slice_s,
                raise_floor=raise_floor,
                watch=state.watch,
                last_instant=state.last_instant,
                arguments=request.arguments,
            )

    def abandon(self) -> None:
        """Cancel all jobs. The run that takes over rolls back what a cancelled write left."""
        if self._spark.ready():
            self._spark.session().result().sparkContext.cancelAllJobs()

    def keep_warm(self) -> None:
        """Use the Python workers, in a thread of its own, if they were not used for WARM_EVERY_S."""
        idle_s = time.monotonic() - self._used_at
        if idle_s >= WARM_EVERY_S and self._spark.ready():
            self._warm_in_background()

    def _warm_in_background(self, *, only_executors: bool = False) -> None:
        if self._warming is not None and self._warming.is_alive():
            return
        self._used_at = time.monotonic()
        self._warming = threading.Thread(target=self._warm, args=(only_executors,), name="warm-up", daemon=True)
        self._warming.start()

    def _warm(self, only_executors: bool) -> None:
        """Start or use the Python workers. A failure is only logged: the next batch meets it again.

        The end of the run cuts a warm-up off, which is no failure.
        """
        began = time.monotonic()
        try:
            spark = self._spark.session().result()
            if only_executors and spark.sparkContext._jsc.isLocal() or not _keeps_its_executors(spark):
                return
            warm_python_workers(spark)
        except Exception as error:
            if not self._spark.stopped:
                self._log.failure("warm_up_failed", error)
        else:
            self._log.event("warmed_up", seconds=round(time.monotonic() - began, 3))

    @contextmanager
    def _pool(self, table: str, work: str) -> Iterator[SparkSession]:
        spark = self._spark.session().result()
        leave_pandas_out()
        try:
            with work_on(spark, table, work):
                yield spark
        except Exception as error:
            if _ended(spark):
                raise SparkDied("Spark ended under the driver", table=table, work=work) from error
            if lost := lost_class(error):
                raise SparkDied("Spark's JVM has lost a class", table=table, work=work, java_error=lost) from error
            raise
        finally:
            self._used_at = time.monotonic()


def _ended(spark: SparkSession) -> bool:
    """True where the JVM doesn't answer, or its context has stopped."""
    context = spark.sparkContext._jsc
    try:
        return context is None or bool(context.sc().isStopped())
    except Exception:  # Py4J raises many kinds of errors where the JVM is gone
        return True


# A class that could not be initialized once, such as one with a native library while the disk is full, is never tried
# again by its JVM: every later use of it raises the first of these (Java Language Specification, section 12.4.2).
LOST = frozenset({"java.lang.NoClassDefFoundError", "java.lang.ExceptionInInitializerError"})
_MOST_CAUSES = 50


def _thrown(error: BaseException | None) -> Any:
    """The Java exception of an error by Py4J, or of one that PySpark made of it."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def lost_class(error: BaseException) -> str:
    """What Java says of a class that its JVM can't use any more; empty where that is not the error's cause."""
    raised: BaseException | None = error
    while raised is not None and not _thrown(raised):
        raised = raised.__cause__
    thrown = _thrown(raised)
    for _ in range(_MOST_CAUSES):
        if thrown is None:
            break
        if thrown.getClass().getName() in LOST:
            return str(thrown.toString())[:200]
        thrown = thrown.getCause()
    return ""


def _keeps_its_executors(spark: SparkSession) -> bool:
    """False where work for an executor would start one that is not kept, or keep one from ending that is idle."""
    kept = spark.conf.get("spark.dynamicAllocation.minExecutors", None)
    if kept is None:
        return True
    running = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1  # the driver has an entry, too
    return int(kept) > 0 and running <= int(kept)


POOL = "warm-up"
_READING = "sluice_spark.merge.read"


def warm_python_workers(spark: SparkSession) -> None:
    """Run one trivial task per core through Python and Arrow: workers start and import what reading needs."""
    context = spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", POOL)
    tasks = context.defaultParallelism
    spark.range(0, tasks, 1, tasks).mapInArrow(_imports, "id long").count()


def _imports(batches: Iterable[Any]) -> Iterator[Any]:
    leave_pandas_out()
    importlib.import_module(_READING)  # so that the next task of this worker finds everything imported
    yield from batches
