"""Runs a soak: puts objects, strikes faults, measures recoveries and memory, and judges at the end."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from faulting.proxy import FaultProxy
from faulting.scene import Scene
from faulting.verdict import judge_scene
from faulting.world import Made
from judging.memory import Memory
from judging.running_stack import RunningStack

from sluice.ledger.audit_round import DONE
from sluice.ledger.keys import CLAIMED, PENDING
from sluice.objects import ObjectId
from sluice_aws.audit.rounds import CHECKPOINT
from sluice_bench.measure.machine import describe_machine
from sluice_bench.measure.percentiles import percentile
from soaking.faults import SoakFault, plan
from soaking.report import special
from soaking.world import LIVELY, TABLES, SoakWorld

LOOK_S, MEMORY_S, SAY_S = 2.0, 10.0, 30.0
PUT_S = 1.5  # between two objects
# From a fifth of the time to the end: of the emulator, which holds what is stored, and of a function's mean process.
GROWTH_MB, FUNCTION_GROWTH_MB = 600.0, 100.0

Say = Callable[[str], None]


@dataclass
class Recovery:
    """A fault that struck, and what must be committed until it counts as recovered from."""

    fault: str
    since: float  # monotonic; the end of a fault that lasts
    waits: set[ObjectId]
    seconds: float | None = None


@dataclass
class Soak:
    """One soak under way. Its seed decides on the objects, the faults and their order."""

    stack: RunningStack
    proxy: FaultProxy
    seed: int
    say: Say
    alone: bool = False  # nobody else uses the stack
    world: SoakWorld = field(init=False)
    scene: Scene = field(init=False)
    recoveries: list[Recovery] = field(default_factory=list)
    memory: list[tuple[float, Memory]] = field(default_factory=list)
    unrest: list[str] = field(default_factory=list)
    _outstanding: set[ObjectId] = field(default_factory=set)
    _known: int = 0
    _held: list[Made] | None = None

    def __post_init__(self) -> None:
        self.world = SoakWorld(self.stack, self.seed)
        self.scene = Scene(self.stack, self.proxy, self.world)

    def run(self, seconds: float, every_s: float) -> dict[str, Any]:
        """Soak for so long with a fault every so often, wait until all is committed, and judge. Gives the report."""
        self.stack.configure(self.world.rules(), defaults={"services": LIVELY})
        self.scene.behave()
        self.scene.fresh_run()
        began = time.monotonic()
        self._soak(began, seconds, plan(self.seed, int(seconds / every_s) + 1), every_s)
        self.say(f"[{time.monotonic() - began:.0f} s] no more changes; waiting until everything is committed")
        while self._outstanding_now() and time.monotonic() - began < seconds + 600:
            time.sleep(LOOK_S)
        self.scene.wait_settled()
        self._outstanding_now()
        settled_s = time.monotonic() - began - seconds
        self.scene.end_run()
        self.scene.judged_paused = True
        self.say("judging: rows, verify, audit, files, the lane")
        return self._report(seconds, every_s, settled_s)

    # ---------------------------------------------------------------- what faults use
    def send_notices(self, identities: list[ObjectId]) -> None:
        """Put notices of known objects into the queue."""
        queue = self.stack.target.outputs["QueueUrl"]
        self.stack.target.client("sqs").send_message(QueueUrl=queue, MessageBody=self.world.notices(identities))

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Hold new objects back for the length of a block, and put them in reverse order at its end."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            for made in reversed(held):
                self.world.put(made)

    # ---------------------------------------------------------------- the loop
    def _soak(self, began: float, seconds: float, faults: list[tuple[SoakFault, float]], every_s: float) -> None:
        draw = random.Random(f"{self.seed}/objects")
        next_put = next_look = next_memory = next_say = 0.0
        next_fault = every_s
        waiting: tuple[SoakFault, float] | None = None
        lasting: list[tuple[float, Recovery, ExitStack]] = []
        try:
            while (now := time.monotonic() - began) < seconds:
                if now >= next_put:
                    self._put(draw.choice(list(TABLES)))
                    next_put += PUT_S
                if now >= next_look:
                    self._outstanding_now()
                    next_look = now + LOOK_S
                if now >= next_memory:
                    self._measure(now)
                    next_memory = now + MEMORY_S
                if now >= next_say:
                    self.say(f"[{now:.0f}/{seconds:.0f} s] {self._progress()}")
                    next_say += SAY_S
                if now >= next_fault and faults:
                    waiting = waiting or faults.pop(0)
                    next_fault += every_s
                if waiting is not None and (not waiting[0].needs_driver or self._driver_lives()):
                    lasting.append(self._strike(*waiting))
                    waiting = None
                for one in [one for one in lasting if one[0] <= time.monotonic()]:
                    lasting.remove(one)
                    self._end(one[1], one[2])
                time.sleep(0.1)
        finally:
            for _, recovery, undo in lasting:
                self._end(recovery, undo)

    def _put(self, name: str) -> None:
        made = self.world.next_object(name)
        if self._held is not None:
            self._held.append(made)
        else:
            self.world.put(made)

    def _strike(self, fault: SoakFault, length_s: float) -> tuple[float, Recovery, ExitStack]:
        self.say(f"    {fault.name}: {fault.strikes}")
        undo = ExitStack()
        undo.enter_context(fault.act(self, random.Random(f"{self.seed}/{len(self.recoveries)}")))
        recovery = Recovery(fault.name, float("inf"), set())
        self.recoveries.append(recovery)
        return time.monotonic() + (length_s if fault.lasts else 0.0), recovery, undo

    def _end(self, recovery: Recovery, undo: ExitStack) -> None:
        undo.close()
        self._outstanding_now()
        recovery.since, recovery.waits = time.monotonic(), set(self._outstanding)

    def _outstanding_now(self) -> set[ObjectId]:
        """Look at what was put and is neither committed nor set aside yet, and at the lane."""
        fresh = self.world.put_objects[self._known :]
        self._known += len(fresh)
        self._outstanding.update(identity for _, identity in fresh)
        records = self.scene.ledger.objects.get(self._outstanding)
        self._outstanding -= {identity for identity, one in records.items() if one.state not in (PENDING, CLAIMED)}
        for recovery in self.recoveries:
            if recovery.seconds is None and not recovery.waits & self._outstanding and recovery.since < float("inf"):
                recovery.seconds = time.monotonic() - recovery.since
        state = self.scene.lane().state
        if state not in ("idle", "starting", "running") and (not self.unrest or state not in self.unrest[-1]):
            self.unrest.append(f"lane was {state} at {dt.datetime.now():%H:%M:%S}")
        return self._outstanding

    def _driver_lives(self) -> bool:
        lane = self.scene.lane()
        if lane.state != "running" or lane.job_run_id is None:
            return False
        with suppress(OSError):
            return bool(self.scene.processes(lane.job_run_id))
        return False

    def _progress(self) -> str:
        return (
            f"{self.world.generated} changes in {len(self.world.put_objects)} objects, {len(self._outstanding)} wait; "
            f"lane {self.scene.lane().state}; {len(self.recoveries)} faults"
        )

    def _scheduled_audit(self) -> list[str]:
        """What reconcile's audit finds in a whole round."""
        self.scene.ledger.history.put_checkpoint({}, 0, CHECKPOINT)
        for _ in range(20):
            answer = self.scene.invoke("ReconcileFunction", {"duty": "audit"})
            if answer["phase"] == DONE:
                return [f"{code} {count}" for code, count in answer["contradictions"].items()]
        return [f"it came only to {answer['phase']}"]

    # ---------------------------------------------------------------- memory
    def _measure(self, now: float) -> None:
        self.memory.append((now, Memory.of_stack(self.stack.home)))

    # ---------------------------------------------------------------- the report
    def _report(self, seconds: float, every_s: float, settled_s: float) -> dict[str, Any]:
        verdict = judge_scene(self.scene)
        problems = {kind: list(texts) for kind, texts in verdict.problems.items()}
        if self.unrest:
            problems.setdefault("lane", []).extend(self.unrest)
        early = next((memory for at, memory in self.memory if at >= seconds / 5), Memory())
        late = self.memory[-1][1] if self.memory else Memory()
        if late.emulator - early.emulator > GROWTH_MB or late.per_function - early.per_function > FUNCTION_GROWTH_MB:
            problems["memory"] = [f"it grew from {early} to {late}"]
        if self.alone and (overdue := self._scheduled_audit()):
            problems["scheduled audit"] = overdue
        waiting = [one.fault for one in self.recoveries if one.seconds is None]
        if waiting:
            problems["recovery"] = waiting
        batches = [
            batch
            for batch in self.stack.target.past_batches().newest()
            if any(table in self.world.tables for table in batch.manifest.tables)
        ]
        return {
            "seed": self.seed,
            "minutes": round(seconds / 60, 1),
            "fault_every_s": every_s,
            "at": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
            "machine": {
                name: value
                for name, value in describe_machine().items()
                if name in ("cores", "load_1_5_15", "commit", "memory_gib")
            },
            "tables": len(self.world.tables),
            "special": special(),
            "changes": self.world.generated,
            "objects": len(self.world.put_objects),
            "batches": len(batches),
            "commits": sum(one.instant is not None for batch in batches for one in batch.outcomes.values()),
            "job_runs": len(list((self.stack.home / "runs").glob("*/pid"))),
            "services": _services_done(self.scene, self.world),
            "faults": dict(sorted(Counter(one.fault for one in self.recoveries).items())),
            "recovery_s": {
                name: times_of([one for one in self.recoveries if name in (one.fault, "all")])
                for name in ("all", *sorted({one.fault for one in self.recoveries}))
            },
            "settled_s": round(settled_s, 1),
            "rows": verdict.rows,
            "lost": verdict.lost,
            "doubled": verdict.doubled,
            "wrong": verdict.wrong,
            "aside": verdict.aside,
            "clean": verdict.clean and not problems,
            "problems": problems,
            "memory_mb": {
                "after_a_fifth": asdict(early),
                "at_the_end": asdict(late),
                "largest_drivers": max((memory.drivers for _, memory in self.memory), default=0),
            },
        }


def times_of(recoveries: list[Recovery]) -> dict[str, float]:
    """How many recoveries there are, and their times."""
    seconds = [one.seconds for one in recoveries if one.seconds is not None]
    if not seconds:
        return {"n": 0}
    return {
        "n": len(seconds),
        "p50": round(percentile(seconds, 0.5), 1),
        "p95": round(percentile(seconds, 0.95), 1),
        "max": round(max(seconds), 1),
    }


def _services_done(scene: Scene, world: SoakWorld) -> Mapping[str, int]:
    """Table services by name and state."""
    requests = [one for one in scene.ledger.services.of_lane(world.lane) if one.table in world.tables]
    return dict(sorted(Counter(f"{one.service} {one.state}" for one in requests).items()))
