"""What one look at a Hudi table tells, and what a commit to it came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Tuple

from pyspark.sql.types import StructType


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

    newest: Optional[str]
    schema: Optional[StructType]
    commits: int
    properties_added: Tuple[str, ...] = ()
    floor: Optional[str] = None
    purged: Optional[str] = None
    purged_partition: Optional[int] = None
    purging: bool = False
    unfinished: bool = False
    record_index: bool = False
    widened: Optional[str] = None
    rows: Optional[int] = None
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
    facts: Optional[TableFacts] = None
