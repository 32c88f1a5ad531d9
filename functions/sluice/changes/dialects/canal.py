"""Changes of MySQL as Canal writes them in flat messages, and TiCDC of TiDB in the same form (canal-json).

https://github.com/alibaba/canal/wiki/Canal-Kafka-RocketMQ-QuickStart
https://docs.pingcap.com/tidb/stable/ticdc-canal-json
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.changes.dialects.nested import NestedRows, at
from sluice.changes.hidden_columns import CREATE, DELETE, MESSAGE, TRUNCATE, UPDATE

_STATEMENTS = "create alter erase rename query cindex dindex gtid xacommit xarollback mheartbeat tidb_watermark".split()
_WHOLE = frozenset("tinyint smallint mediumint int integer bigint year".split())


def _place(record: Mapping[str, Any]) -> dict[str, Any]:
    """TiDB's commit timestamp, where TiCDC has `enable-tidb-extension`; Canal's messages name no place in the log."""
    commit = at(record, "_tidb.commitTs") or at(record, "_tidb.watermarkTs")
    return {"change_number": commit} if type(commit) is int else {}


def _typed(row: dict[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """The row with numbers for whole numbers, by MySQL's types. Other values stay text, as the message has all."""
    types = record.get("mysqlType")
    if not isinstance(types, Mapping):
        return row
    return {name: _value(value, str(types.get(name, ""))) for name, value in row.items()}


def _value(value: Any, kind: str) -> Any:
    words = kind.lower().replace("(", " ").split()
    whole = isinstance(value, str) and words and words[0] in _WHOLE
    return int(value) if whole and value.lstrip("-").isdecimal() and len(value) <= 20 else value


CANAL = NestedRows(
    "canal",
    fields=frozenset(("database", "table", "type", "isDdl", "data")),
    operation="type",
    operations={
        "insert": CREATE,
        "update": UPDATE,
        "delete": DELETE,
        "truncate": TRUNCATE,
        **dict.fromkeys(_STATEMENTS, MESSAGE),
    },
    row="data",
    old="old",
    source={"db": "database", "table": "table", "ts_ms": "es"},
    place=_place,
    typed=_typed,
)
