"""How large the pieces of a write are: a shuffle's tasks, and the files that take new rows.

Every Hudi option and table property that Sluice sets, as pure functions of a table's configuration: nothing else names one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluice.changes.hidden_columns import OP, ORDERING_FIELD
from sluice.config.table import MOR, TableConfig
from sluice.hudi.housekeeping import served
from sluice.hudi.table_properties import BATCH_KEY, METADATA_PREFIX, ROWS_KEY, RUN_KEY, TABLE_KEY

MIB = 1024**2
# Rows that a merge-on-read table gets can't go into a log: Hudi puts them into a base file below its limit that has no log, and
# writes that anew with every commit. At Hudi's limit of 100 MiB a small table is half copy-on-write. So the file that takes what is new is at most about
# a twentieth of the table, at a compressed row of 64 bytes: less to rewrite per commit than compaction has with every tenth, and
# twenty files more while the table grows by e (docs/decisions/bytes-written.md).
HUDIS_SMALL_FILE_BYTES = 100 * MIB
LEAST_SMALL_FILE_BYTES = MIB
SMALL_FILE_BYTES_PER_ROW = 64 / 20

BYTES_PER_TASK = 64 * 1024**2


def small_file_bytes(rows: int | None) -> int:
    """Below which size a base file of a merge-on-read table of so many rows takes more rows; Hudi's own limit where they aren't known."""
    if rows is None:
        return HUDIS_SMALL_FILE_BYTES
    return min(HUDIS_SMALL_FILE_BYTES, max(LEAST_SMALL_FILE_BYTES, int(rows * SMALL_FILE_BYTES_PER_ROW)))


def shuffle_tasks(total_bytes: int, cores: int) -> int:
    """Tasks of a shuffle for a batch of so many (compressed) bytes: one per 64 MiB, at most four per core."""
    return max(1, min(4 * cores, -(-total_bytes // BYTES_PER_TASK)))


TABLE_VERSION = 6  # Athena reads Hudi 0.14 or 0.15 tables: version 6 is the newest of those

UPSERT, BULK_INSERT = "upsert", "bulk_insert"
REWRITE = "insert_overwrite_table"  # every file group is replaced, in one commit

PROPERTIES_FILE = ".hoodie/hoodie.properties"
_PARTITION_FIELDS = "hoodie.table.partition.fields"
METADATA_PARTITIONS = "hoodie.table.metadata.partitions"  # Hudi's own list of what its metadata table holds
# In a catalog: which of a merge-on-read table's two tables this is.
QUERY_AS_READ_OPTIMIZED = "hoodie.query.as.ro.table"
CLEANING_POLICY = "KEEP_LATEST_BY_HOURS"

PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
MERGE_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"  # Hudi's id of "the higher ordering value wins"
MERGE_MODE = "EVENT_TIME_ORDERING"
_KEY_GENERATORS = "org.apache.hudi.keygen."

# A delta commit adds one log file per file group it touches. At the default freshness of 60 s ten of
# them are ten minutes, which is also how often table services may come: a reader merges ten small
# files at most, and a file group is rewritten six times an hour, not sixty.
DELTA_COMMITS_PER_COMPACTION = 10

# What is kept active: every commit lists the timeline six times, a thousand names to a request, so its
# length is bounded by number. It is far more than one batch needs to be resolved by its id, which is
# gone once its commit is archived. Time travel needs files, not active instants.
MIN_COMMITS, MAX_COMMITS = 100, 140
# Two files below half the target make one file of less than the target, three make two at most: each clustering of a partition
# leaves fewer files than it found, so it comes to an end.
CLUSTERED_FILE_BYTES = 128 * MIB
MOST_GROUPS = 1_000  # of one clustering: each is a Spark job
# By this mark in this column, for the one write that removes it, a row is one that Hudi deletes. No change has it.
PURGED_OP = "purged"


@dataclass(frozen=True)
class TableProperties:
    """What `hoodie.properties` of a table must say, by what it is for.

    `fixed` is set at creation and never changes; another value there is refused. `readers` are what a
    reader of some release depends on; where one is absent it is added.
    """

    fixed: Mapping[str, str]
    readers: Mapping[str, str]


def table_properties(config: TableConfig) -> TableProperties:
    """The properties that a table is created with and checked against.

    Both names of the ordering field are kept: releases until 1.0 read the first, later ones the second,
    and a reader that misses its own merges log files without order.
    """
    fixed = {
        "hoodie.table.name": config.name,
        "hoodie.table.type": hudi_type(config),
        "hoodie.table.version": str(TABLE_VERSION),
        "hoodie.table.recordkey.fields": ",".join(config.record_key),
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.compaction.payload.class": PAYLOAD,
        "hoodie.record.merge.strategy.id": MERGE_STRATEGY,
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.populate.meta.fields": "true",
    }
    if config.partition_by:
        fixed[_PARTITION_FIELDS] = ",".join(config.partition_by)
        fixed["hoodie.datasource.write.partitionpath.urlencode"] = "true"
    return TableProperties(
        fixed=fixed,
        readers={"hoodie.table.precombine.field": ORDERING_FIELD, "hoodie.table.ordering.fields": ORDERING_FIELD},
    )


def creation_properties(config: TableConfig) -> dict[str, str]:
    """What a new table is made with: all of its properties, and the merge mode that they follow from."""
    properties = table_properties(config)
    return {
        **properties.fixed,
        **properties.readers,
        "hoodie.record.merge.mode": MERGE_MODE,
        "hoodie.database.name": config.database,
        # No table here is bootstrapped from other files, and looking for that costs a commit a dozen requests.
        "hoodie.bootstrap.index.enable": "false",
    }


def differing(properties: TableProperties, found: Mapping[str, str]) -> dict[str, tuple[str | None, str]]:
    """What a table's file says otherwise than it must: name -> (found, wanted)."""
    wanted = {**properties.fixed, **{name: value for name, value in properties.readers.items() if name in found}}
    if found.get(_PARTITION_FIELDS):
        wanted.setdefault(_PARTITION_FIELDS, "")  # a table with folders is none without them
    return {name: (found.get(name), value) for name, value in wanted.items() if found.get(name) != value}


