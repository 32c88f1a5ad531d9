"""Objects that kill their run, or fail their table's merge, are found and quarantined; nothing else waits for long."""

from __future__ import annotations

import pytest
from driving.lane import LANE, SimulatedLane, configuration
from driving.mortality import Killed

from sluice.lane.machine import HALTED, IDLE
from sluice.ledger.records import Decision
from sluice_spark.errors import NoBundle, SparkDied

pytestmark = pytest.mark.long


@pytest.fixture
def simulated(client):
    return SimulatedLane(client, configuration(linger_s=0))


@pytest.mark.parametrize(
    ("death", "place"),
    [(SparkDied("Java heap space"), 0), (Killed("kill -9"), 11)],
    ids=["Spark dies with the first", "the driver is killed by the last"],
)
def test_the_object_that_kills_its_run_is_quarantined_and_the_rest_is_merged(simulated, death, place):
    objects = simulated.put("shop.orders", 12)
    others = simulated.put("shop.customers", 3)
    poison = objects[place]
    simulated.merger.poison[poison] = death
    died = simulated.live_on(60)
    assert simulated.states(objects + others) == {"committed": 14, "quarantined": 1}
    assert (simulated.record(poison).code, simulated.record(poison).state) == ("kills_its_run", "quarantined")
    assert simulated.tables.times_committed() == {item: 1 for item in [*objects, *others] if item != poison}
    assert died <= 7
    lane = simulated.ledger.lanes.get(LANE)
    assert (lane.state, lane.failures) == (IDLE, 0)
    assert simulated.ledger.batches.unsettled(LANE) == []


def test_one_object_that_kills_its_run_is_quarantined_before_its_lane_halts(simulated):
    (poison,) = simulated.put("shop.orders")
    simulated.merger.poison[poison] = SparkDied("Java heap space")
    assert simulated.live_on(10) == 4
    assert simulated.record(poison).code == "kills_its_run"
    assert simulated.ledger.lanes.get(LANE).state == IDLE


def test_other_tables_are_merged_before_a_part_that_killed_two_runs(simulated):
    (poison,) = simulated.put("shop.orders")
    simulated.merger.poison[poison] = SparkDied("Java heap space")
    for _ in range(2):
        simulated.die(SparkDied)
    later = simulated.put("shop.customers", 2)
    simulated.merger.calls.clear()
    dying = simulated.start()
    with pytest.raises(SparkDied):
        simulated.loop(dying).run()
    assert simulated.states(later) == {"committed": 2}
    expected = ["merge shop.customers", "resolve shop.orders", "merge shop.orders"]
    assert [call for call in simulated.merger.calls if call != "prepare"] == expected
    assert simulated.ledger.lanes.get(LANE).failures == 0


def test_the_commit_of_a_part_that_killed_its_run_is_found(simulated):
    (item,) = simulated.put("shop.orders")
    simulated.merger.after["shop.orders"] += [SparkDied("after the commit")]
    assert simulated.live_on(10) == 1
    assert simulated.state_of(item) == "committed"
    assert len(simulated.tables.commits) == 1


def test_an_error_that_no_object_causes_counts_as_no_attempt_of_a_part(simulated):
    (item,) = simulated.put("shop.orders")
    simulated.merger.before["shop.orders"] += [SparkDied("once"), *[NoBundle("no jar")] * 3]
    for end in (SparkDied, NoBundle, NoBundle, NoBundle):
        simulated.die(end)
    (pointer,) = simulated.ledger.batches.unsettled(LANE)
    assert pointer.attempts["shop.orders"].number == 0
    assert simulated.live_on(5) == 0
    assert simulated.state_of(item) == "committed"


def test_a_part_that_cannot_be_resolved_counts_as_no_attempt(simulated):
    (item,) = simulated.put("shop.orders")
    simulated.merger.before["shop.orders"] += [SparkDied("once")]
    simulated.merger.resolving["shop.orders"] += [ValueError("no timeline")] * 4
    simulated.live_on(10)
    assert simulated.state_of(item) == "committed"
    assert simulated.merger.calls.count("merge shop.orders") == 2


def test_a_lane_whose_every_run_dies_halts_and_blames_no_object(simulated):
    objects = simulated.put("shop.orders", 20) + simulated.put("shop.customers", 20)
    simulated.merger.poison.update(dict.fromkeys(objects, SparkDied("the machine has too little memory")))
    for _ in range(5):
        simulated.die(SparkDied)
    assert simulated.ledger.lanes.get(LANE).state == HALTED
    assert "quarantined" not in simulated.states(objects)


def test_a_retried_object_that_killed_its_run_is_merged_alone(simulated):
    objects = simulated.put("shop.orders", 3)
    simulated.merger.poison[objects[0]] = SparkDied("Java heap space")
    simulated.live_on(20)
    aside = simulated.record(objects[0])
    decision = Decision(objects[0], "retried", simulated.clock.now_ms(), "sluice", "me", aside.state)
    assert simulated.ledger.quarantine.retry(aside, aside, decision)
    more = simulated.put("shop.orders", 2)
    assert simulated.live_on(10) == 1
    assert simulated.states(more) == {"committed": 2}
    assert simulated.record(objects[0]).code == "kills_its_run"


def test_the_object_that_fails_its_merge_is_quarantined_and_the_rest_is_merged(simulated):
    objects = simulated.put("shop.orders", 10)
    simulated.merger.poison[objects[3]] = ValueError("whatever this object does to Spark")
    others = simulated.put("shop.customers", 2)
    assert simulated.live_on(40) == 0
    assert simulated.states(objects + others) == {"committed": 11, "quarantined": 1}
    aside = simulated.record(objects[3])
    assert aside.code == "fails_its_merge" and "whatever this object does" in aside.reason
    assert simulated.tables.times_committed() == {item: 1 for item in [*objects, *others] if item != objects[3]}


def test_no_object_is_blamed_while_its_whole_table_fails(simulated):
    objects = simulated.put("shop.orders", 10)
    simulated.merger.poison.update(dict.fromkeys(objects, ValueError("no permission to write")))
    with pytest.raises(AssertionError, match="never comes to rest"):
        simulated.live_on(12)
    assert simulated.states(objects) == {"pending": 10}
    simulated.merger.poison.clear()
    assert simulated.live_on(40) == 0
    assert simulated.states(objects) == {"committed": 10}


def test_a_part_that_was_given_up_is_quarantined_by_the_next_run(simulated):
    objects = simulated.put("shop.orders", 3)
    others = simulated.put("shop.customers", 2)
    simulated.merger.before["shop.orders"] += [SparkDied("once")] * 9
    simulated.die(SparkDied)
    (pointer,) = simulated.ledger.batches.unsettled(LANE)
    assert simulated.ledger.batches.give_up(pointer.batch, "shop.orders", "me: it hangs")
    assert not simulated.ledger.batches.give_up(pointer.batch, "shop.nothing", "me: it hangs")
    assert simulated.live_on(5) == 0
    assert simulated.states(objects) == {"quarantined": 3}
    expected = ("given_up", "me: it hangs. Once the cause is fixed: `sluice quarantine retry --code given_up`")
    assert (simulated.record(objects[0]).code, simulated.record(objects[0]).reason) == expected
    assert simulated.states(others) == {"committed": 2}
