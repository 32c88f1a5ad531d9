"""Hudi's own classes, through the Spark driver's JVM."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Callable, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sluice.hudi.options import DRIVER_OPTIONS
from sluice_spark.hudi.facts import BaseFile, LogFile
from sluice_spark.hudi.needed_members import before_1_1

PLANNING_THREADS = 8


class HudiJvm:
    """The operations on Hudi tables that the Spark data source doesn't have. Safe from several threads."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._jvm = cast(Any, spark._jvm)
        self._hudi: Any = self._jvm.org.apache.hudi

    @property
    def classes(self) -> Any:
        """The package org.apache.hudi."""
        return self._hudi

    def field(self, names: tuple[str, str]) -> Any:
        """The java.lang.reflect.Field of a class, which may be private; `names` are the class's and the field's."""
        java_field = self._jvm.py4j.reflection.ReflectionUtil.classForName(names[0]).getDeclaredField(names[1])
        java_field.setAccessible(True)
        return java_field

    def storage_conf(self) -> Any:
        return self._hudi.hadoop.fs.HadoopFSUtils.getStorageConf(self.spark._jsc.hadoopConfiguration())

    def properties(self, values: Mapping[str, str]) -> Any:
        """A java.util.Properties."""
        made = self._jvm.java.util.Properties()
        for name, value in values.items():
            made.setProperty(name, value)
        return made

    def exists(self, path: str) -> bool:
        """True where there is a file or folder at the path."""
        system, file = self._file(path)
        return bool(system.exists(file))

    def _file(self, path: str, below: str = "") -> tuple[Any, Any]:
        """Hadoop's file system of a path, and the path, or one `below` it."""
        file = self._jvm.org.apache.hadoop.fs.Path(path)
        file = self._jvm.org.apache.hadoop.fs.Path(file, below) if below else file
        return file.getFileSystem(self.spark._jsc.hadoopConfiguration()), file

    def file_bytes_or_none(self, path: str) -> int | None:
        """The size of a file; None where there is none."""
        system, file = self._file(path)
        status = _unless_missing(system.getFileStatus, file)
        return None if status is None else int(status.getLen())

    def names(self, path: str) -> list[str]:
        """The names of the files and folders in a folder; none where there is no such folder."""
        system, folder = self._file(path)
        if not system.exists(folder):
            return []
        return [str(status.getPath().getName()) for status in system.listStatus(folder)]

    def create_if_missing(self, path: str) -> None:
        """Write an empty file where there is none."""
        system, file = self._file(path)
        system.createNewFile(file)

    def put_again(self, path: str) -> None:
        """Write a file's bytes once more, so that it has a new date."""
        system, file = self._file(path)
        with closing(system.open(file)) as source:
            content = self._jvm.org.apache.hadoop.io.IOUtils.readFullyToByteArray(source)
        target = system.create(file, True)
        target.write(content)
        target.close()  # only this puts the object

    def delete_folder(self, path: str) -> None:
        """Delete a folder and everything in it."""
        system, folder = self._file(path)
        system.delete(folder, True)

    def files_like(self, table: str, partition: str, pattern: str) -> list[str]:
        """The paths of a partition's files whose names match a pattern of Hadoop's; none where it has no folder."""
        system, folder = self._file(table, partition)
        statuses = _unless_missing(system.listStatus, folder, self._jvm.org.apache.hadoop.fs.GlobFilter(pattern))
        return [str(status.getPath().toString()) for status in statuses or ()]

    def newest_logs(self, meta_client: Any, partitions: Sequence[str]) -> list[str]:
        """The paths of the log files that a reader of the present opens."""
        with self._file_view(meta_client) as view:
            return [
                str(log.getPath().toString())
                for partition in partitions
                for item in view.getLatestFileSlices(partition).toArray()
                for log in item.getLogFiles().toArray()
            ]

    def delete_files(self, paths: Sequence[str]) -> None:
        """Delete files; one that is gone already is left out."""
        for path in paths:
            system, file = self._file(path)
            system.delete(file, False)

    def instants_of_log(self, meta_client: Any, path: str) -> frozenset[str]:
        """The instants of a log file's rows and deletions. Empty for one with a block that can't be read."""
        log, model = self._hudi.common.table.log, self._hudi.common.model
        file = model.HoodieLogFile(self._hudi.storage.StoragePath(path))
        name, times = log.block.HoodieLogBlock.HeaderMetadataType.INSTANT_TIME, set()
        with closing(log.HoodieLogFormat.newReader(meta_client.getStorage(), file, None)) as reader:
            while reader.hasNext():
                block = reader.next()
                kind = str(block.getBlockType().toString())
                if kind == "CORRUPT_BLOCK":
                    return frozenset()
                if kind != "COMMAND_BLOCK":
                    times.add(str(block.getLogBlockHeader().get(name)))
        return frozenset(times)

    def meta_client(self, path: str) -> Any:
        """The table's metadata with its active timeline, read from storage now."""
        builder = self._hudi.common.table.HoodieTableMetaClient.builder()
        return builder.setConf(self.storage_conf()).setBasePath(path).setLoadActiveTimelineOnLoad(True).build()

    def create_table(self, path: str, values: Mapping[str, str], *, table_type: str, key_generator: str) -> None:
        """Write a new table's properties and folders."""
        self._table_builder(values, table_type, key_generator).initTable(self.storage_conf(), path)

    def replace_properties(
        self,
        meta_client: Any,
        values: Mapping[str, str],
        *,
        table_type: str,
        key_generator: str,
        properties_kept: Mapping[str, str],
    ) -> None:
        """Write a table's properties as for a new table, with those of `properties_kept`, in one put of one object."""
        made = self._table_builder(values, table_type, key_generator).build()
        for name, value in properties_kept.items():
            made.setProperty(name, value)
        self._hudi.common.table.HoodieTableConfig.create(meta_client.getStorage(), meta_client.getMetaPath(), made)

    def _table_builder(self, values: Mapping[str, str], table_type: str, key_generator: str) -> Any:
        model = self._hudi.common.model
        builder = self._hudi.common.table.HoodieTableMetaClient.newTableBuilder()
        builder = builder.fromProperties(self.properties(values))
        # Not every release takes these from the properties, or it infers them from missing ones.
        mode = self._hudi.common.config.RecordMergeMode.EVENT_TIME_ORDERING
        builder = (
            builder.setTableType(table_type)
            .setRecordMergeMode(mode)
            .setCommitTimezone(model.HoodieTimelineTimeZone.UTC)
        )
        return builder.setKeyGeneratorClassProp(key_generator)

    def update_properties(self, meta_client: Any, values: Mapping[str, str]) -> None:
        """Add properties to a table, by Hudi's own update, which survives a crash at any point."""
        config = self._hudi.common.table.HoodieTableConfig
        config.update(meta_client.getStorage(), meta_client.getMetaPath(), self.properties(values))

    def newest_table_version(self) -> int:
        """The newest table version that this Hudi reads."""
        return int(self._hudi.common.table.HoodieTableVersion.current().versionCode())

    def stored_properties(self, path: str) -> dict[str, str]:
        """The properties in a file, of a table of any version."""
        (system, file), properties = self._file(path), self.properties({})
        with closing(system.open(file)) as stream:
            properties.load(stream)
        return {str(name): str(properties.get(name)) for name in list(properties.keySet())}

    def table_properties(self, meta_client: Any) -> dict[str, str]:
        """All of the table's properties."""
        properties = meta_client.getTableConfig().propsMap()
        return {str(name): str(properties.get(name)) for name in list(properties.keySet())}

    def table_property(self, meta_client: Any, name: str) -> str | None:
        """One of the table's properties; None where it is missing."""
        value = meta_client.getTableConfig().propsMap().get(name)
        return None if value is None else str(value)

    def table_schema(self, meta_client: Any) -> StructType | None:
        """The schema of the newest commit, without Hudi's own columns; None before the first commit."""
        resolver = self._hudi.common.table.TableSchemaResolver(meta_client)
        avro = resolver.getTableAvroSchemaIfPresent(False)
        if not avro.isPresent():
            return None
        converted = self._hudi.AvroConversionUtils.convertAvroSchemaToStructType(avro.get())
        return StructType.fromJson(json.loads(converted.json()))

    def newest_files(self, meta_client: Any, most: int) -> list[str] | None:
        """The paths of an unpartitioned copy-on-write table's newest base files; None for more than `most`."""
        with self._file_view(meta_client) as view:
            files = view.getLatestBaseFiles("").toArray()
        return [str(file.getPath()) for file in files] if len(files) <= most else None

    def size_bytes(self, meta_client: Any) -> int:
        """Bytes of the table's newest base and log files."""
        with self._file_view(meta_client) as view:
            return sum(
                int(item.getTotalFileSize())
                for partition in self.partitions(meta_client)
                for item in view.getLatestFileSlices(partition).toArray()
            )

    def _file_view(self, meta_client: Any) -> closing[Any]:
        """Hudi's view of the table's files, listed from storage."""
        views = self._hudi.common.table.view.FileSystemViewManager
        return closing(
            views.createInMemoryFileSystemView(self._engine_context(), meta_client, self._no_metadata_table())
        )

    def partitions(self, meta_client: Any, context: Any = None) -> list[str]:
        """The paths of the table's partitions, below its folder; "" alone for an unpartitioned one."""
        place: tuple[Any, ...] = (meta_client, self._no_metadata_table())
        if before_1_1(self.spark):
            place = (meta_client.getStorage(), self._no_metadata_table(), meta_client.getBasePath())
        return list(self._hudi.common.fs.FSUtils.getAllPartitionPaths(context or self._engine_context(), *place))

    def local_context(self) -> Any:
        """An engine context in the driver, without Spark jobs."""
        return self._hudi.common.engine.HoodieLocalEngineContext(self.storage_conf())

    def _engine_context(self) -> Any:
        return self._hudi.client.common.HoodieSparkEngineContext(self.spark._jsc)

    def _no_metadata_table(self) -> Any:
        return self._hudi.common.config.HoodieMetadataConfig.newBuilder().enable(False).build()

    def write_client(
        self, path: str, name: str, options: Mapping[str, str], schema: str = "", *, in_driver: bool = False
    ) -> Any:
        """A Hudi client for writes, roll-backs and table services; `in_driver`: it starts no Spark jobs of its own.

        Close it after use.
        """
        java_options = self._jvm.java.util.HashMap()
        for option, value in {**options, **(DRIVER_OPTIONS if in_driver else {})}.items():
            java_options.put(option, value)
        if in_driver:
            config = self._hudi.DataSourceUtils.createHoodieConfig(schema, path, name, java_options)
            return self._hudi.client.SparkRDDWriteClient(self.local_context(), config)
        return self._hudi.DataSourceUtils.createHoodieClient(self.spark._jsc, schema, path, name, java_options)

    def avro_schema(self, meta_client: Any) -> str:
        """The table's Avro schema as JSON, without Hudi's own columns; empty before the first commit."""
        avro = self._hudi.common.table.TableSchemaResolver(meta_client).getTableAvroSchemaIfPresent(False)
        return str(avro.get().toString()) if avro.isPresent() else ""

    def avro_schema_of(self, schema: StructType, name: str) -> str:
        """The Avro schema (JSON) under which Hudi's data source writes such rows into a table of this name."""
        spark_type = self._jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
        record_name = self._hudi.AvroConversionUtils.getAvroRecordNameAndNamespace(name)
        return str(
            self._hudi.AvroConversionUtils.convertStructTypeToAvroSchema(
                spark_type, record_name._1(), record_name._2()
            ).toString()
        )

    def with_meta_columns(self, avro_schema: str) -> str:
        """An Avro schema (JSON) with Hudi's own columns in front."""
        parsed = self._jvm.org.apache.avro.Schema.Parser().parse(avro_schema)
        return str(self._hudi.avro.HoodieAvroUtils.addMetadataFields(parsed).toString())

    def begin_write(self, client: Any, meta_client: Any, operation: str, *, partitioned: bool) -> str:
        """Begin an instant that writes a table; it is inflight when this returns."""
        client.setOperationType(self._hudi.common.model.WriteOperationType.fromValue(operation))
        instant = str(client.startCommit())
        requested = self._hudi.common.table.timeline.HoodieInstant.State.REQUESTED
        begun = meta_client.createNewInstant(requested, meta_client.getCommitActionType(), instant)
        meta_client.getActiveTimeline().transitionRequestedToInflight(begun, self.none())
        if not partitioned:  # by this file Hudi's readers know the table's folder for a partition
            base, metadata = meta_client.getBasePath(), self._hudi.common.model.HoodiePartitionMetadata
            metadata(meta_client.getStorage(), instant, base, base, self.none()).trySave()
        return instant

    def commit_files(
        self,
        client: Any,
        meta_client: Any,
        instant: str,
        files: Sequence[BaseFile | LogFile],
        metadata: Mapping[str, str],
    ) -> None:
        """Complete a begun write with its files and extra metadata."""
        stats, extra = self._jvm.java.util.ArrayList(), self._jvm.java.util.HashMap()
        mapper, class_for = self._hudi.common.util.JsonUtils.getObjectMapper(), self._jvm.py4j.reflection.ReflectionUtil
        for kind, name in ((BaseFile, "HoodieWriteStat"), (LogFile, "HoodieDeltaWriteStat")):
            own = class_for.classForName(f"org.apache.hudi.common.model.{name}")
            listed = mapper.getTypeFactory().constructCollectionType(stats.getClass(), own)
            # As one JSON text, since each file, and each value of it, would be a call.
            statistics = [_statistics(file) for file in files if isinstance(file, kind)]
            stats.addAll(mapper.readValue(json.dumps(statistics), listed))
        for name, value in metadata.items():
            extra.put(name, value)
        some = self._hudi.common.util.Option.of(extra)
        client.commitStats(instant, stats, some, meta_client.getCommitActionType())

    def compaction_plan(self, meta_client: Any, instant: str) -> list[dict[str, Any]]:
        """The operations of a requested compaction, each a file group with its base file, log files and metrics."""
        plan = self._hudi.common.util.CompactionUtils.getCompactionPlan(meta_client, instant)
        return list(json.loads(plan.toString()).get("operations") or ())

    def clustering_plan(self, meta_client: Any, instant: str) -> list[dict[str, Any]]:
        """The file slices that a requested clustering replaces."""
        for pair in list(self._hudi.common.util.ClusteringUtils.getAllPendingClusteringPlans(meta_client).toArray()):
            if str(pair.getLeft().requestedTime()) == instant:
                return [
                    slice_
                    for group in json.loads(pair.getRight().toString())["inputGroups"]
                    for slice_ in group["slices"]
                ]
        return []

    def base_bytes(self, meta_client: Any, groups: Sequence[Mapping[str, Any]]) -> int:
        """Bytes of the newest base files of a plan's file groups; a partition is listed once."""
        with self._file_view(meta_client) as view:
            base_files = [view.getLatestBaseFile(group["partitionPath"], group["fileId"]) for group in groups]
            return sum(int(base.get().getFileSize()) for base in base_files if base.isPresent())

    def file_bytes(self, meta_client: Any, names: Sequence[str]) -> dict[str, int]:
        """Bytes of the newest base files with these names; unknown names are left out."""
        wanted = set(names)
        if not wanted:
            return {}
        with self._file_view(meta_client) as view:
            return {
                str(base.getFileName()): int(base.getFileSize())
                for partition in self.partitions(meta_client)
                for base in view.getLatestBaseFiles(partition).toArray()
                if str(base.getFileName()) in wanted
            }

    def none(self) -> Any:
        """Hudi's empty option."""
        return self._hudi.common.util.Option.empty()

    def save_cleaner_plan(
        self, table: Any, client: Any, instant: str, *, horizon: str, policy: str, partitioned: bool
    ) -> dict[str, int]:
        """Request a cleaning of all files that no reader as of `horizon` or later needs; returns how many by partition.

        Hudi's own CleanPlanner chooses the files, by this horizon instead of one from the active timeline. Without
        files nothing is requested: Hudi 1.0.2 fails to execute an empty plan, now and whenever it finds it pending.
        """
        generator, option = table.getInstantGenerator(), self._hudi.common.util.Option
        completed = self._jvm.org.apache.hudi.common.table.timeline.HoodieInstant.State.COMPLETED
        earliest = generator.createNewInstant(completed, "commit", horizon)
        planner = self._hudi.table.action.clean.CleanPlanner(client.getEngineContext(), table, client.getConfig())
        # Hudi finds partitions with a task per entry of the table's folder: here, all files of an unpartitioned table.
        partitions = list(planner.getPartitionPathsToClean(option.of(earliest))) if partitioned else [""]
        with ThreadPoolExecutor(PLANNING_THREADS) as pool:  # one listing each
            planned_paths = list(
                pool.map(
                    lambda partition: planner.getDeletePaths(partition, option.of(earliest)).getRight(), partitions
                )
            )
        files, counts = self._jvm.java.util.HashMap(), {}
        for partition, paths in zip(partitions, planned_paths):
            if len(paths):
                counts[str(partition)] = len(paths)
                files.put(partition, self._hudi.common.util.CleanerUtils.convertToHoodieCleanFileInfoList(paths))
        if counts:
            plan = self._hudi.avro.model.HoodieCleanerPlan(
                self._hudi.avro.model.HoodieActionInstant(
                    earliest.requestedTime(), earliest.getAction(), completed.name()
                ),
                planner.getLastCompletedCommitTimestamp(),
                policy,
                self._jvm.java.util.HashMap(),
                self._hudi.table.action.clean.CleanPlanner.LATEST_CLEAN_PLAN_VERSION,
                files,
                self._jvm.java.util.ArrayList(),
                self._jvm.java.util.HashMap(),
            )
            timeline = table.getMetaClient().getActiveTimeline()
            timeline.saveToCleanRequested(generator.getCleanRequestedInstant(instant), option.of(plan))
        return counts

    def carry_out_cleaning(self, client: Any, instant: str) -> None:
        """Execute a requested cleaning. A plan of Hudi's own, which would ignore the archived commits, is not made."""
        if before_1_1(self.spark):
            client.clean(instant, False, False)
        else:
            client.clean(False)

    def carry_out_compaction(self, client: Any, instant: str, before_commit: Callable[[], None] = lambda: None) -> Any:
        """Execute a requested compaction; its commit metadata. What `before_commit` raises leaves it uncommitted."""
        outcome = client.compact(instant)
        if before_1_1(self.spark):
            compacted = outcome.getCommitMetadata().get()
        else:
            compacted = outcome
            outcome.getWriteStatuses().count()  # it compacts only when its results are asked for, and keeps them
        before_commit()
        client.commitCompaction(instant, compacted, self.none())
        return outcome.getCommitMetadata().get()

    def undo_compaction(self, client: Any, instant: Any) -> None:
        """Make an inflight compaction (HoodieInstant) a requested one again."""
        more = () if before_1_1(self.spark) else (client.getTransactionManager(),)
        self.hudi_table(client).rollbackInflightCompaction(instant, *more)

    def cleaner_plan_bytes(self, meta_client: Any, instant: str) -> int:
        """Bytes of the files that a requested cleaning is about to delete; a folder is listed once."""
        timeline = meta_client.getActiveTimeline()
        pending = [
            planned
            for planned in instants(timeline.getCleanerTimeline().filterInflightsAndRequested())
            if str(planned.requestedTime()) == instant
        ]
        plan = json.loads(self._hudi.common.util.CleanerUtils.getCleanerPlan(meta_client, pending[0]).toString())
        paths = {info["filePath"] for infos in plan["filePathsToBeDeletedPerPartition"].values() for info in infos}
        names, total = {path.rpartition("/")[2] for path in paths}, 0
        for folder in sorted({path.rpartition("/")[0] for path in paths}):
            system, parent = self._file(folder)
            for status in system.listStatus(parent):
                if str(status.getPath().toString()).rpartition("/")[2] in names:
                    total += int(status.getLen())
        return total

    def hudi_table(self, client: Any) -> Any:
        """The table behind a write client."""
        return self._hudi.table.HoodieSparkTable.create(client.getConfig(), client.getEngineContext())


