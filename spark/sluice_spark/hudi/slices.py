"""The newest file slices of a table, by one listing of its folder: as Hudi's file system view has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sluice.hudi.file_slices import Committed, DataFile, FileSlice, Replaced, data_file, slices_as_of
from sluice.hudi.timeline import COMPLETED, FOLDER, REPLACE_COMMIT, Commit, Timeline
from sluice_aws.s3.objects import Objects
from sluice_spark.hudi.table_files import files_below, read_file

_NEWEST = "9" * 17


def newest_slices(objects: Objects, uri: str, timeline: Timeline, *, partitioned: bool) -> tuple[FileSlice, ...]:
    """The file slices that hold a table's rows, by partition and file id. `uri` is the table's folder.

    For a table without a pending write. Raises UnreadableCommit.
    """
    return newest_slices_of(data_files(objects, uri, partitioned=partitioned), objects, uri, timeline)


def data_files(objects: Objects, uri: str, *, partitioned: bool) -> tuple[DataFile, ...]:
    """The data files in a table's folder, whichever version of their group they are."""
    files = (data_file(path, size) for path, size in files_below(objects, uri, partitioned=partitioned))
    return tuple(file for file in files if file is not None)


def newest_slices_of(
    files: Iterable[DataFile], objects: Objects, uri: str, timeline: Timeline
) -> tuple[FileSlice, ...]:
    """`newest_slices` of files that are listed already."""
    replaced = tuple(_replaced(objects, uri, timeline))
    return slices_as_of(files, _NEWEST, committed=Committed.of(timeline), replaced=replaced)


def _replaced(objects: Objects, uri: str, timeline: Timeline) -> Iterator[Replaced]:
    """What active commits replaced. The files of archived ones are deleted before those are archived."""
    for instant in timeline.instants:
        if instant.action == REPLACE_COMMIT and instant.state == COMPLETED:
            commit = Commit.of(instant, read_file(objects, f"{uri}/{FOLDER}{instant.file}"))
            for partition, file_ids in commit.replaced.items():
                yield from (Replaced(instant.time, partition, file_id) for file_id in file_ids)
