"""The explorer's DynamoDB in memory answers the ledger's requests as the emulator does."""

from __future__ import annotations

import random
from typing import Any

import pytest
from driving.lane import emulated_dynamodb
from exploring.memory_dynamodb import MemoryDynamoDb

from sluice_aws.ledger.expressions import NEW_ITEM, Condition, when
from sluice_aws.ledger.table import LedgerTable, TransactionRefused

KEYS = [{"pk": pk, "sk": sk} for pk in ("lane#a", "lane#b") for sk in ("lane", "manifest#1", "manifest#2")]
CONDITIONS: list[Condition | None] = [None, NEW_ITEM, when(state="x"), when(state="x", n=None) | when(state="y", n=1)]


@pytest.fixture(scope="module")
def emulated() -> Any:
    with emulated_dynamodb() as client:
        yield client


def act(table: LedgerTable, chances: random.Random) -> Any:
    """One random request; its answer as plain values."""
    key, condition = chances.choice(KEYS), chances.choice(CONDITIONS)
    fields = {"state": chances.choice(["x", "y", None]), "listed_as": chances.choice(["l", None]), "listed_at": "5"}
    kind = chances.choice(["put", "update", "delete", "get", "query", "index", "transact"])
    if kind == "put":
        return table.put({**key, **fields}, condition)
    if kind == "update":
        return table.update(key, fields, add={"n": 1}, condition=condition)
    if kind == "delete":
        return table.delete(key, condition or when(state="x"))
    if kind == "get":
        return table.get(key), sorted(map(repr, table.get_many(KEYS)))
    if kind == "query":
        how = chances.choice([{}, {"prefix": "manifest#"}, {"after": "lane"}])
        return [item for page in table.query(key["pk"], **how) for item in page]
    if kind == "index":
        return sorted(map(repr, (item for page in table.query_index("l", since="1") for item in page)))
    other = chances.choice([one for one in KEYS if one != key])
    try:
        table.transact([table.update_action(key, fields, condition=condition), table.check_action(other, when(n=1))])
    except TransactionRefused as refused:
        return dict(refused.refusals)
    return None


@pytest.mark.parametrize("seed", range(4))
def test_random_requests_have_the_same_answers(emulated: Any, seed: int) -> None:
    tables = [LedgerTable(client, "ledger", threads=1) for client in (emulated, MemoryDynamoDb(page=1000))]
    for key in KEYS:
        for table in tables:
            table.delete(key, when(pk=key["pk"]) | NEW_ITEM)
    streams = [random.Random(seed), random.Random(seed)]
    for step in range(150):
        first, second = (act(table, stream) for table, stream in zip(tables, streams))
        assert first == second, step


def test_weak_reads_lag_and_pages_are_small() -> None:
    memory = MemoryDynamoDb(page=2)
    table = LedgerTable(memory, "ledger", threads=1)
    for number in range(5):
        table.put({"pk": "lane#a", "sk": f"manifest#{number}"})
    assert [len(page) for page in table.query("lane#a")] == [2, 2, 1]
    last: Any = {"pk": {"S": "lane#a"}, "sk": {"S": "manifest#4"}}
    assert memory.get_item(TableName="ledger", Key=last) == {}
    assert memory.get_item(TableName="ledger", Key=last, ConsistentRead=True)["Item"] == last
