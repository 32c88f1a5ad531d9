"""Walks every interleaving of a scenario breadth first and checks the protocol's properties in each world."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from lane_actors import steps, troubles
from lane_driver import CommittedTwice, could_commit, written_table
from lane_world import ABSENT, COMMITTED, Left, Scenario, World

from sluice.lane import machine

TWO_WRITERS = "a table has at most one writer at a time"
ONE_BATCH = "every committed object is in exactly one batch"
NO_LOST_WAKE_UP = "no wake-up is lost"
CLAIMED_IN_THE_END = "claimable work is claimed in the end"

CALM = Left(ticks=1_000_000, supervisions=1_000_000, runs=1_000_000)
COMPLETION_STEPS = 2_000  # far more than any completion takes: what needs more goes round in circles


@dataclass
class Violation:
    """A property that doesn't hold in a world, and how the world came about."""

    property: str
    world: World
    trace: list[str]


@dataclass
class Exploration:
    """What was seen of a scenario."""

    states: int = 0
    steps: int = 0
    quiescent: int = 0
    violations: list[Violation] = field(default_factory=list)


def explore(scenario: Scenario, *, stop_at_first: bool = True, schedules: int = 1) -> Exploration:
    """All worlds within the scenario's bounds; a world that violates a property is not walked on from.

    `schedules` (0 to 2) is by how many schedules every world must complete.
    """
    seen = Exploration()
    first = scenario.start()
    came_from: dict[World, tuple[World, str] | None] = {first: None}
    waiting: deque[World] = deque([first])
    completes: list[set[World]] = [set() for _ in range(schedules)]
    while waiting:
        world = waiting.popleft()
        seen.states += 1
        broken = _broken(scenario, world, completes)
        ahead: list[tuple[str, World]] = []
        if broken is None:
            try:
                ahead.extend(steps(scenario, world))
            except CommittedTwice:
                broken = ONE_BATCH
        if broken is not None:
            seen.violations.append(Violation(broken, world, _trace(came_from, world)))
            if stop_at_first:
                return seen
            continue
        if not ahead:
            seen.quiescent += 1
        ahead.extend(troubles(world))
        seen.steps += len(ahead)
        for label, after in ahead:
            if after not in came_from:
                came_from[after] = (world, label)
                waiting.append(after)
    return seen


def _broken(scenario: Scenario, world: World, completes: list[set[World]]) -> str | None:
    writers = [
        written_table(scenario, driver)
        for number, driver in enumerate(world.drivers)
        if could_commit(scenario, world, number, driver)
    ]
    if len(writers) != len(set(writers)):
        return TWO_WRITERS
    if not _in_one_batch(scenario, world):
        return ONE_BATCH
    if not _somebody_will_look(world):
        return NO_LOST_WAKE_UP
    for schedule, known in enumerate(completes):
        broken = _completes(scenario, world, known, by_turns=schedule > 0)
        if broken is not None:
            return broken
    return None


def _in_one_batch(scenario: Scenario, world: World) -> bool:
    """A settled object is on the timeline once, under the batch that the ledger says."""
    for found, (status, batch) in enumerate(world.objects):
        on = [part for part in world.timeline if part[1] == scenario.tables[found] and found in part[0]]
        if len(on) > 1 or (status == COMMITTED and [part[0] for part in on] != [batch]):
            return False
    return True


def _somebody_will_look(world: World) -> bool:
    """Whether undone work is known to a run, to an invocation that hasn't woken yet, to the schedule, or to an operator."""
    undone = (
        world.unsettled
        or world.service != ("", "")
        or any(status not in (ABSENT, COMMITTED) for status, _ in world.objects)
    )
    if not undone or world.lane.state != machine.IDLE or machine.wanted_at(world.lane) is not None:
        return True
    return any(invocation.at in ("queued", "write", "wake") for invocation in world.invocations)


def _completes(scenario: Scenario, world: World, known: set[World], by_turns: bool) -> str | None:
    """From here, without further trouble, everything is committed and the lane given back, by a fair schedule.

    One schedule lets admit go first, then drivers, then supervise, then time; `by_turns` takes them
    in turns from the other end. Worlds that are known to complete end the walk.
    """
    calm = world._replace(left=CALM)
    walked: list[World] = []
    while calm not in known:
        if len(walked) > COMPLETION_STEPS:
            return CLAIMED_IN_THE_END
        walked.append(calm)
        try:
            after = (
                _by_turns(scenario, calm, len(walked))
                if by_turns
                else next((found for _, found in steps(scenario, calm)), None)
            )
        except CommittedTwice:
            return ONE_BATCH
        if after is None:
            if (
                calm.unsettled
                or calm.service != ("", "")
                or calm.lane.state != machine.IDLE
                or any(status != COMMITTED for status, _ in calm.objects)
            ):
                return CLAIMED_IN_THE_END
            break
        calm = after._replace(left=CALM)
    known.update(walked)
    return None


def _by_turns(scenario: Scenario, world: World, turn: int) -> World | None:
    found = list(steps(scenario, world))
    choices = [after for label, after in found if label != "time passes"] or [after for _, after in found]
    return choices[-1 - turn % len(choices)] if choices else None


def _trace(came_from: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    labels: list[str] = []
    step = came_from[world]
    while step is not None:
        labels.append(step[1])
        step = came_from[step[0]]
    return labels[::-1]
