"""A run's process in the lane protocol: hold, take over, look, open, claim, write tables, settle, close, release."""

from __future__ import annotations

from lane_model.state import (
    CHECK_BEFORE_COMPLETE,
    CLAIMED,
    COMMITTED,
    PENDING,
    QUARANTINED,
    Driver,
    ModelState,
    Scenario,
    applied,
    identity,
    job_name,
    planned,
)
from sluice.batch.isolation import ALONE, DIVIDE, SET_ASIDE, TOGETHER, Cohort, OpenPart, divided
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
    """The next batch that this pass has not visited yet."""
    left = [batch for batch in model.unsettled if batch not in driver.visited]
    if not left:
        return _goes(model, number, _fresh(driver), at=_first_look(scenario))
    visited = (*driver.visited, left[0])
    return _goes(model, number, driver, at="claim", batch=left[0], part=0, takeover=True, visited=visited)


def _look(scenario, model, number, driver):
    if not _holds(model, number, driver):
        return _exits(model, number, driver)
    fresh = _fresh(driver)._replace(seen=model.lane.arrivals, due=driver.due)
    if scenario.protocol.arrivals_before_query:
        return _goes(model, number, fresh._replace(due=None), at="query")
    return _goes(model, number, fresh, at="release")


def _query(scenario, model, number, driver):
    unresolved = {
        table
        for batch in model.unsettled
        for table in scenario.tables_of(batch)
        if driver.deferred and (batch, table) not in model.settled
    }
    pending = tuple(
        item
        for item, (status, _) in enumerate(model.objects)
        if status == PENDING and scenario.tables[item] not in unresolved
    )
    commits = tuple(zip(scenario.table_names, model.last_commits, strict=True))
    plan = planned(
        pending,
        scenario.tables,
        commits,
        scenario.freshness_s,
        scenario.batch_objects,
        model.now,
        model.cohorts,
        driver.isolated_next,
    )
    if plan.objects:
        batch = tuple(sorted(int(one.id.key) for items in plan.objects.values() for one in items))
        turn = not plan.isolated and any(model.cohorts)
        return _goes(model, number, driver, at="open", batch=batch, part=0, isolated_next=turn)
    if driver.deferred and scenario.protocol.suspects_in_the_end:
        return _goes(model, number, _fresh(driver)._replace(suspects=True, deferred=False), at="unsettled")
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
    inflight = frozenset(begun for begun in model.inflight if begun[2] != scenario.service_table)
    return _goes(model._replace(inflight=inflight), number, driver, at="serve_check")


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
    cohort = model.cohorts[driver.batch[0]]
    claimed_as = model.claimed_as if cohort is None else (*model.claimed_as, (driver.batch, cohort))
    opened = model._replace(unsettled=model.unsettled + (driver.batch,), claimed_as=claimed_as)
    return _goes(opened, number, driver, at="claim")


def _claim(scenario, model, number, driver):
    """One object a step, on condition that it is pending; what this batch claimed before stays as it is.

    The objects of a part that was returned are pending for another batch.
    """
    for item in driver.batch:
        returned = (driver.batch, scenario.tables[item]) in model.settled
        if model.objects[item][0] == PENDING and not returned:
            objects = model.objects[:item] + ((CLAIMED, driver.batch),) + model.objects[item + 1 :]
            return _goes(model._replace(objects=objects), number, driver)
    tables = scenario.tables_of(driver.batch)
    open_parts = [part for part, table in enumerate(tables) if (driver.batch, table) not in model.settled]
    if not driver.takeover:
        return _next_part(scenario, model, number, driver._replace(todo=tuple((part, TOGETHER) for part in open_parts)))
    cohort = next((Cohort.from_text(text) for batch, text in model.claimed_as if batch == driver.batch), None)
    plan = scenario.protocol.resumption(
        [
            OpenPart(
                tables[part],
                sum(scenario.tables[item] == tables[part] for item in driver.batch),
                cohort=cohort,
                attempts=next((n for *of, n in model.attempts if of == [driver.batch, tables[part]]), 0),
                attempted_at=model.now,
            )
            for part in open_parts
        ],
        model.now,
    )
    assert not plan.later, "no part needs so many attempts"
    apart = plan.apart if driver.suspects else ()
    todo = [(table, TOGETHER) for table in plan.together] + list(apart)
    deferred = driver.deferred or (bool(plan.apart) and not driver.suspects)
    ordered = tuple((tables.index(table), how) for table, how in todo)
    return _next_part(scenario, model, number, driver._replace(todo=ordered, deferred=deferred))


