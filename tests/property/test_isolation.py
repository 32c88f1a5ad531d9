"""Objects that kill runs, or fail their merge, are found and set aside, and nothing else is, whatever the batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from math import ceil, log

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.batch.claim import Budget, PendingObject, TableState, plan_claim
from sluice.batch.isolation import (
    ALONE,
    COHORTS,
    DIVIDE,
    RETURN,
    SET_ASIDE,
    TOGETHER,
    Cohort,
    OpenPart,
    after_failure,
    divided,
    resumption,
    treatment,
)
from sluice.config.table import TableConfig
from sluice.lane.machine import HALT_AFTER_FAILURES
from sluice.objects import ObjectId

TABLES = ("shop.a", "shop.b", "shop.c")
CONFIGS = {table: TableConfig(table, *table.split("."), topic=table, record_key=("id",)) for table in TABLES}


class RunDied(Exception):
    pass


@dataclass
class Lane:
    """A lane and its runs, as far as their decisions about parts: merging kills the run where `kills` says so."""

    pending: list[PendingObject]
    kills: object
    batch_objects: int = 10_000
    now: int = 1_000
    open: dict[str, tuple[OpenPart, list[PendingObject]]] = field(default_factory=dict)
    merged: set[ObjectId] = field(default_factory=set)
    aside: set[ObjectId] = field(default_factory=set)
    deaths: int = 0
    in_a_row: int = 0
    most_in_a_row: int = 0

    def run_until_nothing_is_left(self) -> None:
        while self.pending or self.open:
            self.now += 1
            assert self.deaths < 10_000
            try:
                self._run()
            except RunDied:
                self.deaths += 1
                self.in_a_row += 1
                self.most_in_a_row = max(self.most_in_a_row, self.in_a_row)

    def _run(self) -> None:
        planned = resumption([part for part, _ in self.open.values()], self.now)
        self._merge({table: self._attempted(table) for table in planned.together})
        suspects_wait, isolated_next = bool(planned.apart), False
        while True:
            states = {
                table: TableState(table, blocked={} if table not in self.open else {"error": ""}) for table in TABLES
            }
            plan = plan_claim(
                self.pending,
                CONFIGS,
                states,
                Budget(self.batch_objects, 1 << 40),
                self.now,
                isolated_next=isolated_next,
            )
            if not plan.empty and not (suspects_wait and plan.isolated):
                isolated_next = not plan.isolated
                taken = {item.id for items in plan.objects.values() for item in items}
                self.pending = [item for item in self.pending if item.id not in taken]
                for table, items in plan.objects.items():
                    self.open[table] = OpenPart(table, len(items), len(items), cohort_of(items)), list(items)
                self._merge({table: list(items) for table, items in plan.objects.items()})
            if suspects_wait:
                suspects_wait = False
                for table, how in planned.apart:
                    self._apart(table, how)
            elif plan.empty:
                return

    def _attempted(self, table: str) -> list[PendingObject]:
        part, items = self.open[table]
        self.open[table] = replace(part, attempts=part.attempts + 1, attempted_at=self.now), items
        return items

    def _apart(self, table: str, how: str) -> None:
        items = self._attempted(table)
        if how == ALONE:
            self._merge({table: items})
        else:
            del self.open[table]
            if how == DIVIDE:
                self.pending += in_cohorts(items, self.now)
            else:
                assert how == SET_ASIDE
                self.aside |= {item.id for item in items}

    def _merge(self, parts: dict[str, list[PendingObject]]) -> None:
        if self.kills({item.id for items in parts.values() for item in items}):
            raise RunDied
        for table, items in parts.items():
            self.merged |= {item.id for item in items}
            self.open.pop(table, None)
            self.in_a_row = 0


def cohort_of(items: list[PendingObject]) -> Cohort | None:
    assert len({item.cohort for item in items}) == 1
    return None if items[0].cohort is None else Cohort.from_text(items[0].cohort)


def in_cohorts(items: list[PendingObject], now: int) -> list[PendingObject]:
    into = divided([item.id for item in items], cohort_of(items), now)
    return [replace(item, cohort=into[item.id].to_text()) for item in items]


def waiting(numbers_by_table: dict[str, int]) -> list[PendingObject]:
    return [
        PendingObject("b", f"{table}/{n}", "v", 1, None, "avro", table, 0, n, n, table=table, shard=0)
        for table, count in numbers_by_table.items()
        for n in range(count)
    ]


simulated = settings(deadline=None, max_examples=60)
backlogs = st.dictionaries(st.sampled_from(TABLES), st.integers(1, 70), min_size=1)


@simulated
@given(backlogs, st.data())
def test_objects_that_kill_runs_are_set_aside_and_all_others_are_merged(backlog, data):
    pending = waiting(backlog)
    ids = [item.id for item in pending]
    poison = data.draw(st.sets(st.sampled_from(ids), max_size=4))
    lane = Lane(pending, lambda objects: bool(objects & poison), data.draw(st.sampled_from([3, 20, 10_000])))
    lane.run_until_nothing_is_left()
    assert lane.aside == poison
    assert lane.merged == set(ids) - poison
    most_deaths = 2 + 1 + ceil(log(max(backlog.values()), COHORTS)) + 3
    assert lane.deaths <= most_deaths * len(poison)


@simulated
@given(backlogs, st.integers(1, 80))
def test_a_group_too_large_for_a_run_is_merged_in_smaller_ones(backlog, most):
    pending = waiting(backlog)
    lane = Lane(list(pending), lambda objects: len(objects) > most)
    lane.run_until_nothing_is_left()
    assert lane.merged == {item.id for item in pending} and not lane.aside


@simulated
@given(st.integers(2, 5_000), st.data())
def test_one_object_that_kills_runs_does_not_halt_its_lane(count, data):
    pending = waiting({"shop.a": count})
    poison = data.draw(st.sampled_from(pending)).id
    lane = Lane(pending, lambda objects: poison in objects)
    lane.run_until_nothing_is_left()
    assert lane.aside == {poison}
    assert lane.most_in_a_row < HALT_AFTER_FAILURES
    assert lane.deaths <= 9


@simulated
@given(st.integers(1, 500), st.integers(0, 3))
def test_a_lane_whose_every_run_dies_halts_before_objects_are_set_aside(count, already):
    lane = Lane(waiting({"shop.a": count}), lambda objects: True)
    while lane.in_a_row < HALT_AFTER_FAILURES and (lane.pending or lane.open):
        lane.now += 1
        try:
            lane._run()
        except RunDied:
            lane.in_a_row += 1
    assert len(lane.aside) <= 1


@simulated
@given(st.integers(1, 60), st.sets(st.integers(0, 59), max_size=3))
def test_objects_whose_merge_fails_are_set_aside_once_their_table_commits(count, numbers):
    pending = waiting({"shop.a": count})
    poison = {pending[number].id for number in numbers if number < count}
    merged, aside = set(), set()
    now, failures, last_commit_at, isolated_next = 1_000, 0, None, False
    for _ in range(2_000):
        now += 1_000
        plan = plan_claim(pending, CONFIGS, {}, Budget(10_000, 1 << 40), now, isolated_next=isolated_next)
        if plan.empty:
            break
        isolated_next = not plan.isolated
        (items,) = plan.objects.values()
        ids = {item.id for item in items}
        pending = [item for item in pending if item.id not in ids]
        if not ids & poison:
            merged, failures, last_commit_at = merged | ids, 0, now
            continue
        failures += 1
        how, back = after_failure(
            len(items), cohort_of(items), failures=failures, last_commit_at=last_commit_at, now=now
        )
        if how == SET_ASIDE:
            aside |= ids
        elif how == DIVIDE:
            pending += in_cohorts(items, now)
        else:
            assert how == RETURN
            pending += [replace(item, cohort=back.to_text() if back else None) for item in items]
    assert merged == {item.id for item in waiting({"shop.a": count})} - poison
    assert aside <= poison
    if merged:
        assert aside == poison


cohorts = st.builds(Cohort, st.integers(1, 9), st.integers(0, 10**13), st.integers(0, COHORTS - 1), st.booleans())


@given(st.integers(1, 10_000), st.integers(0, 9), st.none() | cohorts, st.integers(0, 10**6))
def test_a_part_is_set_aside_only_if_it_killed_a_run_and_was_blamed_before(objects, attempts, cohort, at):
    part = OpenPart("shop.a", objects, objects, cohort, attempts, at)
    how = treatment(part)
    assert (how == SET_ASIDE) == (cohort is not None and cohort.blamed)
    assert (how == TOGETHER) == (attempts == 0 and cohort is None)
    assert (how == ALONE) == (attempts == 1 and cohort is None)
    assert treatment(replace(part, given_up=True)) == SET_ASIDE


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=400, unique=True), st.none() | cohorts)
def test_a_division_is_even_keeps_the_order_and_is_read_back_from_its_text(numbers, cohort):
    objects = [ObjectId("b", str(n), "v") for n in numbers]
    into = divided(objects, cohort, 7)
    assert list(into) == objects
    sizes = Counter(one.number for one in into.values())
    assert len(sizes) == min(COHORTS, len(objects)) and max(sizes.values()) - min(sizes.values()) <= 1
    assert [one.number for one in into.values()] == sorted(one.number for one in into.values())
    assert {Cohort.from_text(one.to_text()) for one in into.values()} == set(into.values())
    assert all(one.depth > (cohort.depth if cohort else 0) for one in into.values())


def test_the_cohorts_of_two_divisions_are_told_apart():
    objects = [ObjectId("b", str(n), "v") for n in range(64)]
    first = divided(objects, None, 7)
    parts = [[item for item in objects if first[item].number == number] for number in (0, 1)]
    deeper = [set(divided(part, first[part[0]], 9).values()) for part in parts]
    assert len(deeper[0]) == len(deeper[1]) == COHORTS and not deeper[0] & deeper[1]
