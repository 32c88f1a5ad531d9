"""Finds the rows of some keys in the log files of a merge-on-read table, by Hudi's own reader of logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.changes import hidden_columns as hidden
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.hudi.table import HudiTable

_SCANNER = ".common.table.log.HoodieMergedLogRecordScanner"
_BUILDER = f"{_SCANNER}$Builder"
_MEMORY_BYTES = 64 * 1024**2  # Hudi puts on disk what is beyond it
_BUFFER_BYTES = 1024**2
NEEDED_TO_READ = (
    (_SCANNER, "newBuilder", ()),
    (_SCANNER, "getRecords", ()),
    (_SCANNER, "close", ()),
    (_BUILDER, "withStorage", (".storage.HoodieStorage",)),
    (_BUILDER, "withBasePath", ("String",)),
    (_BUILDER, "withLogFilePaths", ("java.util.List",)),
    (_BUILDER, "withReaderSchema", ("org.apache.avro.Schema",)),
    (_BUILDER, "withLatestInstantTime", ("String",)),
    (_BUILDER, "withMaxMemorySizeInBytes", ("Long",)),
    (_BUILDER, "withSpillableMapBasePath", ("String",)),
    (_BUILDER, "withPartition", ("String",)),
    (_BUILDER, "withRecordMerger", (".common.model.HoodieRecordMerger",)),
    (_BUILDER, "withTableMetaClient", (".common.table.HoodieTableMetaClient",)),
    (".common.model.HoodieAvroRecordMerger", "", ()),
)


@dataclass(frozen=True)
class LogRow:
    """A row of the logs: its position, and what it owes."""

    position: str
    owed: str | None


def rows_in_logs(
    hudi: HudiTable, facts: TableFacts, logs: Sequence[str], *, partition: str, keys: Iterable[str]
) -> Mapping[str, LogRow | None]:
    """The newest row in the logs of one file group of each of the keys (Hudi's text) that they hold.

    None for a key that a log removes. `logs` are paths, oldest first.
    """
    jvm, h, meta = hudi.jvm, hudi.jvm.classes, facts.meta_client
    schema, paths = jvm.parsed_avro(jvm.with_meta_columns(jvm.avro_schema(meta))), jvm.java_list()
    for path in logs:
        paths.add(path)
    scanner = (
        h.common.table.log.HoodieMergedLogRecordScanner.newBuilder()
        .withStorage(meta.getStorage())
        .withBasePath(str(meta.getBasePath().toString()))
        .withLogFilePaths(paths)
        .withReaderSchema(schema)
        .withLatestInstantTime(facts.newest)
        .withMaxMemorySizeInBytes(_MEMORY_BYTES)
        .withBufferSize(_BUFFER_BYTES)
        .withSpillableMapBasePath(jvm.temporary_folder())
        .withPartition(partition)
        .withRecordMerger(h.common.model.HoodieAvroRecordMerger())
        .withTableMetaClient(meta)
        .build()
    )
    try:
        records = scanner.getRecords()
        return {key: _row(records.get(key), schema, jvm) for key in keys if records.containsKey(key)}
    finally:
        scanner.close()


def _row(record: Any, schema: Any, jvm: Any) -> LogRow | None:
    found = record.getData().getInsertValue(schema, jvm.properties({}))
    if not found.isPresent():
        return None
    row = found.get()
    owed = row.get(hidden.OWED)
    return LogRow(str(row.get(hidden.POSITION).toString()), None if owed is None else str(owed.toString()))
