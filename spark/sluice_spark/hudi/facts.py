"""What one look at a Hudi table tells, and what a commit to it came to.

What a run knows of the tables that it wrote itself, so that the next batch needn't look again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import StructType

from sluice.config.table import TableConfig


@dataclass(frozen=True)
class TableFacts:
    """What one look at the table tells.

    `newest` is the newest instant of any kind, `schema` the columns without Hudi's own (None before the
    first commit), `commits` how many the active timeline has, `properties_added` what readers needed and the table's file lacked, `floor` the position of
    the newest truncate, `purged` the highest position of a row that was purged, `purged_partition` its Kafka partition where it is an offset alone, `purging` whether a purge was cut off in log files, `unfinished` whether
    something on the timeline is, `record_index` whether the table has one, `widened` its own note of columns that became wider (None where a release
    wrote it that made none), `rows` how many it holds, deleted ones included, as far as
    commits tell (None where none does), `meta_client` Hudi's own view of that moment.
    """

    newest: str | None
    schema: StructType | None
    commits: int
    properties_added: tuple[str, ...] = ()
    floor: str | None = None
    purged: str | None = None
    purged_partition: int | None = None
    purging: bool = False
    unfinished: bool = False
    record_index: bool = False
    widened: str | None = None
    rows: int | None = None
    meta_client: Any = field(default=None, compare=False, repr=False)

    @property
    def empty(self) -> bool:
        """Whether nothing was ever committed."""
        return self.schema is None


@dataclass(frozen=True)
class CommitResult:
    """A commit that is on the timeline: its instant, what its write statistics count, and the table as it is after it."""

    instant: str
    counts: Mapping[str, int] = field(default_factory=dict)
    facts: TableFacts | None = None


class KnownTables:
    """Facts by table, each from right after this run's own commit. Safe in several threads.

    They hold because nobody else writes while the lane is held. Whatever fails makes its table unknown,
    and so does a configuration with another key, other partitions or another type: it must be refused.
    """

    def __init__(self) -> None:
        self._facts: dict[tuple[object, ...], TableFacts] = {}
        self._cleaned: dict[tuple[object, ...], int] = {}
        self._lock = threading.Lock()

    def take(self, config: TableConfig) -> TableFacts | None:
        """The facts, which are forgotten by this: only a part that ends well leaves new ones."""
        with self._lock:
            return self._facts.pop(_identity(config), None)

    def keep(self, config: TableConfig, facts: TableFacts) -> None:
        """Remember the table as it is now."""
        with self._lock:
            self._facts[_identity(config)] = facts

    def cleaned_at(self, config: TableConfig) -> int | None:
        """When this run last looked for files to clean (epoch ms). One that found none leaves no trace on the timeline."""
        with self._lock:
            return self._cleaned.get(_identity(config))

    def keep_cleaned(self, config: TableConfig, at_ms: int) -> None:
        """Remember that there is nothing to clean until some of the window has passed."""
        with self._lock:
            self._cleaned[_identity(config)] = at_ms


def _identity(config: TableConfig) -> tuple[object, ...]:
    return (config.table, config.record_key, config.partition_by, config.table_type)
