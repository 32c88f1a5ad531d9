"""Table services in a run: between batches, in slices, behind ingest, and never in its way."""

from __future__ import annotations

import pytest
from driving.mortality import Killed, Mortality
from driving.world import LANE, World, configuration, emulated_dynamodb

from sluice.lane.machine import HALT_AFTER, IDLE
from sluice.services.requests import COMPACTION, DONE, FAILED, PURGE, REQUESTED
from sluice_spark.errors import LaneLost, SparkDied
from sluice_spark.run.loop import LOST, RELEASED

ORDERS, CUSTOMERS = "shop.orders", "shop.customers"


@pytest.fixture
def world():
    with emulated_dynamodb() as client:
        made = World(client, configuration())
        made.put(ORDERS)
        made.put(CUSTOMERS)
        made.run()
        made.merger.calls.clear()
        made.tables.commits.clear()
        yield made


def ask(world, table=ORDERS, service=COMPACTION, *, wait_s=86_400, request=None):
    request = request or f"q-{table}-{service}-{world.clock.seconds}"
    return world.ledger.request_service(
        LANE,
        table,
        service,
        request=request,
        requested_by="test",
        now=world.clock.now_ms(),
        min_interval_ms=0,
        max_wait_ms=wait_s * 1000,
    )


def state(world, table=ORDERS, service=COMPACTION):
    return world.ledger.service_request(LANE, table, service)


def worked(world):
    """What the merger did, in order, but for preparing and keeping warm."""
    return [call for call in world.merger.calls if call.split()[0] in ("merge", "serve")]


def test_a_run_does_a_requested_service_slice_by_slice_and_reports_it(world):
    ask(world)
    world.merger.slices[ORDERS] = 3
    assert world.run().how == RELEASED
    done = state(world)
    assert (done.state, done.slices, done.report.files_before, done.report.seconds, done.report.instant) == (
        DONE,
        3,
        6,
        3.0,
        "3",
    )
    assert worked(world) == [f"serve {ORDERS} compaction"] * 3
    assert world.ledger.table_state(ORDERS).services[COMPACTION]["commits"] == 1
    assert world.ledger.lane(LANE).due_at is None


def test_claimable_work_goes_before_a_service_and_between_its_slices(world):
    ask(world)
    world.put(CUSTOMERS)
    world.merger.slices[ORDERS] = 2
    world.merger.during[COMPACTION] = lambda: world.merger.during.pop(COMPACTION) and world.put(CUSTOMERS)
    world.run()
    assert worked(world) == [
        f"merge {CUSTOMERS}",
        f"serve {ORDERS} compaction",
        f"merge {CUSTOMERS}",
        f"serve {ORDERS} compaction",
    ]


def test_a_service_that_has_waited_its_longest_takes_turns_with_ingest_that_never_ends(world):
    ask(world, wait_s=30)
    world.merger.slices[ORDERS] = 2
    batches = []

    def more():
        batches.append(world.put(CUSTOMERS))
        world.clock.advance(20_000)
        if len(batches) == 12:
            del world.merger.during[CUSTOMERS]

    world.merger.during[CUSTOMERS] = more
    world.put(CUSTOMERS)
    world.run()
    calls = worked(world)
    first, second = [at for at, call in enumerate(calls) if call.startswith("serve")]
    assert 1 < first < second < len(calls) - 1 and state(world).state == DONE
    assert calls[first + 1] == f"merge {CUSTOMERS}", "a batch comes between two slices"


def test_a_request_wakes_a_run_that_lingers_and_keeps_it_from_releasing(world):
    world.put(CUSTOMERS)
    release = world.ledger.release

    def asked_first(*arguments):
        if state(world) is None:
            ask(world)
        return release(*arguments)

    world.ledger.release = asked_first
    world.run()
    assert state(world).state == DONE and len(world.events("release_refused")) == 1


def test_what_a_run_leaves_of_its_services_at_its_end_is_due_to_the_next_run_at_once(world):
    world.file.content = configuration(max_age_s=1)
    ask(world)
    world.merger.slices[ORDERS] = 2
    world.run()
    lane = world.ledger.lane(LANE)
    assert (
        (state(world).state, state(world).slices) == (REQUESTED, 1)
        and lane.due_at is not None
        and lane.due_at <= world.clock.now_ms()
    )
    world.run()
    assert state(world).state == DONE and state(world).failures == 0


def test_a_service_that_fails_backs_off_blocks_no_batch_and_says_why(world):
    ask(world)
    world.put(ORDERS)
    world.merger.serving[ORDERS] = [RuntimeError("a task died"), RuntimeError("again")]
    world.merger.during[COMPACTION] = lambda: world.put(ORDERS)
    world.run()
    done = state(world)
    assert (done.state, done.failures, done.error) == (DONE, 0, None) and [call for call in worked(world)].count(
        f"merge {ORDERS}"
    ) == 3 + 1
    failed = world.events("service_failed")
    assert [event["state"] for event in failed] == [REQUESTED, REQUESTED] and failed[1]["retry_at"] > failed[0][
        "retry_at"
    ]


