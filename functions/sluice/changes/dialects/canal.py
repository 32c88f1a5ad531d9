"""Changes of MySQL as Canal writes them in flat messages, and TiCDC of TiDB in the same form (canal-json).

https://github.com/alibaba/canal/wiki/Canal-Kafka-RocketMQ-QuickStart
https://docs.pingcap.com/tidb/stable/ticdc-canal-json
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.changes.dialects.nested import BY_WORDS, ChangePaths, Reading, at, placed, whole
from sluice.changes.hidden_columns import MESSAGE, TRUNCATE
from sluice.errors import UnusableSchema

_STATEMENTS = "create alter erase rename query cindex dindex gtid xacommit xarollback mheartbeat tidb_watermark".split()
_WHOLE = frozenset("tinyint smallint mediumint int integer bigint year".split())


def _place(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """TiDB's commit timestamp, where TiCDC has `enable-tidb-extension`; Canal's messages name no place in the log."""
    if at(record, "_tidb.onlyHandleKey") or at(record, "_tidb.claimCheckLocation"):
        raise UnusableSchema(
            "A message of TiCDC holds the key alone, since it was larger than Kafka takes",
            next_step="Raise max-message-bytes of the changefeed, or let it write to the storage itself",
        )
    return placed(whole(at(record, "_tidb.commitTs") or at(record, "_tidb.watermarkTs")))


def _typed(row: Any, record: Mapping[str, Any], reading: Reading) -> Any:
    """The row with numbers for whole numbers, by MySQL's types. Other values stay text, as the message has all."""
    types = record.get("mysqlType")
    if not isinstance(types, Mapping) or not isinstance(row, Mapping):
        return row
    return {name: _value(value, str(types.get(name, ""))) for name, value in row.items()}


def _value(value: Any, kind: str) -> Any:
    words = kind.lower().replace("(", " ").split()
    is_whole = isinstance(value, str) and words and words[0] in _WHOLE
    return int(value) if is_whole and value.lstrip("-").isdecimal() and len(value) <= 20 else value


CANAL = ChangePaths(
    "canal",
    fields=frozenset(("database", "table", "type", "isDdl", "data")),
    operation="type",
    operations={**BY_WORDS, "truncate": TRUNCATE, **dict.fromkeys(_STATEMENTS, MESSAGE)},
    row="data",
    old="old",
    source={"db": "database", "table": "table", "ts_ms": "es"},
    place=_place,
    decoded=_typed,
    several=True,
    partial=True,  # with binlog_row_image=MINIMAL or NOBLOB
)
