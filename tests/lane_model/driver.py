"""A run's process in the lane protocol: hold, take over, look, open, claim, write tables, settle, close, release."""

from __future__ import annotations

from lane_model.state import (
    CHECK_BEFORE_COMPLETE,
    CLAIMED,
    COMMITTED,
    PENDING,
    Driver,
    ModelState,
    Scenario,
    applied,
    job_name,
    planned,
)
from sluice.lane import machine

SLICE = (-1,)  # stands where a batch does, for a slice of a table service: it carries no batch, and may be done again
WRITE_ORDERS = {True: ("begin", "check", "complete"), False: ("check", "begin", "complete")}


class CommittedTwice(Exception):
    """A driver completed a second commit of (batch, table), or a commit of an object of another batch."""


def driver_step(scenario: Scenario, model: ModelState, number: int, driver: Driver) -> ModelState:
    """The model after the driver's next atomic effect."""
    return globals()["_" + driver.at](scenario, model, number, driver)


def could_commit(scenario: Scenario, model: ModelState, number: int, driver: Driver) -> bool:
    """Whether this process, left alone from here, would complete a commit: past its check, and not rolled back."""
    if not driver.alive:
        return False
    if driver.at == "serve_complete":
        return (job_name(number), SLICE, scenario.service_table) in model.inflight
    if driver.at == "serve_begin":
        return scenario.check_at != CHECK_BEFORE_COMPLETE
    if driver.at == "complete":
        return (job_name(number), driver.batch, _table(scenario, driver)) in model.inflight
    return driver.at == "begin" and scenario.check_at != CHECK_BEFORE_COMPLETE


def written_table(scenario: Scenario, driver: Driver) -> str:
    """The table that a driver writes to at this step."""
    return scenario.service_table or "" if driver.at.startswith("serve") else _table(scenario, driver)


def _hold(scenario, model, number, driver):
    lane = applied(scenario.protocol.hold, model.lane, driver.run, job_name(number), 1, model.now)
    if lane is None:
        return _exits(model, number, driver)
    after = "unsettled" if scenario.protocol.takeover_first else _first_look(scenario)
    return _goes(model._replace(lane=lane), number, driver, at=after)


def _unsettled(scenario, model, number, driver):
    if not model.unsettled:
        return _goes(model, number, Driver(driver.run, driver.terminal), at=_first_look(scenario))
    return _goes(model, number, driver, at="claim", batch=model.unsettled[0], part=0, takeover=True)


def _look(scenario, model, number, driver):
    if not _holds(model, number, driver):
        return _exits(model, number, driver)
    fresh = Driver(driver.run, driver.terminal, seen=model.lane.arrivals, due=driver.due)
    if scenario.protocol.arrivals_before_query:
        return _goes(model, number, fresh._replace(due=None), at="query")
    return _goes(model, number, fresh, at="release")


def _query(scenario, model, number, driver):
    pending = tuple(found for found, (status, _) in enumerate(model.objects) if status == PENDING)
    commits = tuple(zip(scenario.table_names, model.last_commits, strict=True))
    plan = planned(pending, scenario.tables, commits, scenario.freshness_s, scenario.batch_objects, model.now)
    if plan.objects:
        batch = tuple(sorted(int(one.id.key) for items in plan.objects.values() for one in items))
        return _goes(model, number, driver, at="open", batch=batch, part=0)
    due = plan.next_due_at if scenario.protocol.due_at_on_release else None
    if scenario.service_table is not None and scenario.protocol.services_before_release:
        return _goes(model, number, driver, at="services", due=due)
    return _goes(model, number, driver, at="release" if scenario.protocol.arrivals_before_query else "look", due=due)


def _services(scenario, model, number, driver):
    """The second query behind the read of arrivals: a request that waits, or one in whose slice a run died."""
    state, run = model.service
    if state == "running" and run != driver.run and scenario.protocol.interrupts_what_died:
        return _goes(model._replace(service=("requested", "")), number, driver, at="serve_start")
    return _goes(model, number, driver, at="serve_start" if state == "requested" else "release")


def _serve_start(scenario, model, number, driver):
    """One transaction: the hold of the lane is its condition."""
    if not _holds(model, number, driver):
        return _exits(model, number, driver)
    return _goes(model._replace(service=("running", driver.run)), number, driver, at="serve_rollback")


def _serve_rollback(scenario, model, number, driver):
    kept = frozenset(begun for begun in model.inflight if begun[2] != scenario.service_table)
    return _goes(model._replace(inflight=kept), number, driver, at="serve_check")


def _serve_check(scenario, model, number, driver):
    return (
        _goes(model, number, driver, at="serve_begin")
        if _holds(model, number, driver)
        else _exits(model, number, driver)
    )


def _serve_begin(scenario, model, number, driver):
    begun = (job_name(number), SLICE, scenario.service_table)
    return _goes(model._replace(inflight=model.inflight | {begun}), number, driver, at="serve_complete")


def _serve_complete(scenario, model, number, driver):
    begun = (job_name(number), SLICE, scenario.service_table)
    if begun not in model.inflight:
        return _exits(model, number, driver)
    return _goes(model._replace(inflight=model.inflight - {begun}), number, driver, at="serve_finish")


def _serve_finish(scenario, model, number, driver):
    done = ("", "") if model.service == ("running", driver.run) else model.service
    return _goes(model._replace(service=done), number, Driver(driver.run, driver.terminal), at=_first_look(scenario))


