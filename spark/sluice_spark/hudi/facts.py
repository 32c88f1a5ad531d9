"""Snapshot of a Hudi table's state, the result of a commit and its files, and the snapshots that a run keeps."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import StructType

from sluice.changes.source_tables import Floors
from sluice.config.table import TableConfig
from sluice.hudi.own_metadata import copied_metadata
from sluice.hudi.timeline import Timeline


@dataclass(frozen=True)
class TableFacts:
    """Snapshot of a table's state.

    `newest`: the newest instant of any kind.
    `schema`: the columns without Hudi's own; None before the first commit.
    `commits`: the number of commits on the active timeline.
    `properties_added`: properties that readers need, which were missing and have been added.
    `floor`: the positions of the newest truncates.
    `purged`: the highest position of a purged row; `purged_partition`: its Kafka partition, where the position is an
    offset alone.
    `purging`: a purge of a merge-on-read table was cut off, and log files have rows that it removes.
    `unfinished`: an instant on the timeline is unfinished.
    `misdated`: the files of the completed instants that are dated before the instant's own time, of a merge-on-read
    table (HudiTable.date_anew).
    `record_index`: the table has a record index.
    `widened`: the table's note of columns that became wider; None for a table of a release without such notes.
    `forgotten`: the table's note of forgotten rows; None where there are none.
    `rows`: how many it holds, deleted ones included; None where no commit has counted them.
    `timeline`: the active timeline. `meta_client`: Hudi's own object for this snapshot.
    """

    newest: str | None
    schema: StructType | None
    commits: int
    properties_added: tuple[str, ...] = ()
    floor: Floors = Floors()
    purged: str | None = None
    purged_partition: int | None = None
    purging: bool = False
    unfinished: bool = False
    misdated: tuple[str, ...] = ()
    record_index: bool = False
    widened: str | None = None
    forgotten: str | None = None
    rows: int | None = None
    timeline: Timeline = field(default=Timeline(), compare=False, repr=False)
    meta_client: Any = field(default=None, compare=False, repr=False)

    @property
    def empty(self) -> bool:
        """True before the first commit."""
        return self.schema is None

    @property
    def copied_metadata(self) -> dict[str, str]:
        """What a commit repeats of the table's own properties, for the case that they are lost."""
        return copied_metadata(
            widened=self.widened,
            forgotten=self.forgotten,
            floors=self.floor,
            purged=self.purged,
            purged_partition=self.purged_partition,
        )


@dataclass(frozen=True)
class CommitResult:
    """A commit on the timeline: its instant, the counts of its write statistics, and the table's state after it.

    `attempt` names the merge that made it; None for one of a release that recorded none. `completed_at` is when readers
    see it (epoch ms, by the date of its file), where it was looked for.
    """

    instant: str
    counts: Mapping[str, int] = field(default_factory=dict)
    facts: TableFacts | None = None
    completed_at: int | None = None
    attempt: str | None = None


@dataclass(frozen=True)
class BaseFile:
    """A base file as it was written. `ms` is how long that took; `partition` is its folder's path below the table's.

    `before` is the name of the file that it replaces in its file group, None for a new group; `updated` and `inserted`
    are the rows that the commit changed in it and added to it, `removed` those that moved to another partition.
    """

    name: str
    rows: int
    bytes: int
    ms: int
    before: str | None = None
    updated: int = 0
    inserted: int = 0
    partition: str = ""
    removed: int = 0

    @property
    def path(self) -> str:
        """The path below the table's folder."""
        return f"{self.partition}/{self.name}" if self.partition else self.name

    @property
    def file_id(self) -> str:
        """The file group's id: the name's first part."""
        return self.name.split("_", 1)[0]


@dataclass(frozen=True)
class LogFile:
    """A log file as it was written, `version` among the logs of the base file `base`; `before` are those names.

    `updated` rows are in it, and the keys of `removed` rows, which moved to another partition.
    """

    name: str
    file_id: str
    base: str
    version: int
    bytes: int
    ms: int
    before: tuple[str, ...] = ()
    updated: int = 0
    partition: str = ""
    removed: int = 0

    @property
    def path(self) -> str:
        """The path below the table's folder."""
        return f"{self.partition}/{self.name}" if self.partition else self.name


class KnownTables:
    """The state of each table right after this run's own commit, so that the next batch needn't look. Thread-safe.

    It stays valid because nobody else writes while the lane is held. After any failure the table is unknown again, and
    so it is under a configuration with another key, other partitions or another type, which must be refused.
    """

    def __init__(self) -> None:
        self._facts: dict[tuple[object, ...], TableFacts] = {}
        self._cleaned: dict[tuple[object, ...], int] = {}
        self._left_to_spark: set[tuple[object, ...]] = set()
        self._lock = threading.Lock()

    def take(self, config: TableConfig) -> TableFacts | None:
        """Take the facts out: only a part that ends well puts new ones in. None where the table is unknown."""
        with self._lock:
            return self._facts.pop(_identity(config), None)

    def keep(self, config: TableConfig, facts: TableFacts) -> None:
        """Put in the table's present facts."""
        with self._lock:
            self._facts[_identity(config)] = facts

    def leave_to_spark(self, config: TableConfig) -> None:
        """Record that a merge of the table in the driver failed: from now on this run merges it in Spark tasks."""
        with self._lock:
            self._left_to_spark.add(_identity(config))

    def is_left_to_spark(self, config: TableConfig) -> bool:
        """Whether a merge of the table in the driver failed in this run."""
        with self._lock:
            return _identity(config) in self._left_to_spark

    def cleaned_at(self, config: TableConfig) -> int | None:
        """When this run last looked for files to clean (epoch ms); a look that finds none leaves no instant."""
        with self._lock:
            return self._cleaned.get(_identity(config))

    def keep_cleaned(self, config: TableConfig, at_ms: int) -> None:
        """Record when this run looked for files to clean (epoch ms)."""
        with self._lock:
            self._cleaned[_identity(config)] = at_ms


def _identity(config: TableConfig) -> tuple[object, ...]:
    return (config.table, config.record_key, config.partition_by, config.table_type)
