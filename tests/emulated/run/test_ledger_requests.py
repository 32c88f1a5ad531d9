"""How many requests to the ledger a batch takes, for each object and each table, whatever the machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from driving.lane import SimulatedLane, configuration, emulated_dynamodb


class Counting:
    """A DynamoDB client that counts its requests by operation."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.counted: Counter[str] = Counter()

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def call(**arguments: Any) -> Any:
            self.counted[operation] += 1
            return getattr(self._client, operation)(**arguments)

        return call


def requests_of(tables: int, objects: int) -> Counter[str]:
    """The requests of a run that merges so many objects of each table in one batch, and releases its lane."""
    with emulated_dynamodb() as client:
        counting = Counting(client)
        simulated = SimulatedLane(counting, configuration(linger_s=0))
        for number in range(tables):
            simulated.put(f"shop.table{number}", objects)
        counting.counted.clear()
        assert simulated.run().batches == 1
        return counting.counted


@pytest.fixture(scope="module")
def of_one() -> Counter[str]:
    return requests_of(1, 1)


# As counted when these bands were written. A request more is a step back; lower a band after an improvement.
ONE_BATCH = 46
EACH_TABLE = {"get_item": 2, "transact_write_items": 2, "update_item": 1}
OBJECTS_PER_TRANSACTION = 30


def test_a_run_of_one_batch_takes_few_requests(of_one: Counter[str]) -> None:
    assert of_one.total() <= ONE_BATCH, of_one


def test_each_further_table_of_a_batch_takes_five_requests_and_no_query(of_one: Counter[str]) -> None:
    more = requests_of(30, 1) - of_one
    assert {name: number for name, number in more.items() if number > 29 * EACH_TABLE.get(name, 0)} == {}


def test_further_objects_of_a_table_share_their_requests(of_one: Counter[str]) -> None:
    more = requests_of(1, 60) - of_one
    assert more.total() <= 60 // OBJECTS_PER_TRANSACTION


def signs_of(batches: int, every_s: float) -> int:
    """How often a run that gets an object in this rhythm, and then lingers, writes when its wait ends."""
    with emulated_dynamodb() as client:
        simulated = SimulatedLane(client, configuration(linger_s=10))
        simulated.put()
        for number in range(1, batches):
            simulated.clock.at(1 + number * every_s, simulated.put)
        given = []
        sign = simulated.ledger.lanes.gave_sign
        simulated.ledger.lanes.gave_sign = lambda *arguments: given.append(arguments) or sign(*arguments)
        assert simulated.run(poll_s=0.1).batches == batches
        return len(given)


def test_a_wait_is_written_once_and_never_between_batches_of_every_second() -> None:
    assert signs_of(5, every_s=1) == 1
    assert signs_of(2, every_s=5) == 2
