"""The real run loop, ledger, waker and supervisor, in every schedule within bounds, with crashes between any two calls.

tests/lane_model explores a model of the protocol exhaustively; here nothing is a model but AWS and Hudi themselves.
`make test-all` allows more deviations per schedule.
"""

from __future__ import annotations

from functools import partial

import pytest
from exploring.schedules import Bounds, explore
from exploring.world import LaneWorld, Scenario
from support.extent import WHOLE

A, B = "shop.a", "shop.b"
SCENARIOS = {
    "two objects arrive while a run works and releases": (
        Scenario((A, A), ((0,), (1,))),
        Bounds(preemptions=2),
        Bounds(preemptions=3),
    ),
    "a crash anywhere": (Scenario((A,), ((0,),), supervisions=1), Bounds(0, 1), Bounds(1, 2)),
    "a batch of two tables, crashes anywhere": (Scenario((A, B), ((0, 1),)), Bounds(0, 2), Bounds(1, 2)),
    "a table fails, a crash anywhere": (Scenario((A, B), ((0, 1),), fails=(A,)), Bounds(0, 1), Bounds(1, 2)),
    "a backlog larger than a batch": (Scenario((A, A, A), ((0, 1, 2),), batch_objects=1), Bounds(0, 1), Bounds(1, 2)),
    "an object kills its runs, a crash anywhere": (
        Scenario((A, A, B), ((0, 1, 2),), supervisions=10 if WHOLE else 4, kills=(0,)),
        Bounds(0, 1),
        Bounds(0, 1),  # a preemption besides takes longer than a quarter of an hour
    ),
    "a notice comes twice": (Scenario((A,), ((0,), (0,)), supervisions=1), Bounds(1, 0), Bounds(1, 1)),
}
# test_lane_model.py has the one, too, and test_isolation.py the other
IN_WHOLE = frozenset({"a notice comes twice", "an object kills its runs, a crash anywhere"})


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.whole if name in IN_WHOLE else ()) for name in SCENARIOS]
)
def test_the_real_code_commits_each_object_once_in_every_schedule(name, record_property):
    scenario, short, whole = SCENARIOS[name]
    seen = explore(partial(LaneWorld, scenario), whole if WHOLE else short)
    for counted in ("states", "schedules", "steps"):
        record_property(counted, getattr(seen, counted))
    print(f"{name}: {seen.states} states, {seen.schedules} schedules, {seen.steps} steps")
    assert seen.failure is None, "\n".join([seen.failure, *seen.trace])
    assert seen.schedules > 20
