"""What the active timeline of a Hudi table says: its instants by the names of their files, and what a commit wrote.

For tables of version 6, whose instants are files right under `.hoodie`. Nothing is read here: sluice_aws/s3/timelines.py does that.

An instant of a table's timeline as a moment, and a moment as an instant.

Which files of a Hudi table hold its rows as of an instant: by their names and the timeline alone, as Hudi's own view of a file system tells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from sluice.errors import UnreadableCommit

FOLDER = ".hoodie/"
REQUESTED, INFLIGHT, COMPLETED = "requested", "inflight", "completed"
COMMIT, DELTA_COMMIT, REPLACE_COMMIT, COMPACTION = "commit", "deltacommit", "replacecommit", "compaction"
CLEAN, ROLLBACK, SAVEPOINT, RESTORE, INDEXING = "clean", "rollback", "savepoint", "restore", "indexing"
WRITING = frozenset(
    (COMMIT, DELTA_COMMIT, REPLACE_COMMIT)
)  # the actions that a reader of the table sees, once completed

# Operations (WriteOperationType of Hudi 1.0.2) after which what a partition held is gone unless the same commit wrote it.
_EMPTYING = frozenset(("DELETE_PARTITION", "INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE"))

# <time>.<action>[.requested|.inflight], and for commits <time>.inflight (HoodieInstant of releases that write version 6). The time is
# 17 digits with milliseconds; 14 digits were written before 0.10, and by Hudi itself for a table's bootstrap.
_FILE = re.compile(r"(\d{14}(?:\d{3})?)(?:\.([a-z]+))?(?:\.(requested|inflight))?")


@dataclass(frozen=True, order=True)
class Instant:
    """One instant of a timeline: `time` in digits of the table's time zone (UTC here), which order as text; `state` as above.

    A compaction is `compaction` while it is requested or inflight, and a `commit` once it is completed.
    """

    time: str
    action: str
    state: str

    @property
    def file(self) -> str:
        """The name of its file under `.hoodie/`."""
        if self.state == COMPLETED:
            return f"{self.time}.{self.action}"
        return (
            f"{self.time}.inflight"
            if (self.action, self.state) == (COMMIT, INFLIGHT)
            else f"{self.time}.{self.action}.{self.state}"
        )

    @property
    def writes(self) -> bool:
        """Whether a reader of the table sees it: it is completed, and wrote files."""
        return self.state == COMPLETED and self.action in WRITING


def instant_of(name: str) -> Instant | None:
    """The instant whose file is called so; None for every other file of the folder."""
    matched = _FILE.fullmatch(name)
    if matched is None:
        return None
    time, action, state = matched.groups()
    if action == INFLIGHT and state is None:
        return Instant(time, COMMIT, INFLIGHT)
    return None if action is None else Instant(time, action, state or COMPLETED)


@dataclass(frozen=True)
class Timeline:
    """The active timeline, or the part of it that was asked for: each instant once, in its furthest state, oldest first."""

    instants: tuple[Instant, ...] = ()

    @classmethod
    def of(cls, names: Iterable[str]) -> Timeline:
        """The timeline that file names tell; what is no instant's file is left out."""
        furthest: dict[tuple[str, str], Instant] = {}
        rank = (REQUESTED, INFLIGHT, COMPLETED)
        for name in names:
            found = instant_of(name)
            if found is None:
                continue
            action = COMMIT if found.action == COMPACTION else found.action  # which it becomes
            known = furthest.get((found.time, action))
            if known is None or rank.index(found.state) > rank.index(known.state):
                furthest[(found.time, action)] = found
        return cls(tuple(sorted(furthest.values())))

    @property
    def commits(self) -> tuple[Instant, ...]:
        """The completed instants that wrote files, oldest first."""
        return tuple(instant for instant in self.instants if instant.writes)

    @property
    def newest(self) -> Instant | None:
        """The newest completed instant that wrote files; None for a table without a commit."""
        return self.commits[-1] if self.commits else None

    @property
    def pending(self) -> tuple[Instant, ...]:
        """What was requested or begun and is not completed, oldest first."""
        return tuple(instant for instant in self.instants if instant.state != COMPLETED)

    def holds(self, time: str) -> bool:
        """Whether a commit of that very time is there: then nothing after it was archived."""
        return any(instant.time == time for instant in self.commits)

    def after(self, time: str) -> tuple[Instant, ...]:
        """The commits after an instant's time, oldest first."""
        return tuple(instant for instant in self.commits if instant.time > time)


