"""Which Hudi options a table's `hudi:` may set: every option of the pinned Hudi is allowed, decided or refused.

The groups cover every option in the configuration classes of Hudi 1.0.2's Spark bundle. Another release may have more:
an option that no group has is passed on, with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sluice.names import did_you_mean

PREFIX = "hoodie."

# Options that may not be set, by their owner or the reason. Each is whole or its leading dotted parts: "hoodie.clean"
# covers "hoodie.clean.async" but not "hoodie.cleanup". The longest one that covers an option counts.
DECIDED: Mapping[str, str] = {
    "`record_key`": "hoodie.datasource.write.recordkey hoodie.table.recordkey hoodie.merge.allow.duplicate",
    "`partition_by`": (
        "hoodie.datasource.write.partitionpath hoodie.datasource.write.hive_style_partitioning hoodie.table.partition "
        "hoodie.datasource.write.drop.partition.columns hoodie.skip.default.partition"
    ),
    "the form of record keys, which never changes": (
        "hoodie.datasource.write.keygenerator hoodie.table.keygenerator hoodie.keygen hoodie.fileid"
    ),
    "the order of changes": (
        "hoodie.datasource.write.precombine hoodie.table.precombine hoodie.table.ordering hoodie.compaction.payload "
        "hoodie.datasource.write.ordering hoodie.datasource.write.payload hoodie.payload hoodie.record.merge "
        "hoodie.write.record.merge hoodie.compaction.record.merger hoodie.datasource.write.record.merger "
        "hoodie.combine.before hoodie.datasource.write.insert.drop.duplicates hoodie.datasource.insert.dup.policy"
    ),
    "`table` and `table_type`": (
        "hoodie.table.name hoodie.table.type hoodie.datasource.write.table hoodie.datasource.write.storage.type "
        "hoodie.database.name hoodie.base.path"
    ),
    "what a batch holds, in one write per table": (
        "hoodie.datasource.write.operation hoodie.datasource.write.partitions.to.delete hoodie.bulkinsert.overwrite "
        "hoodie.datasource.overwrite hoodie.static.overwrite hoodie.delete.shuffle"
    ),
    "the readers that tables are written for": (
        "hoodie.write.table.version hoodie.table.version hoodie.write.auto.upgrade hoodie.base.file.format "
        "hoodie.table.base.file.format hoodie.table.ro.file.format hoodie.partition.metafile "
        "hoodie.logfile.data.block.format hoodie.write.record.positions hoodie.merge.use.record.positions"
    ),
    "the timeline, whose instants are in UTC": (
        "hoodie.timeline hoodie.table.timeline hoodie.time.generator hoodie.archivelog"
    ),
    "the hidden columns": "hoodie.populate.meta hoodie.allow.operation.metadata",
    "the batch id in commits": "hoodie.datasource.write.commitmeta hoodie.allow.empty.commit",
    "`index`: the metadata table is there for the record index alone, since it adds a second commit to each": (
        "hoodie.metadata"
    ),
    "`index`: rows are found in every partition, and files have no bloom filters": (
        "hoodie.index hoodie.simple.index.update hoodie.record.index.update hoodie.bloom hoodie.parquet.bloom "
        "hoodie.bucket hoodie.hbase hoodie.expression.index hoodie.datasource.write.secondarykey"
    ),
    "the lane, which is the lock: a table has one writer": (
        "hoodie.write.concurrency hoodie.write.lock hoodie.auto.adjust.lock hoodie.client.heartbeat "
        "hoodie.write.num.retries.on.conflict"
    ),
    "the run, which writes without a timeline server and recovers by itself": (
        "hoodie.embed.timeline hoodie.markers.timeline_server_based hoodie.instant_state hoodie.write.markers "
        "hoodie.filesystem.view.remote hoodie.filesystem.view.secondary hoodie.filesystem.view.rocksdb "
        "hoodie.filesystem.view.incr hoodie.filesystem.remote hoodie.auto.commit hoodie.rollback "
        "hoodie.release.resource hoodie.sensitive"
    ),
    "`time_travel`": (
        "hoodie.clean hoodie.cleaner hoodie.keep hoodie.archive hoodie.commits.archival hoodie.fail.on.timeline"
    ),
    "`services`": (
        "hoodie.compact hoodie.compaction hoodie.log.compaction hoodie.clustering hoodie.layout hoodie.storage.layout "
        "hoodie.datasource.compaction hoodie.datasource.clustering hoodie.table.services hoodie.fail.writes.on.inline "
        "hoodie.optimized.log.blocks"
    ),
    "`delete_mode`: rows go when the source deletes them": "hoodie.partition.ttl",
    "the source's schema and a stored form that all readers know": (
        "hoodie.avro hoodie.write.schema hoodie.schema hoodie.internal.schema hoodie.datasource.write.reconcile "
        "hoodie.write.set.null.for.missing hoodie.write.partial.update hoodie.bulkinsert.schema "
        "hoodie.datasource.write.schema hoodie.datasource.write.row.writer hoodie.parquet.outputtimestamptype "
        "hoodie.parquet.writelegacyformat"
    ),
    "`catalog`, which follows each commit: Hudi's own sync throws after it": (
        "hoodie.datasource.hive_sync hoodie.datasource.meta.sync hoodie.datasource.meta_sync hoodie.meta.sync "
        "hoodie.meta_sync"
    ),
    "quarantine": "hoodie.errortable hoodie.precommit.validators",
}
REFUSED: Mapping[str, str] = {
    "Sluice's tables keep no change log of Hudi's; `sluice diff` and `sluice row` show changes": "hoodie.table.cdc",
    "a table's properties are set when it is created": "hoodie.table",
    "Sluice creates its tables itself": "hoodie.bootstrap",
    "it is an option of readers and streaming queries, and has no effect here": (
        "hoodie.datasource.read hoodie.datasource.query hoodie.datasource.view hoodie.datasource.merge "
        "hoodie.datasource.streaming hoodie.datasource.write.streaming hoodie.enable.data.skipping hoodie.file.index "
        "hoodie.file.group.reader hoodie.cdc hoodie.read"
    ),
    "it is an option of SQL statements, which Sluice doesn't write with": "hoodie.sql hoodie.spark.sql",
    "it is an option of Hudi Streamer; see `sluice config import`": "hoodie.streamer hoodie.deltastreamer",
    "S3 is consistent": "hoodie.consistency hoodie.optimistic.consistency",
    "tables are Parquet files": "hoodie.orc",
    "no such server runs": "hoodie.metaserver hoodie.table.service.manager",
    "Sluice has metrics and events of its own, and a reporter's threads, ports and calls would hold up a run": (
        "hoodie.metrics hoodie.metricscompaction hoodie.write.commit.callback"
    ),
    "classes other than Hudi's defaults are not tested": (
        "hoodie.client.init hoodie.storage.class hoodie.io.factory hoodie.fs hoodie.writestatus "
        "hoodie.record.size.estimator.class hoodie.avro.write.support hoodie.bulkinsert.user.defined.partitioner "
        "hoodie.parquet.spark.row.write.support"
    ),
}
# What is said of them: the second half of a sentence that begins with an option.
REASONS: Mapping[str, str] = {
    **{f"is decided by {owner}": names for owner, names in DECIDED.items()},
    **{f"is refused: {why}": names for why, names in REFUSED.items()},
}

# Sizes, memory and parallelism, in full: their leading part, and what may follow it.
ALLOWED: Mapping[str, str] = {
    "hoodie.parquet": (
        "block.size compression.codec compression.ratio dictionary.enabled field_id.write.enabled max.file.size "
        "page.size small.file.limit"
    ),
    "hoodie.logfile": "data.block.max.size max.size to.parquet.compression.ratio",
    "hoodie.hfile": "block.size compression.algorithm max.file.size",
    "hoodie.copyonwrite": "insert.auto.split insert.split.size record.size.estimate",
    "hoodie.record.size": "estimation.threshold estimator.average.metadata.size",
    "hoodie.merge": "data.validation.enabled small.file.group.candidates.limit",
    "hoodie.upsert": "shuffle.parallelism",
    "hoodie.insert": "shuffle.parallelism",
    "hoodie.bulkinsert": "shuffle.parallelism sort.mode sort.suffix.record_key",
    "hoodie.simple.index": "input.storage.level parallelism use.caching",
    "hoodie.record.index": "input.storage.level use.caching",
    "hoodie.global": "index.reconcile.parallelism simple.index.parallelism",
    "hoodie.metadata": "max.init.parallelism max.reader.buffer.size max.reader.memory spillable.map.path",
    "hoodie.metadata.record.index": "growth.factor max.filegroup.count max.filegroup.size min.filegroup.count",
    "hoodie.memory": (
        "compaction.fraction compaction.max.size dfs.buffer.max.size merge.fraction merge.max.size spillable.map.path "
        "writestatus.failure.fraction"
    ),
    "hoodie.common": "diskmap.compression.enabled spillable.diskmap.type",
    "hoodie.write": (
        "buffer.limit.bytes buffer.record.cache.limit buffer.record.sampling.rate "
        "executor.disruptor.buffer.limit.bytes executor.disruptor.wait.strategy executor.type status.storage.level "
        "tagged.record.storage.level"
    ),
    "hoodie.filesystem.operation.retry": "enable exceptions initial_interval_ms max_interval_ms max_numbers",
    "hoodie.filesystem.view": (
        "spillable.bootstrap.base.file.mem.fraction spillable.clustering.mem.fraction "
        "spillable.compaction.mem.fraction spillable.dir spillable.log.compaction.mem.fraction spillable.mem "
        "spillable.replaced.mem.fraction type"
    ),
    "hoodie.file.listing": "parallelism",
    "hoodie.fail.job": "on.duplicate.data.file.detection",
    "hoodie.rollback": "parallelism",
    "hoodie.finalize.write": "parallelism",
    "hoodie.markers.delete": "parallelism",
    "hoodie.clean": "parallelism",
    "hoodie.cleaner": "parallelism",
    "hoodie.archive.delete": "parallelism",
}
_ALLOWED = frozenset(f"{start}.{end}" for start, ends in ALLOWED.items() for end in ends.split())
_REASON_OF = {name: reason for reason, names in REASONS.items() for name in names.split()}
# Of those that are allowed, those that decide what a table's files are like.
_OF_FILES = tuple(f"hoodie.{part}." for part in "parquet logfile copyonwrite record.size merge bulkinsert.sort".split())
_NUMBER = re.compile(r"(?:[0-9]+\.?|[0-9]*\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_WHOLE = re.compile("-?[0-9]{1,18}")
# What Hudi reads the value of an option with this end as. It reads all others as text.
_KINDS = (
    (re.compile(r"(?:enabled?|caching|detection|split|record_key)$"), re.compile("true|false", re.I), "true or false"),
    (re.compile(r"(?:fraction|ratio|factor|threshold)$"), _NUMBER, "a number"),
    (
        re.compile(r"(?:size|limit|parallelism|count|rate|estimate|bytes|numbers|mem|memory|_ms)$"),
        _WHOLE,
        "a whole number",
    ),
)
_STORAGE_LEVELS = (
    "NONE DISK_ONLY DISK_ONLY_2 DISK_ONLY_3 MEMORY_ONLY MEMORY_ONLY_2 MEMORY_ONLY_SER MEMORY_ONLY_SER_2 "
    "MEMORY_AND_DISK MEMORY_AND_DISK_2 MEMORY_AND_DISK_SER MEMORY_AND_DISK_SER_2 OFF_HEAP"
)
# The values of options that take one of a few, by the enumerations of Hudi 1.0.2, Parquet 1.13 and Spark 3.5. Left out
# are Parquet's lzo and brotli, whose classes Spark lacks, and views of the timeline server, which doesn't run.
CHOICES: Mapping[str, str] = {
    "hoodie.parquet.compression.codec": "uncompressed snappy gzip lz4 lz4_raw zstd",
    "hoodie.hfile.compression.algorithm": "none gz lzo snappy lz4 bzip2 zstd",
    "hoodie.bulkinsert.sort.mode": (
        "none global_sort partition_sort partition_path_repartition partition_path_repartition_and_sort"
    ),
    "hoodie.common.spillable.diskmap.type": "bitcask rocks_db",
    "hoodie.write.executor.type": "simple bounded_in_memory disruptor",
    "hoodie.write.executor.disruptor.wait.strategy": "BLOCKING_WAIT SLEEPING_WAIT YIELDING_WAIT BUSY_SPIN_WAIT",
    "hoodie.filesystem.view.type": "MEMORY SPILLABLE_DISK EMBEDDED_KV_STORE",
    "hoodie.simple.index.input.storage.level": _STORAGE_LEVELS,
    "hoodie.record.index.input.storage.level": _STORAGE_LEVELS,
    "hoodie.write.status.storage.level": _STORAGE_LEVELS,
    "hoodie.write.tagged.record.storage.level": _STORAGE_LEVELS,
}


def refusal(option: str) -> str | None:
    """Return why `option` may not be set, or None if it may."""
    if not option.startswith(PREFIX) or option == PREFIX:
        return f"is not a Hudi option; those begin with {PREFIX}"
    if option in _ALLOWED:
        return None
    reason = _reason(option)
    if reason is None and "async" in option.split("."):
        return "is decided by `services`: nothing may write after a lane is released"
    return reason


def unfit_value(option: str, text: str) -> str | None:
    """Return what the value of an allowed option has to be, where a text is none: a run would fail on it."""
    if option not in _ALLOWED:
        return None
    words = CHOICES.get(option, "").split()
    if words:  # Hudi and Spark take those in capitals as they are, and the others in any case
        fits = text in words or text.lower() in words
        return None if fits else f"one of {', '.join(words)}"
    value, kind = next(((value, kind) for end, value, kind in _KINDS if end.search(option)), (None, ""))
    return kind if value is not None and value.fullmatch(text) is None else None


def unknown(option: str) -> str | None:
    """Return a warning about an option that is neither allowed by name nor refused, else None."""
    if option in _ALLOWED or refusal(option) is not None:
        return None
    meant = did_you_mean(option, _ALLOWED, likeness=0.8)
    return f"{option} is not an option that Sluice knows, and may have no effect{meant}"


def are_of_files(options: Iterable[str]) -> bool:
    """Return whether one of the options may decide what files are like. The others are for the engine that writes."""
    return any(option not in _ALLOWED or option.startswith(_OF_FILES) for option in options)


def _reason(option: str) -> str | None:
    """Return the reason of the longest name that covers an option."""
    while option and option not in _REASON_OF:
        option = option.rpartition(".")[0]
    return _REASON_OF.get(option)
