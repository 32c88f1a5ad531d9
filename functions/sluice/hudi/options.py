"""Every Hudi option that Sluice sets, as pure functions of a table's configuration.

`write_options` has the options of a write: `_identity` those that keep the table one table, `defaults` those that a
table's `hudi` may override. Table services, cleaning and reading have functions of their own.
"""

from __future__ import annotations

from collections.abc import Collection

from sluice.changes.hidden_columns import OP, ORDERING_FIELD
from sluice.config.table import MOR, TableConfig
from sluice.hudi.table_properties import PAYLOAD, TABLE_VERSION, hudi_type
from sluice.hudi.write_choices import MIB, served, small_file_bytes

UPSERT, BULK_INSERT = "upsert", "bulk_insert"
REWRITE = "insert_overwrite_table"  # replaces every file group in one commit

# In a catalog: whether a table is the read-optimized one of a merge-on-read table's two.
QUERY_AS_READ_OPTIMIZED = "hoodie.query.as.ro.table"
CLEANING_POLICY = "KEEP_LATEST_BY_HOURS"

_LONGEST_LOGS_FIRST = "org.apache.hudi.table.action.compact.strategy.LogFileSizeBasedCompactionStrategy"
_KEY_GENERATORS = "org.apache.hudi.keygen."

# A delta commit adds one log file per file group that it touches. At the default freshness of 60 s ten of them take ten
# minutes, the minimum interval of table services: a reader merges at most ten small files, and a file group is
# rewritten six times an hour, not sixty.
DELTA_COMMITS_PER_COMPACTION = 10

# Active commits. Every commit lists the timeline six times, a thousand names to a request, so its length is limited by
# number. A batch is found by its id only until its commit is archived, far later. Time travel needs files, not active
# instants.
MIN_COMMITS, MAX_COMMITS = 100, 140
# Two files below half the target make one file below the target, and three make at most two: each clustering of a
# partition leaves fewer files, so repetition ends.
CLUSTERED_FILE_BYTES = 128 * MIB
MAX_GROUPS = 1_000  # of one clustering: each is a Spark job
TIMESTAMP_LIST = "array<timestamp>"
# In the column OP this mark makes Hudi delete a row, in the one write that removes it. No change has it.
PURGED_OP = "purged"


def key_generator(config: TableConfig) -> str:
    """The class that makes keys and partition paths.

    Not the complex one, whose encoding of a single key changed between releases. The custom one writes a single key
    plainly, as the simple one does. Readers of 1.0 take the partition column's value from the data file with the custom
    one, but with the simple one from the path, where null and empty text are the same.
    """
    return _KEY_GENERATORS + ("CustomKeyGenerator" if config.partition_by else "NonpartitionedKeyGenerator")


def partition_fields(config: TableConfig) -> str:
    """The partition fields in the form of the key generator's write option."""
    return ",".join(f"{field}:SIMPLE" for field in config.partition_columns)


