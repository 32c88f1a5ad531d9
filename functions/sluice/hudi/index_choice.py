"""Whether a write finds a table's rows by Hudi's record index or by the simple index."""

from __future__ import annotations

from sluice.config.table import AUTO, HARD, RECORD, TableConfig

RECORD_INDEX = "record_index"
# The simple index reads every key of the table to find a row, the record index some keys of its metadata table: on one
# core 13 us a row against 4 s in all (local; docs/decisions/index.md). Each commit then commits to the metadata table
# too, so the record index is chosen where it saves several times its cost.
RECORD_INDEX_ROWS = 500_000


def has_record_index(metadata_partitions: str | None) -> bool:
    """Whether the record index is complete, by the table's property METADATA_PARTITIONS."""
    return RECORD_INDEX in (metadata_partitions or "").split(",")


def wants_record_index(config: TableConfig, *, has: bool, rows: int | None) -> bool:
    """Whether the next write uses the record index: as configured, else by the table's rows. Once there, it stays.

    Not where rows are purged: a removed row is a delete block in the metadata table, and Hudi 1.0.2 reads it in threads
    that may lack Hudi's classes (ClassCastException to HoodieDeleteRecord, docs/decisions/index.md).
    """
    if config.delete_mode == HARD:
        return False
    if config.index == AUTO:
        return has or (rows or 0) >= RECORD_INDEX_ROWS
    return config.index == RECORD
