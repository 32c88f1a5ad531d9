"""Whether a table's rows are found by Hudi's record index or by the simple one."""

from __future__ import annotations

from typing import Optional

from sluice.table_config import AUTO, HARD, RECORD, TableConfig

RECORD_INDEX = "record_index"
# Finding a row by the simple index reads every key of the table, by the record index some of its metadata table's:
# on one core 13 us a row against 4 s however many there are (docs/decisions/index.md). The metadata table makes a
# second table's commit of each commit, so it comes where it saves several times what it costs.
RECORD_INDEX_ROWS = 500_000


def has_record_index(metadata_partitions: Optional[str]) -> bool:
    """Whether a table's property hudi_options.METADATA_PARTITIONS says that its record index is whole."""
    return RECORD_INDEX in (metadata_partitions or "").split(",")


def wants_record_index(config: TableConfig, *, has: bool, rows: Optional[int]) -> bool:
    """Whether the next write finds rows by the record index: as configured, else by the table's rows, and never back by itself.

    Not where rows are purged: a removed row is a delete block in the metadata table, and Hudi 1.0.2 reads it in threads
    that may not know Hudi's classes (ClassCastException to HoodieDeleteRecord, docs/decisions/index.md).
    """
    if config.delete_mode == HARD:
        return False
    if config.index == AUTO:
        return has or (rows or 0) >= RECORD_INDEX_ROWS
    return config.index == RECORD