def write_options(
    config: TableConfig,
    *,
    operation: str,
    parallelism: int,
    kinds: Collection[str] = (),
    timestamp_key: bool = False,
    record_index: bool = False,
    rows: int | None = None,
    partitions: int = 1,
) -> dict[str, str]:
    """The options of one write.

    `parallelism` is the number of tasks of a shuffle; `kinds` are the types of the columns, by Spark's names;
    `timestamp_key`: a column of the record key is a timestamp; `record_index`: rows are found by the record index
    (without it Hudi removes an existing metadata table); `rows` and `partitions` are the table's, where known. The
    table's own `hudi` options override the defaults, but not what keeps the table one table.
    """
    tasks = str(parallelism)
    # The partition column of a row can change: the row is found in any partition, and moves.
    index = "GLOBAL_SIMPLE" if config.partition_by else "SIMPLE"
    defaults = {
        "hoodie.index.type": index,
        "hoodie.simple.index.update.partition.path": "true",
        "hoodie.simple.index.parallelism": tasks,
        "hoodie.global.simple.index.parallelism": tasks,
        "hoodie.global.index.reconcile.parallelism": tasks,
        "hoodie.upsert.shuffle.parallelism": tasks,
        "hoodie.bulkinsert.shuffle.parallelism": tasks,
        "hoodie.bulkinsert.sort.mode": "PARTITION_PATH_REPARTITION_AND_SORT" if config.partition_by else "NONE",
        "hoodie.parquet.compression.codec": "zstd",
        # The row writer of bulk inserts writes lists in Spark's legacy format, which the Avro reader of the next upsert
        # reads as null, or fails: a table with lists is written by the Avro writer only.
        "hoodie.datasource.write.row.writer.enable": "false" if any(map(is_list, kinds)) else "true",
        # No index uses the bloom filter, which adds 430 KB to every file: nearly all of a small table's bytes, read
        # with the footer by every look-up of keys. The row writer ignores the switch
        # (HoodieInternalRowFileWriterFactory), so its filter is made as short as possible.
        "hoodie.parquet.bloom.filter.enabled": "false",
        "hoodie.bloom.index.filter.type": "SIMPLE",
        "hoodie.index.bloom.num_entries": "1",
        "hoodie.index.bloom.fpp": "0.5",
        # Estimate by the newest commit alone: each further one takes two requests.
        "_hoodie.record.size.estimator.max.commits": "1",
        "hoodie.rollback.parallelism": tasks,
        "hoodie.finalize.write.parallelism": tasks,
        "hoodie.markers.delete.parallelism": tasks,
        "hoodie.clean.parallelism": tasks,
        **_services(config),
    }
    if config.table_type == MOR:
        defaults["hoodie.parquet.small.file.limit"] = str(small_file_bytes(rows, partitions=partitions))
    if operation == REWRITE:
        # No writer reads a file of the old schema again, so Hudi needn't check it.
        defaults["hoodie.avro.schema.validate"] = "false"
        defaults["hoodie.datasource.write.schema.allow.auto.evolution.column.drop"] = "true"
    return {
        **defaults,
        **config.hudi,
        **_identity(config),
        **(_TIMESTAMP_KEY if timestamp_key else {}),
        **(_PARQUET_LOGS if TIMESTAMP_LIST in kinds and config.table_type == MOR else {}),
        **(_RECORD_INDEX if record_index else {}),
        # A run rolls back by itself, for the lane's holder. By Hudi's eager policy each write rolls back every other
        # one that isn't completed: that of a driver which was held up, its successor's. The metadata table needs it.
        "hoodie.clean.failed.writes.policy": "EAGER" if record_index else "NEVER",
        "hoodie.datasource.write.operation": operation,
    }


# Log blocks of a table with a list of timestamps. hudi-rs 0.5.0 corrects the time zone of a timestamp in an Avro block,
# but not of those in a list (`normalize_utc_timestamps`), and refuses the block. Every reader reads Parquet blocks.
_PARQUET_LOGS = {"hoodie.logfile.data.block.format": "parquet"}


# A timestamp in a key is its count of microseconds, which only the Avro writer knows. The text that both writers would
# give has milliseconds, in the time zone of the process: two rows could share a key.
_TIMESTAMP_KEY = {
    "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled": "false",
    "hoodie.datasource.write.row.writer.enable": "false",
}
# Rows are found in any partition and move, as with the simple index.
_RECORD_INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.record.index.update.partition.path": "true",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
# Of a snapshot read in Spark.
READ_OPTIONS = {"hoodie.metadata.enable": "false", "hoodie.datasource.query.type": "snapshot"}
# Of a cleaning with a given horizon: Hudi's plan by hours keeps the files of every moment after it.
CLEANING_OPTIONS = {"hoodie.clean.policy": CLEANING_POLICY}
# Of a roll-back. The eager policy refuses an instant with later commits, such as a stopped writer's.
ROLLBACK_OPTIONS = {"hoodie.clean.failed.writes.policy": "LAZY"}
# Of a client that works in the driver's process: it has no RDDs to free, and Hudi 1.0.2 would ask Spark for them.
DRIVER_OPTIONS = {"hoodie.release.resource.on.completion.enable": "false"}
# Of an upsert that removes rows with the mark. Hudi's own deletes compare no position.
PURGE_OPTIONS = {"hoodie.payload.delete.field": OP, "hoodie.payload.delete.marker": PURGED_OP}


def is_list(kind: str) -> bool:
    return kind.startswith("array<")


