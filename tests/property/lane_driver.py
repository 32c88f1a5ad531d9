"""A run's process in the lane protocol: hold, take over, look, open, claim, write each table, settle, close, release."""

from __future__ import annotations

from lane_world import (
    CHECK_BEFORE_COMPLETE,
    CLAIMED,
    COMMITTED,
    PENDING,
    Driver,
    Scenario,
    World,
    applied,
    job_name,
    planned,
)

from sluice.lane import machine

SLICE = (-1,)  # stands where a batch does, for a slice of a table service: it carries no batch, and may be done again
WRITE_ORDERS = {True: ("begin", "check", "complete"), False: ("check", "begin", "complete")}


class CommittedTwice(Exception):
    """A driver completed a commit of (batch, table) that the timeline holds already, or of an object in another batch."""


def driver_step(scenario: Scenario, world: World, number: int, driver: Driver) -> World:
    """The world after the driver's next atomic effect."""
    return globals()["_" + driver.at](scenario, world, number, driver)


def could_commit(scenario: Scenario, world: World, number: int, driver: Driver) -> bool:
    """Whether this process, left alone from here, would complete a commit: past its check, and not rolled back."""
    if not driver.alive:
        return False
    if driver.at == "serve_complete":
        return (job_name(number), SLICE, scenario.service_table) in world.inflight
    if driver.at == "serve_begin":
        return scenario.check_at != CHECK_BEFORE_COMPLETE
    if driver.at == "complete":
        return (job_name(number), driver.batch, _table(scenario, driver)) in world.inflight
    return driver.at == "begin" and scenario.check_at != CHECK_BEFORE_COMPLETE


def written_table(scenario: Scenario, driver: Driver) -> str:
    """The table that a driver writes to at this step."""
    return scenario.service_table or "" if driver.at.startswith("serve") else _table(scenario, driver)


def _hold(scenario, world, number, driver):
    lane = applied(scenario.protocol.hold, world.lane, driver.run, job_name(number), 1, world.now)
    if lane is None:
        return _exits(world, number, driver)
    after = "unsettled" if scenario.protocol.takeover_first else _first_look(scenario)
    return _goes(world._replace(lane=lane), number, driver, at=after)


def _unsettled(scenario, world, number, driver):
    if not world.unsettled:
        return _goes(world, number, Driver(driver.run, driver.terminal), at=_first_look(scenario))
    return _goes(world, number, driver, at="claim", batch=world.unsettled[0], part=0, takeover=True)


def _look(scenario, world, number, driver):
    if not _holds(world, number, driver):
        return _exits(world, number, driver)
    fresh = Driver(driver.run, driver.terminal, seen=world.lane.arrivals, due=driver.due)
    if scenario.protocol.arrivals_before_query:
        return _goes(world, number, fresh._replace(due=None), at="query")
    return _goes(world, number, fresh, at="release")


def _query(scenario, world, number, driver):
    pending = tuple(found for found, (status, _) in enumerate(world.objects) if status == PENDING)
    commits = tuple(zip(scenario.table_names, world.last_commits))
    plan = planned(pending, scenario.tables, commits, scenario.freshness_s, scenario.batch_objects, world.now)
    if plan.objects:
        batch = tuple(sorted(int(one.id.key) for items in plan.objects.values() for one in items))
        return _goes(world, number, driver, at="open", batch=batch, part=0)
    due = plan.next_due_at if scenario.protocol.due_at_on_release else None
    if scenario.service_table is not None and scenario.protocol.services_before_release:
        return _goes(world, number, driver, at="services", due=due)
    return _goes(world, number, driver, at="release" if scenario.protocol.arrivals_before_query else "look", due=due)


def _services(scenario, world, number, driver):
    """The second query behind the read of arrivals: a request that waits, or one in whose slice a run died."""
    state, run = world.service
    if state == "running" and run != driver.run and scenario.protocol.interrupts_what_died:
        return _goes(world._replace(service=("requested", "")), number, driver, at="serve_start")
    return _goes(world, number, driver, at="serve_start" if state == "requested" else "release")


def _serve_start(scenario, world, number, driver):
    """One transaction: the hold of the lane is its condition."""
    if not _holds(world, number, driver):
        return _exits(world, number, driver)
    return _goes(world._replace(service=("running", driver.run)), number, driver, at="serve_rollback")


def _serve_rollback(scenario, world, number, driver):
    kept = frozenset(begun for begun in world.inflight if begun[2] != scenario.service_table)
    return _goes(world._replace(inflight=kept), number, driver, at="serve_check")


def _serve_check(scenario, world, number, driver):
    return (
        _goes(world, number, driver, at="serve_begin")
        if _holds(world, number, driver)
        else _exits(world, number, driver)
    )


def _serve_begin(scenario, world, number, driver):
    begun = (job_name(number), SLICE, scenario.service_table)
    return _goes(world._replace(inflight=world.inflight | {begun}), number, driver, at="serve_complete")


def _serve_complete(scenario, world, number, driver):
    begun = (job_name(number), SLICE, scenario.service_table)
    if begun not in world.inflight:
        return _exits(world, number, driver)
    return _goes(world._replace(inflight=world.inflight - {begun}), number, driver, at="serve_finish")


