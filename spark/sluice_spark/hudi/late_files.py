"""Removes data files that arrived after the roll-back of their write."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

from sluice.config.table import MOR
from sluice.hudi.late_files import undone_for_good
from sluice.hudi.timeline import Timeline
from sluice_spark.hudi.jvm import PLANNING_THREADS, instant_names, instants, written_files
from sluice_spark.hudi.table import HudiTable


def remove_late_files(hudi: HudiTable, check_held: Callable[[], None]) -> tuple[str, ...]:
    """Delete the files of rolled-back instants that are on no timeline, active or archived; returns their paths.

    For the lane's holder, between two commits, before archival. A table without a roll-back on its active timeline is
    not listed; of others each partition is, which takes a request for each. `check_held` is called before anything is
    deleted.
    """
    meta_client = hudi.meta_client()
    rollbacks = meta_client.getActiveTimeline().getRollbackTimeline().filterCompletedInstants()
    if rollbacks.empty():
        return ()
    reports = [rollbacks.readRollbackMetadata(instant) for instant in instants(rollbacks)]
    gone = _gone(meta_client, {str(time) for report in reports for time in report.getCommitsRollback().toArray()})
    if not gone:
        return ()
    partitions = hudi.jvm.partitions(meta_client)
    pattern = "*_{" + ",".join(sorted(gone)) + "}.parquet"
    with ThreadPoolExecutor(PLANNING_THREADS) as pool:  # one listing each
        listed = pool.map(lambda partition: hudi.jvm.files_like(hudi.path, partition, pattern), partitions)
        late = [path for found in listed for path in found]
    if hudi.config.table_type == MOR:
        late += _late_logs(hudi, meta_client, partitions, gone, "".join(str(report.toString()) for report in reports))
    if late:
        check_held()
        hudi.jvm.delete_files(late)
    return tuple(sorted(late))


def _gone(meta_client: Any, rolled_back: Collection[str]) -> frozenset[str]:
    """Those of the rolled-back instants that never completed after that."""
    undone = undone_for_good(rolled_back, Timeline.of(instant_names(meta_client.getActiveTimeline())))
    if not undone.perhaps_archived:
        return undone.gone
    archived = meta_client.getArchivedTimeline().filterCompletedInstants()
    return undone.gone | {time for time in undone.perhaps_archived if not archived.containsInstant(time)}


def _late_logs(
    hudi: HudiTable, meta_client: Any, partitions: list[str], gone: frozenset[str], reported: str
) -> list[str]:
    """The log files of the present file slices in which every block of rows is of an instant that is gone.

    A log file is called after its base file, and only its blocks tell its write. Those that commits name aren't opened,
    nor those that a roll-back reported: the block that it wrote hides their rows for good.
    """
    logs = hudi.jvm.newest_logs(meta_client, partitions)
    if not logs:
        return []
    commits = meta_client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
    named = {
        str(file["path"]).rpartition("/")[2]
        for instant in instants(commits)
        for file in written_files(commits.readCommitMetadata(instant))
    }
    late = []
    for path in logs:
        name = path.rpartition("/")[2]
        if name not in named and name not in reported:
            times = hudi.jvm.instants_of_log(meta_client, path)
            if times and times <= gone:
                late.append(path)
    return late
