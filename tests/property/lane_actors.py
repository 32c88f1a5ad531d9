"""What each process of the lane protocol can do next, one atomic effect at a time, and what can go wrong."""

from __future__ import annotations

from collections.abc import Iterator

from lane_driver import driver_step
from lane_world import (
    ABSENT,
    PENDING,
    Driver,
    Invocation,
    Scenario,
    Supervise,
    World,
    applied,
    job_name,
    job_number,
)

from sluice.lane import machine, supervision
from sluice.lane.machine import TOKEN_REPEAT_MS, wanted_at

Step = tuple[str, World]


def steps(scenario: Scenario, world: World) -> Iterator[Step]:
    """Every next world without trouble: each living process does its next thing, or time passes to the next deadline."""
    for number, invocation in enumerate(world.invocations):
        for label, after in _invocation_step(scenario, world, number, invocation):
            yield f"admit {number} {label}", after
    for number, driver in enumerate(world.drivers):
        if driver.alive:
            yield f"driver {job_name(number)} {driver.at}", driver_step(scenario, world, number, driver)
    yield from _supervise_step(scenario, world)
    for position, run in enumerate(world.late):
        rest = world.late[:position] + world.late[position + 1 :]
        yield f"late StartJobRun {run}", _start_job_run(world._replace(late=rest), run, forget=False)[0]
    yield from _operator_step(world)
    if world.left.requests and world.service == ("", ""):
        lane = applied(machine.wake, world.lane) if scenario.protocol.request_wakes else world.lane
        less = world.left._replace(requests=world.left.requests - 1)
        yield "a service is asked for", world._replace(service=("requested", ""), lane=lane or world.lane, left=less)
    ahead = [at for at in _deadlines(scenario, world) if at > world.now]
    if ahead and world.left.ticks:
        yield "time passes", world._replace(now=min(ahead), left=world.left._replace(ticks=world.left.ticks - 1))


def troubles(world: World) -> Iterator[Step]:
    """Every next world in which something goes wrong, within what is left."""
    left = world.left
    if left.crashes:
        fewer = world._replace(left=left._replace(crashes=left.crashes - 1))
        for number, invocation in enumerate(world.invocations):
            if invocation.at not in ("queued", "done"):
                back = _with_invocation(fewer, number, Invocation())
                yield f"admit {number} dies before {invocation.at}", back
                if invocation.at == "start" and left.late and invocation.run:
                    sent = back._replace(
                        late=back.late + (invocation.run,), left=back.left._replace(late=left.late - 1)
                    )
                    yield f"admit {number} dies with StartJobRun on its way", sent
        for number, driver in enumerate(world.drivers):
            if driver.alive:
                yield f"driver {job_name(number)} dies before {driver.at}", _ended(fewer, number, driver)
        if world.supervise.at != "read":
            yield f"supervise dies before {world.supervise.at}", fewer._replace(supervise=Supervise())
    if left.zombies:
        for number, driver in enumerate(world.drivers):
            if driver.alive and not driver.terminal:
                gone = _with_driver(world, number, driver._replace(terminal=True))
                yield (
                    f"EMR calls {job_name(number)} terminal while it goes on",
                    gone._replace(left=left._replace(zombies=left.zombies - 1)),
                )


def _invocation_step(scenario: Scenario, world: World, number: int, now_at: Invocation) -> Iterator[Step]:
    brings = scenario.invocations[number]
    protocol = scenario.protocol
    if now_at.at == "done":
        return
    if now_at.at == "queued" and not protocol.write_before_wake:
        yield "is invoked", _with_invocation(world, number, Invocation(at="wake"))
    elif now_at.at in ("queued", "write"):
        found = brings[now_at.written]
        status, _ = world.objects[found]
        admission = "new" if status == ABSENT else f"already_{status}"
        if status == ABSENT:
            world = world._replace(objects=_put(world.objects, found, (PENDING, ())))
        wakes = now_at.wakes or protocol.wakes(admission)
        written = now_at.written + 1
        last = "wake" if wakes and protocol.write_before_wake else "ack"
        at = "write" if written < len(brings) else last
        yield "writes an object", _with_invocation(world, number, now_at._replace(at=at, written=written, wakes=wakes))
    elif now_at.at == "wake":
        lane = applied(machine.wake, world.lane) or world.lane
        otherwise = "ack" if protocol.write_before_wake else "write"
        at = "request" if protocol.wants_run(lane, world.now) else otherwise
        yield "wakes", _with_invocation(world._replace(lane=lane), number, now_at._replace(at=at))
    elif now_at.at == "request":
        yield from _request(
            world,
            lambda after, run: _with_invocation(
                after,
                number,
                now_at._replace(at="start", run=run)
                if run
                else now_at._replace(at="ack" if protocol.write_before_wake else "write"),
            ),
        )
    elif now_at.at == "start":
        for after, job, summary in _starts(world, now_at.run or ""):
            yield summary, _with_invocation(after, number, now_at._replace(at="started", job=job))
    elif now_at.at == "started":
        lane = applied(machine.started, world.lane, now_at.run or "", now_at.job or "") or world.lane
        yield (
            "notes the job run",
            _with_invocation(
                world._replace(lane=lane),
                number,
                now_at._replace(at="ack" if protocol.write_before_wake else "write", run=None, job=None),
            ),
        )
    else:
        yield "acknowledges", _with_invocation(world, number, Invocation(at="done"))


