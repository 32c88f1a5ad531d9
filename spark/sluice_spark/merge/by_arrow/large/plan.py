"""What a large merge is of: the table, the columns, the sizes of its parts, and which tables it loads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sluice.batch.manifest import ManifestObject
from sluice.changes import hidden_columns as hidden
from sluice.changes.source_tables import Floors
from sluice.config.hudi_overrides import are_of_files
from sluice.config.table import TableConfig
from sluice.hudi import write_choices
from sluice.hudi.file_slices import Committed, FileSlice
from sluice_aws.s3.objects import ObjectSource
from sluice_formats.records import ReaderPlan
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.merge.by_arrow.base_file import can_write, has_plain_key, has_plain_partitions
from sluice_spark.merge.by_arrow.covers import refuse_unusual
from sluice_spark.merge.by_arrow.keyed_rows import Key, StoredRow
from sluice_spark.merge.rows import LeftToSpark, check_columns

MIB = 1024**2
# A part is one task's rows and one file. Of so many bytes as stored, it has several times as many in Arrow.
STORED_BYTES_PER_PART, MOST_PARTS = 16 * MIB, 512
# Stored rows in a part, whose keys and hidden columns take some 150 bytes each in Arrow.
STORED_ROWS_PER_PART = 400_000
# A write task holds its part's rows, their sorted copy and the Parquet file: at most three times as many bytes.
MOST_PART_BYTES = 128 * MIB


@dataclass(frozen=True)
class LoadPlan:
    """What tasks need. `target` has the table's columns, name -> Spark's type name; `lineage` are words.

    Of a `history` table each change is a row, whose deletions keep values with `keep_deleted_values`.
    `slices` are the table's, of which `committed` says what counts, and `rows` how many rows it has. `dumps` are the
    positions of truncates that full dumps bring. `held` has the stored rows of keys whose history is needed, with their
    values, by the key's columns and text.
    """

    reader: ReaderPlan
    target: Mapping[str, str]
    table_uri: str
    source: ObjectSource
    keep_deleted_values: bool
    lineage: Collection[str]
    source_clock: bool = True  # the times of changes are the source's
    ignore_deletes: bool = False
    most_part_bytes: int = MOST_PART_BYTES
    floors: Floors = Floors()
    purged: str | None = None
    dumps: frozenset[str] = frozenset()
    slices: Sequence[FileSlice] = ()
    committed: Committed = Committed(frozenset(), None)
    rows: int | None = None
    in_logs: bool = False
    held: Mapping[Key, StoredRow] = field(default_factory=dict, hash=False)
    history: bool = False

    @property
    def record_key(self) -> tuple[str, ...]:
        """The columns of the record key."""
        return (*self.reader.config.record_key, hidden.POSITION) if self.history else self.reader.config.record_key

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns of the partition. A history table has none."""
        return () if self.history else self.reader.config.partition_columns

    @property
    def append_only(self) -> bool:
        """Whether each change is a row of its own, known by its place. Those of a history table have keys."""
        return self.reader.config.append_only and not self.history

    @property
    def second_shuffle(self) -> bool:
        """Whether a part of the shuffle has rows of several files."""
        return bool(self.partition_columns or self.slices)


def check_first_load(config: TableConfig, facts: TableFacts, plan: LoadPlan) -> None:
    """Raise LeftToSpark for a table that isn't loaded by Arrow.

    One with an instant is left, also where that was rolled back: what fails here is not tried here again.
    """
    refuse_unusual(
        instants=facts.newest is not None,
        floor=facts.purged is not None,
        partitions=not has_plain_partitions(plan.target, config.partition_columns),
        index=write_choices.wants_record_index(config, has=facts.record_index, rows=0),
        pyarrow=not can_write(),
        options=are_of_files(config.hudi),
        key=not has_plain_key(plan.target, config.record_key),
    )
    check_columns(plan.reader, plan.target)


def part_count(objects: Sequence[ManifestObject], *, rows: int = 0) -> int:
    """How many parts a merge of these objects has, beside so many stored rows. Raises LeftToSpark for too many."""
    parts = max(-(-sum(item.size for item in objects) // STORED_BYTES_PER_PART), -(-rows // STORED_ROWS_PER_PART))
    if parts > MOST_PARTS:
        raise LeftToSpark("size", f"{parts} files")
    return max(1, parts)