@dataclass(frozen=True)
class FileWritten:
    """What a commit says of one file: `path` under the table's folder, rows and bytes of this write.

    `rows` are those in the file afterwards (of a log file, those of this block). `log` tells a log file from a base file.
    """

    path: str
    partition: str
    file_id: str
    rows: int
    inserts: int
    updates: int
    deletes: int
    written_bytes: int
    file_bytes: int
    previous: str | None = None
    log: bool = False


@dataclass(frozen=True)
class Commit:
    """A completed commit's metadata. `schema` is the Avro schema of the data columns as text, "" where it tells none.

    `extra` is Hudi's extra metadata, Sluice's batch, table and run among them. `replaced` are the file groups by partition that
    no reader sees from this commit on.
    """

    operation: str
    schema: str
    files: tuple[FileWritten, ...] = ()
    partitions: frozenset[str] = frozenset()
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    extra: Mapping[str, str] = field(default_factory=dict, hash=False)
    compacted: bool = False

    @property
    def emptied(self) -> frozenset[str]:
        """The partitions that hold nothing after this commit, as far as it alone tells."""
        return frozenset(self.replaced) - self.partitions if self.operation in _EMPTYING else frozenset()

    @classmethod
    def of(cls, instant: Instant, data: bytes) -> Commit:
        """Read a completed commit's file. Raises UnreadableCommit."""
        if not data:  # what Hudi writes for a commit without anything to tell
            return cls("", "")
        try:
            content = json.loads(data)
            written = content.get("partitionToWriteStats") or {}
            extra = {str(name): str(value) for name, value in (content.get("extraMetadata") or {}).items()}
            return cls(
                operation=str(content.get("operationType") or ""),
                schema=extra.pop("schema", ""),
                files=tuple(
                    _file(str(partition), stat) for partition, stats in written.items() for stat in stats or ()
                ),
                partitions=frozenset(str(partition) for partition in written),
                replaced={
                    str(partition): tuple(map(str, ids or ()))
                    for partition, ids in (content.get("partitionToReplaceFileIds") or {}).items()
                },
                extra=extra,
                compacted=bool(content.get("compacted")),
            )
        except (ValueError, TypeError, AttributeError) as error:
            raise UnreadableCommit(
                f"The file of instant {instant.time} is no commit's: {error}", instant=instant.time
            ) from error


def _file(partition: str, stat: Mapping[str, Any]) -> FileWritten:
    previous = stat.get("prevCommit")
    path = str(stat.get("path") or "")
    return FileWritten(
        path=path,
        partition=partition,
        file_id=str(stat.get("fileId") or ""),
        rows=_number(stat, "numWrites"),
        inserts=_number(stat, "numInserts"),
        updates=_number(stat, "numUpdateWrites"),
        deletes=_number(stat, "numDeletes"),
        written_bytes=_number(stat, "totalWriteBytes"),
        file_bytes=_number(stat, "fileSizeInBytes"),
        previous=None if previous in (None, "null") else str(previous),
        log=".log." in path.rsplit("/", 1)[-1],
    )


def _number(stat: Mapping[str, Any], name: str) -> int:
    return int(stat.get(name) or 0)


def instant_ms(instant: str) -> int:
    """Epoch milliseconds of an instant "yyyyMMddHHmmssSSS", whose time zone is UTC by the table's own property."""
    digits = re.sub(r"\D", "", instant)
    moment = datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
    return int(moment.timestamp()) * 1000 + int((digits[14:17] or "999").ljust(3, "0"))


def instant_of_ms(epoch_ms: int) -> str:
    """The instant of a moment, in UTC."""
    moment = datetime.fromtimestamp(epoch_ms // 1000, timezone.utc)
    return f"{moment:%Y%m%d%H%M%S}{epoch_ms % 1000:03d}"


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
    version: int | None = None
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
    base: DataFile | None
    logs: tuple[DataFile, ...] = ()

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All of its files."""
        return self.logs if self.base is None else (self.base, *self.logs)


@dataclass(frozen=True)
class Committed:
    """Which instants' files count: those of completed writes, and those older than every write that the active timeline holds.

    What was archived is no longer named anywhere that is read here, and was completed, since what fails is rolled back before it.
    """

    completed: frozenset[str]
    first_active: str | None

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


def data_file(path: str, size: int) -> DataFile | None:
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
) -> tuple[FileSlice, ...]:
    """The file slices that hold the rows as of an instant, by partition and file id.

    A file group's base file is its newest committed one. Its logs are those of that base file and of any later instant whose own base file doesn't count:
    while a compaction is planned and not done, new log files are named after it and still belong to the base file before. Which blocks of a log
    count as of the instant is for the reader of logs to say.
    """
    gone = {(item.partition, item.file_id) for item in replaced if item.instant <= as_of}
    groups: dict[tuple[str, str], list[DataFile]] = {}
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