def _attempt(scenario, model, number, driver):
    """Counted before it begins: a run that dies can't count its own death."""
    table = _table(scenario, driver)
    before = next((n for *of, n in model.attempts if of == [driver.batch, table]), 0)
    others = [attempt for attempt in model.attempts if attempt[:2] != (driver.batch, table)]
    counted = model._replace(attempts=tuple(sorted([*others, (driver.batch, table, before + 1)])))
    return _goes(counted, number, driver, at="rollback")


def _rollback(scenario, model, number, driver):
    """What others began and didn't complete is taken off the table's timeline; their writers can't complete it any
    more.
    """
    table = _table(scenario, driver)
    inflight = (
        frozenset(begun for begun in model.inflight if begun[2] != table)
        if scenario.protocol.rollback_first
        else model.inflight
    )
    return _goes(model._replace(inflight=inflight), number, driver, at="resolve")


def _resolve(scenario, model, number, driver):
    if (driver.batch, _table(scenario, driver)) in model.timeline and scenario.protocol.look_on_timeline:
        return _goes(model, number, driver, at="settle")
    if driver.how in (DIVIDE, SET_ASIDE):
        return _goes(model, number, driver, at=driver.how)
    return _goes(model, number, driver, at=_write_order(scenario)[0])


def _divide(scenario, model, number, driver):
    """One object a step back to pending, on condition that the lane is held; then the part ends as returned."""
    if not _holds(model, number, driver):
        return _exits(model, number, driver)
    mine = _mine(scenario, driver)
    cohort = next((Cohort.from_text(text) for batch, text in model.claimed_as if batch == driver.batch), None)
    into = divided([identity(item) for item in mine], cohort, model.now)
    for item in mine:
        if model.objects[item] == (CLAIMED, driver.batch):
            text = into[identity(item)].to_text()
            cohorts = model.cohorts[:item] + (text,) + model.cohorts[item + 1 :]
            objects = model.objects[:item] + ((PENDING, ()),) + model.objects[item + 1 :]
            return _goes(model._replace(objects=objects, cohorts=cohorts), number, driver)
    returned = model._replace(settled=model.settled | {(driver.batch, _table(scenario, driver))})
    return _next_part(scenario, returned, number, driver)


def _set_aside(scenario, model, number, driver):
    mine = _mine(scenario, driver)
    objects = tuple(
        (QUARANTINED, driver.batch) if item in mine and status == CLAIMED and batch == driver.batch else (status, batch)
        for item, (status, batch) in enumerate(model.objects)
    )
    settled = model.settled | {(driver.batch, _table(scenario, driver))}
    return _next_part(scenario, model._replace(objects=objects, settled=settled), number, driver)


def _check(scenario, model, number, driver):
    if scenario.protocol.check_before_commit and not _holds(model, number, driver):
        return _exits(model, number, driver)
    return _goes(model, number, driver, at=_after(scenario, "check"))


def _begin(scenario, model, number, driver):
    if scenario.poison & set(_mine(scenario, driver)):
        return _exits(model, number, driver)
    begun = (job_name(number), driver.batch, _table(scenario, driver))
    return _goes(model._replace(inflight=model.inflight | {begun}), number, driver, at=_after(scenario, "begin"))


def _complete(scenario, model, number, driver):
    begun = (job_name(number), driver.batch, _table(scenario, driver))
    if begun not in model.inflight:
        return _exits(model, number, driver)
    part = begun[1:]
    mine = {item for item in driver.batch if scenario.tables[item] == part[1]}
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
        if status == CLAIMED and batch == driver.batch and scenario.tables[item] == table
        else (status, batch)
        for item, (status, batch) in enumerate(model.objects)
    )
    return _goes(model._replace(objects=objects), number, driver, at="settle_part")


