"""Runs one fault: lands a round, strikes, lands another one, waits until all is committed, and judges."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from judging.running_stack import RunningStack

from faulting.fault import Fault
from faulting.proxy import FaultProxy
from faulting.scene import Scene
from faulting.verdict import Verdict, judge_scene
from faulting.world import World

# What a driver logs of a fault and of its recovery.
NOTABLE = (
    "taking_over",
    "rolled_back",
    "commit_found_after_failure",
    "table_failed",
    "resolve_failed",
    "part_returned",
    "lane_lost",
    "hold_refused",
    "late_files_removed",
    "configuration_broken",
    "ledger_lost",
)


@dataclass(frozen=True)
class Struck:
    """One run of one fault: what the drivers logged, the seconds to recovery, and the verdict."""

    fault: str
    seconds: float
    runs: int
    happened: Mapping[str, int]
    verdict: Verdict

    def to_dict(self) -> dict:
        """Plain JSON values."""
        return asdict(self)


def strike(fault: Fault, stack: RunningStack, proxy: FaultProxy, *, hurried: bool = False) -> Struck:
    """Run a fault on a stack. Raises what the fault or a wait raises; the verdict may still be bad."""
    world = World(stack, table_type=fault.table_type)
    scene = Scene(stack, proxy, world, hurried=hurried)
    stack.configure(world.rules(**dict(fault.rules)))
    scene.behave()
    try:
        scene.fresh_run()  # a run that lives knows other tables only, and may not go through this proxy
        if fault.before is not None:
            fault.before(scene)
        world.put_round()
        stack.wait(300, strict=False)
        struck_from = time.time()
        runs = _runs(scene)
        fault.act(scene)
        world.put_round()
        scene.wait_settled()
        seconds = time.monotonic() - scene.recovery_begins
    finally:
        scene.behave()
    happened = Counter(event["event"] for event in scene.events(struck_from) if event.get("event") in NOTABLE)
    assert scene.struck_at, "the fault never struck"
    return Struck(fault.name, round(seconds, 1), _runs(scene) - runs, dict(happened), judge_scene(scene))


def _runs(scene: Scene) -> int:
    return len(list((scene.stack.home / "runs").glob("*/request.json")))
