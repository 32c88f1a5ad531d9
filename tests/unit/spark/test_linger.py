"""How long an idle run stays, as one decision."""

from __future__ import annotations

import pytest

from sluice_spark.run.loop import (
    IDLE_WRITTEN_AFTER_MS,
    LOOK,
    RELEASE,
    WAIT,
    IdleLane,
    Staying,
    decide,
    due_at_release,
    idle_end,
    stays_until,
    wait_seconds,
)

NOW = 1_000_000
STAYING = Staying(linger_s=60, ends_at=NOW + 3_600_000)
IDLE = IdleLane(idle_since=NOW, found_nothing_at_arrivals=7)


def decided(idle=IDLE, staying=STAYING, arrivals=7, pause_requested=False, at=NOW):
    return decide(idle, staying, arrivals=arrivals, pause_requested=pause_requested, now=at)


@pytest.mark.parametrize(
    "what, decision",
    [
        (dict(idle=None), LOOK),
        (dict(), WAIT),
        (dict(arrivals=8), LOOK),
        (dict(at=NOW + 59_999), WAIT),
        (dict(at=NOW + 60_000), RELEASE),
        (dict(at=NOW + 60_000, arrivals=8), LOOK),
        (dict(pause_requested=True, arrivals=8), RELEASE),
        (dict(idle=None, pause_requested=True), RELEASE),
        (dict(idle=None, at=STAYING.ends_at), RELEASE),
        (dict(idle=IdleLane(NOW, 7, next_due_at=NOW + 10_000), at=NOW + 9_999), WAIT),
        (dict(idle=IdleLane(NOW, 7, next_due_at=NOW + 10_000), at=NOW + 10_000), LOOK),
        (dict(idle=IdleLane(NOW, 7, NOW + 300_000, keep_alive_until=NOW + 300_000), at=NOW + 200_000), WAIT),
        (dict(idle=IdleLane(NOW, 7, NOW + 300_000), at=NOW + 60_000), RELEASE),
    ],
)
def test_a_run_looks_waits_or_lets_go(what, decision):
    assert decided(**what) == decision


def test_freshness_keeps_a_run_no_longer_than_its_maximum_age():
    idle = IdleLane(NOW, 7, NOW + 9_000_000, keep_alive_until=NOW + 9_000_000)
    assert stays_until(idle, STAYING) == STAYING.ends_at


def test_a_run_says_when_its_wait_ends_only_once_it_has_waited_a_moment():
    assert idle_end(IDLE, STAYING, now=NOW + IDLE_WRITTEN_AFTER_MS - 1) is None
    assert idle_end(IDLE, STAYING, now=NOW + IDLE_WRITTEN_AFTER_MS) == NOW + 60_000


def test_a_run_that_did_not_look_at_all_that_arrived_leaves_it_due_at_once():
    assert due_at_release(None, arrivals=7, now=NOW) == NOW
    assert due_at_release(IDLE, arrivals=8, now=NOW) == NOW
    assert due_at_release(IDLE, arrivals=7, now=NOW) is None
    assert due_at_release(IdleLane(NOW, 7, NOW + 5), arrivals=7, now=NOW) == NOW + 5


def test_a_run_waits_no_longer_than_until_something_comes_due():
    assert wait_seconds(IDLE, STAYING, poll_s=0.1, now=NOW) == 0.1
    assert wait_seconds(IdleLane(NOW, 7, NOW + 40), STAYING, poll_s=0.1, now=NOW) == 0.04
    assert wait_seconds(IDLE, STAYING, poll_s=5, now=NOW + 59_000) == 1
    assert wait_seconds(IDLE, STAYING, poll_s=5, now=NOW + 70_000) == 0