def _supervise_step(scenario: Scenario, world: World) -> Iterator[Step]:
    doing = world.supervise
    if doing.at == "read":
        step = scenario.protocol.next_step(world.lane, world.now)
        if step.action != supervision.NOTHING and world.left.supervisions:
            at = {
                supervision.START: "request",
                supervision.REPEAT_START: "start",
                supervision.LOOK_UP: "look_up",
                supervision.ASK_STATE: "ask",
            }[step.action]
            less = world.left._replace(supervisions=world.left.supervisions - 1)
            yield (
                f"supervise decides {step.action}",
                world._replace(supervise=Supervise(at, step.run_id, step.job_run_id), left=less),
            )
    elif doing.at == "request":
        yield from _request(
            world, lambda after, run: after._replace(supervise=Supervise("start", run) if run else Supervise())
        )
    elif doing.at == "start":
        for after, job, summary in _starts(world, doing.run or ""):
            yield f"supervise {summary}", after._replace(supervise=Supervise("started", doing.run, job))
    elif doing.at == "started":
        lane = applied(machine.started, world.lane, doing.run or "", doing.job or "") or world.lane
        yield "supervise notes the job run", world._replace(lane=lane, supervise=Supervise())
    elif doing.at == "look_up":
        found = [job_name(number) for number, driver in enumerate(world.drivers) if driver.run == doing.run]
        for job in found:
            yield "supervise adopts", world._replace(supervise=Supervise("started", doing.run, job))
        if not found:
            yield "supervise finds no job run", world._replace(supervise=Supervise("lapse", doing.run))
    elif doing.at == "ask":
        if world.drivers[job_number(doing.job or "")].terminal or not scenario.protocol.terminal_before_lapse:
            yield "supervise hears that the job run is over", world._replace(supervise=doing._replace(at="lapse"))
        else:  # an invocation without effect is not one of those that are left
            more = world.left._replace(supervisions=world.left.supervisions + 1)
            yield "supervise hears that the job run goes on", world._replace(supervise=Supervise(), left=more)
    else:
        lane = applied(scenario.protocol.lapse, world.lane, doing.run, world.now, job_run_id=doing.job) or world.lane
        yield "supervise lapses the run", world._replace(lane=lane, supervise=Supervise())


def _operator_step(world: World) -> Iterator[Step]:
    if world.left.pauses:
        lane = applied(machine.pause, world.lane)
        if lane is not None and not world.lane.pause_requested:
            yield (
                "an operator pauses",
                world._replace(lane=lane, left=world.left._replace(pauses=world.left.pauses - 1)),
            )
    if world.lane.state in (machine.PAUSED, machine.HALTED) or world.lane.pause_requested:
        yield "an operator resumes", world._replace(lane=applied(machine.resume, world.lane) or world.lane)


def _request(world: World, then) -> Iterator[Step]:
    """Take the lane under a run id that never was; where no more runs are explored the process stalls here for ever."""
    run = f"r{world.runs + 1}"
    lane = applied(machine.request_start, world.lane, run, world.now)
    if lane is None:
        yield "is too late to start", then(world, None)
    elif world.left.runs:
        less = world.left._replace(runs=world.left.runs - 1)
        yield "takes the lane", then(world._replace(lane=lane, runs=world.runs + 1, left=less), run)


def _starts(world: World, run: str) -> list[tuple[World, str, str]]:
    """StartJobRun: the same token is the same job run, unless EMR forgot it."""
    found = [(*_start_job_run(world, run, forget=False), "calls StartJobRun")]
    if world.left.forgets and any(driver.run == run for driver in world.drivers):
        less = world._replace(left=world.left._replace(forgets=world.left.forgets - 1))
        found.append((*_start_job_run(less, run, forget=True), "calls StartJobRun, whose token EMR forgot"))
    return found


def _start_job_run(world: World, run: str, *, forget: bool) -> tuple[World, str]:
    for number, driver in enumerate(world.drivers):
        if driver.run == run and not forget:
            return world, job_name(number)
    return world._replace(drivers=world.drivers + (Driver(run),)), job_name(len(world.drivers))


def _deadlines(scenario: Scenario, world: World) -> Iterator[int]:
    at = wanted_at(world.lane)
    if at is not None:
        yield at
    if world.lane.backoff_until is not None:
        yield world.lane.backoff_until
    if world.lane.start_requested_at is not None and world.lane.job_run_id is None:
        yield world.lane.start_requested_at + TOKEN_REPEAT_MS
    for committed_at in world.last_commits:
        if committed_at is not None:
            yield committed_at + scenario.freshness_s * 1000


def _ended(world: World, number: int, driver: Driver) -> World:
    return _with_driver(world, number, Driver(driver.run, terminal=True, alive=False, at="exit"))


def _with_driver(world: World, number: int, driver: Driver) -> World:
    return world._replace(drivers=_put(world.drivers, number, driver))


def _with_invocation(world: World, number: int, invocation: Invocation) -> World:
    return world._replace(invocations=_put(world.invocations, number, invocation))


def _put(values: tuple, position: int, value: object | None) -> tuple:
    return values[:position] + (value,) + values[position + 1 :]
