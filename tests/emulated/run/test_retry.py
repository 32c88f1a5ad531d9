"""Retried objects through a whole run: they go to another batch, are merged once, and survive a death in between."""

from __future__ import annotations

import pytest
from driving.lane import LANE, SimulatedLane, configuration

from sluice.batch.backlog import backlog
from sluice.batch.outcome import Outcome
from sluice.ledger.records import RETRIED, Decision
from sluice.silver_keys import manifest_key


@pytest.fixture
def simulated(client):
    return SimulatedLane(client, configuration(linger_s=2))


@pytest.fixture
def bad(simulated):
    """The only object, which a run has quarantined."""
    (identity,) = simulated.put("shop.orders")
    simulated.merger.quarantined = frozenset({identity})
    simulated.run()
    return identity


def retried(simulated, identity):
    record, now = simulated.record(identity), simulated.clock.now_ms()
    place = {"batch": record.batch, "attempt": record.attempt}
    decision = Decision(identity, RETRIED, now, "sluice quarantine retry", "me", record.state, **place)
    assert simulated.ledger.quarantine.retry(record, record, decision)
    simulated.ledger.lanes.wake(LANE)
    return record.batch


def test_an_object_that_is_taken_back_in_alone_is_merged_in_a_batch_of_its_own(simulated, bad):
    assert simulated.state_of(bad) == "quarantined" and simulated.tables.times_committed() == {}
    before = retried(simulated, bad)
    simulated.merger.quarantined = frozenset()
    simulated.run()
    record = simulated.record(bad)
    # Its first batch had the same objects: under the same id its commit would be taken for that batch's.
    assert (record.state, record.attempt) == ("committed", 1) and record.batch != before
    assert simulated.tables.times_committed() == {bad: 1}
    texts = [text for key, text in simulated.documents.stored.items() if key.endswith("/shop.orders")]
    outcomes = map(Outcome.from_json, texts)
    assert {outcome.batch: len(outcome.quarantined) for outcome in outcomes} == {before: 1, record.batch: 0}


def test_what_fails_again_comes_back_to_quarantine_and_can_be_taken_in_again(simulated):
    good, bad = simulated.put("shop.orders", 2)
    simulated.merger.quarantined = frozenset({bad})
    simulated.run()
    batches = [retried(simulated, bad)]
    simulated.run()
    batches.append(retried(simulated, bad))
    simulated.merger.quarantined = frozenset()
    simulated.run()
    batches.append(simulated.record(bad).batch)
    assert len(set(batches)) == 3 and simulated.tables.times_committed() == {good: 1, bad: 1}
    assert [decision.attempt for decision in simulated.ledger.quarantine.decisions_about(bad)] == [0, 1]


def test_an_object_whose_part_is_returned_keeps_its_attempt(simulated, bad):
    retried(simulated, bad)
    simulated.merger.quarantined = frozenset()
    simulated.merger.before["shop.orders"].append(ValueError("once"))
    simulated.run()
    assert [item.attempt for item in simulated.ledger.pending.oldest(LANE, 10)] == [1]
    simulated.clock.advance(simulated.ledger.lanes.get(LANE).due_at - simulated.clock.now_ms())
    simulated.run()
    assert simulated.state_of(bad) == "committed" and simulated.tables.times_committed() == {bad: 1}
    record = simulated.record(bad)
    decision = Decision(bad, RETRIED, 1, "sluice quarantine retry", "me", record.state)
    assert not simulated.ledger.quarantine.retry(record, record, decision), "nothing of it is set aside"


def test_replayed_objects_are_merged_in_another_batch_under_their_generation(simulated):
    ids = simulated.put("shop.orders", 2)
    simulated.run()
    records = simulated.ledger.objects.get(ids)
    before = {record.batch for record in records.values()}
    now = simulated.clock.now_ms()
    assert objects_merged(simulated) == 2
    replayed, generations = list(records.values()), dict.fromkeys(ids, 0)
    written = simulated.ledger.rebuilds.replay(replayed, LANE, generations, now, while_paused=False)
    assert objects_merged(simulated) == 0, "none of them is committed any more"
    assert written == 2 and simulated.states(ids) == {"pending": 2}
    again = simulated.ledger.rebuilds.replay(replayed, LANE, {}, now, while_paused=False)
    assert again == 0 == objects_merged(simulated), "what is pending already is not doubled"
    simulated.ledger.lanes.wake(LANE)
    simulated.run()
    merged = simulated.ledger.objects.get(ids).values()
    assert {(record.state, record.attempt, record.generation) for record in merged} == {("committed", 1, 0)}
    assert {record.batch for record in merged}.isdisjoint(before)
    assert objects_merged(simulated) == 2, "an object counts once, however often it is merged"


