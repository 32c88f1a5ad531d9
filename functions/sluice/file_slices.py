"""Which files of a Hudi table hold its rows as of an instant: by their names and the timeline alone, as Hudi's own view of a file system tells."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, FrozenSet, Iterable, List, Optional, Tuple

from sluice.timeline import COMPACTION, FOLDER, WRITING, Timeline

# <file id>_<write token>_<instant>.parquet, and .<file id>_<base instant>.log.<version>_<write token> (FSUtils of the releases
# that write version 6). File ids hold no underscore: a uuid, a hyphen and a number.
_BASE = re.compile(r"(?P<id>[^_/]+)_(?P<token>[0-9]+-[0-9]+-[0-9]+)_(?P<instant>[0-9]{14}(?:[0-9]{3})?)\.parquet")
_LOG = re.compile(
    r"\.(?P<id>[^_/]+)_(?P<instant>[0-9]{14}(?:[0-9]{3})?)\.log\.(?P<version>[0-9]+)(?:_(?P<token>[0-9]+-[0-9]+-[0-9]+))?"
)


@dataclass(frozen=True)
class DataFile:
    """One file: `path` under the table's folder, `instant` of the write that made it, or, of a log file, of the base file that it belongs to.

    `version` numbers the log files of one base file; a base file has none.
    """

    path: str
    partition: str
    file_id: str
    instant: str
    size: int
    version: Optional[int] = None
    token: str = ""

    @property
    def is_log(self) -> bool:
        """Whether it is a log file."""
        return self.version is not None


@dataclass(frozen=True)
class FileSlice:
    """A file group as a reader sees it: at most one base file, and the log files to merge into it, in their order."""

    partition: str
    file_id: str
    base: Optional[DataFile]
    logs: Tuple[DataFile, ...] = ()

    @property
    def files(self) -> Tuple[DataFile, ...]:
        """All of its files."""
        return self.logs if self.base is None else (self.base, *self.logs)


@dataclass(frozen=True)
class Committed:
    """Which instants' files count: those of completed writes, and those older than every write that the active timeline holds.

    What was archived is no longer named anywhere that is read here, and was completed, since what fails is rolled back before it.
    """

    completed: FrozenSet[str]
    first_active: Optional[str]

    @classmethod
    def of(cls, timeline: Timeline) -> Committed:
        """The writes of a timeline; those that are pending begin it, too."""
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
        """Whether what an instant wrote is committed."""
        return instant in self.completed or self.first_active is not None and instant < self.first_active


def data_file(path: str, size: int) -> Optional[DataFile]:
    """What a file under the table's folder is by its name; None for whatever holds no rows."""
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
    """A file group that no reader sees from `instant` on, because a completed write replaced it."""

    instant: str
    partition: str
    file_id: str


def slices_as_of(
    files: Iterable[DataFile], as_of: str, *, committed: Committed, replaced: Iterable[Replaced] = ()
) -> Tuple[FileSlice, ...]:
    """The file slices that hold the rows as of an instant, by partition and file id.

    A file group's base file is its newest committed one. Its logs are those of that base file and of any later instant whose own base file doesn't count:
    while a compaction is planned and not done, new log files are named after it and still belong to the base file before. Which blocks of a log
    count as of the instant is for the reader of logs to say.
    """
    gone = {(item.partition, item.file_id) for item in replaced if item.instant <= as_of}
    groups: Dict[Tuple[str, str], List[DataFile]] = {}
    for file in files:
        place = (file.partition, file.file_id)
        if file.instant <= as_of and place not in gone:
            groups.setdefault(place, []).append(file)
    found = []
    for (partition, file_id), members in sorted(groups.items()):
        bases = [file for file in members if not file.is_log and committed.holds(file.instant)]
        base = max(bases, key=lambda file: (file.instant, file.token), default=None)
        logs = [file for file in members if file.is_log and (base is None or file.instant >= base.instant)]
        if base is not None or logs:
            ordered = sorted(logs, key=lambda file: (file.instant, file.version or 0, file.token))
            found.append(FileSlice(partition, file_id, base, tuple(ordered)))
    return tuple(found)
