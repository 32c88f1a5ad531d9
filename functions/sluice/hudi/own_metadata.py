"""What Sluice keeps in a Hudi table: keys of commit metadata, and properties of the table's own file."""

from __future__ import annotations

from collections.abc import Mapping

# Keys of a commit's extra metadata, into which Hudi copies every write option with this prefix.
METADATA_PREFIX = "sluice."
BATCH_KEY, TABLE_KEY, RUN_KEY = "sluice.batch", "sluice.table", "sluice.run"
ROWS_KEY = "sluice.rows_before"  # rows of the table, deleted rows included

# Properties in the table's own file live as long as the table; commit metadata goes when its commit is archived.
FLOOR_PROPERTY = "sluice.truncated_at"
PURGED_PROPERTY = "sluice.purged_below"  # the highest position of a row that was purged, or is about to be
PURGED_PARTITION_PROPERTY = "sluice.purged_partition"  # Kafka partition of that position, where it is only an offset
WIDENED_PROPERTY = "sluice.widened"  # which columns became wider, and since when (widened_columns.py)
UNPURGED_PROPERTY = "sluice.purging"  # log files hold purged rows: compaction must precede the next write


def commit_metadata(*, batch: str, table: str, run: str, rows_before: int | None = None) -> dict[str, str]:
    """Write options that store a commit's origin in it; a later run finds the batch on the timeline by them."""
    return {
        "hoodie.datasource.write.commitmeta.key.prefix": METADATA_PREFIX,
        BATCH_KEY: batch,
        TABLE_KEY: table,
        RUN_KEY: run,
        **({} if rows_before is None else {ROWS_KEY: str(rows_before)}),
    }


def purge_metadata(table: str, positions: Mapping[int, str]) -> dict[str, str]:
    """Write options that store the highest purged position, by generation, in a purge's commit."""
    purged = {f"{METADATA_PREFIX}purged.{generation}": position for generation, position in positions.items()}
    return {"hoodie.datasource.write.commitmeta.key.prefix": METADATA_PREFIX, TABLE_KEY: table, **purged}
