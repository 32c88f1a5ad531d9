"""What a run may claim: the predicate, turns between tables, budgets, and when the rest is due."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.batch.claim import (
    Budget,
    PendingObject,
    Settling,
    TableState,
    claimable_at,
    claimable_tables,
    configured_tables,
    fed_by,
    first_due_at,
    plan_claim,
    ready_tables,
    still_routed,
)
from sluice.batch.isolation import Cohort
from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.config.table import TableConfig

NOW = 1_000_000
WIDE = Budget(1_000, 1 << 40)


def a_config(table="shop.a", **settings):
    return TableConfig(table, *table.split("."), topic=table, record_key=("id",), freshness_s=60, **settings)


def waiting(n, table="shop.a", size=1, at=None):
    since = NOW - 500 + n if at is None else at
    return PendingObject("bronze", f"{table}/{n}", "v", size, None, "avro", table, 0, n, since, table=table, shard=0)


def planned(pending, budget=WIDE, states=(), configs=None, now=NOW):
    given = configs if configs is not None else {item.table: a_config(item.table) for item in pending}
    return plan_claim(pending, given, {state.table: state for state in states}, budget, now)


class TestClaimable:
    @pytest.mark.parametrize(
        ("config", "state", "expected"),
        [
            (a_config(), TableState("shop.a"), True),
            (None, TableState("shop.a"), False),
            (a_config(paused=True), TableState("shop.a"), False),
            (a_config(), TableState("shop.a", rebuild={"to": "aside"}), False),
            (a_config(), TableState("shop.a", backoff_until=NOW + 1), False),
            (a_config(), TableState("shop.a", backoff_until=NOW), True),
            (a_config(), TableState("shop.a", last_commit_at=NOW - 59_999), False),
            (a_config(), TableState("shop.a", last_commit_at=NOW - 60_000), True),
            (replace(a_config(), freshness_s=0), TableState("shop.a", last_commit_at=NOW), True),
        ],
    )
    def test_it_is_configured_not_paused_not_backing_off_and_old_enough(self, config, state, expected):
        at = claimable_at(config, state)
        assert (at is not None and at <= NOW) is expected


class TestSettling:
    SETTLING = Settling(quiet_ms=700, most_ms=5_000)

    def plan(self, pending, now, states=()):
        configs = {item.table: a_config(item.table) for item in pending}
        by_table = {state.table: state for state in states}
        plan = plan_claim(pending, configs, by_table, WIDE, now, settling=self.SETTLING)
        ready = ready_tables(pending, configs, by_table, now, self.SETTLING)
        assert ready == set(plan.objects)
        return sum(map(len, plan.objects.values())), plan.next_due_at

    def test_a_first_load_waits_until_no_more_objects_come(self):
        first, second = waiting(1, at=NOW), waiting(2, at=NOW + 600)
        assert self.plan([first], NOW + 650) == (0, NOW + 700)
        assert self.plan([first, second], NOW + 700) == (0, NOW + 1_300)
        assert self.plan([first, second], NOW + 1_300) == (2, None)

    def test_objects_that_never_stop_coming_are_claimed_after_a_while(self):
        pending = [waiting(n, at=NOW + 500 * n) for n in range(11)]
        assert self.plan(pending, NOW + 4_999) == (0, NOW + 5_000)
        assert self.plan(pending, NOW + 5_000) == (11, None)

    def test_a_run_whose_clock_is_far_behind_waits_for_nothing(self):
        pending = [waiting(n, at=NOW + 5_400_000 + n) for n in range(3)]
        assert self.plan(pending, NOW) == (3, None)
        assert self.plan([waiting(1, at=NOW + 2_000)], NOW) == (0, NOW + 2_700)

    def test_a_table_with_a_commit_and_what_is_isolated_wait_for_nothing(self):
        committed = TableState("shop.a", last_commit_at=NOW - 100_000)
        assert self.plan([waiting(1, at=NOW)], NOW, [committed]) == (1, None)
        alone = replace(waiting(1, at=NOW), cohort=Cohort(1, NOW).to_text())
        assert self.plan([alone], NOW) == (1, None)


class TestTurns:
    def test_a_long_backlog_of_one_table_does_not_starve_another(self):
        pending = [waiting(n, "shop.many") for n in range(100)] + [waiting(200, "shop.few"), waiting(201, "shop.few")]
        plan = planned(pending, Budget(6, 1 << 40))
        assert {table: len(item) for table, item in plan.objects.items()} == {"shop.many": 4, "shop.few": 2}

    def test_the_table_that_waits_longest_goes_first_and_its_oldest_object_first(self):
        plan = planned([waiting(3, "shop.b"), waiting(2, "shop.a"), waiting(1, "shop.b")], Budget(1, 1 << 40))
        assert plan.objects == {"shop.b": (waiting(1, "shop.b"),)}

    def test_bytes_stop_a_table_and_let_smaller_objects_of_others_through(self):
        plan = planned(
            [waiting(1, "shop.a", 6), waiting(2, "shop.b", 3), waiting(3, "shop.a", 6), waiting(4, "shop.b", 1)],
            Budget(10, 10),
        )
        assert [item.offset for value in plan.objects.values() for item in value] == [1, 2, 4]
        assert plan.next_due_at == NOW

    def test_rows_are_estimated_from_earlier_objects_and_limit_a_table_as_bytes_do(self):
        dense = TableState("shop.a", totals={"read": 300, "bytes_read": 100})
        unknown = TableState("shop.b", totals={"read": 5})
        pending = [waiting(n, "shop.a", 10) for n in range(4)] + [waiting(n, "shop.b", 10) for n in (5, 6)]
        plan = planned(pending, Budget(1_000, 1 << 40, rows=70), (dense, unknown))
        assert {table: len(item) for table, item in plan.objects.items()} == {"shop.a": 2, "shop.b": 2}
        assert plan.next_due_at == NOW
        large, small = waiting(1, size=100), waiting(2, size=1)
        assert len(planned([large, small], Budget(9, 1 << 40, rows=1), (dense,)).objects["shop.a"]) == 1

    def test_an_object_larger_than_the_budget_is_claimed_alone(self):
        plan = planned([waiting(1, size=100), waiting(2)], Budget(10, 10))
        assert plan.objects == {"shop.a": (waiting(1, size=100),)}


class TestDue:
    def test_objects_waiting_for_freshness_or_back_off_show_until_when(self):
        states = [TableState("shop.a", last_commit_at=NOW - 10_000), TableState("shop.b", backoff_until=NOW + 20_000)]
        plan = planned([waiting(1, "shop.a"), waiting(2, "shop.b")], states=states)
        assert plan.empty and plan.next_due_at == NOW + 20_000 and plan.due_at_release(NOW) == NOW + 20_000

    def test_what_is_paused_or_unconfigured_comes_due_never(self):
        plan = planned([waiting(1, "shop.a"), waiting(2, "shop.b")], configs={"shop.a": a_config(paused=True)})
        assert plan.empty and plan.next_due_at is None

    def test_a_run_that_ends_with_claimable_work_leaves_it_due_now(self):
        assert planned([waiting(1)]).due_at_release(NOW) == NOW


def test_a_topic_that_changed_its_table_hides_neither_table_from_the_other():
    old, new = waiting(1, "shop.old", at=NOW), waiting(2, "shop.new", at=NOW - 1)
    # The old one was admitted last, by a configuration read before.
    pending = [replace(new, topic="t"), replace(old, topic="t")]
    configuration = Configuration((TableRule("shop.new", ("id",), topic="t"),))
    assert list(configured_tables(configuration, "main", pending)) == ["shop.new"]


def test_objects_of_a_topic_that_does_not_feed_their_table_wait_and_start_no_run():
    """The rows of two sources would take each other's keys, and their positions are of two logs."""
    configuration = Configuration((TableRule("crm.{t}", ("id",), topic_regex=r"db[0-9]\.public\.(?P<t>user)"),))
    one, two = (replace(waiting(n, "crm.user"), topic=f"db{n}.public.user") for n in (1, 2))
    fed = TableState("crm.user", pinned={"topic": "db2.public.user"})
    for state, own in ((TableState("crm.user"), one), (fed, two)):
        configured = configured_tables(configuration, "main", [one, two])
        configs = fed_by(configuration, "main", configured, {"crm.user": state})
        plan = plan_claim([one, two], configs, {"crm.user": state}, WIDE, NOW)
        assert (plan.objects, plan.next_due_at) == ({"crm.user": (own,)}, None)
    assert claimable_tables(configuration, "main", [one], {"crm.user": fed}, NOW) == ()
    assert claimable_tables(configuration, "main", [two], {"crm.user": fed}, NOW) == ("crm.user",)
    # No rule gives it the other any more.
    renamed = Configuration((TableRule("crm.user", ("id",), topic="db1.public.user"),))
    assert claimable_tables(renamed, "main", [one], {"crm.user": fed}, NOW) == ("crm.user",)