def _open(scenario, model, number, driver):
    if not _holds(model, number, driver):
        return _exits(model, number, driver)
    return _goes(model._replace(unsettled=model.unsettled + (driver.batch,)), number, driver, at="claim")


def _claim(scenario, model, number, driver):
    """One object a step, on condition that it is pending; what this batch claimed before stays as it is."""
    for found in driver.batch:
        if model.objects[found][0] == PENDING:
            objects = model.objects[:found] + ((CLAIMED, driver.batch),) + model.objects[found + 1 :]
            return _goes(model._replace(objects=objects), number, driver)
    return _next_part(scenario, model, number, driver, part=0)


def _rollback(scenario, model, number, driver):
    """What others began and didn't complete is taken off the table's timeline; their writers can't complete it any
    more.
    """
    table = _table(scenario, driver)
    kept = (
        frozenset(begun for begun in model.inflight if begun[2] != table)
        if scenario.protocol.rollback_first
        else model.inflight
    )
    return _goes(model._replace(inflight=kept), number, driver, at="resolve")


def _resolve(scenario, model, number, driver):
    found = (driver.batch, _table(scenario, driver)) in model.timeline
    return _goes(
        model,
        number,
        driver,
        at="settle" if found and scenario.protocol.look_on_timeline else _write_order(scenario)[0],
    )


def _check(scenario, model, number, driver):
    if scenario.protocol.check_before_commit and not _holds(model, number, driver):
        return _exits(model, number, driver)
    return _goes(model, number, driver, at=_after(scenario, "check"))


def _begin(scenario, model, number, driver):
    begun = (job_name(number), driver.batch, _table(scenario, driver))
    return _goes(model._replace(inflight=model.inflight | {begun}), number, driver, at=_after(scenario, "begin"))


def _complete(scenario, model, number, driver):
    begun = (job_name(number), driver.batch, _table(scenario, driver))
    if begun not in model.inflight:
        return _exits(model, number, driver)
    part = begun[1:]
    mine = {found for found in driver.batch if scenario.tables[found] == part[1]}
    if any(table == part[1] and mine & set(batch) for batch, table in model.timeline):
        raise CommittedTwice(str(part))
    return _goes(
        model._replace(inflight=model.inflight - {begun}, timeline=tuple(sorted(model.timeline + (part,)))),
        number,
        driver,
        at="settle",
    )


def _settle(scenario, model, number, driver):
    table = _table(scenario, driver)
    objects = tuple(
        (COMMITTED, driver.batch)
        if status == CLAIMED and batch == driver.batch and scenario.tables[found] == table
        else (status, batch)
        for found, (status, batch) in enumerate(model.objects)
    )
    return _goes(model._replace(objects=objects), number, driver, at="settle_part")


def _settle_part(scenario, model, number, driver):
    table = _table(scenario, driver)
    commits = model.last_commits
    if (driver.batch, table) not in model.settled:
        commits = tuple(
            model.now if name == table else at for name, at in zip(scenario.table_names, commits, strict=True)
        )
    settled = model._replace(settled=model.settled | {(driver.batch, table)}, last_commits=commits)
    return _next_part(scenario, settled, number, driver, part=driver.part + 1)


def _close(scenario, model, number, driver):
    closed = model._replace(
        unsettled=tuple(batch for batch in model.unsettled if batch != driver.batch),
        settled=frozenset(part for part in model.settled if part[0] != driver.batch),
    )
    return _goes(closed, number, driver, at="progress")


def _progress(scenario, model, number, driver):
    lane = applied(machine.progressed, model.lane, driver.run) or model.lane
    after = "unsettled" if driver.takeover else _first_look(scenario)
    return _goes(model._replace(lane=lane), number, Driver(driver.run, driver.terminal), at=after)


def _release(scenario, model, number, driver):
    lane = applied(scenario.protocol.release, model.lane, driver.run, driver.seen, driver.due, model.now)
    if lane is not None:
        return _exits(model._replace(lane=lane), number, driver)
    return _goes(model, number, Driver(driver.run, driver.terminal), at=_first_look(scenario))


def _first_look(scenario):
    return "look" if scenario.protocol.arrivals_before_query else "query"


def _next_part(scenario, model, number, driver, *, part):
    tables = scenario.tables_of(driver.batch)
    while part < len(tables) and (driver.batch, tables[part]) in model.settled:
        part += 1
    if part == len(tables):
        return _goes(model, number, driver, at="close", part=0)
    return _goes(model, number, driver, at="rollback" if driver.takeover else _write_order(scenario)[0], part=part)


def _write_order(scenario):
    return WRITE_ORDERS[scenario.check_at == CHECK_BEFORE_COMPLETE]


def _after(scenario, step):
    order = _write_order(scenario)
    return order[order.index(step) + 1]


def _table(scenario, driver):
    return scenario.tables_of(driver.batch)[driver.part]


def _holds(model, number, driver):
    return machine.holds(model.lane, driver.run, job_name(number))


def _goes(model, number, driver, **changes):
    return model._replace(drivers=model.drivers[:number] + (driver._replace(**changes),) + model.drivers[number + 1 :])


def _exits(model, number, driver):
    return _goes(model, number, Driver(driver.run), terminal=True, alive=False, at="exit")
