"""CockroachDB's changefeeds with `envelope=enriched`: Debezium's envelope, with the key of a deletion beside it.

https://www.cockroachlabs.com/docs/stable/changefeed-message-envelopes
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluice.changes.dialects.nested import IsKey, Record, at, change
from sluice.changes.hidden_columns import DELETE

_CLOCK = re.compile(r"([0-9]{1,19})\.([0-9]{10})")  # the hybrid clock: nanoseconds since 1970, and a counter
_SOURCE = {"db": "database_name", "schema": "schema_name", "table": "table_name"}


@dataclass(frozen=True)
class EnrichedChangefeed:
    """The dialect: its messages need the properties `source`, and `key_in_value` where deletions have no row before."""

    name: str = "cockroachdb"
    fields: frozenset[str] = frozenset(("op", "source", "after"))

    def recognises(self, record: Record) -> bool:
        """Whether the source says that it is CockroachDB."""
        return self.fields <= record.keys() and at(record, "source.origin") == "cockroachdb"

    def changes(self, record: Record, is_key: IsKey) -> Sequence[dict[str, Any]]:
        """The change, in the order of the clock at which it was committed."""
        source = {word: at(record, f"source.{name}") for word, name in _SOURCE.items()}
        clock = _CLOCK.fullmatch(str(at(record, "source.mvcc_timestamp") or at(record, "source.ts_hlc")))
        if clock is not None:
            source |= {"ts_ms": int(clock[1]) // 10**6, "change_number": int(clock[1] + clock[2])}
        before = record.get("before")
        if record["op"] == DELETE and before is None:
            before = _key_of(record)
        return [change(record["op"], before, record["after"], source)]


def _key_of(record: Record) -> dict[str, Any] | None:
    key, names = record.get("key"), at(record, "source.primary_keys")
    if isinstance(key, list) and isinstance(names, list) and len(key) == len(names):
        key = dict(zip(names, key))
    return key if isinstance(key, dict) else None


COCKROACHDB = EnrichedChangefeed()
