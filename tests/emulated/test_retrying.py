"""What is taken back in from quarantine, through a driver's whole run: another batch, merged once, nothing lost by a death in between."""

from __future__ import annotations

import pytest
from driving.world import LANE, World, configuration, emulated_dynamodb

from sluice.batch.outcome import Outcome
from sluice.ledger.records import RETRIED, Decision


@pytest.fixture()
def world():
    with emulated_dynamodb() as client:
        yield World(client, configuration(linger_s=2))


def retried(world, identity):
    record = world.ledger.get_objects([identity])[identity]
    decision = Decision(
        identity,
        RETRIED,
        world.clock.now_ms(),
        "sluice quarantine retry",
        "me",
        record.state,
        batch=record.batch,
        attempt=record.attempt,
    )
    assert world.ledger.retry(record, record, decision)
    world.ledger.wake(LANE)
    return record.batch


def test_an_object_that_is_taken_back_in_alone_is_merged_in_a_batch_of_its_own(world):
    (bad,) = world.put("shop.orders")
    world.merger.quarantined = frozenset({bad})
    world.run()
    assert world.state_of(bad) == "quarantined" and world.tables.times_committed() == {}
    before = retried(world, bad)
    world.merger.quarantined = frozenset()
    world.run()
    record = world.ledger.get_objects([bad])[bad]
    # Its first batch had the same objects: under the same id its commit would be taken for that batch's.
    assert (record.state, record.attempt) == ("committed", 1) and record.batch != before
    assert world.tables.times_committed() == {bad: 1}
    outcomes = [Outcome.from_json(text) for key, text in world.documents.stored.items() if key.endswith("/shop.orders")]
    assert {outcome.batch: len(outcome.quarantined) for outcome in outcomes} == {before: 1, record.batch: 0}


def test_what_fails_again_comes_back_to_quarantine_and_can_be_taken_in_again(world):
    good, bad = world.put("shop.orders", 2)
    world.merger.quarantined = frozenset({bad})
    world.run()
    batches = [retried(world, bad)]
    world.run()
    batches.append(retried(world, bad))
    world.merger.quarantined = frozenset()
    world.run()
    batches.append(world.ledger.get_objects([bad])[bad].batch)
    assert len(set(batches)) == 3 and world.tables.times_committed() == {good: 1, bad: 1}
    assert [decision.attempt for decision in world.ledger.decisions_about(bad)] == [0, 1]


def test_an_object_whose_part_is_returned_keeps_its_attempt(world):
    (bad,) = world.put("shop.orders")
    world.merger.quarantined = frozenset({bad})
    world.run()
    retried(world, bad)
    world.merger.quarantined = frozenset()
    world.merger.before["shop.orders"].append(ValueError("once"))
    world.run()
    assert [item.attempt for item in world.ledger.pending(LANE, 10)] == [1]
    world.clock.advance(world.ledger.lane(LANE).due_at - world.clock.now_ms())
    world.run()
    assert world.state_of(bad) == "committed" and world.tables.times_committed() == {bad: 1}
    record = world.ledger.get_objects([bad])[bad]
    assert not world.ledger.retry(
        record, record, Decision(bad, RETRIED, 1, "sluice quarantine retry", "me", record.state)
    ), "nothing of it is set aside"
