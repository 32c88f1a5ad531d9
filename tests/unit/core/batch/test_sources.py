"""A table takes the changes of one source table, unless its rule merges several."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.batch.kafka_watch import KafkaWatch, watched
from sluice.changes.log_restart import SeenObject
from sluice.changes.position import POSTGRES
from sluice.config.table import TableConfig

CUST, ORDERS = "shop.public.cust", "shop.public.orders"


def seen(name: str, *tables: str) -> SeenObject:
    return SeenObject(name, name, 0, int(name), int(name), POSTGRES, "p", source_tables=tables)


def refused(*batches: list[SeenObject], key: tuple[str, ...] = ("id",), **settings: Any) -> list[str]:
    """The objects of the batches that are refused, each judged with what the ledger kept of the ones before."""
    watch, names = KafkaWatch(), []
    config = TableConfig("db.t", "db", "t", "x", key, **settings)
    for batch in batches:
        judged = watched(KafkaWatch.from_dict(watch.to_dict()), batch, config)
        names += sorted(judged.refused)
        assert all(error.code == "other_source_table" for error in judged.refused.values())
        watch = judged.watch
    return names


@pytest.mark.parametrize(
    "batches",
    [
        ([seen("1", CUST), seen("2", ORDERS)],),
        ([seen("1", CUST)], [seen("2", ORDERS)]),
        ([seen("1", CUST)], [seen("2", CUST, ORDERS)], [seen("3", CUST), seen("4")]),
        ([seen("2", CUST, ORDERS)], [seen("3", ORDERS)]),
        ([seen("1", "..cust")], [seen("3", CUST)], [seen("2", "..orders")]),
        ([seen("1", CUST)], [seen("2", "shop.audit.cust")]),
    ],
)
def test_an_object_with_changes_of_another_source_table_is_refused(batches: tuple[list[SeenObject], ...]) -> None:
    assert refused(*batches) == ["2"]
    assert refused(*batches, merged=True) == []


def test_what_the_key_names_of_the_source_may_differ() -> None:
    batches = [seen("1", CUST)], [seen("2", ORDERS), seen("3", "other.public.cust")]
    assert refused(*batches, key=("__table", "id")) == ["3"]
    assert refused(*batches, key=("__db", "id")) == ["2"]
    assert refused(*batches, source_columns=("db", "table")) == []


def test_a_dot_in_a_name_is_no_part_of_it() -> None:
    assert refused([seen("1", r"shop.public.a\.b"), seen("2", "shop.public.b")]) == ["2"]


def test_another_generation_may_have_another_source_table() -> None:
    before = watched(KafkaWatch(), [seen("1", CUST)], TableConfig("db.t", "db", "t", "x", ("id",))).watch
    raised = TableConfig("db.t", "db", "t", "x", ("id",), generation=1)
    assert not watched(before, [seen("2", ORDERS)], raised).refused
