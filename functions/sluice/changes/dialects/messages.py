"""Changes whose row and operation are declared by paths.

They are messages of AWS DMS and Qlik, records of PeerDB and Estuary, and changes of MySQL as Maxwell's daemon writes
them in JSON, and Canal in flat messages; TiCDC writes those of TiDB in Canal's form (canal-json).
https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.Kinesis.html
https://help.qlik.com/en-US/replicate/Content/Global_Common/Content/SharedReplicateHDD/Kafka/Kafka_message_format.htm
https://docs.peerdb.io
https://docs.estuary.dev/concepts/collections/
https://maxwells-daemon.io/dataformat/
https://github.com/alibaba/canal/wiki/Canal-Kafka-RocketMQ-QuickStart
https://docs.pingcap.com/tidb/stable/ticdc-canal-json, https://docs.pingcap.com/tidb/stable/ticdc-simple-protocol
https://sequinstream.com/docs/reference/messages
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from string import hexdigits
from typing import Any

from sluice.changes.dialects.nested import BY_WORDS, ChangePaths, Reading, Record, at, nanos, placed, whole
from sluice.changes.hidden_columns import CREATE, DELETE, MESSAGE, SNAPSHOT_READ, TRUNCATE, UPDATE
from sluice.errors import UnusableSchema

_DMS_STATEMENTS = "create-table drop-table rename-table add-column drop-column rename-column".split()


def _of_dms(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """With `IncludeTransactionDetails` the commit's time, whole seconds in some sources; then offsets order."""
    written = nanos(at(record, "metadata.timestamp"))
    source = {} if written is None else {"ts_ms": written // 10**6}
    return {**source, **placed(nanos(at(record, "metadata.commit-timestamp")))}


@dataclass(frozen=True)
class DmsMessages(ChangePaths):
    """The dialect of AWS DMS: beside `data` and `metadata`, the row before an update under a name of the task's own."""

    def _is_change(self, part: Record) -> bool:
        return at(part, "metadata.record-type") in ("data", "control") and super()._is_change(part)

    def _of_part(self, part: Record, reading: Reading) -> list[dict[str, Any]]:
        images = [value for name, value in part.items() if name not in ("data", "metadata") and isinstance(value, dict)]
        return super()._of_part({**part, self.before: images[0] if len(images) == 1 else None}, reading)


DMS_MESSAGES = DmsMessages(
    "dms",
    fields=frozenset(("metadata",)),
    operation="metadata.operation",
    operations={
        "load": SNAPSHOT_READ,
        **BY_WORDS,
        "truncate-table": TRUNCATE,
        **dict.fromkeys((*_DMS_STATEMENTS, "change-columns", "column-type-change"), MESSAGE),
    },
    row="data",
    before="before-image",
    source={"schema": "metadata.schema-name", "table": "metadata.table-name"},
    place=_of_dms,
)


def _of_qlik(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    return placed(whole(at(record, "message.headers.changeSequence")))


@dataclass(frozen=True)
class QlikMessages(ChangePaths):
    """The dialect of Qlik Replicate, also for its messages of tables' structures, which concern no rows."""

    def _op(self, part: Record) -> str | None:
        return MESSAGE if at(part, "message.tableStructure") is not None else super()._op(part)

    def _of_part(self, part: Record, reading: Reading) -> list[dict[str, Any]]:
        row, mask = at(part, self.row), str(at(part, "message.headers.columnMask") or "")
        present = sum(bin(int(digit, 16)).count("1") for digit in mask if digit in hexdigits)
        if self._op(part) == UPDATE and isinstance(row, dict) and 0 < present < len(row):
            raise UnusableSchema(
                f"An update of Qlik Replicate has {present} of the {len(row)} columns, by its columnMask: nulls stand "
                "for the others",
                next_step="Let the source log all columns: full supplemental logging, or REPLICA IDENTITY FULL",
                column="columnMask",
            )
        return super()._of_part(part, reading)


QLIK_MESSAGES = QlikMessages(
    "qlik",
    fields=frozenset(("message",)),
    operation="message.headers.operation",
    operations={**BY_WORDS, "refresh": SNAPSHOT_READ},
    row="message.data",
    before="message.beforeData",
    place=_of_qlik,
)


def _of_peerdb(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    time = whole(record.get("_peerdb_timestamp"))
    return {} if time is None else {"ts_ms": time // 10**6, **placed(time)}


def _changed(row: Any, record: Mapping[str, Any], reading: Reading) -> Any:
    """The row without the large values that an update left alone."""
    unchanged = str(record.get("_peerdb_unchanged_toast_columns") or "").split(",")
    return {name: value for name, value in row.items() if name not in unchanged} if isinstance(row, dict) else row


PEERDB = ChangePaths(
    "peerdb",
    fields=frozenset(("_peerdb_data", "_peerdb_record_type")),
    operation="_peerdb_record_type",
    operations={"0": CREATE, "1": UPDATE, "2": DELETE},
    row="_peerdb_data",
    before="_peerdb_match_data",
    source={"table": "_peerdb_destination_table_name"},
    place=_of_peerdb,
    decoded=_changed,
    partial=True,
    texts=True,
)


def _of_sequin(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """The transaction's place in the log, and that of the change in it. A backfill's rows, without one, come before."""
    number, step = (whole(at(record, f"metadata.commit_{name}")) for name in ("lsn", "idx"))
    return placed(0, 0) if number is None and record.get("action") == "read" else placed(number, step)


def _sent_by_sequin(row: Any, record: Mapping[str, Any], reading: Reading) -> Any:
    """The row without the large values that an update left alone, which a text stands for."""
    return {name: value for name, value in row.items() if value != "unchanged_toast"} if isinstance(row, dict) else row


@dataclass(frozen=True)
class SequinMessages(ChangePaths):
    """The dialect. Its metadata names the table, which tells it from others' events."""

    def _is_change(self, part: Record) -> bool:
        return isinstance(at(part, "metadata.table_name"), str) and super()._is_change(part)


SEQUIN = SequinMessages(
    "sequin",
    fields=frozenset(("record", "action", "metadata")),
    operation="action",
    operations={**BY_WORDS, "read": SNAPSHOT_READ},
    row="record",
    old="changes",
    source={"schema": "metadata.table_schema", "table": "metadata.table_name"},
    place=_of_sequin,
    decoded=_sent_by_sequin,
    partial=True,
)


@dataclass(frozen=True)
class EstuaryDocuments(ChangePaths):
    """The dialect of Estuary's documents, which hold their operation and the place of it beside their fields."""

    def _parts(self, record: Record) -> list[Record] | None:
        if not isinstance(at(record, "_meta.uuid"), str):
            return None
        document = {name: value for name, value in record.items() if name != "_meta"}
        return [{self.row: document, "_meta": record["_meta"]}]

    def _of_part(self, part: Record, reading: Reading) -> list[dict[str, Any]]:
        """Only PostgreSQL's documents, with their place in its log, leave columns out: unchanged large values."""
        of_postgres = isinstance(at(part, "_meta.source.loc"), list)
        return ChangePaths._of_part(self if of_postgres else replace(self, partial=False), part, reading)


_TIMED_UUID = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-1([0-9a-f]{3})-([0-9a-f]{4})-[0-9a-f]{12}", re.IGNORECASE)


def _of_estuary(record: Record, reading: Reading) -> dict[str, Any]:
    """The time at which the document was captured, and the count of those at once, of its UUID (version 1)."""
    parts = _TIMED_UUID.fullmatch(at(record, "_meta.uuid"))
    if parts is None:
        return {}
    low, mid, high, sequence = parts.groups()
    return placed(int(high + mid + low, 16), int(sequence, 16) >> 10 & 15)


ESTUARY = EstuaryDocuments(
    "estuary",
    fields=frozenset(("_meta",)),
    operation="_meta.op",
    operations={"c": CREATE, "u": UPDATE, "d": DELETE},
    row="document",
    before="_meta.before",
    place=_of_estuary,
    partial=True,
)


_CANAL_DDL = "create alter erase rename query cindex dindex gtid xacommit xarollback mheartbeat tidb_watermark".split()
_KEY_ALONE = "A message of TiCDC holds the key alone, since it was larger than Kafka takes"
_WHOLE_MESSAGES = "Raise max-message-bytes of the changefeed, or let it write to the storage itself"
_WHOLE_TYPES = frozenset("tinyint smallint mediumint int integer bigint year".split())


def _of_canal(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """TiDB's commit timestamp, where TiCDC has `enable-tidb-extension`; Canal's messages name no place in the log."""
    if at(record, "_tidb.onlyHandleKey") or at(record, "_tidb.claimCheckLocation"):
        raise UnusableSchema(_KEY_ALONE, next_step=_WHOLE_MESSAGES)
    return placed(whole(at(record, "_tidb.commitTs") or at(record, "_tidb.watermarkTs")))


def _typed(row: Any, record: Mapping[str, Any], reading: Reading) -> Any:
    """The row with numbers for whole numbers, by MySQL's types. Other values stay text, as the message has all."""
    types = record.get("mysqlType")
    if not isinstance(types, Mapping) or not isinstance(row, Mapping):
        return row
    return {name: _typed_value(value, str(types.get(name, ""))) for name, value in row.items()}


def _typed_value(value: Any, kind: str) -> Any:
    words = kind.lower().replace("(", " ").split()
    is_whole = isinstance(value, str) and words and words[0] in _WHOLE_TYPES
    return int(value) if is_whole and value.lstrip("-").isdecimal() and len(value) <= 20 else value


CANAL = ChangePaths(
    "canal",
    fields=frozenset(("database", "table", "type", "isDdl", "data")),
    operation="type",
    operations={**BY_WORDS, "truncate": TRUNCATE, **dict.fromkeys(_CANAL_DDL, MESSAGE)},
    row="data",
    old="old",
    source={"db": "database", "table": "table", "ts_ms": "es"},
    place=_of_canal,
    decoded=_typed,
    several=True,
    partial=True,  # with binlog_row_image=MINIMAL or NOBLOB
)


def _of_ticdc_simple(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """TiDB's commit timestamp, and the table of a statement, which its structure names."""
    if record.get("handleKeyOnly") or record.get("claimCheckLocation"):
        raise UnusableSchema(_KEY_ALONE, next_step=_WHOLE_MESSAGES)
    named = {"db": at(record, "tableSchema.schema"), "table": at(record, "tableSchema.table")}
    return {**{word: name for word, name in named.items() if name}, **placed(whole(record.get("commitTs")))}


TICDC_SIMPLE = ChangePaths(
    "ticdc_simple",
    fields=frozenset(("version", "type", "commitTs", "buildTs")),
    operation="type",
    operations={**BY_WORDS, "truncate": TRUNCATE, **dict.fromkeys((*_CANAL_DDL, "watermark", "bootstrap"), MESSAGE)},
    row="data",
    before="old",
    source={"db": "database", "table": "table"},
    place=_of_ticdc_simple,
    order=("commitTs",),
)


_MAXWELL_STATEMENTS = (
    *("bootstrap-start", "bootstrap-complete", "table-create", "table-alter", "table-drop"),
    *("database-create", "database-alter", "database-drop"),
)


def _of_maxwell(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """The binlog's place, with `output_binlog_position`: the changes of one statement share it, in order."""
    file, _, pos = str(record.get("position") or "").rpartition(":")
    source = {"ts_ms": record["ts"] * 1000} if type(record.get("ts")) is int else {}
    return {**source, "file": file, "pos": int(pos), "row": 0} if file and pos.isdecimal() else source


@dataclass(frozen=True)
class MaxwellChanges(ChangePaths):
    """The dialect. Rows of Maxwell's own table of bootstraps, which every stream has, are messages."""

    def _op(self, part: Record) -> str | None:
        own = part.get("table") == "bootstrap" and at(part, "data.inserted_rows") is not None
        return MESSAGE if own else super()._op(part)


MAXWELL = MaxwellChanges(
    "maxwell",
    fields=frozenset(("database", "type", "ts")),
    operation="type",
    operations={**BY_WORDS, "bootstrap-insert": SNAPSHOT_READ, **dict.fromkeys(_MAXWELL_STATEMENTS, MESSAGE)},
    row="data",
    old="old",
    source={"db": "database", "table": "table", "server_id": "server_id", "gtid": "gtid"},
    place=_of_maxwell,
    partial=True,  # with binlog_row_image=MINIMAL or NOBLOB
)