def test_a_replayed_object_keeps_its_first_batch_and_waits_since_its_replay(simulated):
    (identity,) = simulated.put("shop.orders")
    simulated.run()
    first = simulated.record(identity)
    for _ in range(2):
        simulated.clock.advance(86_400_000)
        record, now = simulated.record(identity), simulated.clock.now_ms()
        simulated.ledger.rebuilds.replay([record], LANE, {}, now, while_paused=False)
        (waiting,) = simulated.ledger.pending.oldest(LANE, 10)
        assert (waiting.first_batch, waiting.admitted_at, waiting.waits_since) == (first.batch, first.admitted_at, now)
        assert simulated.ledger.pending.counts(LANE)["shop.orders"].oldest == now
        measured = backlog(configuration(), LANE, [waiting], now + 5_000)
        assert measured.oldest_s == 5.0, "readers saw its rows all the time"
        simulated.ledger.lanes.wake(LANE)
        simulated.run()
    last = simulated.record(identity)
    assert last.batch != first.batch == last.first_batch
    (item,) = simulated.documents.manifest(manifest_key(LANE, last.batch)).objects
    assert item.first_batch == first.batch and item.was_readable


def test_an_object_of_a_rebuilt_table_was_not_readable_before(simulated):
    (identity,) = simulated.put("shop.orders")
    simulated.run()
    for while_paused in (False, True):
        record, now = simulated.record(identity), simulated.clock.now_ms()
        if while_paused:
            simulated.ledger.lanes.pause(LANE)
        assert simulated.ledger.rebuilds.replay([record], LANE, {}, now, while_paused=while_paused) == 1
        if not while_paused:
            simulated.ledger.lanes.wake(LANE)
            simulated.run()
    (waiting,) = simulated.ledger.pending.oldest(LANE, 10)
    assert (waiting.first_batch, waiting.waits_since) == (None, waiting.admitted_at)
    assert simulated.record(identity).first_batch is None


def test_a_manifest_says_which_objects_are_merged_for_a_rebuilt_table(simulated):
    (identity,) = simulated.put("shop.orders")
    simulated.run()
    record, now = simulated.record(identity), simulated.clock.now_ms()
    simulated.ledger.lanes.pause(LANE)
    simulated.ledger.rebuilds.replay([record], LANE, {}, now)
    simulated.ledger.lanes.resume(LANE)
    simulated.put("shop.orders")
    simulated.run()
    last = simulated.record(identity)
    items = {item.id: item for item in simulated.documents.manifest(manifest_key(LANE, last.batch)).objects}
    assert len(items) == 2 and [item.rebuilt_at for item in items.values() if item.came_before] == [now]
    assert items[identity].rebuilt_at == now and not items[identity].was_readable


@pytest.mark.long
def test_objects_of_several_tables_that_are_replayed_together_count_once_each(simulated):
    orders, lines = simulated.put("shop.orders", 70), simulated.put("shop.lines", 50)
    simulated.run()
    records = list(simulated.ledger.objects.get(orders + lines).values())
    now = simulated.clock.now_ms()
    assert simulated.ledger.rebuilds.replay(records[:1], LANE, {}, now, while_paused=False) == 1
    assert simulated.ledger.rebuilds.replay(records, LANE, {}, now, while_paused=False) == 119
    assert objects_merged(simulated) == objects_merged(simulated, "shop.lines") == 0
    simulated.ledger.lanes.wake(LANE)
    simulated.run()
    assert (objects_merged(simulated), objects_merged(simulated, "shop.lines")) == (70, 50)


def objects_merged(simulated, table="shop.orders"):
    return simulated.ledger.tables.get(table).totals["objects"]
