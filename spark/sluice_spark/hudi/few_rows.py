"""Upserts a few rows in the driver, without a Spark job: by Hudi's own handles on a local engine context.

Rows go through the call that Hudi's compaction makes of a table (`HoodieCompactionHandler`), and the commit through
Hudi's write client. So its markers, statistics and metadata are those of any upsert.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Callable

import fastavro
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sluice.hudi import options as hudi_options
from sluice.hudi import own_metadata
from sluice.hudi.timeline import COMMIT
from sluice_spark.errors import RowsNotWritten
from sluice_spark.hudi.facts import CommitResult, TableFacts
from sluice_spark.hudi.logs import COMMIT_TIME, FILE_NAME, PARTITION_PATH, RECORD_KEY, SEQUENCE, written_schema
from sluice_spark.hudi.own_write import own_write, refuse_others
from sluice_spark.hudi.table import HudiTable

# What only commits of small parts need of the engine's Hudi: class, method ("" for a constructor) and types of the
# parameters. Names without a package are of java.lang, those with a leading dot of org.apache.hudi.
_NEEDED: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (".client.SparkRDDWriteClient", "startCommit", ()),
    (".client.SparkRDDWriteClient", "setOperationType", (".common.model.WriteOperationType",)),
    (
        ".client.SparkRDDWriteClient",
        "commitStats",
        ("String", "java.util.List", ".common.util.Option", "String"),
    ),
    (".table.HoodieSparkTable", "create", (".config.HoodieWriteConfig", ".common.engine.HoodieEngineContext")),
    (
        ".table.HoodieCompactionHandler",
        "handleUpdate",
        ("String", "String", "String", "java.util.Map", ".common.model.HoodieBaseFile"),
    ),
    (".common.engine.HoodieLocalEngineContext", "", (".storage.StorageConfiguration",)),
    (
        ".common.table.timeline.HoodieActiveTimeline",
        "transitionRequestedToInflight",
        (".common.table.timeline.HoodieInstant", ".common.util.Option"),
    ),
    (
        ".keygen.factory.HoodieSparkKeyGeneratorFactory",
        "createKeyGenerator",
        (".common.config.TypedProperties",),
    ),
    (".avro.HoodieAvroUtils", "addMetadataFields", ("org.apache.avro.Schema",)),
    (".avro.HoodieAvroUtils", "bytesToAvro", ("[B", "org.apache.avro.Schema")),
    (".common.model.DefaultHoodieRecordPayload", "", ("org.apache.avro.generic.GenericRecord", "Comparable")),
    (".common.model.HoodieAvroRecord", "", (".common.model.HoodieKey", ".common.model.HoodieRecordPayload")),
    (".common.model.HoodieKey", "", ("String", "String")),
    (".common.model.HoodieBaseFile", "", ("String",)),
)
# By this Hudi keeps up a record index from the files of a commit, also of one without Hudi's own write statuses.
_NEEDED_BY_RECORD_INDEX = (
    (
        ".metadata.BaseFileRecordParsingUtils",
        "generateRLIMetadataHoodieRecordsForBaseFile",
        ("String", ".common.model.HoodieWriteStat", "Integer", "String", ".storage.HoodieStorage"),
    ),
)
# By these the files that Sluice writes itself are committed.
_NEEDED_BY_OWN_FILES = (
    (".common.util.JsonUtils", "getObjectMapper", ()),
    (".common.model.HoodieDeltaWriteStat", "", ()),
)


@dataclass(frozen=True)
class FileToMerge:
    """The newest base file of a file group, in the folder `partition`; its size in bytes."""

    path: str
    file_id: str
    size: int
    partition: str = ""


@dataclass(frozen=True)
class FewRows:
    """Rows to upsert into file groups.

    `values` are the rows, column -> value: dates as days, timestamps as microseconds since 1970. `ordering` are their
    positions. `files` has for each row the file that it goes into, and `stored_keys` Hudi's text of its key where that
    file holds the row, else None.
    """

    values: Sequence[Mapping[str, Any]]
    ordering: Sequence[str]
    files: Sequence[FileToMerge]
    stored_keys: Sequence[str | None]


@lru_cache(maxsize=2)
def missing_in_engine(spark: SparkSession, record_index: bool) -> tuple[str, ...]:
    """The members that this engine's Hudi lacks for commits of small parts, as `class.method`; empty for none.

    `record_index`: the table has one.
    """
    context: Any = spark.sparkContext
    gateway, reflection = context._gateway, context._jvm.py4j.reflection.ReflectionUtil
    missing = []
    needed = _NEEDED + _NEEDED_BY_OWN_FILES + (_NEEDED_BY_RECORD_INDEX if record_index else ())
    for name, method, parameters in needed:
        try:
            types = gateway.new_array(context._jvm.java.lang.Class, len(parameters))
            for place, parameter in enumerate(parameters):
                types[place] = reflection.classForName(_java_name(parameter))
            java_class = reflection.classForName(_java_name(name))
            java_class.getMethod(method, types) if method else java_class.getConstructor(types)
        except Py4JError:
            missing.append(f"{name[1:]}.{method or '<init>'}")
    return tuple(missing)


def _java_name(name: str) -> str:
    if name.startswith("."):
        return f"org.apache.hudi{name}"
    return name if "." in name or name.startswith("[") else f"java.lang.{name}"


def write_few(
    hudi: HudiTable,
    rows: FewRows,
    *,
    kinds: Mapping[str, str],
    batch: str,
    run: str,
    attempt: str,
    facts: TableFacts,
    check_held: Callable[[], None],
) -> CommitResult:
    """Commit the rows, and return the commit once it is the newest on the timeline.

    `kinds` are the table's columns and their types (Spark's names), `facts` its state just before. `check_held` raises
    LaneLost, and is called right before the commit. After another exception the commit may still be there
    (`resolve-before-write`). Raises RowsNotWritten before a commit that would lack rows, WriteUndone, CommitNotNewest.
    """
    jvm, h = hudi.jvm, hudi.jvm.classes
    schema = jvm.avro_schema(facts.meta_client)
    client = jvm.write_client(hudi.path, hudi.config.name, _options(hudi, kinds, facts), schema)
    try:
        client.setOperationType(h.common.model.WriteOperationType.UPSERT)
        records = _Records(hudi, client, schema)
        keys, partitions = zip(*(records.key(row) for row in rows.values))
        if any(stored is not None and key != stored for key, stored in zip(keys, rows.stored_keys)):
            raise _not_written(hudi, "Hudi would write another text of a row's key than the table has")
        if any(partition != file.partition for partition, file in zip(partitions, rows.files)):
            raise _not_written(hudi, "Hudi would write a row into another partition")
        instant = str(client.startCommit())
        with own_write(hudi, instant):
            table = _table(hudi, client)
            refuse_others(hudi, table.getMetaClient(), facts, instant, check_held)
            _begin(hudi, table, instant)
            stats = _write_rows(hudi, client, table, rows, instant=instant, records=records, keys=keys)
            metadata = {
                **own_metadata.commit_metadata(
                    batch=batch, table=hudi.config.table, run=run, attempt=attempt, rows_before=facts.rows
                ),
                **facts.copied_metadata,
            }
            check_held()
            _committed(hudi, client, instant, stats, metadata)
    finally:
        client.close()
    return hudi.committed(batch, facts.newest)


def _write_rows(
    hudi: HudiTable,
    client: Any,
    table: Any,
    rows: FewRows,
    *,
    instant: str,
    records: _Records,
    keys: Sequence[str],
) -> Any:
    """Write the rows' files, and return Java's list of their statistics. `keys` are Hudi's texts of the rows' keys."""
    stats = hudi.jvm.java_list()
    for number, file in enumerate({file.file_id: file for file in rows.files}.values()):
        places = [place for place, other in enumerate(rows.files) if other.file_id == file.file_id]
        new = _new_rows(rows, places)
        made = hudi.jvm.java_map()
        for count, place in enumerate(places):
            meta = _meta(instant, f"{instant}_{number}_{count}", keys[place], file.partition)
            row = {**rows.values[place], **meta}
            made.put(keys[place], records.record(row, keys[place], file.partition, rows.ordering[place]))
        before = hudi.jvm.classes.common.model.HoodieBaseFile(file.path)
        statuses = table.handleUpdate(instant, file.partition, file.file_id, made, before)
        for stat in _written(hudi, statuses):
            if (int(stat.getNumInserts()), int(stat.getNumUpdateWrites())) != (new, len(places) - new):
                raise _not_written(
                    hudi,
                    f"{len(places) - new} rows were to be updated and {new} inserted, and Hudi updated "
                    f"{stat.getNumUpdateWrites()} and inserted {stat.getNumInserts()}",
                )
            stats.add(stat)
    return stats


def _options(hudi: HudiTable, kinds: Mapping[str, str], facts: TableFacts) -> dict[str, str]:
    return hudi_options.write_options(
        hudi.config,
        operation=hudi_options.UPSERT,
        parallelism=1,
        kinds=tuple(kinds.values()),
        timestamp_key=any(kinds[name] == "timestamp" for name in hudi.config.record_key),
        rows=facts.rows,
    )


def _table(hudi: HudiTable, client: Any) -> Any:
    """The table on a local engine context, with the timeline of now."""
    return hudi.jvm.classes.table.HoodieSparkTable.create(client.getConfig(), hudi.jvm.local_context())


def _begin(hudi: HudiTable, table: Any, instant: str) -> None:
    requested = hudi.jvm.classes.common.table.timeline.HoodieInstant.State.REQUESTED
    item = table.getMetaClient().createNewInstant(requested, COMMIT, instant)
    table.getActiveTimeline().transitionRequestedToInflight(item, hudi.jvm.none())


def _committed(hudi: HudiTable, client: Any, instant: str, stats: Any, metadata: Mapping[str, str]) -> None:
    extra = hudi.jvm.java_map()
    for name, value in own_metadata.stored_metadata(metadata).items():
        extra.put(name, value)
    client.commitStats(instant, stats, hudi.jvm.classes.common.util.Option.of(extra), COMMIT)


def _new_rows(rows: FewRows, places: Sequence[int]) -> int:
    return sum(rows.stored_keys[place] is None for place in places)


def _meta(
    instant: str | None = None, sequence: str | None = None, key: str | None = None, partition: str = ""
) -> dict[str, str | None]:
    """Hudi's own columns of a row; its writer sets the file's name."""
    return {COMMIT_TIME: instant, SEQUENCE: sequence, RECORD_KEY: key, PARTITION_PATH: partition, FILE_NAME: ""}


class _Records:
    """Makes Hudi's records of rows: through Avro bytes, since each field by itself would be a call."""

    def __init__(self, hudi: HudiTable, client: Any, schema_text: str) -> None:
        jvm, h = hudi.jvm, hudi.jvm.classes
        self._h = h
        self._java = h.avro.HoodieAvroUtils.addMetadataFields(jvm.parsed_avro(schema_text))
        self._schema = written_schema(str(self._java.toString()))
        self._generator = h.keygen.factory.HoodieSparkKeyGeneratorFactory.createKeyGenerator(
            client.getConfig().getProps()
        )

    def key(self, row: Mapping[str, Any]) -> tuple[str, str]:
        """Hudi's text of a row's key, and its partition."""
        key = self._generator.getKey(self._avro({**row, **_meta()}))
        return str(key.getRecordKey()), str(key.getPartitionPath())

    def record(self, row: Mapping[str, Any], key: str, partition: str, ordering: str) -> Any:
        """A record with Hudi's own columns."""
        model = self._h.common.model
        payload = model.DefaultHoodieRecordPayload(self._avro(row), ordering)
        return model.HoodieAvroRecord(model.HoodieKey(key, partition), payload)

    def _avro(self, row: Mapping[str, Any]) -> Any:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, self._schema, dict(row))
        return self._h.avro.HoodieAvroUtils.bytesToAvro(body.getvalue(), self._java)


def _written(hudi: HudiTable, statuses: Any) -> Iterable[Any]:
    """The statistics of the files that a handle wrote. Raises RowsNotWritten for a row that failed."""
    while statuses.hasNext():
        for status in statuses.next():
            if status.hasErrors():
                failed = list(status.getErrors().values())
                raise _not_written(hudi, str(failed[0].toString())[:500] if failed else "a file failed")
            yield status.getStat()


def _not_written(hudi: HudiTable, why: str) -> RowsNotWritten:
    return RowsNotWritten(f"{hudi.config.table}: {why}", table=hudi.config.table)