def test_several_topics_feed_a_table_only_where_its_rule_allows_it():
    def claimed(**settings):
        rule = TableRule("crm.user", **{"record_key": ("id",), **settings}, topic_regex=r"(?:eu|us)\.user")
        configuration = Configuration(rules=(TableRule("crm.gone", ("id",), topic="eu.gone"), rule))
        topics = ("us.user", "eu.user", "eu.gone")  # the last was routed elsewhere after its admission
        pending = [replace(waiting(n, "crm.user"), topic=topic) for n, topic in enumerate(topics)]
        configs = fed_by(configuration, "main", configured_tables(configuration, "main", pending), {})
        plan = plan_claim(still_routed(configuration, "main", pending), configs, {}, WIDE, NOW)
        assert claimable_tables(configuration, "main", pending, {}, NOW) == ("crm.user",)
        assert first_due_at(configuration, "main", pending[2:], {}) is None
        return sorted(item.topic for item in plan.objects["crm.user"])

    assert claimed() == ["eu.user"]
    assert claimed(merged=True) == claimed(record_key=("__db", "id")) == ["eu.user", "us.user"]


@pytest.mark.parametrize(
    ("watch", "generation", "claimed"),
    [
        ({"marks": {"0": {"generation": 2, "offset": 7, "kind": "postgres", "highest": "0002.1.1"}}}, 1, False),
        ({"form": [1, "3"]}, 0, False),
        ({"order": {"generation": 1, "kind": "arrival", "name": ""}}, 1, True),
        ({}, 0, True),
    ],
)
def test_a_generation_below_that_of_merged_changes_is_refused(watch, generation, claimed):
    """A configuration of before it rose, whose changes would all lose without a word."""
    item = waiting(1)
    configuration = Configuration((TableRule("shop.a", ("id",), topic="shop.a", generation=generation),))
    data = TableState("shop.a", watch=watch, pinned={"topic": "shop.a", "record_key": ["id"]})
    assert claimable_tables(configuration, "main", [item], {"shop.a": data}, NOW) == (("shop.a",) if claimed else ())
    without = replace(data, pinned=None)
    assert claimable_tables(configuration, "main", [item], {"shop.a": without}, NOW) == ("shop.a",)
