"""Compaction and clustering in slices, each one plan of a limited size.

Compaction merges log files into base files. Clustering combines small files of a partition and sorts their rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from sluice.hudi import options as hudi_options
from sluice.hudi import write_choices
from sluice.services.requests import CLUSTERING, COMPACTION, ServiceReport, SliceDone
from sluice_spark.errors import ServiceUnfinished
from sluice_spark.hudi.jvm import written_files
from sluice_spark.hudi.table import HudiTable
from sluice_spark.services.work import ServiceSlice


def compact(given: ServiceSlice) -> SliceDone:
    """Compact as many file groups as the budget holds, the longest logs first. A pending plan is carried out first.

    The lane is looked at before the plan is written and before its commit. After a crash at any point, the roll-back
    before the table's next write mends it: a requested plan stays for the next slice. Raises ServiceUnfinished.
    """
    hudi, facts, budget_bytes = given.hudi, given.facts, given.budget_bytes
    with closing(hudi.client(hudi_options.compaction_options(budget_bytes))) as client:
        left = facts.meta_client.getActiveTimeline().filterPendingCompactionTimeline().firstInstant()
        if left.isPresent():
            instant = str(left.get().requestedTime())
        else:
            given.check_held()
            planned = client.scheduleCompaction(hudi.jvm.none())
            if not planned.isPresent():
                return SliceDone(ServiceReport())
            instant = str(planned.get())
        operations = hudi.jvm.compaction_plan(hudi.meta_client(), instant)
        bytes_before = hudi.jvm.base_bytes(facts.meta_client, operations)
        metadata = hudi.jvm.carry_out_compaction(client, instant, given.check_held)
    written = written_files(metadata)
    logs = sum(len(operation["deltaFilePaths"]) for operation in operations)
    report = replace(
        _report_of(hudi, instant, COMPACTION, written),
        files_before=logs + sum(bool(operation["dataFilePath"]) for operation in operations),
        bytes_before=bytes_before + _metric(operations, "TOTAL_LOG_FILES_SIZE"),
        more={"log_files": logs, "rows_updated": sum(stat["totalUpdatedRecordsCompacted"] for stat in written)},
    )
    filled = _metric(operations, "TOTAL_IO_MB") >= max(1, budget_bytes // write_choices.MIB)
    return SliceDone(report, more=filled or left.isPresent())


def _report_of(hudi: HudiTable, instant: str, service: str, written: Sequence[Mapping[str, Any]]) -> ServiceReport:
    """What a completed plan wrote. Raises ServiceUnfinished."""
    commits = hudi.meta_client().getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
    if not commits.containsInstant(instant):
        raise ServiceUnfinished(
            f"{hudi.config.table}: {service} {instant} was carried out and is not on the timeline",
            table=hudi.config.table,
            instant=instant,
        )
    return ServiceReport(
        files_after=len(written),
        bytes_after=sum(stat["fileSizeInBytes"] for stat in written),
        rows=sum(stat["numWrites"] for stat in written),
        instant=instant,
    )


def _metric(operations: list[dict[str, Any]], name: str) -> int:
    return int(sum((operation.get("metrics") or {}).get(name, 0) for operation in operations))


def cluster(given: ServiceSlice) -> SliceDone:
    """Combine and sort as many groups of small files as the budget holds, by the columns of `cluster_by`.

    A file of at least half the target size, or alone in its partition, stays as it is. The plan is made and carried out
    in one slice; after a crash the roll-back before the table's next write undoes it. Raises ServiceUnfinished.
    """
    hudi, facts = given.hudi, given.facts
    options = hudi_options.clustering_options(hudi.config, given.budget_bytes, hudi.size_bytes(facts))
    with closing(hudi.client(options)) as client:
        given.check_held()
        planned = client.scheduleClustering(hudi.jvm.none())
        if not planned.isPresent():
            return SliceDone(ServiceReport())
        instant = str(planned.get())
        replaced = hudi.jvm.clustering_plan(hudi.meta_client(), instant)
        bytes_before = hudi.jvm.base_bytes(facts.meta_client, replaced)
        given.check_held()
        metadata = client.cluster(instant).getCommitMetadata().get()
    report = _report_of(hudi, instant, CLUSTERING, written_files(metadata))
    files = sum(1 + len(slice_["deltaFilePaths"]) for slice_ in replaced)
    # Until the planner finds nothing: it doesn't say how many groups it left out.
    return SliceDone(replace(report, files_before=files, bytes_before=bytes_before), more=True)
