"""Compaction in slices: what a plan of bounded size makes of log files, one plan at a time.

Clustering in slices: small files of a partition made into few, sorted by the table's columns.
"""

from __future__ import annotations

import json
from typing import Any, Callable

from sluice.hudi import options as hudi_options
from sluice.hudi import write_sizes
from sluice.services.requests import ServiceReport, SliceDone
from sluice_spark.errors import ServiceUnfinished
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.hudi.table import HudiTable


def compact(
    hudi: HudiTable, jvm: HudiJvm, *, facts: TableFacts, budget_bytes: int, check_held: Callable[[], None]
) -> SliceDone:
    """Merge the log files of as many file groups as the budget holds, the longest logs first; a plan that was left is carried out first.

    `check_held` raises where the lane is lost: it is asked before the plan is written and before its commit. A
    cut at any place is mended by the roll-back that comes before the table's next write: a plan that was
    requested stays, and is the next slice's. Raises ServiceUnfinished.
    """
    client = hudi.client(hudi_options.compaction_options(budget_bytes))
    try:
        left = facts.meta_client.getActiveTimeline().filterPendingCompactionTimeline().firstInstant()
        if left.isPresent():
            instant = str(left.get().requestedTime())
        else:
            check_held()
            planned = client.scheduleCompaction(jvm.none())
            if not planned.isPresent():
                return SliceDone(ServiceReport())
            instant = str(planned.get())
        operations = jvm.compaction_plan(jvm.meta_client(hudi.path), instant)
        bytes_before = jvm.base_bytes(
            facts.meta_client, [(found["partitionPath"], found["fileId"]) for found in operations]
        )
        outcome = client.compact(instant)
        metadata = outcome.getCommitMetadata().get()
        check_held()
        client.commitCompaction(instant, metadata, jvm.none())
    finally:
        client.close()
    if (
        not jvm.meta_client(hudi.path)
        .getActiveTimeline()
        .getCommitsTimeline()
        .filterCompletedInstants()
        .containsInstant(instant)
    ):
        raise ServiceUnfinished(
            f"{hudi.config.table}: compaction {instant} was carried out and is not on the timeline",
            table=hudi.config.table,
            instant=instant,
        )
    written = written_files(metadata)
    logs = sum(len(found["deltaFilePaths"]) for found in operations)
    report = ServiceReport(
        files_before=logs + sum(bool(found["dataFilePath"]) for found in operations),
        files_after=len(written),
        bytes_before=bytes_before + _metric(operations, "TOTAL_LOG_FILES_SIZE"),
        bytes_after=sum(stat["fileSizeInBytes"] for stat in written),
        rows=sum(stat["numWrites"] for stat in written),
        instant=instant,
        more={"log_files": logs, "rows_updated": sum(stat["totalUpdatedRecordsCompacted"] for stat in written)},
    )
    filled = _metric(operations, "TOTAL_IO_MB") >= max(1, budget_bytes // write_sizes.MIB)
    return SliceDone(report, more=filled or left.isPresent())


def written_files(metadata: Any) -> list[dict[str, Any]]:
    """The statistics of each file that a commit wrote, as Hudi's metadata has them."""
    summary = json.loads(metadata.toJsonString())
    return [stat for stats in summary["partitionToWriteStats"].values() for stat in stats]


def _metric(operations: list[dict[str, Any]], name: str) -> int:
    return int(sum((found.get("metrics") or {}).get(name, 0) for found in operations))


def cluster(
    hudi: HudiTable, jvm: HudiJvm, *, facts: TableFacts, budget_bytes: int, check_held: Callable[[], None]
) -> SliceDone:
    """Sort the rows of as many groups of small files as the budget holds, by the columns of `cluster_by`.

    A file that is half as long as the target, or alone in its partition, stays as it is. The plan is made and
    carried out in one slice; one that was cut off is undone by the roll-back before the table's next write. Raises ServiceUnfinished.
    """
    client = hudi.client(hudi_options.clustering_options(hudi.config, budget_bytes, hudi.size_bytes(facts)))
    try:
        check_held()
        planned = client.scheduleClustering(jvm.none())
        if not planned.isPresent():
            return SliceDone(ServiceReport())
        instant = str(planned.get())
        replaced = jvm.clustering_plan(jvm.meta_client(hudi.path), instant)
        bytes_before = jvm.base_bytes(
            facts.meta_client, [(found["partitionPath"], found["fileId"]) for found in replaced]
        )
        check_held()
        metadata = client.cluster(instant).getCommitMetadata().get()
    finally:
        client.close()
    if (
        not jvm.meta_client(hudi.path)
        .getActiveTimeline()
        .getCommitsTimeline()
        .filterCompletedInstants()
        .containsInstant(instant)
    ):
        raise ServiceUnfinished(
            f"{hudi.config.table}: clustering {instant} was carried out and is not on the timeline",
            table=hudi.config.table,
            instant=instant,
        )
    written = written_files(metadata)
    return SliceDone(
        ServiceReport(
            files_before=sum(1 + len(found["deltaFilePaths"]) for found in replaced),
            files_after=len(written),
            bytes_before=bytes_before,
            bytes_after=sum(stat["fileSizeInBytes"] for stat in written),
            rows=sum(stat["numWrites"] for stat in written),
            instant=instant,
        ),
        more=True,
    )  # until the planner finds nothing: it says itself how many groups it takes, and not how many it left
