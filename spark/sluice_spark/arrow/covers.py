"""Whether a part can be merged in the driver, without a Spark job: few plain changes of a small copy-on-write table.

Everything unusual is left to the Spark path by `LeftToSpark`, whose reasons are words for the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sluice.admission.routing import AVRO, PARQUET
from sluice.batch.manifest import ManifestObject
from sluice.changes import hidden_columns as hidden
from sluice.config.table import IGNORE, MOR, TableConfig
from sluice.hudi.write_choices import MIB, wants_record_index
from sluice_spark.arrow.rows import LeftToSpark
from sluice_spark.hudi.facts import TableFacts

# A Spark job takes longer to plan than so many objects to read and rows to hand to Hudi one by one.
MOST_OBJECTS, MOST_BYTES, MOST_CHANGES = 25, MIB, 200
MOST_DECODED_BYTES = 64 * MIB  # of one object, whose bytes may be compressed
# Executors rewrite larger files: the driver's one thread writes some 40,000 rows a second.
MOST_FILES, MOST_FILE_BYTES, MOST_STORED_ROWS = 4, 8 * MIB, 200_000
# Numbers that equal each other in more than one form, and values that are no key.
_NO_KEYS = ("float", "double", "binary", "array")


def check_part(
    config: TableConfig,
    facts: TableFacts,
    *,
    before: Mapping[str, str],
    target: Mapping[str, str],
    objects: Sequence[ManifestObject],
) -> None:
    """Raise LeftToSpark where the table or the batch is unusual, by what is known before anything is read.

    `before` and `target` are the table's columns and their types without and with this batch.
    """
    size = sum(item.size for item in objects)
    unusual = (
        ("first_load", facts.empty),
        ("merge_on_read", config.table_type == MOR),
        ("history", bool(config.history)),
        ("partitions", bool(config.partition_by)),
        ("hudi_options", bool(config.hudi)),  # sizes of files among them
        ("record_index", facts.rows is None or wants_record_index(config, has=facts.record_index, rows=facts.rows)),
        ("table_size", (facts.rows or 0) > MOST_STORED_ROWS),
        ("ignored_deletes", config.delete_mode == IGNORE),
        ("floor", bool(facts.floor or facts.purged or facts.purging)),
        ("unfinished", facts.unfinished),
        ("columns", dict(before) != dict(target)),
        ("key_type", any(target.get(name, "array").startswith(_NO_KEYS) for name in config.record_key)),
        ("format", any(item.format not in (AVRO, PARQUET) for item in objects)),  # others were scanned by a Spark job
        ("size", not objects or len(objects) > MOST_OBJECTS or size > MOST_BYTES),
    )
    for reason, found in unusual:
        if found:
            raise LeftToSpark(reason)


def check_changes(rows: pa.Table) -> None:
    """Raise LeftToSpark for too many changes, and for truncates and messages, which are changes of no row."""
    if not 0 < rows.num_rows <= MOST_CHANGES:
        raise LeftToSpark("changes", f"{rows.num_rows:,}")
    if pc.any(pc.is_in(rows.column(hidden.OP), pa.array([hidden.TRUNCATE, hidden.MESSAGE]))).as_py():
        raise LeftToSpark("truncate")
