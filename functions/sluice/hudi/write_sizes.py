"""Sizes of the parts of a write: the tasks of a shuffle, and the files that take new rows."""

from __future__ import annotations

MIB = 1024**2
# New rows of a merge-on-read table can't go into a log: Hudi puts them into a base file below this limit that has no
# log, and rewrites that file with every commit. At Hudi's limit of 100 MiB a small table is half copy-on-write. So the
# file that takes new rows is at most about a twentieth of the table, at 64 bytes per compressed row: less to rewrite
# per commit than compaction has with every tenth, and twenty files more while the table grows by e
# (docs/decisions/bytes-written.md).
HUDIS_SMALL_FILE_BYTES = 100 * MIB
LEAST_SMALL_FILE_BYTES = MIB
SMALL_FILE_BYTES_PER_ROW = 64 / 20

BYTES_PER_TASK = 64 * 1024**2


def small_file_bytes(rows: int | None) -> int:
    """Size in bytes below which a base file of a merge-on-read table of so many rows takes more. None: Hudi's limit."""
    if rows is None:
        return HUDIS_SMALL_FILE_BYTES
    return min(HUDIS_SMALL_FILE_BYTES, max(LEAST_SMALL_FILE_BYTES, int(rows * SMALL_FILE_BYTES_PER_ROW)))


def shuffle_tasks(total_bytes: int, cores: int) -> int:
    """Tasks of a shuffle for a batch of so many compressed bytes: one per 64 MiB, at most four per core."""
    return max(1, min(4 * cores, -(-total_bytes // BYTES_PER_TASK)))
