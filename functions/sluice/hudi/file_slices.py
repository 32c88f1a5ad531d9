"""The files that hold a table's rows as of an instant: by file names and the timeline, as in Hudi's own view."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sluice.hudi.timeline import COMPACTION, FOLDER, WRITING, Timeline

# <file id>_<write token>_<instant>.parquet, and .<file id>_<base instant>.log.<version>_<write token> (FSUtils of
# releases that write version 6). File ids contain no underscore: a uuid, a hyphen and a number.
_BASE = re.compile(r"(?P<id>[^_/]+)_(?P<token>[0-9]+-[0-9]+-[0-9]+)_(?P<instant>[0-9]{14}(?:[0-9]{3})?)\.parquet")
_LOG = re.compile(
    r"\.(?P<id>[^_/]+)_(?P<instant>[0-9]{14}(?:[0-9]{3})?)\.log\.(?P<version>[0-9]+)(?:_(?P<token>[0-9]+-[0-9]+-[0-9]+))?"
)


@dataclass(frozen=True)
class DataFile:
    """One file: `path` below the table's folder, and the `instant` of its write, of a log file that of its base file.

    `version` numbers the log files of a base file; a base file has none.
    """

    path: str
    partition: str
    file_id: str
    instant: str
    size: int
    version: int | None = None
    token: str = ""

    @property
    def is_log(self) -> bool:
        return self.version is not None


@dataclass(frozen=True)
class FileSlice:
    """A file group as a reader sees it: at most one base file, and the log files to merge into it, in order."""

    partition: str
    file_id: str
    base: DataFile | None
    logs: tuple[DataFile, ...] = ()

    @property
    def files(self) -> tuple[DataFile, ...]:
        return self.logs if self.base is None else (self.base, *self.logs)


@dataclass(frozen=True)
class Committed:
    """The instants whose files count: completed writes, and instants older than every write of the active timeline.

    Older instants are archived. They were completed: failed ones are rolled back before archival.
    """

    completed: frozenset[str]
    first_active: str | None

    @classmethod
    def of(cls, timeline: Timeline) -> Committed:
        """The committed instants of a timeline, which may begin with a pending write."""
        completed = frozenset(instant.time for instant in timeline.commits)
        times = [
            *completed,
            *(
                instant.time
                for instant in timeline.pending
                if instant.action in WRITING or instant.action == COMPACTION
            ),
        ]
        return cls(completed, min(times) if times else None)

    def holds(self, instant: str) -> bool:
        return instant in self.completed or self.first_active is not None and instant < self.first_active


def data_file(path: str, size: int) -> DataFile | None:
    """The data file of a path below the table's folder; None for a file without rows."""
    if path.startswith(FOLDER):
        return None
    partition, _, name = path.rpartition("/")
    base, log = _BASE.fullmatch(name), _LOG.fullmatch(name)
    if base is not None:
        return DataFile(path, partition, base["id"], base["instant"], size, token=base["token"])
    if log is not None:
        return DataFile(
            path, partition, log["id"], log["instant"], size, version=int(log["version"]), token=log["token"] or ""
        )
    return None


@dataclass(frozen=True)
class Replaced:
    """A file group that a completed write replaced at `instant`, so that no reader sees it from then on."""

    instant: str
    partition: str
    file_id: str


def slices_as_of(
    files: Iterable[DataFile], as_of: str, *, committed: Committed, replaced: Iterable[Replaced] = ()
) -> tuple[FileSlice, ...]:
    """The file slices that hold the rows as of an instant, by partition and file id.

    A group's base file is its newest committed one. Its logs are those of that base file and of any later instant:
    while a compaction is planned, new log files are named by its instant but belong to the base file before. The reader
    of logs decides which blocks of a log count.
    """
    gone = {(item.partition, item.file_id) for item in replaced if item.instant <= as_of}
    groups: dict[tuple[str, str], list[DataFile]] = {}
    for file in files:
        place = (file.partition, file.file_id)
        if file.instant <= as_of and place not in gone:
            groups.setdefault(place, []).append(file)
    slices = []
    for (partition, file_id), members in sorted(groups.items()):
        bases = [file for file in members if not file.is_log and committed.holds(file.instant)]
        base = max(bases, key=lambda file: (file.instant, file.token), default=None)
        logs = [file for file in members if file.is_log and (base is None or file.instant >= base.instant)]
        if base is not None or logs:
            ordered = sorted(logs, key=lambda file: (file.instant, file.version or 0, file.token))
            slices.append(FileSlice(partition, file_id, base, tuple(ordered)))
    return tuple(slices)
