"""What the active timeline of a Hudi table says: its instants by the names of their files, and what a commit wrote.

For tables of version 6, whose instants are files right under `.hoodie`. Nothing is read here: sluice_aws/timeline.py does that.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, Iterable, Mapping, Optional, Tuple

from sluice.errors import SluiceError

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


class UnreadableCommit(SluiceError):
    """A commit's file that is not what Hudi writes; facts: `instant`."""

    code = "unreadable_commit"
    next_step = "Look at the table's .hoodie folder: the file was changed, or was written by a release of Hudi that this one doesn't know"


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


def instant_of(name: str) -> Optional[Instant]:
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

    instants: Tuple[Instant, ...] = ()

    @classmethod
    def of(cls, names: Iterable[str]) -> Timeline:
        """The timeline that file names tell; what is no instant's file is left out."""
        furthest: Dict[Tuple[str, str], Instant] = {}
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
    def commits(self) -> Tuple[Instant, ...]:
        """The completed instants that wrote files, oldest first."""
        return tuple(instant for instant in self.instants if instant.writes)

    @property
    def newest(self) -> Optional[Instant]:
        """The newest completed instant that wrote files; None for a table without a commit."""
        return self.commits[-1] if self.commits else None

    @property
    def pending(self) -> Tuple[Instant, ...]:
        """What was requested or begun and is not completed, oldest first."""
        return tuple(instant for instant in self.instants if instant.state != COMPLETED)

    def holds(self, time: str) -> bool:
        """Whether a commit of that very time is there: then nothing after it was archived."""
        return any(instant.time == time for instant in self.commits)

    def after(self, time: str) -> Tuple[Instant, ...]:
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
    previous: Optional[str] = None
    log: bool = False


@dataclass(frozen=True)
class Commit:
    """A completed commit's metadata. `schema` is the Avro schema of the data columns as text, "" where it tells none.

    `extra` is Hudi's extra metadata, Sluice's batch, table and run among them. `replaced` are the file groups by partition that
    no reader sees from this commit on.
    """

    operation: str
    schema: str
    files: Tuple[FileWritten, ...] = ()
    partitions: FrozenSet[str] = frozenset()
    replaced: Mapping[str, Tuple[str, ...]] = field(default_factory=dict, hash=False)
    extra: Mapping[str, str] = field(default_factory=dict, hash=False)
    compacted: bool = False

    @property
    def emptied(self) -> FrozenSet[str]:
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
