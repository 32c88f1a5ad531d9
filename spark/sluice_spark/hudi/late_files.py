"""Removes data files that arrived after the roll-back or the commit of their write."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

from sluice.config.table import MOR
from sluice.hudi.file_slices import data_file
from sluice.hudi.stopped_writers import looked_at, undone_for_good, unnamed
from sluice.hudi.timeline import Timeline
from sluice_spark.hudi.jvm import PLANNING_THREADS, completion_times, instants, written_files
from sluice_spark.hudi.table import HudiTable

MOST_PARTITIONS = 100  # that are listed for files which their commit doesn't name


def remove_late_files(hudi: HudiTable, check_held: Callable[[], None]) -> tuple[str, ...]:
    """Delete files that no write owns, and return their paths. `check_held` is called before anything is deleted.

    Those are files of rolled-back instants that are on no timeline, active or archived, and base files that their
    completed commit doesn't name. For the lane's holder, between two commits, before archival. Takes a request for each
    commit and partition that is looked at, and for each partition of a table with a roll-back on its active timeline.
    """
    meta_client = hudi.meta_client()
    late = sorted({*_behind_roll_backs(hudi, meta_client), *_behind_commits(hudi, meta_client)})
    if late:
        check_held()
        hudi.jvm.delete_files(late)
    return tuple(late)


def remove_what_was_rolled_back(hudi: HudiTable) -> None:
    """Delete the files of rolled-back instants. For the roll-back itself, when its instants are gone.

    A file may arrive behind the roll-back's plan while its instant is still there: its writer, who looks for that,
    leaves it. A writer who looks later removes the file itself.
    """
    late = _behind_roll_backs(hudi, hudi.meta_client())
    if late:
        hudi.jvm.delete_files(late)


def _behind_commits(hudi: HudiTable, meta_client: Any) -> list[str]:
    """The base files of some commits that these don't name, in up to MOST_PARTITIONS that they wrote to."""
    commits = meta_client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
    by_time = {str(instant.requestedTime()): instant for instant in instants(commits)}
    paths_by_time: dict[str, list[str]] = {}
    for time in looked_at(sorted(by_time)):
        written = written_files(commits.readCommitMetadata(by_time[time]))
        paths_by_time[time] = [str(file["path"]) for file in written if file.get("path")]
    partitions = dict.fromkeys(path.rpartition("/")[0] for paths in paths_by_time.values() for path in paths)
    if not partitions:
        return []
    pattern = "*_{" + ",".join(paths_by_time) + "}.parquet"
    late = []
    for paths in _listed(hudi, list(partitions)[:MOST_PARTITIONS], pattern):
        files = {path.rpartition("/")[2]: path for path in paths}
        data_files = filter(None, (data_file(name, 0) for name in files))
        late += [files[file.path] for file in unnamed(data_files, paths_by_time)]
    return late


def _listed(hudi: HudiTable, partitions: Sequence[str], pattern: str) -> list[list[str]]:
    """The paths of each partition's files that match the pattern."""
    with ThreadPoolExecutor(PLANNING_THREADS) as pool:  # one listing each
        return list(pool.map(lambda partition: hudi.jvm.files_like(hudi.path, partition, pattern), partitions))


def _behind_roll_backs(hudi: HudiTable, meta_client: Any) -> list[str]:
    """The files of rolled-back instants that are gone for good."""
    rollbacks = meta_client.getActiveTimeline().getRollbackTimeline().filterCompletedInstants()
    if rollbacks.empty():
        return []
    reports = [rollbacks.readRollbackMetadata(instant) for instant in instants(rollbacks)]
    gone = _gone(meta_client, {str(time) for report in reports for time in report.getCommitsRollback().toArray()})
    if not gone:
        return []
    partitions = hudi.jvm.partitions(meta_client)
    pattern = "*_{" + ",".join(sorted(gone)) + "}.parquet"
    late = [path for paths_listed in _listed(hudi, partitions, pattern) for path in paths_listed]
    if hudi.config.table_type == MOR:
        late += _late_logs(hudi, meta_client, partitions, gone, "".join(str(report.toString()) for report in reports))
    return late


def _gone(meta_client: Any, rolled_back: Collection[str]) -> frozenset[str]:
    """Those of the rolled-back instants that never completed after that."""
    undone = undone_for_good(rolled_back, Timeline.of(completion_times(meta_client.getActiveTimeline())))
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
    named_files = {
        str(file["path"]).rpartition("/")[2]
        for instant in instants(commits)
        for file in written_files(commits.readCommitMetadata(instant))
    }
    late = []
    for path in logs:
        name = path.rpartition("/")[2]
        if name not in named_files and name not in reported:
            times = hudi.jvm.instants_of_log(meta_client, path)
            if times and times <= gone:
                late.append(path)
    return late
