"""The names of what Sluice itself keeps in a Hudi table's commits and in its file of properties.

Whether a table's rows are found by Hudi's record index or by the simple one.

Which columns of a table may have another type in its older files than in its schema: those that became wider, and since when.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from sluice.changes.hidden_columns import NAMES
from sluice.config.table import AUTO, HARD, RECORD, TableConfig

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


RECORD_INDEX = "record_index"
# Finding a row by the simple index reads every key of the table, by the record index some of its metadata table's:
# on one core 13 us a row against 4 s however many there are (docs/decisions/index.md). The metadata table makes a
# second table's commit of each commit, so it comes where it saves several times what it costs.
RECORD_INDEX_ROWS = 500_000


def has_record_index(metadata_partitions: str | None) -> bool:
    """Whether a table's property hudi_options.METADATA_PARTITIONS says that its record index is whole."""
    return RECORD_INDEX in (metadata_partitions or "").split(",")


def wants_record_index(config: TableConfig, *, has: bool, rows: int | None) -> bool:
    """Whether the next write finds rows by the record index: as configured, else by the table's rows, and never back by itself.

    Not where rows are purged: a removed row is a delete block in the metadata table, and Hudi 1.0.2 reads it in threads
    that may not know Hudi's classes (ClassCastException to HoodieDeleteRecord, docs/decisions/index.md).
    """
    if config.delete_mode == HARD:
        return False
    if config.index == AUTO:
        return has or (rows or 0) >= RECORD_INDEX_ROWS
    return config.index == RECORD


# What a table says in whose columns nothing changed yet. A table that says nothing is of a release that didn't note it.
NONE_WIDENED = "{}"
# Types that a column may have become: what is of another type now was of that type from the start.
_WIDER = re.compile(r"(array<)*(bigint|double|decimal\(\d+,\d+\))>*")


def with_widened(noted: str | None, columns: Sequence[str], *, newest: str) -> str | None:
    """The note of a table some of whose columns are about to become wider; `newest` is its newest instant before that.

    None where there is none yet: what became wider before isn't known, and a note would deny it.
    """
    if noted is None:
        return None
    return json.dumps({**_instants(noted), **dict.fromkeys(columns, newest)}, sort_keys=True)


def are_as_stored(noted: str | None, types: Mapping[str, str], *, oldest_file: str) -> bool:
    """Whether these columns (name -> Spark's name of the type in the table's schema) have that type in every file.

    `oldest_file` is the instant of the commit that wrote the oldest of the files. A file that was written after a column became
    wider has the wider type, whatever it was written for.
    """
    if noted is None:
        return not any(_WIDER.fullmatch(kind) for name, kind in types.items() if name not in NAMES)
    return all(oldest_file > instant for name, instant in _instants(noted).items() if name in types)


def _instants(noted: str) -> dict[str, str]:
    return {str(name): str(instant) for name, instant in json.loads(noted).items()}
