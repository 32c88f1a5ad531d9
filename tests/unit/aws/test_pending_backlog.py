"""What a claim reads of the ledger and holds in memory doesn't grow with the backlog."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field
from typing import Any

import pytest

from sluice.batch.claim import still_wanted
from sluice.ledger import keys as items
from sluice.ledger.records import PendingCount
from sluice_aws.ledger import expressions as codec
from sluice_aws.ledger.pending import EXACTLY, FEW, SAMPLED, PendingLedger
from sluice_aws.ledger.table import LedgerTable

pytestmark = pytest.mark.long

LANE, FIRST_LOOK, BATCH_OBJECTS = "main", 100, 10_000
PAGE = 2_500  # items of some 400 bytes in DynamoDB's 1 MB
TABLES = tuple(f"shop.table{number}" for number in range(7))


@dataclass
class Backlog:
    """DynamoDB's Query over so many pending objects of each table and shard, which are made as they are asked for."""

    per_shard: int
    requests: int = 0
    read: list[int] = field(default_factory=list)

    def query(self, *, ExpressionAttributeValues: dict[str, Any], Limit: int = PAGE, **more: Any) -> dict[str, Any]:
        partition, sort_key, *upto = (value["S"] for value in ExpressionAttributeValues.values())
        begin, end = 0, len(TABLES) * self.per_shard
        self.requests += 1
        if more.get("Select") == "COUNT":
            begin = self._index(sort_key)
            end = sum(items.of_table(table) < upto[0] for table in TABLES) * self.per_shard
            return {"Count": end - begin}
        if "begins_with" in more["KeyConditionExpression"]:
            begin = TABLES.index(sort_key[:-1]) * self.per_shard
            end = begin + self.per_shard
        else:
            begin = sum(items.of_table(table) < sort_key for table in TABLES) * self.per_shard
        if "ExclusiveStartKey" in more:
            begin = self._index(more["ExclusiveStartKey"]["sk"]["S"]) + 1
        page = range(begin, min(begin + min(Limit, PAGE), end))
        self.read.append(len(page))
        answer: dict[str, Any] = {"Items": [codec.item(self._item(partition, index)) for index in page]}
        if page and page[-1] < end - 1:
            answer["LastEvaluatedKey"] = codec.item({"pk": partition, "sk": self._sort_key(page[-1])})
        return answer

    def _sort_key(self, index: int) -> str:
        table, age = divmod(index, self.per_shard)
        return f"{items.of_table(TABLES[table])}{age:013d}#{index:064x}"

    def _index(self, sort_key: str) -> int:
        return int(sort_key.rpartition("#")[2], 16)

    def _item(self, partition: str, index: int) -> dict[str, Any]:
        table, age = divmod(index, self.per_shard)
        identity = {"bucket": "bronze", "key": f"{partition}/{index}", "version": "v1", "table": TABLES[table]}
        return {"pk": partition, "sk": self._sort_key(index), **identity, "size": 900, "admitted_at": age}


def claimed_from(backlog: Backlog) -> tuple[int, int, int, int]:
    """The objects of one claim, the requests and items read for it, and the most bytes that it held."""
    pending = PendingLedger(LedgerTable(backlog, "ledger", threads=1))
    tracemalloc.start()
    try:
        by_table = {table: [] for table in TABLES}
        for item in pending.oldest(LANE, FIRST_LOOK):
            by_table[item.table].append(item)
        asked = dict.fromkeys(TABLES, FIRST_LOOK)
        while wanted := still_wanted({table: len(by_table[table]) for table in TABLES}, asked, BATCH_OBJECTS):
            asked.update(wanted)
            by_table.update({table: [] for table in wanted})
            for item in pending.oldest_of(LANE, wanted):
                by_table[item.table].append(item)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return sum(map(len, by_table.values())), backlog.requests, sum(backlog.read), held


@pytest.fixture(scope="module")
def of_twenty_thousand() -> tuple[int, int, int, int]:
    return claimed_from(Backlog(20_000 // len(TABLES) // items.SHARDS))


@pytest.mark.parametrize("pending", [pytest.param(100_000, marks=pytest.mark.whole), 1_000_000])
def test_a_claim_reads_and_holds_as_much_of_a_large_backlog_as_of_a_small_one(
    pending: int, of_twenty_thousand: tuple[int, int, int, int]
) -> None:
    objects, requests, read, held = claimed_from(Backlog(pending // len(TABLES) // items.SHARDS))
    assert objects == of_twenty_thousand[0] >= BATCH_OBJECTS
    assert (requests, read) == of_twenty_thousand[1:3]
    assert held < 1.1 * of_twenty_thousand[3]
    # A first look, and the batch's share of each table; each shard is read some deviations beyond its mean.
    assert requests <= 2 * (len(TABLES) + 1) * items.SHARDS and read < 4 * BATCH_OBJECTS


@pytest.mark.parametrize("per_shard", [0, 1, 250, 300, 2_000, 20_000])
def test_a_large_backlog_is_counted_without_listing_it(per_shard: int) -> None:
    backlog = Backlog(per_shard)
    counted = PendingLedger(LedgerTable(backlog, "ledger", threads=1)).counts(LANE)
    whole = PendingCount(per_shard * items.SHARDS, 900 * per_shard * items.SHARDS, 0)
    assert counted == ({table: whole for table in TABLES} if per_shard else {})
    assert sum(backlog.read) <= items.SHARDS * (EXACTLY + len(TABLES) * SAMPLED)
    assert backlog.requests <= items.SHARDS * (2 + 2 * len(TABLES))


@pytest.mark.parametrize("per_shard", [1, 60, 300, 20_000])
def test_the_oldest_of_many_tables_are_listed_up_to_a_number_of_all(per_shard: int) -> None:
    backlog, most = Backlog(per_shard), 4_000
    listed = PendingLedger(LedgerTable(backlog, "ledger", threads=1)).oldest(LANE, 2_000, in_all=most)
    oldest = {table: min(one.admitted_at for one in listed if one.table == table) for table in TABLES}
    assert oldest == dict.fromkeys(TABLES, 0), "each table's oldest, by which its lateness is measured"
    if len(TABLES) * per_shard * items.SHARDS <= most:
        assert len(listed) == len(TABLES) * per_shard * items.SHARDS
    # A page may go beyond the number, and each table behind it has a few more in each shard.
    assert sum(backlog.read) <= 2 * most + 2 * FEW * len(TABLES) * items.SHARDS
    assert backlog.requests <= items.SHARDS * (2 * len(TABLES) + 2)
