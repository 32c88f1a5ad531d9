"""Table services in a run: between batches, in slices, and never ahead of ingest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from driving.lane import LANE, SimulatedLane, configuration
from driving.mortality import Killed, Mortality

from sluice.lane.machine import HALT_AFTER_FAILURES, IDLE
from sluice.services.requests import COMPACTION, DONE, FAILED, PURGE, REQUESTED
from sluice_spark.errors import LaneLost, ServiceNotForTable, SparkDied
from sluice_spark.run.loop import LOST, RELEASED

ORDERS, CUSTOMERS = "shop.orders", "shop.customers"


@pytest.fixture
def simulated(client):
    made = SimulatedLane(client, configuration())
    made.put(ORDERS), made.put(CUSTOMERS)
    made.run()
    made.merger.calls.clear(), made.tables.commits.clear()
    return made


def ask(simulated, table=ORDERS, service=COMPACTION, *, wait_s=86_400, request=None):
    request = request or f"q-{table}-{service}-{simulated.clock.seconds}"
    times = {"now": simulated.clock.now_ms(), "min_interval_ms": 0, "max_wait_ms": wait_s * 1000}
    return simulated.ledger.services.request(LANE, table, service, request=request, requested_by="test", **times)


def state(simulated, table=ORDERS, service=COMPACTION):
    return simulated.ledger.services.get(LANE, table, service)


def worked(simulated):
    """What the merger did, in order, but for preparing and keeping warm."""
    return [call for call in simulated.merger.calls if call.split()[0] in ("merge", "serve")]


def test_a_run_does_a_requested_service_slice_by_slice_and_reports_it(simulated):
    ask(simulated)
    simulated.merger.slices[ORDERS] = 3
    assert simulated.run().how == RELEASED
    done = state(simulated)
    expected = (DONE, 3, 6, 3.0, "3")
    assert (done.state, done.slices, done.report.files_before, done.report.seconds, done.report.instant) == expected
    assert worked(simulated) == [f"serve {ORDERS} compaction"] * 3
    assert simulated.ledger.tables.get(ORDERS).services[COMPACTION]["commits"] == 1
    assert simulated.ledger.lanes.get(LANE).due_at is None


def test_claimable_work_goes_before_a_service_and_between_its_slices(simulated):
    ask(simulated)
    simulated.put(CUSTOMERS)
    simulated.merger.slices[ORDERS] = 2
    simulated.merger.during[COMPACTION] = lambda: simulated.merger.during.pop(COMPACTION) and simulated.put(CUSTOMERS)
    simulated.run()
    expected = [f"merge {CUSTOMERS}", f"serve {ORDERS} compaction", f"merge {CUSTOMERS}", f"serve {ORDERS} compaction"]
    assert worked(simulated) == expected


def test_an_overdue_service_takes_turns_with_endless_ingest(simulated):
    ask(simulated, wait_s=30)
    simulated.merger.slices[ORDERS] = 2
    batches = []

    def more():
        batches.append(simulated.put(CUSTOMERS))
        simulated.clock.advance(20_000)
        if len(batches) == 12:
            del simulated.merger.during[CUSTOMERS]

    simulated.merger.during[CUSTOMERS] = more
    simulated.put(CUSTOMERS)
    simulated.run()
    calls = worked(simulated)
    first, second = [at for at, call in enumerate(calls) if call.startswith("serve")]
    assert 1 < first < second < len(calls) - 1 and state(simulated).state == DONE
    assert calls[first + 1] == f"merge {CUSTOMERS}", "a batch comes between two slices"


def test_a_request_wakes_a_run_that_lingers_and_keeps_it_from_releasing(simulated):
    simulated.put(CUSTOMERS)
    release = simulated.ledger.lanes.release

    def asked_first(*arguments):
        if state(simulated) is None:
            ask(simulated)
        return release(*arguments)

    simulated.ledger.lanes.release = asked_first
    simulated.run()
    assert state(simulated).state == DONE and len(simulated.events("release_refused")) == 1


def test_a_slice_ends_a_runs_wait_for_objects(simulated):
    said = []
    serve = simulated.merger.serve_table

    def serving(*arguments):
        said.append(simulated.ledger.lanes.get(LANE).idle_until)
        return serve(*arguments)

    def asked():
        said.append(simulated.ledger.lanes.get(LANE).idle_until)
        ask(simulated)

    simulated.put(CUSTOMERS)
    simulated.merger.serve_table = serving
    simulated.clock.at(simulated.clock.seconds + 30, asked)
    simulated.run()
    assert said[0] is not None and said[1] is None


def test_services_that_a_run_leaves_at_its_end_are_due_to_the_next_run_at_once(simulated):
    simulated.file.content = configuration(max_age_s=1)
    ask(simulated)
    simulated.merger.slices[ORDERS] = 2
    simulated.run()
    assert (state(simulated).state, state(simulated).slices) == (REQUESTED, 1)
    assert 0 < simulated.ledger.lanes.get(LANE).due_at <= simulated.clock.now_ms()
    simulated.run()
    assert state(simulated).state == DONE and state(simulated).failures == 0


def test_a_failed_service_backs_off_blocks_no_batch_and_gives_its_reason(simulated):
    ask(simulated)
    simulated.put(ORDERS)
    simulated.merger.serving[ORDERS] = [RuntimeError("a task died"), RuntimeError("again")]
    simulated.merger.during[COMPACTION] = lambda: simulated.put(ORDERS)
    simulated.run()
    done = state(simulated)
    assert (done.state, done.failures, done.error) == (DONE, 0, None)
    assert worked(simulated).count(f"merge {ORDERS}") == 3 + 1
    failed = simulated.events("service_failed")
    assert [event["state"] for event in failed] == [REQUESTED, REQUESTED]
    assert failed[1]["retry_at"] > failed[0]["retry_at"]


def test_a_lane_with_a_service_in_back_off_is_released_and_due_when_it_is_over(simulated):
    ask(simulated)
    simulated.merger.serving[ORDERS] = [RuntimeError("dead")] * 3
    simulated.run()
    waiting = state(simulated)
    assert (waiting.state, waiting.error.code) == (REQUESTED, "service_failed") and "dead" in waiting.error.message
    expected = (IDLE, waiting.not_before)
    assert (simulated.ledger.lanes.get(LANE).state, simulated.ledger.lanes.get(LANE).due_at) == expected


def test_a_service_that_no_repetition_helps_is_given_up_and_ingest_goes_on(simulated):
    ask(simulated, service=PURGE)
    simulated.merger.serving[ORDERS] = [ServiceNotForTable("not for this table", service=PURGE, table=ORDERS)]
    arrived = simulated.put(ORDERS)
    simulated.run()
    expected = (FAILED, "service_not_for_table")
    assert (state(simulated, service=PURGE).state, state(simulated, service=PURGE).error.code) == expected
    assert simulated.states(arrived) == {"committed": 1}


def test_a_purge_that_dies_behind_its_floor_has_it_in_the_ledger(simulated):
    ask(simulated, service=PURGE)
    simulated.merger.serving[ORDERS] = [RuntimeError("a task died")]
    simulated.run()
    assert simulated.ledger.tables.get(ORDERS).purge_floors == {"0": "0000.1"} and simulated.events("service_failed")


def test_a_service_waits_for_a_paused_table_and_is_dropped_for_another_lanes_table(simulated):
    ask(simulated)
    ask(simulated, table="shop.never_committed")
    held = simulated.file.content
    simulated.file.content = replace(held, rules=tuple(replace(rule, paused=True) for rule in held.rules))
    simulated.run()
    assert (state(simulated).state, simulated.ledger.lanes.get(LANE).due_at, worked(simulated)) == (REQUESTED, None, [])
    dropped = state(simulated, "shop.never_committed")
    assert (dropped.state, dropped.error.code) == (FAILED, "no_data")
    simulated.file.content = held
    simulated.ledger.lanes.wake(LANE)
    simulated.run()
    assert state(simulated).state == DONE


def test_a_run_that_loses_the_lane_in_a_slice_writes_nothing_and_the_next_retries(simulated):
    ask(simulated)
    identity = simulated.start()
    simulated.merger.during[COMPACTION] = lambda: simulated.merger.during.pop(COMPACTION) and simulated.lapse(identity)
    assert simulated.loop(identity).run().how == LOST
    assert state(simulated).run == identity.run and simulated.tables.served == []
    simulated.run()
    assert (state(simulated).state, state(simulated).run) == (DONE, "run-3")
    assert len(simulated.events("service_interrupted")) == 1


def test_a_service_in_which_runs_keep_dying_does_not_halt_the_lane(simulated):
    ask(simulated)
    deaths = 0
    while state(simulated).state != FAILED:
        identity = simulated.start()
        simulated.merger.serving[ORDERS] = [SparkDied("out of memory", table=ORDERS)]
        try:
            simulated.loop(identity).run()
        except SparkDied:
            deaths += 1
            simulated.lapse(identity)
        else:
            simulated.clock.advance(900_000)
            simulated.ledger.lanes.wake(LANE)
        simulated.merger.serving[ORDERS].clear()
    assert deaths < HALT_AFTER_FAILURES and state(simulated).error.code == "run_died"
    arrived = simulated.put(ORDERS)
    simulated.run()
    assert simulated.states(arrived) == {"committed": 1}


@pytest.mark.long
def test_wherever_a_run_dies_a_later_run_does_its_services(simulated):
    steps = Mortality()
    ask(simulated, request="q-0")
    simulated.merger.slices[ORDERS] = 2
    simulated.loop(simulated.start(), around=steps.around).run()
    work = ("serve", "transact_write", "put_item")
    serving = [at for at, step in enumerate(steps.steps, 1) if any(part in step for part in work)]
    assert sum(steps.steps[at - 1] == "merger.serve_table" for at in serving) == 2 < len(serving)
    for turn, dies_at in enumerate(serving, 1):
        simulated.merger.slices[ORDERS] = 2
        ask(simulated, request=f"q-{turn}")
        arrived = simulated.put(CUSTOMERS)
        identity = simulated.start()
        mortality = Mortality(dies_at)
        try:
            simulated.loop(identity, around=mortality.around).run()
        except (Killed, LaneLost):
            simulated.lapse(identity)
        simulated.merger.slices[ORDERS] = max(1, min(simulated.merger.slices[ORDERS], 2))
        simulated.run()
        simulated.clock.advance(60_000)
        if state(simulated).open:
            simulated.ledger.lanes.wake(LANE)
            simulated.run()
        assert state(simulated).state == DONE, f"died behind step {dies_at}"
        assert simulated.states(arrived) == {"committed": 1}
