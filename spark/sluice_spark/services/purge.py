"""Purge in slices: removes rows that were deleted before the horizon, after raising a floor that keeps them deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.batch.kafka_watch import is_of_one_log, only_partition
from sluice.changes import hidden_columns as hidden
from sluice.changes.position import BY_OFFSET_ALONE, generation_of, is_by_offset_alone
from sluice.config.table import MOR
from sluice.hudi import own_metadata
from sluice.hudi.timeline import instant_of_ms
from sluice.services.requests import ServiceReport, SliceDone
from sluice_spark.errors import ServiceUnfinished
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.jvm import written_files
from sluice_spark.hudi.table import HudiTable
from sluice_spark.merge.by_spark.columns import quoted
from sluice_spark.services.compaction import compact
from sluice_spark.services.work import ServiceSlice, purging, write_removal

_FILE, _COMMIT = "_hoodie_file_name", "_hoodie_commit_time"


@dataclass(frozen=True)
class _DueFile:
    """One file with rows to purge: how many, and their highest position in each generation."""

    file: str
    rows: int
    positions: tuple[str, ...]


def purge(given: ServiceSlice) -> SliceDone:
    """Purge, in as many files as the budget holds, the rows whose tombstones were committed before the horizon.

    The floor is raised first (`floor-before-purge`): in the ledger, then in the table's properties,
    then in the metadata of the commit. After a crash in between, the floor is only higher than it has to be.

    Rows that a Kafka offset alone orders stay, unless they are of the one Kafka partition that the table has: where it
    has several, or none is known, a floor of one partition would be above new changes of another.
    Such rows of an earlier generation stay too, since its partitions aren't known any more. So do all rows of several
    logs: a floor in one would be above new changes of another.

    A merge-on-read table is compacted first, in slices of its own, and again after the removal: Hudi's log records of a
    removal have no position to compare a later change with, so none may be left when the next batch is merged. Raises
    ServiceUnfinished.
    """
    hudi, facts = given.hudi, given.facts
    if hudi.config.table_type == MOR:
        compacted = compact(given)
        if compacted.report.instant is not None:
            return SliceDone(replace(compacted.report, rows=0), more=True)  # nothing is removed yet
    rows = hudi.rows()
    horizon = instant_of_ms(given.services.clock.now_ms() - hudi.config.services.purge_horizon_s * 1000)
    partition = only_partition(given.watch, generation=hudi.config.generation)
    due = rows.where(quoted(hidden.DELETED) & (F.col(_COMMIT) < F.lit(horizon)))
    if not is_of_one_log(given.watch, hudi.config):
        return SliceDone(ServiceReport())
    due = due.where(_comparable(rows.columns, partition, generation=hudi.config.generation))
    due_files = _due_files(due)
    sizes = hudi.jvm.file_bytes(facts.meta_client, [file.file for file in due_files])
    chosen = _within(due_files, sizes, given.budget_bytes)
    if not chosen:
        return SliceDone(ServiceReport())
    positions = _by_generation([position for file in chosen for position in file.positions])
    given.check_held()
    given.raise_floor(positions)
    highest = max(positions.values())
    of_partition = {own_metadata.PURGED_PARTITION_PROPERTY: str(partition)} if is_by_offset_alone(highest) else {}
    hudi.raise_purged(highest, of_partition)
    with purging(hudi, facts, given.check_held):
        rows = due.where(F.col(_FILE).isin([file.file for file in chosen]))
        report = _remove(hudi, rows, facts=facts, positions=positions, chosen=chosen)
    return SliceDone(report, more=len(chosen) < len(due_files))


def _comparable(columns: Sequence[str], only_partition: int | None, *, generation: int) -> SparkColumn:
    """True for a position in a log, or an offset of that partition. Rows have their partition where lineage is on."""
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


def _due_files(due: DataFrame) -> list[_DueFile]:
    """The files with rows to purge, those with the most rows first. One row per file comes to the driver."""
    generation = F.split(quoted(hidden.POSITION), r"\.").getItem(0)
    counted = due.groupBy(F.col(_FILE), generation.alias("generation")).agg(
        F.count(F.lit(1)).alias("rows"), F.max(quoted(hidden.POSITION)).alias("position")
    )
    files = counted.groupBy(_FILE).agg(F.sum("rows").alias("rows"), F.collect_list("position").alias("positions"))
    due_files = [_DueFile(row[_FILE], row["rows"], tuple(row["positions"])) for row in files.toLocalIterator()]
    return sorted(due_files, key=lambda file: (-file.rows, file.file))


def _within(due_files: Sequence[_DueFile], sizes: Mapping[str, int], budget_bytes: int) -> list[_DueFile]:
    """As many files as the budget holds, each read and written; always the first."""
    chosen: list[_DueFile] = []
    used = 0
    for file in due_files:
        used += 2 * sizes.get(file.file, 0)
        if chosen and used > budget_bytes:
            break
        chosen.append(file)
    return chosen


def _by_generation(positions: Sequence[str]) -> dict[int, str]:
    highest: dict[int, str] = {}
    for position in sorted(positions):
        highest[generation_of(position)] = position
    return highest


def _remove(
    hudi: HudiTable,
    due: DataFrame,
    *,
    facts: TableFacts,
    positions: Mapping[int, str],
    chosen: Sequence[_DueFile],
) -> ServiceReport:
    """Remove rows in one commit, as purged."""
    size_bytes = sum(hudi.jvm.file_bytes(facts.meta_client, [file.file for file in chosen]).values())
    metadata = own_metadata.purge_metadata(hudi.config.table, positions)
    by_index = hudi.finds_by_record_index(facts)
    write_removal(hudi, due, facts, metadata, size_bytes=size_bytes, record_index=by_index)
    instant, statistics = _committed(hudi, facts.newest)
    removed = sum(stat["numDeletes"] for stat in statistics)
    return ServiceReport(
        files_before=len(chosen),
        files_after=len(statistics),
        bytes_before=size_bytes,
        bytes_after=sum(stat["fileSizeInBytes"] for stat in statistics),
        rows=removed,
        instant=instant,
    )


def _committed(hudi: HudiTable, newest_before: str | None) -> tuple[str, list[dict[str, int]]]:
    timeline = hudi.meta_client().getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
    last = timeline.lastInstant()
    if not last.isPresent() or str(last.get().requestedTime()) <= (newest_before or ""):
        raise ServiceUnfinished(
            f"{hudi.config.table}: no commit of the purge is on the timeline",
            table=hudi.config.table,
            instant=newest_before,
        )
    return str(last.get().requestedTime()), written_files(timeline.readCommitMetadata(last.get()))
