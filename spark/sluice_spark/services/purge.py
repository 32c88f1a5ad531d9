"""Purge in slices: rows deleted longer ago than the horizon are removed for good, behind a floor that keeps them from coming back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Callable

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.changes import hidden_columns as hidden
from sluice.changes.position import BY_OFFSET_ALONE, generation_of, is_by_offset_alone
from sluice.config.table import MOR
from sluice.hudi import options as hudi_options
from sluice.hudi import own_metadata, write_sizes
from sluice.hudi.timeline import instant_of_ms
from sluice.services.requests import ServiceReport, SliceDone
from sluice_spark.errors import ServiceUnfinished
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.hudi.table import HudiTable, has_timestamp_key
from sluice_spark.merge.normalize import quoted
from sluice_spark.services.compaction import compact, written_files

RaiseFloor = Callable[[Mapping[int, str]], None]
_FILE, _COMMIT = "_hoodie_file_name", "_hoodie_commit_time"


@dataclass(frozen=True)
class _Dead:
    """One file with rows that are due: how many, and their highest position by generation."""

    file: str
    rows: int
    positions: tuple[str, ...]


def purge(
    hudi: HudiTable,
    jvm: HudiJvm,
    *,
    spark: SparkSession,
    facts: TableFacts,
    now_ms: int,
    budget_bytes: int,
    check_held: Callable[[], None],
    raise_floor: RaiseFloor,
    only_partition: int | None,
) -> SliceDone:
    """Remove the rows of as many files as the budget holds that were deleted before the horizon, by the time at which their tombstones were committed.

    First the floor, in the ledger by `raise_floor`, then in the table's own file; then the commit, whose metadata names it too (rule 13).
    Rows that a Kafka offset alone orders stay where the table has more than the one Kafka partition `only_partition` (None: it has, or none is known):
    a floor that is of one of them would be above what is new in another. So do those of an earlier generation, of whose partitions no more is known. Cut off behind the floor, nothing is lost: it is only higher than it need be yet. In a merge-on-read table log files are
    compacted first, in slices of their own, and again behind the removal: Hudi's log records of a deletion carry no position to
    compare a later change with, so none may be left when the next batch is merged. Raises ServiceUnfinished.
    """
    merges = hudi.config.table_type == MOR
    if merges:
        compacted = compact(hudi, jvm, facts=facts, budget_bytes=budget_bytes, check_held=check_held)
        if compacted.report.instant is not None:
            return SliceDone(replace(compacted.report, rows=0), more=True)  # nothing is removed yet
    rows = spark.read.format("hudi").options(**hudi_options.read_options()).load(hudi.path)
    horizon = instant_of_ms(now_ms - hudi.config.services.purge_horizon_s * 1000)
    due = rows.where(quoted(hidden.DELETED) & (F.col(_COMMIT) < F.lit(horizon)))
    due = due.where(_comparable(rows.columns, only_partition, generation=hudi.config.generation))
    found = _dead(due)
    chosen = _within(found, jvm.file_bytes(facts.meta_client, [dead.file for dead in found]), budget_bytes)
    if not chosen:
        return SliceDone(ServiceReport())
    positions = _by_generation([position for dead in chosen for position in dead.positions])
    check_held()
    raise_floor(positions)
    highest = max(positions.values())
    of_partition = {own_metadata.PURGED_PARTITION_PROPERTY: str(only_partition)} if is_by_offset_alone(highest) else {}
    hudi.raise_floor(highest, own_metadata.PURGED_PROPERTY, of_partition)
    if merges:
        hudi.set_purging(facts.newest or "")
    check_held()
    report = _remove(
        hudi,
        jvm,
        due.where(F.col(_FILE).isin([dead.file for dead in chosen])),
        facts=facts,
        positions=positions,
        chosen=chosen,
    )
    if merges:
        hudi.compact_all()
        hudi.set_purging("")
    return SliceDone(report, more=len(chosen) < len(found))


def _comparable(columns: Sequence[str], only_partition: int | None, *, generation: int) -> SparkColumn:
    """Whether a row's position is in a log, or an offset of that partition; a row tells its own partition where lineage is on."""
    in_log = ~quoted(hidden.POSITION).rlike(BY_OFFSET_ALONE)
    if only_partition is None:
        return in_log
    of_generation = F.split(quoted(hidden.POSITION), r"\.").getItem(0).cast("int") == F.lit(generation)
    of_partition = (
        F.coalesce(quoted(hidden.PARTITION) == F.lit(only_partition), F.lit(True))
        if hidden.PARTITION in columns
        else F.lit(True)
    )
    return in_log | (of_generation & of_partition)


