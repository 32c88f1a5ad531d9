"""The log files of a merge-on-read table, by Hudi's own reader and writer: rows of some keys, and rows to append."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError

from sluice.changes import hidden_columns as hidden
from sluice_spark.errors import RowsNotWritten
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
_HANDLE = ".io.HoodieAppendHandle"
NEEDED_TO_APPEND = (
    (
        _HANDLE,
        "",
        (
            ".config.HoodieWriteConfig",
            "String",
            ".table.HoodieTable",
            "String",
            "String",
            "java.util.Iterator",
            ".common.engine.TaskContextSupplier",
        ),
    ),
    (
        _HANDLE,
        "write",
        (".common.model.HoodieRecord", "org.apache.avro.Schema", ".common.config.TypedProperties"),
    ),
    (_HANDLE, "doAppend", ()),
    (_HANDLE, "close", ()),
    (".common.model.HoodieRecord", "setCurrentLocation", (".common.model.HoodieRecordLocation",)),
    (".common.model.HoodieRecordLocation", "", ("String", "String")),
)
# Private fields: the token of a slice's first log, the writer of a log, and the token of a log behind others.
_TOKEN = ("org.apache.hudi.io.HoodieWriteHandle", "writeToken")
_WRITER = ("org.apache.hudi.io.HoodieAppendHandle", "writer")
_NEXT_TOKEN = ("org.apache.hudi.common.table.log.HoodieLogFormatWriter", "rolloverLogWriteToken")
FIELDS_TO_NAME_A_LOG = (_TOKEN, _WRITER, _NEXT_TOKEN)


@dataclass(frozen=True)
class LogRow:
    """A row of the logs: its position, what it owes, and the Kafka partition and source time of its change."""

    position: str
    owed: str | None
    partition: int | None
    source_ts_ms: int | None


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
    return LogRow(
        str(row.get(hidden.POSITION).toString()),
        None if owed is None else str(owed.toString()),
        row.get(hidden.PARTITION),
        row.get(hidden.SOURCE_TS_MS),
    )


def append_to_log(
    hudi: HudiTable, client: Any, table: Any, instant: str, *, partition: str, file_id: str, records: Sequence[Any]
) -> Any:
    """Write Hudi's records into one log file, behind the file group's others; returns Java's iterator of statuses.

    The log has a name of its own. Hudi's local context gives every writer one token, a log takes the token of the one
    before, and its name has no instant but its base file's: a late put of a driver that is dead by now would replace
    what another one committed. Raises RowsNotWritten.
    """
    others, statuses = hudi.jvm.java_list(), hudi.jvm.java_list()
    for record in records[1:]:
        others.add(record)
    config = client.getConfig()
    handle = hudi.jvm.classes.io.HoodieAppendHandle(
        config, instant, table, partition, file_id, others.iterator(), table.getTaskContextSupplier()
    )
    token = f"0-{secrets.randbelow(2**31)}-{secrets.randbelow(2**31)}"  # three numbers are a token's form
    hudi.jvm.field(_TOKEN).set(handle, token)
    handle.write(records[0], hudi.jvm.parsed_avro(config.getSchema()), config.getProps())  # makes the writer
    writer = hudi.jvm.field(_WRITER).get(handle)
    if writer is None:
        raise RowsNotWritten(f"{hudi.config.table}: Hudi opened no log", table=hudi.config.table)
    try:
        hudi.jvm.field(_NEXT_TOKEN).set(writer, token)
        handle.doAppend()
        statuses.add(handle.close())
    except Py4JError:
        writer.close()  # else Java's end puts what is written so far, behind the roll-back
        raise
    return statuses.iterator()
