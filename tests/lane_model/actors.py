"""The next steps of each process of the lane protocol, one atomic effect at a time, and the troubles."""

from __future__ import annotations

from collections.abc import Iterator

from lane_model.driver import driver_step
from lane_model.state import (
    ABSENT,
    PENDING,
    Driver,
    Invocation,
    ModelState,
    Scenario,
    Supervise,
    applied,
    job_name,
    job_number,
)
from sluice.lane import machine, supervision
from sluice.lane.machine import UNANSWERED_START_MS, wanted_at

Step = tuple[str, ModelState]


def steps(scenario: Scenario, model: ModelState) -> Iterator[Step]:
    """Every next state without trouble: a living process takes its next step, or time passes to the next deadline."""
    for number, invocation in enumerate(model.invocations):
        for label, after in _invocation_step(scenario, model, number, invocation):
            yield f"admit {number} {label}", after
    for number, driver in enumerate(model.drivers):
        if driver.alive:
            yield f"driver {job_name(number)} {driver.at}", driver_step(scenario, model, number, driver)
    yield from _supervise_step(scenario, model)
    for position, run in enumerate(model.late):
        rest = model.late[:position] + model.late[position + 1 :]
        yield f"late StartJobRun {run}", _start_job_run(model._replace(late=rest), run, forget=False)[0]
    yield from _operator_step(model)
    if model.left.requests and model.service == ("", ""):
        lane = applied(machine.wake, model.lane) if scenario.protocol.request_wakes else model.lane
        less = model.left._replace(requests=model.left.requests - 1)
        yield "a service is asked for", model._replace(service=("requested", ""), lane=lane or model.lane, left=less)
    ahead = [at for at in _deadlines(scenario, model) if at > model.now]
    if ahead and model.left.ticks:
        yield "time passes", model._replace(now=min(ahead), left=model.left._replace(ticks=model.left.ticks - 1))


def troubles(model: ModelState) -> Iterator[Step]:
    """Every next model in which something goes wrong, within what is left."""
    left = model.left
    if left.crashes:
        fewer = model._replace(left=left._replace(crashes=left.crashes - 1))
        for number, invocation in enumerate(model.invocations):
            if invocation.at not in ("queued", "done"):
                back = _with_invocation(fewer, number, Invocation())
                yield f"admit {number} dies before {invocation.at}", back
                if invocation.at == "start" and left.late and invocation.run:
                    sent = back._replace(
                        late=back.late + (invocation.run,), left=back.left._replace(late=left.late - 1)
                    )
                    yield f"admit {number} dies with StartJobRun on its way", sent
        for number, driver in enumerate(model.drivers):
            if driver.alive:
                yield f"driver {job_name(number)} dies before {driver.at}", _ended(fewer, number, driver)
        if model.supervise.at != "read":
            yield f"supervise dies before {model.supervise.at}", fewer._replace(supervise=Supervise())
    if left.zombies:
        for number, driver in enumerate(model.drivers):
            if driver.alive and not driver.terminal:
                gone = _with_driver(model, number, driver._replace(terminal=True))
                yield (
                    f"EMR calls {job_name(number)} terminal while it goes on",
                    gone._replace(left=left._replace(zombies=left.zombies - 1)),
                )