def _dead(due: DataFrame) -> list[_Dead]:
    """The files with rows that are due, the ones with the most first: one row each comes to the driver."""
    generation = F.split(quoted(hidden.POSITION), r"\.").getItem(0)
    counted = due.groupBy(F.col(_FILE), generation.alias("generation")).agg(
        F.count(F.lit(1)).alias("rows"), F.max(quoted(hidden.POSITION)).alias("position")
    )
    files = counted.groupBy(_FILE).agg(F.sum("rows").alias("rows"), F.collect_list("position").alias("positions"))
    found = [_Dead(row[_FILE], row["rows"], tuple(row["positions"])) for row in files.toLocalIterator()]
    return sorted(found, key=lambda dead: (-dead.rows, dead.file))


def _within(found: Sequence[_Dead], sizes: Mapping[str, int], budget_bytes: int) -> list[_Dead]:
    """As many as the budget holds, each read and written; the first always."""
    chosen: list[_Dead] = []
    used = 0
    for dead in found:
        used += 2 * sizes.get(dead.file, 0)
        if chosen and used > budget_bytes:
            break
        chosen.append(dead)
    return chosen


def _by_generation(positions: Sequence[str]) -> dict[int, str]:
    highest: dict[int, str] = {}
    for position in sorted(positions):
        highest[generation_of(position)] = position
    return highest


def _remove(
    hudi: HudiTable,
    jvm: HudiJvm,
    due: DataFrame,
    *,
    facts: TableFacts,
    positions: Mapping[int, str],
    chosen: Sequence[_Dead],
) -> ServiceReport:
    """One commit that removes rows: each is written with its own position, so that nothing newer is touched, and with the mark of what is purged."""
    assert facts.schema is not None  # there are rows
    rows = due.select(
        *[
            (F.lit(hudi_options.PURGED_OP) if name == hidden.OP else quoted(name)).alias(name)
            for name in facts.schema.names
        ]
    )
    sizes = jvm.file_bytes(facts.meta_client, [dead.file for dead in chosen])
    options = hudi_options.write_options(
        hudi.config,
        operation=hudi_options.UPSERT,
        parallelism=write_sizes.shuffle_tasks(sum(sizes.values()), hudi.cores),
        timestamp_key=has_timestamp_key(hudi.config, rows),
        record_index=hudi.finds_by_record_index(facts),
    )
    metadata = own_metadata.purge_metadata(hudi.config.table, positions)
    rows.write.format("hudi").options(**options).options(**hudi_options.purge_options()).options(**metadata).mode(
        "append"
    ).save(hudi.path)
    instant, statistics = _committed(hudi, jvm, facts.newest)
    removed = sum(stat["numDeletes"] for stat in statistics)
    return ServiceReport(
        files_before=len(chosen),
        files_after=len(statistics),
        bytes_before=sum(sizes.values()),
        bytes_after=sum(stat["fileSizeInBytes"] for stat in statistics),
        rows=removed,
        instant=instant,
    )


def _committed(hudi: HudiTable, jvm: HudiJvm, newest_before: str | None) -> tuple[str, list[dict[str, int]]]:
    timeline = jvm.meta_client(hudi.path).getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
    last = timeline.lastInstant()
    if not last.isPresent() or str(last.get().requestedTime()) <= (newest_before or ""):
        raise ServiceUnfinished(
            f"{hudi.config.table}: no commit of the purge is on the timeline",
            table=hudi.config.table,
            instant=newest_before,
        )
    return str(last.get().requestedTime()), written_files(timeline.readCommitMetadata(last.get()))
