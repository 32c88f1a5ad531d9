"""The names of what Sluice itself keeps in a Hudi table's commits and in its file of properties."""

from __future__ import annotations

# Keys of a commit's extra metadata. Hudi copies every write option with this prefix into it.
METADATA_PREFIX = "sluice."
BATCH_KEY, TABLE_KEY, RUN_KEY = "sluice.batch", "sluice.table", "sluice.run"
ROWS_KEY = "sluice.rows_before"  # of the table, deleted ones included

# A table's own file of properties keeps what must live as long as the table; commit metadata goes with its commit.
FLOOR_PROPERTY = "sluice.truncated_at"
PURGED_PROPERTY = "sluice.purged_below"  # the highest position of a row that was removed for good, or is about to be
PURGED_PARTITION_PROPERTY = (
    "sluice.purged_partition"  # the Kafka partition that such a position is of, where it is an offset alone
)
WIDENED_PROPERTY = "sluice.widened"  # which columns became wider, and since when (widened_columns.py)
UNPURGED_PROPERTY = (
    "sluice.purging"  # rows are being removed from log files, which must be compacted before the next write
)
