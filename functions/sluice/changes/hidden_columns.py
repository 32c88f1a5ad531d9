"""The hidden columns that Sluice stores beside those of the source, and the column names that a source may not use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

POSITION = "_sluice_position"
DELETED = "__deleted"
OP = "_sluice_op"
SOURCE_TS_MS = "_sluice_source_ts_ms"
OBJECT = "_sluice_object"
OFFSET = "_sluice_offset"
OWED = "_sluice_owed"
PARTITION = "_sluice_partition"  # Kafka's, not the table's
BATCH = "_sluice_batch"
SOURCE = "_sluice_source"  # the source table of the change (`source_tables`)

# The key of an append-only table without a key of its own: the object's bucket and key, and the record's number in it.
ROW = "_sluice_row"

ORDERING_FIELD = POSITION  # what Hudi compares to choose between two changes of one row

# Not stored: an array of the columns that a change doesn't carry; null for nearly all changes.
UNCHANGED = "_sluice_unchanged"
# Not stored: how many values of a change have no exact stored form.
INEXACT = "_sluice_inexact"
# Not stored: what merges by Arrow have beside a row, as `by_arrow.decide` says.
BESIDE_ROWS = ("_sluice_key", "_sluice_file", "_sluice_path", "_sluice_bytes")


@dataclass(frozen=True)
class HiddenColumn:
    """A hidden column: its name, Spark type and whether a row may lack it."""

    name: str
    spark_type: str
    nullable: bool


HIDDEN: tuple[HiddenColumn, ...] = (
    HiddenColumn(POSITION, "string", False),
    HiddenColumn(DELETED, "boolean", False),
    HiddenColumn(OP, "string", True),
    HiddenColumn(SOURCE_TS_MS, "bigint", True),
    HiddenColumn(OBJECT, "string", True),
    HiddenColumn(OFFSET, "bigint", True),
    # JSON text (column -> known-at position), because some readers can't read maps in log blocks.
    HiddenColumn(OWED, "string", True),
    HiddenColumn(PARTITION, "int", True),
    HiddenColumn(BATCH, "string", True),
)
# Only where changes name their source table: a table has it from its first batch with such a change on.
SOURCE_COLUMN = HiddenColumn(SOURCE, "string", True)
NAMES: tuple[str, ...] = (*(column.name for column in HIDDEN), SOURCE)

# Lineage columns, by their words in tables.yaml. Nothing else depends on them. A column that is switched off stays in
# the table and is null in new rows, so that switching it changes no schema.
LINEAGE: Mapping[str, str] = MappingProxyType(
    {
        **{"object": OBJECT, "partition": PARTITION, "offset": OFFSET, "batch": BATCH},
        **{"operation": OP, "source_time": SOURCE_TS_MS},
    }
)
LINEAGE_WORDS: tuple[str, ...] = tuple(LINEAGE)

ROW_OPS: tuple[str, ...] = ("c", "u", "d", "r")  # create, update, delete, read by a snapshot
TRUNCATE, MESSAGE = "t", "m"  # a truncate of the table; a message in the source's log, of no table
OPS: tuple[str, ...] = (*ROW_OPS, TRUNCATE, MESSAGE)
CREATE, UPDATE, DELETE, SNAPSHOT_READ = "c", "u", "d", "r"

_TAKEN = frozenset(name.lower() for name in NAMES)
_TAKEN_PREFIXES = ("_sluice_", "_hoodie_")


def colliding(names: Iterable[str]) -> tuple[str, ...]:
    """The source column names that collide with hidden or Hudi's columns. As in Spark, case doesn't count."""
    return tuple(name for name in names if name.lower() in _TAKEN or name.lower().startswith(_TAKEN_PREFIXES))
