"""Walks every interleaving of a scenario breadth first and checks the protocol's properties in each model."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from lane_model.actors import steps, troubles
from lane_model.driver import CommittedTwice, could_commit, written_table
from lane_model.state import ABSENT, COMMITTED, QUARANTINED, Left, ModelState, Scenario
from sluice.lane import machine

TWO_WRITERS = "a table has at most one writer at a time"
ONE_BATCH = "every committed object is in exactly one batch"
NO_LOST_WAKE_UP = "no wake-up is lost"
CLAIMED_IN_THE_END = "claimable work is claimed in the end"
ONLY_POISON = "only an object that kills its runs is set aside"

CALM = Left(ticks=1_000_000, supervisions=1_000_000, runs=1_000_000)
COMPLETION_STEPS = 2_000  # far more than any completion takes: what needs more goes round in circles


@dataclass
class Violation:
    """A property that doesn't hold in a model, and how the model came about."""

    property: str
    model: ModelState
    trace: list[str]


@dataclass
class Exploration:
    """What was seen of a scenario."""

    states: int = 0
    steps: int = 0
    quiescent: int = 0
    violations: list[Violation] = field(default_factory=list)


def explore(scenario: Scenario, *, stop_at_first: bool = True, schedules: int = 1) -> Exploration:
    """All worlds within the scenario's bounds; a model that violates a property is not walked on from.

    `schedules` (0 to 2) is by how many schedules every model must complete.
    """
    seen = Exploration()
    first = scenario.start()
    came_from: dict[ModelState, tuple[ModelState, str] | None] = {first: None}
    waiting: deque[ModelState] = deque([first])
    completes: list[set[ModelState]] = [set() for _ in range(schedules)]
    while waiting:
        model = waiting.popleft()
        seen.states += 1
        broken = _broken(scenario, model, completes)
        ahead: list[tuple[str, ModelState]] = []
        if broken is None:
            try:
                ahead.extend(steps(scenario, model))
            except CommittedTwice:
                broken = ONE_BATCH
        if broken is not None:
            seen.violations.append(Violation(broken, model, _trace(came_from, model)))
            if stop_at_first:
                return seen
            continue
        if not ahead:
            seen.quiescent += 1
        ahead.extend(troubles(model))
        seen.steps += len(ahead)
        for label, after in ahead:
            if after not in came_from:
                came_from[after] = (model, label)
                waiting.append(after)
    return seen


def _broken(scenario: Scenario, model: ModelState, completes: list[set[ModelState]]) -> str | None:
    writers = [
        written_table(scenario, driver)
        for number, driver in enumerate(model.drivers)
        if could_commit(scenario, model, number, driver)
    ]
    if len(writers) != len(set(writers)):
        return TWO_WRITERS
    if not _in_one_batch(scenario, model):
        return ONE_BATCH
    if any(status == QUARANTINED and item not in scenario.poison for item, (status, _) in enumerate(model.objects)):
        return ONLY_POISON
    if not _somebody_will_look(model):
        return NO_LOST_WAKE_UP
    for schedule, complete in enumerate(completes):
        broken = _completes(scenario, model, complete, by_turns=schedule > 0)
        if broken is not None:
            return broken
    return None


def _in_one_batch(scenario: Scenario, model: ModelState) -> bool:
    """A settled object is on the timeline once, under the batch that the ledger says."""
    for item, (status, batch) in enumerate(model.objects):
        on = [part for part in model.timeline if part[1] == scenario.tables[item] and item in part[0]]
        if len(on) > 1 or (status == COMMITTED and [part[0] for part in on] != [batch]):
            return False
    return True


def _somebody_will_look(model: ModelState) -> bool:
    """Whether undone work is known to a run, to an invocation that hasn't woken yet, to the schedule, or to an
    operator.
    """
    undone = (
        model.unsettled
        or model.service != ("", "")
        or any(status not in (ABSENT, COMMITTED, QUARANTINED) for status, _ in model.objects)
    )
    if not undone or model.lane.state != machine.IDLE or machine.wanted_at(model.lane) is not None:
        return True
    return any(invocation.at in ("queued", "write", "wake") for invocation in model.invocations)


def _completes(scenario: Scenario, model: ModelState, complete: set[ModelState], by_turns: bool) -> str | None:
    """From here, without further trouble, everything is committed and the lane given back, by a fair schedule.

    One schedule lets admit go first, then drivers, then supervise, then time; `by_turns` takes them
    in turns from the other end. Worlds that are known to complete end the walk.
    """
    calm = model._replace(left=CALM)
    walked: list[ModelState] = []
    while calm not in complete:
        if len(walked) > COMPLETION_STEPS:
            return CLAIMED_IN_THE_END
        walked.append(calm)
        try:
            after = (
                _by_turns(scenario, calm, len(walked))
                if by_turns
                else next((reached for _, reached in steps(scenario, calm)), None)
            )
        except CommittedTwice:
            return ONE_BATCH
        if after is None:
            if (
                calm.unsettled
                or calm.service != ("", "")
                or calm.lane.state != machine.IDLE
                or any(
                    status != (QUARANTINED if item in scenario.poison else COMMITTED)
                    for item, (status, _) in enumerate(calm.objects)
                )
            ):
                return CLAIMED_IN_THE_END
            break
        calm = after._replace(left=CALM)
    complete.update(walked)
    return None


def _by_turns(scenario: Scenario, model: ModelState, turn: int) -> ModelState | None:
    possible = list(steps(scenario, model))
    choices = [after for label, after in possible if label != "time passes"] or [after for _, after in possible]
    return choices[-1 - turn % len(choices)] if choices else None


def _trace(came_from: dict[ModelState, tuple[ModelState, str] | None], model: ModelState) -> list[str]:
    labels: list[str] = []
    step = came_from[model]
    while step is not None:
        labels.append(step[1])
        step = came_from[step[0]]
    return labels[::-1]
