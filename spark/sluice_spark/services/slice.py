"""One slice of a table service: the table looked at, the work done under the hold, and what it came to."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Callable

from pyspark.sql import SparkSession

from sluice.batch.kafka_watch import KafkaWatch, only_partition
from sluice.config.table import HARD, MOR, TableConfig
from sluice.services.requests import ARCHIVAL, CLEANING, CLUSTERING, COMPACTION, PURGE, ServiceReport, SliceDone
from sluice_spark.errors import CommitNotNewest, LaneLost, ServiceNotForTable
from sluice_spark.hudi import housekeeping
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.hudi.recovery import first_look
from sluice_spark.hudi.table import HudiTable
from sluice_spark.merge.context import MergeServices
from sluice_spark.services.compaction import cluster, compact
from sluice_spark.services.purge import RaiseFloor, purge

# What a slice begins with, until this run has seen how fast this table goes: far below what two cores did locally.
FIRST_BYTES_PER_S_AND_CORE = 4 * 1024**2
SLOWEST_BYTES_PER_S = 256 * 1024


@dataclass
class Pace:
    """How many bytes a second services went through, by service and table, as this run saw it. Safe in several threads."""

    cores: int
    _seen: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def budget_bytes(self, config: TableConfig, service: str, slice_s: int) -> int:
        """The bytes of a plan that a slice should hold."""
        with self._lock:
            rate = self._seen.get(f"{service} {config.table}", float(FIRST_BYTES_PER_S_AND_CORE * self.cores))
        return int(max(rate, SLOWEST_BYTES_PER_S) * slice_s)

    def saw(self, config: TableConfig, service: str, report: ServiceReport, slice_s: int) -> None:
        """Learn from a slice. One that was too long makes the next plan smaller; a shorter one says more of starting than of bytes, and at most doubles it."""
        moved = report.bytes_before + report.bytes_after
        if not moved or not report.ms:
            return
        name, rate = f"{service} {config.table}", moved * 1000 / report.ms
        with self._lock:
            known = self._seen.get(name, float(FIRST_BYTES_PER_S_AND_CORE * self.cores))
            self._seen[name] = rate if report.ms > slice_s * 1000 else max(known, min(rate, 2 * known))


def serve_table(
    spark: SparkSession,
    *,
    config: TableConfig,
    service: str,
    services: MergeServices,
    pace: Pace,
    still_held: Callable[[], bool],
    slice_s: int,
    raise_floor: RaiseFloor,
    watch: Mapping[str, Any] = MappingProxyType({}),
) -> SliceDone:
    """Do one slice of a service. Each is idempotent: what an earlier attempt left is undone or carried out first, what is done isn't done again.

    `raise_floor` writes the highest positions of rows that are about to be purged into the ledger; `watch` is KafkaWatch.to_dict() of the table. Raises LaneLost before the next write when `still_held` says no, ServiceNotForTable where a service doesn't apply, and
    whatever Spark and Hudi raise: then the table is looked at anew, and rolled back, before it is next written (rule 4).
    """
    return _Slice(
        spark, config, service, services, pace, still_held, slice_s, raise_floor, KafkaWatch.from_dict(watch)
    ).done()


class _Slice:
    def __init__(
        self,
        spark: SparkSession,
        config: TableConfig,
        service: str,
        services: MergeServices,
        pace: Pace,
        still_held: Callable[[], bool],
        slice_s: int,
        raise_floor: RaiseFloor,
        watch: KafkaWatch,
    ) -> None:
        self._spark = spark
        self._raise_floor = raise_floor
        self._watch = watch
        self._config = config
        self._service = service
        self._services = services
        self._pace = pace
        self._still_held = still_held
        self._slice_s = slice_s
        self._jvm = HudiJvm(spark)
        self._hudi = HudiTable(spark, services.table_path(config.database, config.name), config)

    def done(self) -> SliceDone:
        self._refuse_what_does_not_apply()
        clock, known = self._services.clock, self._services.known
        began = clock.now_ms()
        if not self._hudi.exists():
            return SliceDone(ServiceReport())
        known.take(self._config)  # until it ends well nothing is known of the table
        self._check_held()
        facts = first_look(self._hudi, self._services.log).facts
        if facts.empty:
            return SliceDone(ServiceReport())
        self._hudi.wait_until_past_newest(facts.newest, now_ms=clock.now_ms, wait=clock.wait)
        done = self._do(facts)
        after = self._hudi.look()
        if done.report.instant is not None and (after.newest or "") < done.report.instant:
            raise CommitNotNewest(
                f"{self._config.table}: {self._service} {done.report.instant} is not on the timeline",
                table=self._config.table,
                instant=done.report.instant,
            )
        known.keep(self._config, after)
        report = replace(done.report, ms=clock.now_ms() - began)
        self._pace.saw(self._config, self._service, report, self._slice_s)
        return replace(done, report=report)

    def _do(self, facts: TableFacts) -> SliceDone:
        budget = self._pace.budget_bytes(self._config, self._service, self._slice_s)
        if self._service == COMPACTION:
            return compact(self._hudi, self._jvm, facts=facts, budget_bytes=budget, check_held=self._check_held)
        if self._service == CLUSTERING:
            return cluster(self._hudi, self._jvm, facts=facts, budget_bytes=budget, check_held=self._check_held)
        if self._service == PURGE:
            now_ms = self._services.clock.now_ms()
            return purge(
                self._hudi,
                self._jvm,
                spark=self._spark,
                facts=facts,
                now_ms=now_ms,
                budget_bytes=budget,
                check_held=self._check_held,
                raise_floor=self._raise_floor,
                only_partition=only_partition(self._watch, generation=self._config.generation),
            )
        if self._service == CLEANING:
            return self._clean()
        return self._archive()

    def _clean(self) -> SliceDone:
        now_ms = self._services.clock.now_ms()
        cleaned = housekeeping.clean(self._hudi, self._jvm, now_ms=now_ms, check_held=self._check_held)
        self._services.known.keep_cleaned(self._config, now_ms)
        return SliceDone(ServiceReport(files_before=cleaned.files, bytes_before=cleaned.bytes, instant=cleaned.instant))

    def _archive(self) -> SliceDone:
        self._check_held()
        return SliceDone(ServiceReport(more={"archived": housekeeping.archive(self._hudi, self._jvm)}))

    def _refuse_what_does_not_apply(self) -> None:
        applies = {
            COMPACTION: self._config.table_type == MOR,
            CLUSTERING: bool(self._config.services.cluster_by),
            PURGE: self._config.delete_mode == HARD,
            CLEANING: True,
            ARCHIVAL: True,
        }
        if not applies.get(self._service, False):
            raise ServiceNotForTable(
                f"{self._service} has nothing to do with {self._config.table} as it is configured",
                service=self._service,
                table=self._config.table,
            )

    def _check_held(self) -> None:
        if not self._still_held():
            raise LaneLost(
                f"The lane was taken over during {self._service} of {self._config.table}", table=self._config.table
            )
