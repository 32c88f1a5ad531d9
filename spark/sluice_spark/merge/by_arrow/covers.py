"""Whether a part is merged by Arrow: plain changes of a table, few enough to decide in the driver.

Everything unusual is left to the Spark path by `LeftToSpark`, whose reasons are words for the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sluice.batch.manifest import ManifestObject
from sluice.changes import hidden_columns as hidden
from sluice.changes.source_tables import NEVER
from sluice.config.hudi_overrides import are_of_files
from sluice.config.table import MOR, TableConfig
from sluice.hudi import options as hudi_options
from sluice.hudi.file_slices import FileSlice
from sluice.hudi.write_choices import MIB, MOST_BYTES_BY_ARROW, wants_record_index
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.merge.by_arrow.base_file import can_write, has_plain_key, has_plain_partitions
from sluice_spark.merge.driver_limits import MOST_BYTES, MOST_CHANGES, MOST_OBJECTS
from sluice_spark.merge.plan import column_types
from sluice_spark.merge.rows import LeftToSpark

# A file that is rewritten is held before and after, beside a row group of it; keys are looked up in all files.
MOST_FILES, MOST_FILE_BYTES, MOST_LOG_BYTES = 5_000, 96 * MIB, 256 * MIB
WRITTEN_IN_DRIVER = 8 * MIB  # bytes of files; more are rewritten in Spark tasks


def check_objects(objects: Sequence[ManifestObject]) -> None:
    """Raise LeftToSpark for too many objects, or too large ones."""
    if not objects or len(objects) > MOST_OBJECTS or sum(item.size for item in objects) > MOST_BYTES:
        raise LeftToSpark("size")


def check_table(config: TableConfig, facts: TableFacts, target: Mapping[str, str]) -> None:
    """Raise LeftToSpark where the table is unusual, by what is known before anything is read.

    `target` are the table's columns and their types with this batch.
    """
    refuse_unusual(
        first_load=facts.empty,
        partitions=not has_plain_partitions(target, config.partition_columns),
        hudi_options=are_of_files(config.hudi),
        record_index=facts.rows is None
        or _index_changes(config, facts)
        or (facts.record_index and (bool(config.partition_by) or config.table_type == MOR)),
        lists=config.table_type == MOR and hudi_options.TIMESTAMP_LIST in target.values(),  # Parquet log blocks
        key_type=not has_plain_key(target, config.record_key),
        pyarrow=not can_write(),
        purging=facts.purging,  # logs hold rows that count as removed
        unfinished=facts.unfinished,
        columns=any(target.get(name) != kind for name, kind in column_types(facts.schema).items()),
    )


def refuse_unusual(**present: bool) -> None:
    """Raise LeftToSpark for the first reason that is present."""
    for reason, is_present in present.items():
        if is_present:
            raise LeftToSpark(reason)


def _index_changes(config: TableConfig, facts: TableFacts) -> bool:
    """Whether the next write makes or removes the record index. Hudi keeps one up by the files of a commit."""
    return wants_record_index(config, has=facts.record_index, rows=facts.rows) != facts.record_index


def check_changes(rows: pa.Table, facts: TableFacts) -> None:
    """Raise LeftToSpark for too many changes, for truncates and messages, which are changes of no row, and floors.

    Floors say nothing of changes above all of them, as those of a table's present are.
    """
    if rows.num_rows > MOST_CHANGES:
        raise LeftToSpark("changes", f"{rows.num_rows:,}")
    if pc.any(pc.is_in(rows.column(hidden.OP), pa.array([hidden.TRUNCATE, hidden.MESSAGE]))).as_py():
        raise LeftToSpark("truncate")
    lowest = pc.min(rows.column(hidden.POSITION)).as_py()
    if lowest is not None and lowest <= max(facts.floor.highest, facts.purged or NEVER):
        raise LeftToSpark("floor")


def check_slices(slices: Sequence[FileSlice]) -> None:
    """Raise LeftToSpark for a table of too many files, or too large ones, and for logs without a base file."""
    if not slices or len(slices) > MOST_FILES or any(item.base is None for item in slices):
        raise LeftToSpark("files", f"{len(slices):,}")
    if sum(file.size for item in slices for file in item.files) > MOST_BYTES_BY_ARROW:
        raise LeftToSpark("files", "bytes")
    if sum(log.size for item in slices for log in item.logs) > MOST_LOG_BYTES:
        raise LeftToSpark("logs")


def check_rewritten(sizes: Sequence[int]) -> None:
    """Raise LeftToSpark for base files that are too large to be rewritten. `sizes` are theirs."""
    if max(sizes, default=0) > MOST_FILE_BYTES:
        raise LeftToSpark("files")
