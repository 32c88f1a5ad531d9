"""Properties of every claim plan, for any backlog and budget."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sluice.batch.claim import Budget, PendingObject, TableState, plan_claim
from sluice.config.table import TableConfig

NOW = 1_000_000
TABLES = ("shop.a", "shop.b", "shop.c")
CONFIGS = {
    table: TableConfig(table, *table.split("."), topic=table, record_key=("id",), freshness_s=60) for table in TABLES
}
tables = st.sampled_from(TABLES)
backlogs = st.lists(st.tuples(tables, st.integers(1, 9)), max_size=30)


def waiting(n, table, size):
    return PendingObject(
        "bronze", f"{table}/{n}", "v", size, None, "avro", table, 0, n, NOW - 500 + n, table=table, shard=0
    )


@given(backlogs, st.integers(1, 12), st.integers(1, 40), st.sets(tables))
def test_a_plan_keeps_its_budget_takes_the_oldest_and_asks_again_while_some_remain(backlog, objects, size, busy):
    pending = [waiting(n, table, weight) for n, (table, weight) in enumerate(backlog)]
    states = {table: TableState(table, last_commit_at=NOW - 1_000) for table in busy}
    plan = plan_claim(
        pending, {item.table: CONFIGS[item.table] for item in pending}, states, Budget(objects, size), NOW
    )
    taken = [item for group in plan.objects.values() for item in group]
    free = [item for item in pending if item.table not in busy]
    assert len(taken) <= objects and (sum(item.size for item in taken) <= size or len(taken) == 1)
    assert bool(taken) == bool(free)
    for table, group in plan.objects.items():
        assert list(group) == [item for item in free if item.table == table][: len(group)]
    left = Counter(item.id for item in free) - Counter(item.id for item in taken)
    if left:
        assert plan.next_due_at == NOW
    elif len(free) < len(pending):
        assert plan.next_due_at == NOW + 59_000
    else:
        assert plan.next_due_at is None
