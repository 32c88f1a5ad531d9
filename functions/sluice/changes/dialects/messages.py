"""Changes whose row and operation are declared by paths alone: AWS DMS's and Qlik's messages, and PeerDB's records.

https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.Kinesis.html
https://help.qlik.com/en-US/replicate/Content/Global_Common/Content/SharedReplicateHDD/Kafka/Kafka_message_format.htm
https://docs.peerdb.io
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.changes.dialects.nested import ChangePaths, Reading, Record, at, nanos, placed, whole
from sluice.changes.hidden_columns import CREATE, DELETE, MESSAGE, SNAPSHOT_READ, UPDATE

_DMS_STATEMENTS = "create-table drop-table rename-table truncate-table add-column drop-column rename-column".split()


def _of_dms(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """With `IncludeTransactionDetails` the commit's time, and the number of the record in its transaction."""
    written = nanos(at(record, "metadata.timestamp"))
    source = {} if written is None else {"ts_ms": written // 10**6}
    commit, number = nanos(at(record, "metadata.commit-timestamp")), whole(at(record, "metadata.transaction-record-id"))
    return {**source, **(placed(commit, number) if commit is not None and number is not None else {})}


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
        "insert": CREATE,
        "update": UPDATE,
        "delete": DELETE,
        **dict.fromkeys((*_DMS_STATEMENTS, "change-columns", "column-type-change"), MESSAGE),
    },
    row="data",
    before="before-image",
    source={"schema": "metadata.schema-name", "table": "metadata.table-name"},
    place=_of_dms,
)


def _of_qlik(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    return placed(whole(at(record, "message.headers.changeSequence")))


QLIK_MESSAGES = ChangePaths(
    "qlik",
    fields=frozenset(("message",)),
    operation="message.headers.operation",
    operations={"insert": CREATE, "update": UPDATE, "delete": DELETE, "refresh": SNAPSHOT_READ},
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
