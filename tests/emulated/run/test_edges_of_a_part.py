"""A part at its edges: unresolved beside new objects of its table, settled by a lost run, attempts without a death."""

from __future__ import annotations

from typing import Any

import pytest
from driving.lane import LANE, SimulatedLane, configuration

from sluice_spark.errors import NoBundle, SparkDied
from sluice_spark.run.loop import LOST, RELEASED

TABLE = "shop.orders"


@pytest.fixture
def simulated(client: Any) -> SimulatedLane:
    """A lane whose runs end before a back-off does."""
    return SimulatedLane(client, configuration(linger_s=5))


def unresolved(simulated: SimulatedLane) -> list[Any]:
    """An object whose part fails, and can't be resolved after that."""
    objects = simulated.put(TABLE)
    simulated.merger.before[TABLE].append(ValueError("broken"))
    simulated.merger.resolving[TABLE].append(ValueError("no timeline"))
    return objects


def test_no_other_batch_of_a_table_begins_before_its_unresolved_part_is_resolved(client: Any) -> None:
    """Also where its back-off is ended, as a push does: what was committed of the part isn't known."""
    simulated = SimulatedLane(client, configuration(linger_s=60))
    first = unresolved(simulated)
    later: list[Any] = []

    def pushed() -> None:
        simulated.ledger.tables.end_backoff(TABLE)
        later.extend(simulated.put(TABLE))

    simulated.clock.at(2, pushed)
    simulated.run()
    merged = [objects for _, table, objects in simulated.tables.commits if table == TABLE]
    assert merged == [frozenset(first), frozenset(later)]


def test_a_run_whose_lane_is_lost_before_it_settles_writes_no_outcome(simulated: SimulatedLane) -> None:
    objects = simulated.put(TABLE)
    identity = simulated.start()
    merge = simulated.merger.merge_part

    def lost_after(*given: Any) -> Any:
        outcome = merge(*given)
        simulated.lapse(identity)
        return outcome

    simulated.merger.merge_part = lost_after  # type: ignore[method-assign]
    assert simulated.loop(identity).run().how == LOST
    simulated.merger.merge_part = merge  # type: ignore[method-assign]
    assert simulated.states(objects) == {"claimed": 1}
    assert not [name for name in simulated.documents.stored if "outcomes" in name]
    assert simulated.run().how == RELEASED and simulated.states(objects) == {"committed": 1}


def attempts(simulated: SimulatedLane) -> int:
    """The attempts that count against the only unsettled part."""
    (pointer,) = simulated.ledger.batches.unsettled(LANE)
    return pointer.attempts[TABLE].number if TABLE in pointer.attempts else 0


def run_and_back_off(simulated: SimulatedLane) -> None:
    """A run that ends before the back-off does, and the end of every back-off."""
    simulated.run()
    simulated.clock.advance(3_600_000)


def test_an_attempt_that_ends_without_a_death_is_taken_back(simulated: SimulatedLane) -> None:
    """Else unreadable timelines would look like dead runs, and the object would be set aside."""
    objects = unresolved(simulated)
    run_and_back_off(simulated)
    for _ in range(4):
        simulated.merger.resolving[TABLE].append(ValueError("no timeline"))
        run_and_back_off(simulated)
        assert attempts(simulated) == 0
    simulated.run()
    assert simulated.states(objects) == {"committed": 1}


@pytest.mark.parametrize(("ends", "counted"), [(NoBundle("no jar"), 0), (SparkDied("the JVM is gone"), 1)])
def test_of_the_attempts_that_end_their_run_only_deaths_of_spark_count(
    simulated: SimulatedLane, ends: Exception, counted: int
) -> None:
    unresolved(simulated)
    run_and_back_off(simulated)
    simulated.merger.resolving[TABLE].append(ends)
    with pytest.raises(type(ends)):
        simulated.run()
    assert attempts(simulated) == counted