def _unless_missing(call: Callable[..., Any], *given: Any) -> Any:
    """What a call of Hadoop's file system answers; None where there is no such file or folder."""
    try:
        return call(*given)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() == "java.io.FileNotFoundException":
            return None
        raise


def instants(timeline: Any) -> list[Any]:
    """A timeline's instants as Java objects. Filter in the JVM first: each attribute is a round trip."""
    return list(timeline.getInstants())


# HoodieInstant.toString: requested time, completion time where there is one, action and state.
_INSTANT = re.compile(r"\[(?:==>)?(\d+)(?:__(\d+))?__([a-z]+)__([A-Z]+)\]")


def completion_times(timeline: Any) -> dict[str, str]:
    """When each instant of a timeline was completed, "" for a pending one, by the name of its file; in one round trip.

    Tables of version 6 record no such time: it is the date of the completed instant's file.
    """
    return {
        f"{time}.{action}" if state == "COMPLETED" else f"{time}.{action}.{state.lower()}": completed
        for time, completed, action, state in _INSTANT.findall(str(timeline.getInstants().toString()))
    }


def _statistics(file: BaseFile | LogFile) -> dict[str, Any]:
    """What Hudi records of a file that a commit wrote, as in the commit's JSON."""
    common = {
        "fileId": file.file_id,
        "path": file.path,
        "partitionPath": file.partition,
        "numUpdateWrites": file.updated,
        "numDeletes": file.removed,
        "totalWriteBytes": file.bytes,
        "fileSizeInBytes": file.bytes,
    }
    if isinstance(file, LogFile):
        return {
            **common,
            "prevCommit": file.base.rpartition("_")[2].partition(".")[0],
            "numWrites": file.updated,
            "logVersion": file.version,
            "logOffset": 0,
            "baseFile": file.base,
            "logFiles": [*file.before, file.name],
            "runtimeStats": {"totalUpsertTime": file.ms},
        }
    counts = {**common, "numWrites": file.rows, "numInserts": file.inserted}
    if file.before is None:
        return {**counts, "prevCommit": "null", "runtimeStats": {"totalCreateTime": file.ms}}
    return {
        **counts,
        "prevCommit": file.before.rpartition("_")[2].partition(".")[0],
        "prevBaseFile": file.before,
        "runtimeStats": {"totalUpsertTime": file.ms},
    }


def written_files(metadata: Any) -> list[dict[str, Any]]:
    """The statistics of each file that a commit wrote, from Hudi's commit metadata."""
    content = json.loads(metadata.toJsonString())
    return [stat for stats in content["partitionToWriteStats"].values() for stat in stats]