def compaction_options(budget_bytes: int | None = None) -> dict[str, str]:
    """Options of a compaction, planned whenever there are log files, that reads and writes so many bytes (None: all).

    The plan takes file groups with the longest logs first, at least one, up to the budget. It is triggered by elapsed
    time, since the count of delta commits starts again after a plan that took only some file groups.
    """
    at_once = {"hoodie.compact.inline.trigger.strategy": "TIME_ELAPSED", "hoodie.compact.inline.max.delta.seconds": "0"}
    if budget_bytes is None:
        return at_once
    return {
        **at_once,
        "hoodie.compaction.strategy": _LONGEST_LOGS_FIRST,
        "hoodie.compaction.target.io": str(max(1, budget_bytes // MIB)),
    }


def clustering_options(config: TableConfig, budget_bytes: int, table_bytes: int) -> dict[str, str]:
    """Options of a clustering by `cluster_by` that reads about `budget_bytes`, or all of a smaller table.

    A group holds at least two small files, or they would never be joined. Not with the row writer, whose lists the next
    upsert can't read.
    """
    group = max(CLUSTERED_FILE_BYTES, min(budget_bytes, 2 * 1024 * MIB))
    groups = MAX_GROUPS if table_bytes <= budget_bytes else max(1, budget_bytes // group)
    return {
        "hoodie.clustering.plan.strategy.sort.columns": ",".join(config.services.cluster_by),
        "hoodie.clustering.plan.strategy.max.num.groups": str(groups),
        "hoodie.clustering.plan.strategy.max.bytes.per.group": str(group),
        "hoodie.clustering.plan.strategy.target.file.max.bytes": str(CLUSTERED_FILE_BYTES),
        "hoodie.clustering.plan.strategy.small.file.limit": str(CLUSTERED_FILE_BYTES // 2),
        "hoodie.clustering.plan.strategy.single.group.clustering.enabled": "false",
        "hoodie.clustering.preserve.commit.metadata": "true",
        "hoodie.datasource.write.row.writer.enable": "false",
    }


def _identity(config: TableConfig) -> dict[str, str]:
    """Options that must be the same on every write of a table."""
    return {
        "hoodie.table.name": config.name,
        "hoodie.database.name": config.database,
        "hoodie.datasource.write.table.name": config.name,
        "hoodie.datasource.write.table.type": hudi_type(config),
        "hoodie.write.table.version": str(TABLE_VERSION),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.recordkey.field": ",".join(config.record_key),
        "hoodie.datasource.write.precombine.field": ORDERING_FIELD,
        "hoodie.datasource.write.partitionpath.field": partition_fields(config),
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true" if config.partition_by else "false",
        "hoodie.datasource.write.keygenerator.class": key_generator(config),
        # Row writer and Avro writer must give a date or timestamp the same key.
        "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled": "true",
        "hoodie.datasource.write.payload.class": PAYLOAD,
        "hoodie.combine.before.upsert": "false",  # a batch has one row per key
        "hoodie.combine.before.insert": "false",
        # Listing is right without it, and it adds a second table's commit to each commit. The record index needs it.
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.write.markers.type": "DIRECT",
        "hoodie.write.concurrency.mode": "SINGLE_WRITER",
    }


def _services(config: TableConfig) -> dict[str, str]:
    """Options that turn Hudi's own services off: nothing may write after the lane is released.

    Hudi's cleaning by hours knows only the active timeline, and would delete every older file.
    """
    options = {
        "hoodie.clean.automatic": "false",
        "hoodie.clean.async.enabled": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.archive.async": "false",
        "hoodie.clustering.inline": "false",
        "hoodie.clustering.async.enabled": "false",
        # What a write leaves out, a hudi-defaults.conf of the image may turn on. A sync throws after the commit.
        "hoodie.datasource.hive_sync.enable": "false",
        "hoodie.datasource.meta.sync.enable": "false",
    }
    if config.table_type == MOR:
        options.update(
            {
                "hoodie.compact.inline": "false" if served(config) else "true",
                "hoodie.compact.inline.max.delta.commits": str(DELTA_COMMITS_PER_COMPACTION),
                "hoodie.datasource.compaction.async.enable": "false",
                # Compactions by Avro. Those by Spark's rows (the file group reader of 1.0) write lists of a table with
                # decimals in Spark's legacy format, and the next rewrite of the file reads them as null.
                "hoodie.file.group.reader.enabled": "false",
            }
        )
    return options


def archival_options() -> dict[str, str]:
    """Options of an archival by number of instants alone.

    Under cleaning by hours or commits Hudi's archiver raises its limits to what that cleaning needs; under this policy
    it doesn't (ArchivalUtils.getMinAndMaxInstantsToKeep).
    """
    return {
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.keep.min.commits": str(MIN_COMMITS),
        "hoodie.keep.max.commits": str(MAX_COMMITS),
    }