def _invocation_step(scenario: Scenario, model: ModelState, number: int, now_at: Invocation) -> Iterator[Step]:
    brings = scenario.invocations[number]
    protocol = scenario.protocol
    if now_at.at == "done":
        return
    if now_at.at == "queued" and not protocol.write_before_wake:
        yield "is invoked", _with_invocation(model, number, Invocation(at="wake"))
    elif now_at.at in ("queued", "write"):
        item = brings[now_at.written]
        status, _ = model.objects[item]
        admission = "new" if status == ABSENT else f"already_{status}"
        if status == ABSENT:
            model = model._replace(objects=_put(model.objects, item, (PENDING, ())))
        wakes = now_at.wakes or protocol.wakes(admission)
        written = now_at.written + 1
        last = "wake" if wakes and protocol.write_before_wake else "ack"
        at = "write" if written < len(brings) else last
        yield "writes an object", _with_invocation(model, number, now_at._replace(at=at, written=written, wakes=wakes))
    elif now_at.at == "wake":
        lane = applied(machine.wake, model.lane) or model.lane
        otherwise = "ack" if protocol.write_before_wake else "write"
        woken = model._replace(lane=lane)
        starts = protocol.wants_run(lane, model.now) and not _deferred(scenario, woken)
        at = "request" if starts else otherwise
        yield "wakes", _with_invocation(model._replace(lane=lane), number, now_at._replace(at=at))
    elif now_at.at == "request":
        yield from _request(
            model,
            lambda after, run: _with_invocation(
                after,
                number,
                now_at._replace(at="start", run=run)
                if run
                else now_at._replace(at="ack" if protocol.write_before_wake else "write"),
            ),
        )
    elif now_at.at == "start":
        for after, job, summary in _starts(model, now_at.run or ""):
            yield summary, _with_invocation(after, number, now_at._replace(at="started", job=job))
    elif now_at.at == "started":
        lane = applied(machine.started, model.lane, now_at.run or "", now_at.job or "") or model.lane
        yield (
            "notes the job run",
            _with_invocation(
                model._replace(lane=lane),
                number,
                now_at._replace(at="ack" if protocol.write_before_wake else "write", run=None, job=None),
            ),
        )
    else:
        yield "acknowledges", _with_invocation(model, number, Invocation(at="done"))


def _supervise_step(scenario: Scenario, model: ModelState) -> Iterator[Step]:
    doing = model.supervise
    if doing.at == "read":
        step = scenario.protocol.next_step(model.lane, model.now)
        deferred = step.action == supervision.START and _deferred(scenario, model)
        if step.action != supervision.NOTHING and not deferred and model.left.supervisions:
            at = {
                supervision.START: "request",
                supervision.REPEAT_START: "start",
                supervision.LOOK_UP: "look_up",
                supervision.ASK_STATE: "ask",
            }[step.action]
            less = model.left._replace(supervisions=model.left.supervisions - 1)
            yield (
                f"supervise decides {step.action}",
                model._replace(supervise=Supervise(at, step.run_id, step.job_run_id), left=less),
            )
    elif doing.at == "request":
        yield from _request(
            model, lambda after, run: after._replace(supervise=Supervise("start", run) if run else Supervise())
        )
    elif doing.at == "start":
        for after, job, summary in _starts(model, doing.run or ""):
            yield f"supervise {summary}", after._replace(supervise=Supervise("started", doing.run, job))
    elif doing.at == "started":
        lane = applied(machine.started, model.lane, doing.run or "", doing.job or "") or model.lane
        yield "supervise notes the job run", model._replace(lane=lane, supervise=Supervise())
    elif doing.at == "look_up":
        drivers = [job_name(number) for number, driver in enumerate(model.drivers) if driver.run == doing.run]
        for job in drivers:
            yield "supervise adopts", model._replace(supervise=Supervise("started", doing.run, job))
        if not drivers:
            yield "supervise finds no job run", model._replace(supervise=Supervise("lapse", doing.run))
    elif doing.at == "ask":
        if model.drivers[job_number(doing.job or "")].terminal or not scenario.protocol.terminal_before_lapse:
            yield "supervise hears that the job run is over", model._replace(supervise=doing._replace(at="lapse"))
        else:  # an invocation without effect is not one of those that are left
            more = model.left._replace(supervisions=model.left.supervisions + 1)
            yield "supervise hears that the job run goes on", model._replace(supervise=Supervise(), left=more)
    else:
        lane = applied(scenario.protocol.lapse, model.lane, doing.run, model.now, job_run_id=doing.job) or model.lane
        yield "supervise lapses the run", model._replace(lane=lane, supervise=Supervise())


