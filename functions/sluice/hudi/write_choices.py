"""Choices for one write to a Hudi table: its index, the sizes of its parts, and the housekeeping that follows it."""

from __future__ import annotations

from typing import Callable

from sluice.config.hudi_overrides import are_of_files
from sluice.config.table import AUTO, HARD, MOR, RECORD, TableConfig

MIB = 1024**2
RECORD_INDEX = "record_index"
# The simple index reads every key of the table to find a row, the record index some keys of its metadata table: on one
# core 13 us a row against 4 s in all (local; docs/decisions/index.md). Each commit then commits to the metadata table
# too, so the record index is chosen where it saves several times its cost.
RECORD_INDEX_ROWS = 500_000
# Arrow reads a key in 0.1 us, and Hudi's commit to the metadata table takes some seconds more. What Arrow leaves to
# Spark bounds these rows.
RECORD_INDEX_ROWS_BY_ARROW = 20_000_000
MOST_BYTES_BY_ARROW = 4 * 1024 * MIB  # of a table whose small parts Arrow merges: it reads the keys of all files


def has_record_index(metadata_partitions: str | None) -> bool:
    """Whether the record index is complete, by the table's property METADATA_PARTITIONS."""
    return RECORD_INDEX in (metadata_partitions or "").split(",")


def wants_record_index(
    config: TableConfig, *, has: bool, rows: int | None, table_bytes: Callable[[], int] = lambda: 0
) -> bool:
    """Whether the next write uses the record index: as configured, else by the table's size. Once there, it stays.

    `table_bytes` lists the table's files, and is called only where their size decides.

    Not where rows are purged: a removed row is a delete block in the metadata table, and Hudi 1.0.2 reads it in threads
    that may lack Hudi's classes (ClassCastException to HoodieDeleteRecord, docs/decisions/index.md).
    """
    if config.delete_mode == HARD:
        return False
    if config.index == AUTO:
        count = rows or 0
        if has or count >= RECORD_INDEX_ROWS_BY_ARROW:
            return True
        return count >= RECORD_INDEX_ROWS and (are_of_files(config.hudi) or table_bytes() > MOST_BYTES_BY_ARROW)
    return config.index == RECORD


# New rows of a merge-on-read table can't go into a log: they go into a base file below this limit that has no log, and
# that file is rewritten with every commit. At Hudi's limit of 100 MiB a small table is half copy-on-write. So the files
# that take new rows are together at most about a twentieth of the table, at 64 bytes per compressed row: less to
# rewrite per commit than compaction has with every tenth, and twenty files more while the table grows by e
# (docs/decisions/bytes-written.md).
HUDIS_SMALL_FILE_BYTES = 100 * MIB
LEAST_SMALL_FILES_BYTES = MIB
LEAST_SMALL_FILE_BYTES = 16 * 1024  # a footer alone takes half of it
SMALL_FILE_BYTES_PER_ROW = 64 / 20

BYTES_PER_TASK = 64 * 1024**2


def small_file_bytes(rows: int | None, *, partitions: int = 1) -> int:
    """Size in bytes below which a base file of a merge-on-read table of so many rows takes more.

    `partitions` is how many of them may take new rows in one commit. None: Hudi's limit.
    """
    if rows is None:
        return HUDIS_SMALL_FILE_BYTES
    together = max(LEAST_SMALL_FILES_BYTES, int(rows * SMALL_FILE_BYTES_PER_ROW))
    return min(HUDIS_SMALL_FILE_BYTES, max(LEAST_SMALL_FILE_BYTES, together // max(1, partitions)))


def shuffle_tasks(total_bytes: int, cores: int) -> int:
    """Tasks of a shuffle for a batch of so many compressed bytes: one per 64 MiB, at most four per core."""
    return max(1, min(4 * cores, -(-total_bytes // BYTES_PER_TASK)))


# A table service compacts some ten commits after its last compaction. A table with this many delta commits isn't
# served: the run compacts it, since without compaction nothing of a timeline is archived.
UNSERVED_DELTA_COMMITS = 100

# Archival reads the whole timeline and cleaning every partition that changed, so they follow every twentieth commit.
# Until then a few more instants and old files are kept.
COMMITS_PER_HOUSEKEEPING = 20
# Cleanings per time-travel window: files are kept for at most a twenty-fourth of the window beyond it.
CLEANINGS_PER_WINDOW = 24
HOUR_MS = 3_600_000


def housekeeping_due(config: TableConfig, commits: int) -> bool:
    """Whether archival and cleaning follow a commit, by the number of commits in the active timeline.

    Not by the time of the last one: housekeeping that finds nothing to do leaves no trace, and would be due forever.
    Two numbers in merge-on-read, where a delta commit and its compaction count twice.
    """
    return commits >= COMMITS_PER_HOUSEKEEPING and commits % COMMITS_PER_HOUSEKEEPING in (
        (0, 1) if config.table_type == MOR else (0,)
    )


def cleaning_due(config: TableConfig, *, last_cleaned_ms: int | None, now_ms: int) -> bool:
    """Whether enough of the window has passed since the last cleaning (epoch ms; None: there was none)."""
    return last_cleaned_ms is None or now_ms - last_cleaned_ms >= config.time_travel_h * HOUR_MS // CLEANINGS_PER_WINDOW


def cleaning_horizon_ms(config: TableConfig, now_ms: int) -> int:
    """The moment (epoch ms) from which time travel must work."""
    return now_ms - config.time_travel_h * HOUR_MS


def served(config: TableConfig) -> bool:
    """Whether a table service compacts, and not each write."""
    return config.services.on and config.services.compaction.on
