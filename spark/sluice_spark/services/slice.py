"""Does one slice of a table service: checks the table, does the work while the lane is held, reports it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Callable

from pyspark.sql import SparkSession

from sluice.batch.kafka_watch import KafkaWatch
from sluice.config.table import TableConfig
from sluice.errors import NotAdoptable
from sluice.services.policy import applies_to
from sluice.services.requests import (
    ADOPTION,
    ARCHIVAL,
    CLEANING,
    CLUSTERING,
    COMPACTION,
    FORGETTING,
    ICEBERG,
    PURGE,
    ServiceReport,
    SliceDone,
)
from sluice_spark.errors import CommitNotNewest, LaneLost, ServiceNotForTable
from sluice_spark.hudi import housekeeping
from sluice_spark.hudi.late_files import remove_late_files
from sluice_spark.hudi.recovery import recovered_facts, refuse_missing
from sluice_spark.hudi.table import HudiTable
from sluice_spark.iceberg.keep_up import before_cleaning, keep_up, keep_up_or_log
from sluice_spark.merge.context import MergeServices
from sluice_spark.services.adoption import adopt
from sluice_spark.services.compaction import cluster, compact
from sluice_spark.services.forgetting import forget
from sluice_spark.services.purge import purge
from sluice_spark.services.work import RaiseFloor, ServiceSlice

# The assumed speed of a table's first slice in a run: far below what two cores did locally.
FIRST_BYTES_PER_S_AND_CORE = 4 * 1024**2
SLOWEST_BYTES_PER_S = 256 * 1024


@dataclass
class SliceRates:
    """Bytes per second that this run has seen, by service and table. Safe in several threads."""

    cores: int
    _rates: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def budget_bytes(self, config: TableConfig, service: str, slice_s: int) -> int:
        """The bytes of a plan that fits a slice of `slice_s` seconds."""
        with self._lock:
            rate = self._rates.get(f"{service} {config.table}", float(FIRST_BYTES_PER_S_AND_CORE * self.cores))
        return int(max(rate, SLOWEST_BYTES_PER_S) * slice_s)

    def saw(self, config: TableConfig, service: str, report: ServiceReport, slice_s: int) -> None:
        """Learn from a slice. One that was too long makes the next plan smaller; a shorter one at most doubles it.

        The time of a short slice is mostly spent on starting it.
        """
        moved = report.bytes_before + report.bytes_after
        if not moved or not report.ms:
            return
        name, rate = f"{service} {config.table}", moved * 1000 / report.ms
        with self._lock:
            rate_before = self._rates.get(name, float(FIRST_BYTES_PER_S_AND_CORE * self.cores))
            self._rates[name] = rate if report.ms > slice_s * 1000 else max(rate_before, min(rate, 2 * rate_before))


def serve_table(
    spark: SparkSession,
    *,
    config: TableConfig,
    service: str,
    services: MergeServices,
    rates: SliceRates,
    still_held: Callable[[], bool],
    slice_s: int,
    raise_floor: RaiseFloor,
    watch: Mapping[str, Any] = MappingProxyType({}),
    last_instant: str | None = None,
    arguments: Mapping[str, str] = MappingProxyType({}),
) -> SliceDone:
    """Do one slice of a service. Each is idempotent: it first undoes or finishes what an earlier attempt left.

    `raise_floor` writes the highest positions of rows about to be purged into the ledger; `watch` is the table's
    KafkaWatch.to_dict(), `last_instant` its last commit in the ledger, `arguments` those of the request. Raises
    LaneLost before the next write where `still_held` says no, ServiceNotForTable, TableWentBack, and errors of Spark
    and Hudi; after these the table is checked and rolled back before it is written again (`resolve-before-write`).
    """
    if not applies_to(service, config):
        raise ServiceNotForTable(
            f"{service} does not apply to {config.table} as it is configured", service=service, table=config.table
        )
    clock, known_tables = services.clock, services.tables
    began = clock.now_ms()
    hudi = HudiTable(spark, services.table_path(config.database, config.name), config)
    if not hudi.exists():
        refuse_missing(hudi, last_instant)
        _refuse_without_commit(config, service)
        return SliceDone(ServiceReport())

    def check_held() -> None:
        if not still_held():
            raise LaneLost(f"The lane was taken over during {service} of {config.table}", table=config.table)

    known_tables.take(config)  # the table is unknown until the slice has ended well
    check_held()
    facts = recovered_facts(hudi, services.log, last_instant)
    facts = hudi.date_anew(facts, now_ms=clock.now_ms, wait=clock.wait)
    if facts.empty:
        _refuse_without_commit(config, service)
        return SliceDone(ServiceReport())
    hudi.wait_until_past_newest(facts.newest, now_ms=clock.now_ms, wait=clock.wait)
    given = ServiceSlice(
        hudi=hudi,
        facts=facts,
        services=services,
        budget_bytes=rates.budget_bytes(config, service, slice_s),
        check_held=check_held,
        raise_floor=raise_floor,
        watch=KafkaWatch.from_dict(watch),
        arguments=arguments,
    )
    done = _WORKS[service](given)
    after = hudi.look()
    if done.report.instant is not None and (after.newest or "") < done.report.instant:
        raise CommitNotNewest(
            f"{config.table}: {service} {done.report.instant} is not on the timeline",
            table=config.table,
            instant=done.report.instant,
        )
    if keep_up_or_log(hudi, after, services, check_held):
        known_tables.keep(config, after)
    report = replace(done.report, ms=clock.now_ms() - began)
    rates.saw(config, service, report, slice_s)
    return replace(done, report=report)


def _refuse_without_commit(config: TableConfig, service: str) -> None:
    """The first commit gives a table the columns that adopted rows must fit."""
    if service == ADOPTION:
        raise NotAdoptable(f"{config.table} has no commit yet", next_step="Adopt after its first commit: `sluice wait`")


def _clean(given: ServiceSlice) -> SliceDone:
    now_ms = given.services.clock.now_ms()
    _note_late(given, remove_late_files(given.hudi, given.check_held))
    horizon = housekeeping.horizon_at(given.hudi, now_ms)
    cleaned = housekeeping.clean(
        given.hudi,
        horizon=horizon,
        check_held=given.check_held,
        before_delete=before_cleaning(given.hudi, given.services, given.check_held),
    )
    given.services.tables.keep_cleaned(given.hudi.config, now_ms)
    return SliceDone(ServiceReport(files_before=cleaned.files, bytes_before=cleaned.bytes, instant=cleaned.instant))


def _archive(given: ServiceSlice) -> SliceDone:
    archived, late_files = housekeeping.archive(given.hudi, given.check_held)
    _note_late(given, late_files)
    return SliceDone(ServiceReport(more={"archived": archived, "late_files": len(late_files)}))


def _rebuild_iceberg(given: ServiceSlice) -> SliceDone:
    made = keep_up(given.hudi, given.facts, given.services, given.check_held, rebuild=True)
    return SliceDone(ServiceReport(files_after=0 if made is None else made.added))


def _note_late(given: ServiceSlice, late_files: tuple[str, ...]) -> None:
    if late_files:
        given.services.log.event(
            "late_files_removed", level="warning", table=given.hudi.config.table, files=list(late_files)
        )


_WORKS: Mapping[str, Callable[[ServiceSlice], SliceDone]] = {
    COMPACTION: compact,
    CLUSTERING: cluster,
    PURGE: purge,
    CLEANING: _clean,
    ARCHIVAL: _archive,
    ADOPTION: adopt,
    ICEBERG: _rebuild_iceberg,
    FORGETTING: forget,
}
