"""CockroachDB's changefeeds: `envelope=enriched`, which is Debezium's, and the default `wrapped`.

https://www.cockroachlabs.com/docs/stable/changefeed-message-envelopes
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.changes.dialects.nested import CaptureDialect, Reading, Record, TypedForm, at, change, clock, placed
from sluice.changes.hidden_columns import DELETE, MESSAGE, UPDATE
from sluice.changes.position import NUMBER_FIELD, STEP_FIELD
from sluice.errors import UnusableSchema

_SOURCE = {"db": "database_name", "schema": "schema_name", "table": "table_name"}
_WRAPPED = frozenset("after before key updated mvcc_timestamp topic crdb_region".split())


@dataclass(frozen=True)
class Changefeed(CaptureDialect):
    """The dialect. `enriched` needs the property `source`. `wrapped` is known by the clock in `updated`, or by a rule.

    Deletions have their key in `key` where they have no row before: as a rule names the record key, if it is a list.
    """

    name: str = "cockroachdb"
    shapes: tuple[frozenset[str], ...] = (frozenset(("after",)), frozenset(("resolved",)))

    def typed(self, names: Collection[str]) -> TypedForm | None:
        """The columns of the row after a change, of messages that are wrapped."""
        place = (NUMBER_FIELD, STEP_FIELD) if not {"updated", "mvcc_timestamp"}.isdisjoint(names) else ()
        return None if "source" in names else TypedForm(("after", "before"), ("ts_ms", *place))

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether the source says that it is CockroachDB, or the fields are those of a wrapped change."""
        if "resolved" in record:
            return record.keys() <= {"resolved", "__crdb__"} and clock(record["resolved"]) is not None
        if {"op", "source", "after"} <= record.keys():
            return bool(at(record, "source.origin") == "cockroachdb")
        timed = any(clock(record.get(name)) is not None for name in ("updated", "mvcc_timestamp"))
        is_row = "after" in record and isinstance(record["after"], (dict, type(None)))
        return is_row and record.keys() <= _WRAPPED and (timed or named)

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        """The change, in the order of the clock at which it was committed. Raises UnusableSchema."""
        if "resolved" in record:
            return [change(MESSAGE, None, None, {})]
        source, updated = {}, record.get("mvcc_timestamp") or record.get("updated")
        if "source" in record:
            names = ((word, at(record, f"source.{name}")) for word, name in _SOURCE.items())
            source = {word: name for word, name in names if name is not None}
            updated = at(record, "source.mvcc_timestamp") or at(record, "source.ts_hlc")
        time = clock(updated)
        if time is not None:
            source |= {"ts_ms": time[0] // 10**6, **placed(time[0] * 10**10 + time[1])}
        before, after = record.get("before"), record["after"]
        op = record.get("op", DELETE if after is None else UPDATE)
        if op == DELETE and before is None:
            before = _key_of(record, reading)
            if before is None:
                raise UnusableSchema(
                    "A deletion of CockroachDB has neither the row before it nor a key",
                    next_step="Let the changefeed write one: diff, or key_in_value",
                    column="key",
                )
        return [change(op, before, after, source)]


def _key_of(record: Record, reading: Reading) -> dict[str, Any] | None:
    key, names = record.get("key"), at(record, "source.primary_keys") or list(reading.key)
    if isinstance(key, list) and isinstance(names, list) and names:
        if len(key) != len(names):
            raise UnusableSchema(
                f"The key of a deletion has {len(key)} values, and the table's record key {len(names)} columns",
                next_step="Name the columns of the source's primary key in the rule's record_key, in its order",
                column="key",
            )
        key = dict(zip(names, key))
    return key if isinstance(key, dict) else None


COCKROACHDB = Changefeed()