def _deferred(scenario: Scenario, model: ModelState) -> bool:
    """Whether nothing may be claimed yet: `deferred_until` without the time that a start takes."""
    lane = model.lane
    if not scenario.protocol.defers or lane.state != machine.IDLE or (lane.due_at or model.now + 1) <= model.now:
        return False
    if model.unsettled or model.service != ("", ""):
        return False
    waiting = {scenario.tables[number] for number, (status, _) in enumerate(model.objects) if status == PENDING}
    commits = dict(zip(scenario.table_names, model.last_commits, strict=True))
    moments = [0 if commits[table] is None else commits[table] + scenario.freshness_s * 1000 for table in waiting]
    return bool(moments) and min(moments) > model.now


def _operator_step(model: ModelState) -> Iterator[Step]:
    if model.left.pauses:
        lane = applied(machine.pause, model.lane)
        if lane is not None and not model.lane.pause_requested:
            yield (
                "an operator pauses",
                model._replace(lane=lane, left=model.left._replace(pauses=model.left.pauses - 1)),
            )
    if model.lane.state in (machine.PAUSED, machine.HALTED) or model.lane.pause_requested:
        yield "an operator resumes", model._replace(lane=applied(machine.resume, model.lane) or model.lane)


def _request(model: ModelState, then) -> Iterator[Step]:
    """Take the lane under a run id that never was; where no more runs are explored the process stalls here for ever."""
    run = f"r{model.runs + 1}"
    lane = applied(machine.request_start, model.lane, run, model.now)
    if lane is None:
        yield "is too late to start", then(model, None)
    elif model.left.runs:
        less = model.left._replace(runs=model.left.runs - 1)
        yield "takes the lane", then(model._replace(lane=lane, runs=model.runs + 1, left=less), run)


def _starts(model: ModelState, run: str) -> list[tuple[ModelState, str, str]]:
    """StartJobRun: the same token is the same job run, unless EMR forgot it."""
    moves = [(*_start_job_run(model, run, forget=False), "calls StartJobRun")]
    if model.left.forgets and any(driver.run == run for driver in model.drivers):
        less = model._replace(left=model.left._replace(forgets=model.left.forgets - 1))
        moves.append((*_start_job_run(less, run, forget=True), "calls StartJobRun, whose token EMR forgot"))
    return moves


def _start_job_run(model: ModelState, run: str, *, forget: bool) -> tuple[ModelState, str]:
    for number, driver in enumerate(model.drivers):
        if driver.run == run and not forget:
            return model, job_name(number)
    return model._replace(drivers=model.drivers + (Driver(run),)), job_name(len(model.drivers))


def _deadlines(scenario: Scenario, model: ModelState) -> Iterator[int]:
    at = wanted_at(model.lane)
    if at is not None:
        yield at
    if model.lane.backoff_until is not None:
        yield model.lane.backoff_until
    if model.lane.start_requested_at is not None and model.lane.job_run_id is None:
        yield model.lane.start_requested_at + UNANSWERED_START_MS
    for committed_at in model.last_commits:
        if committed_at is not None:
            yield committed_at + scenario.freshness_s * 1000


def _ended(model: ModelState, number: int, driver: Driver) -> ModelState:
    return _with_driver(model, number, Driver(driver.run, terminal=True, alive=False, at="exit"))


def _with_driver(model: ModelState, number: int, driver: Driver) -> ModelState:
    return model._replace(drivers=_put(model.drivers, number, driver))


def _with_invocation(model: ModelState, number: int, invocation: Invocation) -> ModelState:
    return model._replace(invocations=_put(model.invocations, number, invocation))


def _put(values: tuple, position: int, value: object | None) -> tuple:
    return values[:position] + (value,) + values[position + 1 :]