def _serve_finish(scenario, world, number, driver):
    done = ("", "") if world.service == ("running", driver.run) else world.service
    return _goes(world._replace(service=done), number, Driver(driver.run, driver.terminal), at=_first_look(scenario))


def _open(scenario, world, number, driver):
    if not _holds(world, number, driver):
        return _exits(world, number, driver)
    return _goes(world._replace(unsettled=world.unsettled + (driver.batch,)), number, driver, at="claim")


def _claim(scenario, world, number, driver):
    """One object a step, on condition that it is pending; what this batch claimed before stays as it is."""
    for found in driver.batch:
        if world.objects[found][0] == PENDING:
            objects = world.objects[:found] + ((CLAIMED, driver.batch),) + world.objects[found + 1 :]
            return _goes(world._replace(objects=objects), number, driver)
    return _next_part(scenario, world, number, driver, part=0)


def _rollback(scenario, world, number, driver):
    """What others began and didn't complete is taken off the table's timeline; their writers can't complete it any more."""
    table = _table(scenario, driver)
    kept = (
        frozenset(begun for begun in world.inflight if begun[2] != table)
        if scenario.protocol.rollback_first
        else world.inflight
    )
    return _goes(world._replace(inflight=kept), number, driver, at="resolve")


def _resolve(scenario, world, number, driver):
    found = (driver.batch, _table(scenario, driver)) in world.timeline
    return _goes(
        world,
        number,
        driver,
        at="settle" if found and scenario.protocol.look_on_timeline else _write_order(scenario)[0],
    )


def _check(scenario, world, number, driver):
    if scenario.protocol.check_before_commit and not _holds(world, number, driver):
        return _exits(world, number, driver)
    return _goes(world, number, driver, at=_after(scenario, "check"))


def _begin(scenario, world, number, driver):
    begun = (job_name(number), driver.batch, _table(scenario, driver))
    return _goes(world._replace(inflight=world.inflight | {begun}), number, driver, at=_after(scenario, "begin"))


def _complete(scenario, world, number, driver):
    begun = (job_name(number), driver.batch, _table(scenario, driver))
    if begun not in world.inflight:
        return _exits(world, number, driver)
    part = begun[1:]
    mine = {found for found in driver.batch if scenario.tables[found] == part[1]}
    if any(table == part[1] and mine & set(batch) for batch, table in world.timeline):
        raise CommittedTwice(str(part))
    return _goes(
        world._replace(inflight=world.inflight - {begun}, timeline=tuple(sorted(world.timeline + (part,)))),
        number,
        driver,
        at="settle",
    )


def _settle(scenario, world, number, driver):
    table = _table(scenario, driver)
    objects = tuple(
        (COMMITTED, driver.batch)
        if status == CLAIMED and batch == driver.batch and scenario.tables[found] == table
        else (status, batch)
        for found, (status, batch) in enumerate(world.objects)
    )
    return _goes(world._replace(objects=objects), number, driver, at="settle_part")


def _settle_part(scenario, world, number, driver):
    table = _table(scenario, driver)
    commits = world.last_commits
    if (driver.batch, table) not in world.settled:
        commits = tuple(world.now if name == table else at for name, at in zip(scenario.table_names, commits))
    settled = world._replace(settled=world.settled | {(driver.batch, table)}, last_commits=commits)
    return _next_part(scenario, settled, number, driver, part=driver.part + 1)


def _close(scenario, world, number, driver):
    closed = world._replace(
        unsettled=tuple(batch for batch in world.unsettled if batch != driver.batch),
        settled=frozenset(part for part in world.settled if part[0] != driver.batch),
    )
    return _goes(closed, number, driver, at="progress")


def _progress(scenario, world, number, driver):
    lane = applied(machine.progressed, world.lane, driver.run) or world.lane
    after = "unsettled" if driver.takeover else _first_look(scenario)
    return _goes(world._replace(lane=lane), number, Driver(driver.run, driver.terminal), at=after)


def _release(scenario, world, number, driver):
    lane = applied(scenario.protocol.release, world.lane, driver.run, driver.seen, driver.due, world.now)
    if lane is not None:
        return _exits(world._replace(lane=lane), number, driver)
    return _goes(world, number, Driver(driver.run, driver.terminal), at=_first_look(scenario))


def _first_look(scenario):
    return "look" if scenario.protocol.arrivals_before_query else "query"


def _next_part(scenario, world, number, driver, *, part):
    tables = scenario.tables_of(driver.batch)
    while part < len(tables) and (driver.batch, tables[part]) in world.settled:
        part += 1
    if part == len(tables):
        return _goes(world, number, driver, at="close", part=0)
    return _goes(world, number, driver, at="rollback" if driver.takeover else _write_order(scenario)[0], part=part)


def _write_order(scenario):
    return WRITE_ORDERS[scenario.check_at == CHECK_BEFORE_COMPLETE]


def _after(scenario, step):
    order = _write_order(scenario)
    return order[order.index(step) + 1]


def _table(scenario, driver):
    return scenario.tables_of(driver.batch)[driver.part]


def _holds(world, number, driver):
    return machine.holds(world.lane, driver.run, job_name(number))


def _goes(world, number, driver, **changes):
    return world._replace(drivers=world.drivers[:number] + (driver._replace(**changes),) + world.drivers[number + 1 :])


def _exits(world, number, driver):
    return _goes(world, number, Driver(driver.run), terminal=True, alive=False, at="exit")
