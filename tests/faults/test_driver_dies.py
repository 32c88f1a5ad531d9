"""Wherever a process dies, every object is committed exactly once, under the batch that the ledger names."""

from __future__ import annotations

import random
from itertools import count

import pytest
from driving.lane import LANE, SimulatedLane, configuration, emulated_dynamodb, two_threads
from driving.mortality import Killed, Mortality
from emulation.ledger_table_schema import create_ledger_table
from support.extent import WHOLE

from sluice.lane.machine import IDLE, wanted_at
from sluice.silver_keys import outcome_key

MOST_RUNS = 12  # what a table's back-offs and one death need, and some


@pytest.fixture(scope="module")
def client():
    with emulated_dynamodb() as made:
        yield made


@pytest.fixture(scope="module")
def new_world(client):
    """Two batches: one that a table fails in, with an object that can't be read; and one that arrives meanwhile."""
    numbers = count()

    def make(threads=1):
        name = f"ledger-{next(numbers)}"
        create_ledger_table(client, name)
        configured = configuration(linger_s=2, batch_objects=6)
        simulated = SimulatedLane(client, configured, ledger_table=name, threads=threads)
        orders, customers, lines = (
            simulated.put(f"shop.{table}", n) for table, n in (("orders", 2), ("customers", 2), ("lines", 1))
        )
        simulated.good, simulated.bad = [orders[0], *customers, *lines], [orders[1]]
        simulated.merger.quarantined = frozenset(simulated.bad)
        simulated.merger.before["shop.lines"].append(ValueError("the first time"))
        arrived = []

        def arrives():
            if not arrived:
                arrived.extend(simulated.put("shop.customers", 1))
                simulated.good.extend(arrived)

        simulated.merger.during["shop.orders"] = arrives
        return simulated

    return make


def live(simulated, mortality, executor=None):
    """One run of the lane, which may die; then it is found dead at EMR."""
    identity = simulated.start()
    try:
        simulated.loop(identity, around=mortality.around, executor=executor).run()
    except Killed:
        assert mortality.dead
    simulated.lapse(identity)


def check(simulated):
    """The driver's share of `one-state`, `equals-its-source` and `outcome-before-ledger`."""
    assert simulated.states(simulated.good) == {"committed": len(simulated.good)}
    assert simulated.states(simulated.bad) == {"quarantined": len(simulated.bad)}
    assert simulated.tables.times_committed() == {identity: 1 for identity in simulated.good}
    records = simulated.ledger.objects.get(simulated.good)
    for batch, table, objects in simulated.tables.commits:
        assert {records[identity].batch for identity in objects} == {batch}
        assert simulated.documents.outcome(batch, table) is not None, outcome_key(batch, table)
    assert simulated.ledger.batches.unsettled(LANE) == []
    assert simulated.ledger.pending.oldest(LANE, 100) == []
    assert simulated.ledger.lanes.get(LANE).state == IDLE
    assert simulated.tables.unfinished == []


def steps_of_a_whole_life(new_world):
    simulated, mortality = new_world(), Mortality()
    live(simulated, mortality)
    simulated.live_on(MOST_RUNS)
    check(simulated)
    return mortality.steps


def test_a_run_that_dies_behind_any_step_loses_nothing_and_doubles_nothing(new_world):
    steps = steps_of_a_whole_life(new_world)
    ports = ("merger.merge_part", "merger.resolve_part", "documents.put_manifest", "documents.put_outcome")
    assert len(steps) > 60 and set(ports) <= set(steps)
    first = {steps.index(step) + 1 for step in steps}  # of each kind of step
    for dies_at in sorted(first | set(range(1, len(steps) + 1, 1 if WHOLE else 4))):
        simulated = new_world()
        live(simulated, Mortality(dies_at))
        simulated.live_on(MOST_RUNS)
        try:
            check(simulated)
        except AssertionError as wrong:
            raise AssertionError(
                f"died behind step {dies_at}: {' '.join(steps[max(0, dies_at - 4) : dies_at])}"
            ) from wrong


def test_runs_that_die_one_after_the_other_lose_nothing_and_double_nothing(new_world):
    chances = random.Random(20261121)
    for _ in range(25 if WHOLE else 8):
        simulated = new_world()
        deaths = [chances.randint(1, 90) for _ in range(3)]
        for dies_at in deaths:
            at = wanted_at(simulated.ledger.lanes.get(LANE))
            if at is None:
                break
            simulated.clock.advance(max(0, at - simulated.clock.now_ms()))
            live(simulated, Mortality(dies_at))
        if simulated.ledger.lanes.get(LANE).state != IDLE:
            simulated.ledger.lanes.resume(LANE)
        simulated.live_on(MOST_RUNS)
        try:
            check(simulated)
        except AssertionError as wrong:
            raise AssertionError(f"died behind steps {deaths}") from wrong


def test_a_batch_of_two_tables_cut_off_between_their_commits_is_finished(new_world):
    for dies_at in range(20, 60, 3 if WHOLE else 9):
        simulated = new_world(threads=2)
        with two_threads() as pool:
            live(simulated, Mortality(dies_at), executor=pool)
        simulated.live_on(MOST_RUNS)
        check(simulated)