def test_a_lane_with_a_service_in_back_off_is_released_and_due_when_it_is_over(world):
    ask(world)
    world.merger.serving[ORDERS] = [RuntimeError("dead")] * 3
    world.run()
    waiting = state(world)
    assert (waiting.state, waiting.error.code) == (REQUESTED, "service_failed") and "dead" in waiting.error.message
    assert (world.ledger.lane(LANE).state, world.ledger.lane(LANE).due_at) == (IDLE, waiting.not_before)


def test_a_service_that_no_repetition_helps_is_given_up_and_ingest_goes_on(world):
    from sluice_spark.errors import ServiceNotForTable

    ask(world, service=PURGE)
    world.merger.serving[ORDERS] = [ServiceNotForTable("not for this table", service=PURGE, table=ORDERS)]
    arrived = world.put(ORDERS)
    world.run()
    assert (state(world, service=PURGE).state, state(world, service=PURGE).error.code) == (
        FAILED,
        "service_not_for_table",
    )
    assert world.states(arrived) == {"committed": 1}


def test_a_purge_that_dies_behind_its_floor_has_it_in_the_ledger(world):
    ask(world, service=PURGE)
    world.merger.serving[ORDERS] = [RuntimeError("a task died")]
    world.run()
    assert world.ledger.table_state(ORDERS).purge_floors == {"0": "0000.1"} and world.events("service_failed")


def test_a_service_waits_while_its_table_is_paused_and_is_given_up_where_the_table_is_not_the_lanes(world):
    ask(world)
    ask(world, table="shop.never_committed")
    world.ledger.set_table_paused(ORDERS, True)
    world.run()
    assert state(world).state == REQUESTED and world.ledger.lane(LANE).due_at is None and worked(world) == []
    assert (state(world, "shop.never_committed").state, state(world, "shop.never_committed").error.code) == (
        FAILED,
        "no_data",
    )
    world.ledger.set_table_paused(ORDERS, False)
    world.ledger.wake(LANE)
    world.run()
    assert state(world).state == DONE


def test_a_run_that_loses_the_lane_in_a_slice_writes_nothing_more_and_the_next_one_tries_again(world):
    ask(world)
    identity = world.start()
    world.merger.during[COMPACTION] = lambda: world.merger.during.pop(COMPACTION) and world.lapse(identity)
    assert world.loop(identity).run().how == LOST
    assert state(world).run == identity.run and world.tables.served == []
    world.run()
    assert (state(world).state, state(world).run) == (DONE, "run-3") and len(world.events("service_interrupted")) == 1


def test_a_service_in_which_runs_keep_dying_does_not_halt_the_lane(world):
    ask(world)
    deaths = 0
    while state(world).state != FAILED:
        identity = world.start()
        world.merger.serving[ORDERS] = [SparkDied("out of memory", table=ORDERS)]
        try:
            world.loop(identity).run()
        except SparkDied:
            deaths += 1
            world.lapse(identity)
        else:
            world.clock.advance(900_000)
            world.ledger.wake(LANE)
        world.merger.serving[ORDERS].clear()
    assert deaths < HALT_AFTER and state(world).error.code == "run_died"
    arrived = world.put(ORDERS)
    world.run()
    assert world.states(arrived) == {"committed": 1}


def test_wherever_a_run_dies_its_services_are_done_by_a_later_one_and_nothing_is_lost(world):
    steps = Mortality()
    ask(world, request="q-0")
    world.merger.slices[ORDERS] = 2
    world.loop(world.start(), around=steps.around).run()
    serving = [
        at
        for at, step in enumerate(steps.steps, 1)
        if "serve" in step or "transact_write" in step or "put_item" in step
    ]
    assert sum(steps.steps[at - 1] == "merger.serve" for at in serving) == 2 < len(serving)
    for turn, dies_at in enumerate(serving, 1):
        world.merger.slices[ORDERS] = 2
        ask(world, request=f"q-{turn}")
        arrived = world.put(CUSTOMERS)
        identity = world.start()
        mortality = Mortality(dies_at)
        try:
            world.loop(identity, around=mortality.around).run()
        except (Killed, LaneLost):
            world.lapse(identity)
        world.merger.slices[ORDERS] = min(world.merger.slices[ORDERS], 2) if world.merger.slices[ORDERS] > 0 else 1
        world.run()
        world.clock.advance(60_000)
        if state(world).open:
            world.ledger.wake(LANE)
            world.run()
        assert state(world).state == DONE, f"died behind step {dies_at}"
        assert world.states(arrived) == {"committed": 1}