def _settle_part(scenario, model, number, driver):
    table = _table(scenario, driver)
    commits = model.last_commits
    if (driver.batch, table) not in model.settled:
        commits = tuple(
            model.now if name == table else at for name, at in zip(scenario.table_names, commits, strict=True)
        )
    cohorts = tuple(
        None if status == COMMITTED else cohort
        for (status, _), cohort in zip(model.objects, model.cohorts, strict=True)
    )
    settled = model._replace(settled=model.settled | {(driver.batch, table)}, last_commits=commits, cohorts=cohorts)
    if driver.how == ALONE:
        lane = applied(machine.progressed, settled.lane, driver.run) or settled.lane
        settled = settled._replace(lane=lane)
    return _next_part(scenario, settled, number, driver)


def _close(scenario, model, number, driver):
    closed = model._replace(
        unsettled=tuple(batch for batch in model.unsettled if batch != driver.batch),
        settled=frozenset(part for part in model.settled if part[0] != driver.batch),
        attempts=tuple(attempt for attempt in model.attempts if attempt[0] != driver.batch),
        claimed_as=tuple(attempt for attempt in model.claimed_as if attempt[0] != driver.batch),
    )
    if any(batch == driver.batch for batch, _ in model.timeline):
        return _goes(closed, number, driver, at="progress")
    return _behind_a_batch(scenario, closed, number, driver)


def _progress(scenario, model, number, driver):
    lane = applied(machine.progressed, model.lane, driver.run) or model.lane
    return _behind_a_batch(scenario, model._replace(lane=lane), number, driver)


def _behind_a_batch(scenario, model, number, driver):
    """A take-over goes on with the next batch; a run whose suspects waited for a batch of others takes them over."""
    if driver.takeover:
        fresh = _fresh(driver)._replace(visited=driver.visited, suspects=driver.suspects)
        return _goes(model, number, fresh, at="unsettled")
    if driver.deferred:
        return _goes(model, number, _fresh(driver)._replace(suspects=True, deferred=False), at="unsettled")
    return _goes(model, number, _fresh(driver), at=_first_look(scenario))


def _release(scenario, model, number, driver):
    lane = applied(scenario.protocol.release, model.lane, driver.run, driver.seen, driver.due, model.now)
    if lane is not None:
        return _exits(model._replace(lane=lane), number, driver)
    return _goes(model, number, _fresh(driver), at=_first_look(scenario))


def _fresh(driver):
    """The driver with what it remembers from one batch to the next."""
    return Driver(driver.run, driver.terminal, deferred=driver.deferred, isolated_next=driver.isolated_next)


def _first_look(scenario):
    return "look" if scenario.protocol.arrivals_before_query else "query"


def _next_part(scenario, model, number, driver):
    if driver.todo:
        (part, how), *rest = driver.todo
        at = "attempt" if driver.takeover else _write_order(scenario)[0]
        return _goes(model, number, driver, at=at, part=part, how=how, todo=tuple(rest))
    done = driver._replace(part=0, how=TOGETHER)
    if all((driver.batch, table) in model.settled for table in scenario.tables_of(driver.batch)):
        return _goes(model, number, done, at="close")
    return _behind_a_batch(scenario, model, number, done)


def _write_order(scenario):
    return WRITE_ORDERS[scenario.check_at == CHECK_BEFORE_COMPLETE]


def _after(scenario, step):
    order = _write_order(scenario)
    return order[order.index(step) + 1]


def _table(scenario, driver):
    return scenario.tables_of(driver.batch)[driver.part]


def _mine(scenario, driver):
    """The objects of the current part."""
    return [item for item in driver.batch if scenario.tables[item] == _table(scenario, driver)]


def _holds(model, number, driver):
    return machine.holds(model.lane, driver.run, job_name(number))


def _goes(model, number, driver, **changes):
    return model._replace(drivers=model.drivers[:number] + (driver._replace(**changes),) + model.drivers[number + 1 :])


def _exits(model, number, driver):
    return _goes(model, number, Driver(driver.run), terminal=True, alive=False, at="exit")
