"""Clustering in slices: small files of a partition made into few, sorted by the table's columns."""

from __future__ import annotations

from typing import Callable

from sluice import hudi_options
from sluice.service_requests import ServiceReport, SliceDone
from sluice_spark.compacting import written_files
from sluice_spark.hudi_errors import ServiceUnfinished
from sluice_spark.hudi_jvm import HudiJvm
from sluice_spark.hudi_table import HudiTable
from sluice_spark.table_facts import TableFacts


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
