"""The lane machine alone: every listed transition happens, no other does, and each has its refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.lane import machine
from sluice.lane.machine import (
    HALT_AFTER_FAILURES,
    LONGEST_BACKOFF_MS,
    RETRY_HALTED_MS,
    UNANSWERED_START_MS,
    LaneRefusal,
    LaneState,
)
from sluice.lane.supervision import ASK_STATE, LOOK_UP, NOTHING, REPEAT_START, START, LaneStep, new_run_id, next_step

# By transition and state, the states that it can lead to, as the machine's description lists them.
AFTER_A_RUN, BOTH = {machine.IDLE, machine.HALTED, machine.PAUSED}, ("starting", "running")
LISTED = {
    "wake": {state: {state} for state in machine.STATES},
    "request_start": dict.fromkeys((machine.IDLE, machine.HALTED), {machine.STARTING}),
    "started": {machine.STARTING: {machine.STARTING}},
    "hold": dict.fromkeys(BOTH, {machine.RUNNING}),
    **dict.fromkeys(("accept_ledger", "gave_sign", "progressed"), {machine.RUNNING: {machine.RUNNING}}),
    "release": {machine.RUNNING: {machine.IDLE, machine.PAUSED}},
    "lapse": dict.fromkeys(BOTH, AFTER_A_RUN),
    "pause": {**dict.fromkeys((machine.IDLE, machine.HALTED), {machine.PAUSED}), **{state: {state} for state in BOTH}},
    "resume": {**dict.fromkeys(AFTER_A_RUN, {machine.IDLE}), **{state: {state} for state in BOTH}},
}
NOW = 1_000_000
IDLE = LaneState("main")
STARTING = machine.request_start(machine.wake(IDLE), "r1", NOW)
STARTED = machine.started(STARTING, "r1", "j1")
RUNNING = machine.hold(STARTED, "r1", "j1", 1, NOW)
HALTED = machine.lapse(replace(RUNNING, failures=HALT_AFTER_FAILURES - 1), "r1", NOW, job_run_id="j1")


def everything_from(state):
    """Every transition from a state, by runs and job runs of its own and foreign ones."""
    for run in ("r1", "r2"):
        yield "request_start", machine.request_start(state, run, NOW)
        for job in ("j1", "j2"):
            yield "started", machine.started(state, run, job)
            yield "hold", machine.hold(state, run, job, 1, NOW)
        for seen in (0, state.arrivals):
            yield "release", machine.release(state, run, seen, None, NOW)
        for job in (None, "j1", "j2"):
            for capacity in (False, True):
                yield "lapse", machine.lapse(state, run, NOW, job_run_id=job, capacity=capacity)
        yield "progressed", machine.progressed(state, run)
        yield "accept_ledger", machine.accept_ledger(state, run)
        for idle_until in (None, NOW + 60_000):
            yield "gave_sign", machine.gave_sign(state, run, NOW, idle_until)
    yield "pause", machine.pause(state)
    yield "resume", machine.resume(state)
    yield "wake", machine.wake(state)


def test_exactly_the_listed_transitions_happen():
    seen, waiting, walked = set(), [IDLE], {}
    while waiting:
        state = waiting.pop()
        for name, after in everything_from(state):
            if isinstance(after, LaneRefusal):
                assert after.state == state and after.transition == name
                continue
            seen.add((name, state.state, after.state))
            # Counters and clocks go on for ever; what matters of them here is bounded.
            bounds = {"arrivals": min(after.arrivals, 2), "failures": min(after.failures, HALT_AFTER_FAILURES)}
            after = replace(after, **bounds, arrivals_seen=0, capacity_failures=0, backoff_until=None, reason=None)
            if after not in walked:
                walked[after] = True
                waiting.append(after)
    listed = ((name, before, ends) for name, reached in LISTED.items() for before, ends in reached.items())
    assert seen == {(name, before, after) for name, before, ends in listed for after in ends}
    assert {state.state for state in walked} == set(machine.STATES)


class TestStarting:
    def test_an_idle_lane_with_an_unseen_arrival_wants_a_run_at_once(self):
        assert not machine.wants_run(IDLE, NOW)
        assert machine.wants_run(machine.wake(IDLE), NOW)

    def test_a_lane_that_waits_for_freshness_wants_a_run_when_it_comes_due(self):
        waiting = machine.release(RUNNING, "r1", 1, NOW + 60, NOW)
        assert not machine.wants_run(waiting, NOW + 59) and machine.wants_run(waiting, NOW + 60)
        assert machine.wanted_at(waiting) == NOW + 60

    def test_nothing_starts_in_back_off(self):
        backing_off = machine.lapse(RUNNING, "r1", NOW, job_run_id="j1")
        until = backing_off.backoff_until
        assert not machine.wants_run(machine.wake(backing_off), until - 1) and machine.wants_run(backing_off, until)
        assert isinstance(machine.request_start(backing_off, "r2", until - 1), LaneRefusal)

    @pytest.mark.parametrize("state", [STARTING, RUNNING, machine.pause(IDLE)])
    def test_a_lane_that_is_not_idle_wants_none(self, state):
        assert machine.wanted_at(machine.wake(state)) is None
        assert isinstance(machine.request_start(state, "r9", NOW), LaneRefusal)


class TestHolding:
    def test_a_driver_holds_before_its_start_was_noted(self):
        assert machine.holds(machine.hold(STARTING, "r1", "j1", 1, NOW), "r1", "j1")

    def test_a_second_job_run_of_the_same_run_does_not_hold(self):
        assert isinstance(machine.hold(STARTED, "r1", "j2", 1, NOW), LaneRefusal)
        assert isinstance(machine.hold(RUNNING, "r1", "j2", 1, NOW), LaneRefusal)

    def test_a_second_attempt_of_the_holder_does_not_hold_and_the_first_may_ask_again(self):
        assert isinstance(machine.hold(RUNNING, "r1", "j1", 2, NOW), LaneRefusal)
        assert machine.hold(RUNNING, "r1", "j1", 1, NOW + 5) == RUNNING

    def test_a_run_whose_lane_lapsed_no_longer_holds(self):
        lapsed = machine.lapse(RUNNING, "r1", NOW, job_run_id="j1")
        assert not machine.holds(lapsed, "r1", "j1")
        assert isinstance(machine.hold(lapsed, "r1", "j1", 1, NOW), LaneRefusal)


class TestWaiting:
    def test_a_holder_that_waits_for_objects_says_until_when_and_takes_it_back(self):
        waits = machine.gave_sign(RUNNING, "r1", NOW + 5, NOW + 60_000)
        assert (waits.alive_at, waits.idle_until) == (NOW + 5, NOW + 60_000)
        assert machine.gave_sign(waits, "r1", NOW + 6).idle_until is None

    def test_a_lane_without_a_run_waits_for_nothing(self):
        waits = machine.gave_sign(RUNNING, "r1", NOW, NOW + 60_000)
        assert machine.release(waits, "r1", 1, None, NOW).idle_until is None
        assert machine.lapse(waits, "r1", NOW, job_run_id="j1").idle_until is None


class TestLapsing:
    def test_back_off_doubles_up_to_its_limit_and_the_fifth_run_without_progress_halts(self):
        state, waits = RUNNING, []
        for failures in range(1, HALT_AFTER_FAILURES + 1):
            state = machine.lapse(state, "r1", NOW, job_run_id="j1")
            waits.append(state.backoff_until - NOW)
            assert state.failures == failures
            if failures < HALT_AFTER_FAILURES:
                state = machine.hold(machine.request_start(state, "r1", state.backoff_until), "r1", "j1", 1, NOW)
        assert waits == [30_000, 60_000, 120_000, 240_000, RETRY_HALTED_MS]
        assert state.state == "halted"
        assert machine.backoff_ms(50) == LONGEST_BACKOFF_MS
        resumed = machine.resume(state)
        assert machine.wants_run(resumed, NOW) and resumed.failures == 0

    def test_a_halted_lane_tries_again_after_an_hour_and_stays_halted_while_runs_fail(self):
        halted = replace(HALTED, arrivals=1)
        at = halted.backoff_until
        assert machine.wanted_at(halted) == at
        assert not machine.wants_run(machine.wake(halted), at - 1) and machine.wants_run(halted, at)
        assert isinstance(machine.request_start(halted, "r2", at - 1), LaneRefusal)
        again = machine.hold(machine.request_start(halted, "r2", at), "r2", "j2", 1, at)
        for capacity in (False, True):
            failed = machine.lapse(again, "r2", at, job_run_id="j2", capacity=capacity)
            assert (failed.state, failed.backoff_until) == ("halted", at + RETRY_HALTED_MS)
        assert machine.release(again, "r2", again.arrivals, None, at).failures == 0
        closed = machine.lapse(machine.progressed(again, "r2"), "r2", at, job_run_id="j2")
        assert (closed.state, closed.failures) == ("idle", 0)

    def test_a_paused_lane_that_was_halted_does_not_try_again(self):
        paused = machine.pause(HALTED)
        assert machine.wanted_at(paused) is None
        assert isinstance(machine.request_start(paused, "r2", NOW + 10 * RETRY_HALTED_MS), LaneRefusal)

    def test_want_of_capacity_backs_off_and_never_halts(self):
        state = STARTED
        for _ in range(12):
            state = machine.lapse(state, "r1", NOW, job_run_id="j1", capacity=True)
            assert state.state == "idle"
            wait = state.backoff_until - NOW
            state = machine.started(machine.request_start(state, "r1", state.backoff_until), "r1", "j1")
        assert wait == LONGEST_BACKOFF_MS

    def test_a_run_that_closed_a_batch_leaves_no_failure_behind(self):
        failed_before = replace(RUNNING, failures=4)
        lapsed = machine.lapse(machine.progressed(failed_before, "r1"), "r1", NOW, job_run_id="j1")
        assert (lapsed.state, lapsed.failures, lapsed.backoff_until) == ("idle", 0, None)
        assert machine.wants_run(lapsed, NOW)

    def test_it_names_the_job_run_that_is_over(self):
        assert isinstance(machine.lapse(RUNNING, "r1", NOW, job_run_id=None), LaneRefusal)
        assert isinstance(machine.lapse(RUNNING, "r1", NOW, job_run_id="j2"), LaneRefusal)
        assert isinstance(machine.lapse(RUNNING, "r2", NOW, job_run_id="j1"), LaneRefusal)


class TestPausing:
    def test_a_running_lane_is_asked_and_ends_paused(self):
        asked = machine.pause(RUNNING)
        assert asked.state == "running" and asked.pause_requested
        assert machine.release(asked, "r1", 1, None, NOW).state == "paused"
        assert machine.lapse(asked, "r1", NOW, job_run_id="j1").state == "paused"

    def test_taking_a_request_back_counts_as_an_arrival(self):
        resumed = machine.resume(machine.pause(RUNNING))
        assert not resumed.pause_requested and resumed.arrivals == RUNNING.arrivals + 1


class TestSupervising:
    @pytest.mark.parametrize(
        ("state", "now", "expected"),
        [
            (IDLE, NOW, LaneStep(NOTHING)),
            (machine.wake(IDLE), NOW, LaneStep(START)),
            (STARTING, NOW + UNANSWERED_START_MS - 1, LaneStep(REPEAT_START, "r1")),
            (STARTING, NOW + UNANSWERED_START_MS, LaneStep(LOOK_UP, "r1")),
            (STARTED, NOW, LaneStep(ASK_STATE, "r1", "j1")),
            (RUNNING, NOW, LaneStep(ASK_STATE, "r1", "j1")),
            (machine.pause(machine.wake(IDLE)), NOW, LaneStep(NOTHING)),
            (HALTED, NOW + RETRY_HALTED_MS - 1, LaneStep(NOTHING)),
            (HALTED, NOW + RETRY_HALTED_MS, LaneStep(START)),
        ],
    )
    def test_the_next_step_follows_from_the_lane_and_the_time(self, state, now, expected):
        assert next_step(state, now) == expected

    def test_a_run_id_is_what_names_tags_and_tokens_allow(self):
        assert new_run_id("main", 1_700_000_000_000, "abcdef0123") == "run-main-20231114T221320Z-abcdef01"
        assert len(new_run_id("l" * 32, NOW, "abcdef01")) <= 64
