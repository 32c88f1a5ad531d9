"""The active timeline of a Hudi table: instants from the names of their files, and the metadata of commits.

For tables of version 6, whose instants are files directly below `.hoodie`. `sluice_aws.s3.timelines` reads them.
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
WRITING = frozenset((COMMIT, DELTA_COMMIT, REPLACE_COMMIT))  # readers see these actions once they are completed

# Operations (WriteOperationType of Hudi 1.0.2) that empty a partition, except of what the same commit writes.
_EMPTYING = frozenset(("DELETE_PARTITION", "INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE"))

# <time>.<action>[.requested|.inflight], and for commits <time>.inflight (HoodieInstant of releases that write version
# 6). The time has 17 digits with milliseconds; 14 before 0.10, and in Hudi's instant of a table's bootstrap.
_FILE = re.compile(r"(\d{14}(?:\d{3})?)(?:\.([a-z]+))?(?:\.(requested|inflight))?")


@dataclass(frozen=True, order=True)
class Instant:
    """One instant of a timeline. `time` is digits in the table's time zone (UTC), which sort as text.

    A compaction is a `compaction` until it is completed, then a `commit`.
    """

    time: str
    action: str
    state: str

    @property
    def file(self) -> str:
        """The name of its file below `.hoodie/`."""
        if self.state == COMPLETED:
            return f"{self.time}.{self.action}"
        action = "" if (self.action, self.state) == (COMMIT, INFLIGHT) else f".{self.action}"
        return f"{self.time}{action}.{self.state}"

    @property
    def writes(self) -> bool:
        """Whether readers see it: it is completed, and wrote files."""
        return self.state == COMPLETED and self.action in WRITING


def instant_of(name: str) -> Instant | None:
    """The instant of a file's name; None for any other file."""
    matched = _FILE.fullmatch(name)
    if matched is None:
        return None
    time, action, state = matched.groups()
    if action == INFLIGHT and state is None:
        return Instant(time, COMMIT, INFLIGHT)
    return None if action is None else Instant(time, action, state or COMPLETED)


@dataclass(frozen=True)
class Timeline:
    """The active timeline or a part of it: each instant once, in its furthest state, oldest first."""

    instants: tuple[Instant, ...] = ()

    @classmethod
    def of(cls, names: Iterable[str]) -> Timeline:
        """The timeline of files by name. Names of other files are skipped."""
        furthest: dict[tuple[str, str], Instant] = {}
        rank = (REQUESTED, INFLIGHT, COMPLETED)
        for name in names:
            instant = instant_of(name)
            if instant is None:
                continue
            action = COMMIT if instant.action == COMPACTION else instant.action  # it becomes one
            before = furthest.get((instant.time, action))
            if before is None or rank.index(instant.state) > rank.index(before.state):
                furthest[(instant.time, action)] = instant
        return cls(tuple(sorted(furthest.values())))

    @property
    def commits(self) -> tuple[Instant, ...]:
        """The completed instants that wrote files, oldest first."""
        return tuple(instant for instant in self.instants if instant.writes)

    @property
    def newest(self) -> Instant | None:
        return self.commits[-1] if self.commits else None

    @property
    def newest_change(self) -> Instant | None:
        """The newest completed instant of any action: a cleaning takes states back that could be read before it."""
        return max((instant for instant in self.instants if instant.state == COMPLETED), default=None)

    @property
    def pending(self) -> tuple[Instant, ...]:
        """The instants that are not completed, oldest first."""
        return tuple(instant for instant in self.instants if instant.state != COMPLETED)

    def holds(self, time: str) -> bool:
        """Whether a commit of this time is active: then nothing after it is archived."""
        return any(instant.time == time for instant in self.commits)

    def lacks(self, time: str) -> bool:
        """Whether a commit that was completed is gone: it is not active, and not older than what is, as archived ones.

        Then the table was deleted, made anew or restored to an earlier state.
        """
        times = [commit.time for commit in self.commits]
        return time not in times and not (times and time < times[0])

    def after(self, time: str) -> tuple[Instant, ...]:
        """The commits after an instant's time, oldest first."""
        return tuple(instant for instant in self.commits if instant.time > time)


def dated_too_early(completed: Mapping[str, str]) -> tuple[str, ...]:
    """The files of the instants that were completed before they began, by the dates of the files; oldest first.

    `completed` has the time of completion, "" for none, by the name of the instant's file.
    """
    instants = {name: instant_of(name) for name in completed}
    return tuple(
        sorted(
            name
            for name, instant in instants.items()
            if instant is not None and instant.writes and "" != completed[name] < instant.time
        )
    )


@dataclass(frozen=True)
class FileWritten:
    """One file in a commit's metadata: `path` below the table's folder, and the rows and bytes of this write.

    `rows` are those in the file afterwards, or in this block of a log file (`log`). `base` is the path of the base file
    that a log file belongs to, "" for none.
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
    log: bool = False
    base: str = ""


@dataclass(frozen=True)
class Commit:
    """A completed commit's metadata. `schema` is the Avro schema of the data columns as text, "" where there is none.

    `extra` is the extra metadata, with Sluice's batch, table and run. `replaced` are the file groups, by partition,
    that no reader sees from this commit on.
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
        """The partitions that this commit leaves empty, as far as its metadata shows."""
        return frozenset(self.replaced) - self.partitions if self.operation in _EMPTYING else frozenset()

    @classmethod
    def of(cls, instant: Instant, data: bytes) -> Commit:
        """Read a completed commit's file. Raises UnreadableCommit."""
        if not data:  # Hudi writes an empty file for a commit without metadata
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
                f"The file of instant {instant.time} is not a commit: {error}", instant=instant.time
            ) from error


def _file(partition: str, stat: Mapping[str, Any]) -> FileWritten:
    path = str(stat.get("path") or "")
    base = str(stat.get("baseFile") or "")
    return FileWritten(
        path=path,
        partition=partition,
        file_id=str(stat.get("fileId") or ""),
        **{name: int(stat.get(theirs) or 0) for name, theirs in _NUMBERS.items()},
        log=".log." in path.rsplit("/", 1)[-1],
        base=f"{path.rpartition('/')[0]}/{base}".lstrip("/") if base else "",
    )


# Hudi's names (HoodieWriteStat) of the numbers of a file.
_NUMBERS = {
    **{"rows": "numWrites", "inserts": "numInserts", "updates": "numUpdateWrites", "deletes": "numDeletes"},
    **{"written_bytes": "totalWriteBytes", "file_bytes": "fileSizeInBytes"},
}


def instant_ms(instant: str) -> int:
    """Epoch milliseconds of an instant (yyyyMMddHHmmssSSS), in UTC by the table's property."""
    digits = re.sub(r"\D", "", instant)
    moment = datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
    return int(moment.timestamp()) * 1000 + int((digits[14:17] or "999").ljust(3, "0"))


def instant_of_ms(epoch_ms: int) -> str:
    """The instant of a moment (epoch ms), in UTC."""
    moment = datetime.fromtimestamp(epoch_ms // 1000, timezone.utc)
    return f"{moment:%Y%m%d%H%M%S}{epoch_ms % 1000:03d}"