def absent(properties: TableProperties, found: Mapping[str, str]) -> dict[str, str]:
    """The properties for readers that the file lacks and may be given."""
    return {name: value for name, value in properties.readers.items() if name not in found}


def kept_when_anew(found: Mapping[str, str]) -> dict[str, str]:
    """The properties of a table without a commit that outlive its being given other ones: Sluice's own, a truncate's position among them, and what Hudi made beside."""
    return {
        name: value for name, value in found.items() if name.startswith(METADATA_PREFIX) or name == METADATA_PARTITIONS
    }


def record_key_of(found: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a table's key, as its own properties name them."""
    return tuple(name for name in found.get("hoodie.table.recordkey.fields", "").split(",") if name)


def partition_fields_of(found: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a table's partition path, as its own properties name them; some releases add `:SIMPLE` to a name."""
    return tuple(name.split(":", 1)[0] for name in found.get(_PARTITION_FIELDS, "").split(",") if name)


def is_merge_on_read(found: Mapping[str, str]) -> bool:
    """Whether a table's own properties name it merge-on-read."""
    return found.get("hoodie.table.type") == "MERGE_ON_READ"


def version_of(found: Mapping[str, str]) -> str:
    """The table version that a table's own properties name."""
    return found.get("hoodie.table.version", "")


def key_generator(config: TableConfig) -> str:
    """The class that makes keys and partition paths.

    Not the complex one for a single key: its encoding of such a key changed between releases. The
    custom one writes a single key plainly, as the simple one does, and its tables are read with the
    partition column's value from the data file: with the simple one, readers of 1.0 take it from the
    path, where null and empty text are the same.
    """
    return _KEY_GENERATORS + ("CustomKeyGenerator" if config.partition_by else "NonpartitionedKeyGenerator")


def partition_fields(config: TableConfig) -> str:
    """The partition fields in the form that the key generator wants them in write options."""
    return ",".join(f"{field}:SIMPLE" for field in config.partition_by)


def write_options(
    config: TableConfig,
    *,
    operation: str,
    parallelism: int,
    arrays: bool = False,
    timestamp_key: bool = False,
    record_index: bool = False,
    rows: int | None = None,
) -> dict[str, str]:
    """The options of one write.

    `parallelism` is the number of tasks of a shuffle, `arrays` whether a column holds lists, `timestamp_key` whether a column
    of the record key is a timestamp, `record_index` whether rows are found by it; without it Hudi removes a metadata table that is there.
    `rows` are the table's, as far as they are known. The table's own `hudi` options come last and
    win, except over what keeps the table one table.
    """
    tasks = str(parallelism)
    # Where the partition column can change a row is found in any partition, and moves.
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
        # The row writer of bulk inserts lays lists out as Spark's legacy format does, and the Avro reader of the next
        # upsert takes them for null or fails: a table with lists is written by one writer only.
        "hoodie.datasource.write.row.writer.enable": "false" if arrays else "true",
        # No index here asks it, and it makes every file 430 KB longer: nearly all of a small table's bytes, which every look-up of keys
        # reads with the footer. The row writer doesn't hear of it (HoodieInternalRowFileWriterFactory), and gets the shortest filter there is.
        "hoodie.parquet.bloom.filter.enabled": "false",
        "hoodie.bloom.index.filter.type": "SIMPLE",
        "hoodie.index.bloom.num_entries": "1",
        "hoodie.index.bloom.fpp": "0.5",
        # By the newest commit alone: each more is two requests.
        "_hoodie.record.size.estimator.max.commits": "1",
        "hoodie.rollback.parallelism": tasks,
        "hoodie.finalize.write.parallelism": tasks,
        "hoodie.markers.delete.parallelism": tasks,
        "hoodie.clean.parallelism": tasks,
        **_services(config),
    }
    if config.table_type == MOR:
        defaults["hoodie.parquet.small.file.limit"] = str(small_file_bytes(rows))
    if operation == REWRITE:
        # No file of the old schema is read again by a writer, so what Hudi would check of it doesn't matter.
        defaults.update(
            {
                "hoodie.avro.schema.validate": "false",
                "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
            }
        )
    found_by = _record_index_options() if record_index else {}
    keyed = _timestamp_key_options() if timestamp_key else {}
    return {
        **defaults,
        **config.hudi,
        **_identity(config),
        **keyed,
        **found_by,
        "hoodie.datasource.write.operation": operation,
    }


def _timestamp_key_options() -> dict[str, str]:
    """In a key a timestamp is its count of microseconds, from the one writer that knows it.

    The text that both writers would give has milliseconds, in the time zone of the process: two rows could have one key.
    """
    return {
        "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled": "false",
        "hoodie.datasource.write.row.writer.enable": "false",
    }


def _record_index_options() -> dict[str, str]:
    """Rows are found in any partition, and move, as with the simple index."""
    return {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.record.index.update.partition.path": "true",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.record.index.enable": "true",
    }


def client_options(config: TableConfig, *, parallelism: int, record_index: bool = False) -> dict[str, str]:
    """The options of a write client that only rolls back, compacts or cleans."""
    return write_options(config, operation=UPSERT, parallelism=parallelism, record_index=record_index)


def read_options() -> dict[str, str]:
    """The options of a snapshot read by the table's own writer."""
    return {"hoodie.metadata.enable": "false", "hoodie.datasource.query.type": "snapshot"}


def cleaning_options() -> dict[str, str]:
    """Options of a cleaning whose horizon is given: Hudi's plan by hours is the one that keeps what a moment needs."""
    return {"hoodie.clean.policy": CLEANING_POLICY}


def archival_options() -> dict[str, str]:
    """Options of an archival by number of instants alone.

    With cleaning by hours or commits Hudi's archiver raises its own limits to what that cleaning would
    need; with this policy it takes them as they are (ArchivalUtils.getMinAndMaxInstantsToKeep).
    """
    return {
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.keep.min.commits": str(MIN_COMMITS),
        "hoodie.keep.max.commits": str(MAX_COMMITS),
    }


def commit_metadata(*, batch: str, table: str, run: str, rows_before: int | None = None) -> dict[str, str]:
    """What a commit says of its origin; a later run finds the batch on the timeline by it."""
    return {
        "hoodie.datasource.write.commitmeta.key.prefix": METADATA_PREFIX,
        BATCH_KEY: batch,
        TABLE_KEY: table,
        RUN_KEY: run,
        **({} if rows_before is None else {ROWS_KEY: str(rows_before)}),
    }


def compaction_options(budget_bytes: int | None = None) -> dict[str, str]:
    """Options of a compaction that is planned whenever there are log files, of so many bytes read and written (None: all).

    The plan takes the file groups with the longest logs first, until it holds the budget; one always. It is
    planned by elapsed time, since the count of delta commits starts anew behind a plan that took only some.
    """
    at_once = {"hoodie.compact.inline.trigger.strategy": "TIME_ELAPSED", "hoodie.compact.inline.max.delta.seconds": "0"}
    if budget_bytes is None:
        return at_once
    return {
        **at_once,
        "hoodie.compaction.strategy": "org.apache.hudi.table.action.compact.strategy.LogFileSizeBasedCompactionStrategy",
        "hoodie.compaction.target.io": str(max(1, budget_bytes // MIB)),
    }


def clustering_options(config: TableConfig, budget_bytes: int, table_bytes: int) -> dict[str, str]:
    """Options of a clustering by the table's columns that reads about so many bytes: of a table that is no larger, all groups of files.

    A group must hold two small files at least, or they would never come together. Not by the row writer, which lays
    lists out in a way that the next upsert can't read.
    """
    group = max(CLUSTERED_FILE_BYTES, min(budget_bytes, 2 * 1024 * MIB))
    strategy = "hoodie.clustering.plan.strategy."
    return {
        strategy + "sort.columns": ",".join(config.services.cluster_by),
        strategy + "max.num.groups": str(MOST_GROUPS if table_bytes <= budget_bytes else max(1, budget_bytes // group)),
        strategy + "max.bytes.per.group": str(group),
        strategy + "target.file.max.bytes": str(CLUSTERED_FILE_BYTES),
        strategy + "small.file.limit": str(CLUSTERED_FILE_BYTES // 2),
        strategy + "single.group.clustering.enabled": "false",
        "hoodie.clustering.preserve.commit.metadata": "true",
        "hoodie.datasource.write.row.writer.enable": "false",
    }


def purge_options() -> dict[str, str]:
    """Options of an upsert that removes the rows which carry the mark: Hudi's own deletes know no position to compare."""
    return {"hoodie.payload.delete.field": OP, "hoodie.payload.delete.marker": PURGED_OP}


def purge_metadata(table: str, positions: Mapping[int, str]) -> dict[str, str]:
    """What a purge's commit says: the highest position removed, by generation."""
    summary = {f"{METADATA_PREFIX}purged.{generation}": position for generation, position in positions.items()}
    return {"hoodie.datasource.write.commitmeta.key.prefix": METADATA_PREFIX, TABLE_KEY: table, **summary}


def hudi_type(config: TableConfig) -> str:
    """Hudi's word for the table's type."""
    return "MERGE_ON_READ" if config.table_type == MOR else "COPY_ON_WRITE"


def _identity(config: TableConfig) -> dict[str, str]:
    """What must be the same on every write, or the table would stop being one table."""
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
        # Row writer and Avro writer must give one key for one date or timestamp.
        "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled": "true",
        "hoodie.datasource.write.payload.class": PAYLOAD,
        "hoodie.combine.before.upsert": "false",  # a batch comes with one row per key
        "hoodie.combine.before.insert": "false",
        # Listing is right without it, and it costs each commit a second table's commit. The record index lives in it.
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.write.markers.type": "DIRECT",
        "hoodie.clean.failed.writes.policy": "EAGER",  # one writer per table
        "hoodie.write.concurrency.mode": "SINGLE_WRITER",
    }


def _services(config: TableConfig) -> dict[str, str]:
    """Nothing may write after the lane is released, and Hudi's own cleaner may not choose what is deleted.

    Its cleaning by hours knows the active timeline only, and would delete all that is older.
    """
    options = {
        "hoodie.clean.automatic": "false",
        "hoodie.clean.async.enabled": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.archive.async": "false",
        "hoodie.clustering.inline": "false",
        "hoodie.clustering.async.enabled": "false",
    }
    if config.table_type == MOR:
        options.update(
            {
                "hoodie.compact.inline": "false" if served(config) else "true",
                "hoodie.compact.inline.max.delta.commits": str(DELTA_COMMITS_PER_COMPACTION),
                "hoodie.datasource.compaction.async.enable": "false",
            }
        )
    return options
