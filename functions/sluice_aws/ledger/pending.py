"""The pending objects of a lane, read fairly: a table with a long backlog hides no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from math import ceil, sqrt
from typing import Any

from sluice.batch.claim import PendingObject
from sluice.ledger import keys as items
from sluice.ledger.records import PendingCount
from sluice_aws.ledger.table import LedgerTable, Values

# How many standard deviations above the mean one shard is read: hashes spread objects evenly over the shards, and an
# older object that is missed all the same is in the next batch.
DEVIATIONS = 6
# Objects of a shard whose sizes are read for a count; behind these, of each table so many, and the rest is counted by
# DynamoDB, which sends none of it.
EXACTLY, SAMPLED = 2_000, 100
FEW = 8  # of each table in a shard where there is no room for more: one alone may be an old object, replayed just now
_STORED = tuple(item.name for item in fields(PendingObject) if item.name != "shard")
_UNSTORED: Values = {"schema": None, "format": "", "topic": "", "kafka_partition": None, "offset": None}


class PendingLedger:
    """The pending objects of one ledger."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def oldest(self, lane: str, per_table: int, *, in_all: int | None = None) -> list[PendingObject]:
        """About `per_table` of the oldest pending objects of every table, oldest first; at least one of each table.

        Behind about `in_all` objects, in the order of tables, it is the oldest few of each shard.
        """
        at_most, most = _of_a_shard(per_table), None if in_all is None else in_all // items.SHARDS
        by_shard = self._table.map(lambda shard: self._shard(lane, shard, at_most, most), range(items.SHARDS))
        by_table: dict[str, list[PendingObject]] = {}
        for item in sorted((item for shard in by_shard for item in shard), key=lambda item: item.age_order):
            listed = by_table.setdefault(item.table, [])
            if len(listed) < per_table:
                listed.append(item)
        return sorted((item for listed in by_table.values() for item in listed), key=lambda item: item.age_order)

    def oldest_of(self, lane: str, wanted: Mapping[str, int]) -> list[PendingObject]:
        """About so many of the oldest pending objects of each named table, oldest first. Reads no other table."""
        pairs = [(table, shard) for table in wanted for shard in range(items.SHARDS)]
        objects_by_table: dict[str, list[PendingObject]] = {table: [] for table in wanted}
        for (table, _), listed in zip(
            pairs,
            self._table.map(lambda pair: self._of_table(lane, pair[1], pair[0], _of_a_shard(wanted[pair[0]])), pairs),
        ):
            objects_by_table[table] += listed
        oldest = [
            item
            for table, listed in objects_by_table.items()
            for item in sorted(listed, key=lambda item: item.age_order)[: wanted[table]]
        ]
        return sorted(oldest, key=lambda item: item.age_order)

    def counts(self, lane: str) -> dict[str, PendingCount]:
        """Every table's backlog. DynamoDB reads all of it: for people, not for decisions.

        Of a backlog beyond EXACTLY objects in a shard, the bytes are those of the mean object.
        """
        counts: dict[str, PendingCount] = {}
        for shard in self._table.map(lambda shard: self._count(lane, shard), range(items.SHARDS)):
            for table, more in shard.items():
                counts[table] = _add(counts.get(table), more)
        return counts

    def _shard(self, lane: str, shard: int, at_most: int, in_all: int | None) -> list[PendingObject]:
        """A loose index scan: read the first objects of a table, then jump to the next table."""
        partition = items.pending_partition(lane, shard)
        objects_found: list[PendingObject] = []
        behind: str | None = " "  # a space precedes every name
        while behind is not None:
            after, behind = behind, None
            taken = 0
            limit = at_most if in_all is None else min(at_most, max(FEW, in_all - len(objects_found)))
            for page in self._table.query(partition, after=after, limit=limit):
                for stored in page:
                    taken = taken + 1 if objects_found and objects_found[-1].table == stored["table"] else 1
                    if taken <= limit:
                        objects_found.append(_pending(stored, shard))
                if taken >= limit or (page and in_all is not None and len(objects_found) >= in_all):
                    behind = items.after_table(objects_found[-1].table)
                    break
        return objects_found

    def _of_table(self, lane: str, shard: int, table: str, at_most: int) -> list[PendingObject]:
        objects_found: list[PendingObject] = []
        for page in self._table.query(
            items.pending_partition(lane, shard), prefix=items.of_table(table), limit=at_most
        ):
            objects_found += [_pending(stored, shard) for stored in page]
            if len(objects_found) >= at_most:
                break
        return objects_found

    def _count(self, lane: str, shard: int) -> dict[str, PendingCount]:
        partition = items.pending_partition(lane, shard)
        counts: dict[str, PendingCount] = {}
        behind, limit = " ", EXACTLY  # a space precedes every name
        while True:
            for page in self._table.query(partition, after=behind, limit=limit, fields=_COUNTED):
                for stored in page:
                    since = max(stored.get(name) or 0 for name in ("admitted_at", "replayed_at", "retried_at"))
                    one = PendingCount(1, stored["size"], since)
                    counts[stored["table"]] = _add(counts.get(stored["table"]), one)
                if len(page) >= limit:
                    break
            else:
                return counts
            last = page[-1]["table"]
            behind, limit = items.after_table(last), SAMPLED
            counts[last] = _extended(counts[last], self._table.count(partition, page[-1]["sk"], behind) - 1)


_COUNTED = ("sk", "table", "size", "admitted_at", "replayed_at", "retried_at")


def _of_a_shard(per_table: int) -> int:
    """How many objects to read from each shard to get about `per_table` in all."""
    share = ceil(per_table / items.SHARDS)
    return min(per_table, share + ceil(DEVIATIONS * sqrt(share)))


def _add(one: PendingCount | None, other: PendingCount) -> PendingCount:
    if one is None:
        return other
    return PendingCount(one.objects + other.objects, one.bytes + other.bytes, min(one.oldest, other.oldest))


def _extended(count: PendingCount, more: int) -> PendingCount:
    """The count with so many younger objects of the same mean size."""
    more = max(0, more)
    return PendingCount(count.objects + more, count.bytes + count.bytes * more // count.objects, count.oldest)


def _pending(stored: Mapping[str, Any], shard: int) -> PendingObject:
    return PendingObject(**{"shard": shard, **_UNSTORED, **{name: stored[name] for name in _STORED if name in stored}})
