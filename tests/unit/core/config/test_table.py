"""The stored form of a table's configuration, and the settings that can't change in place."""

import json
from dataclasses import replace

import pytest

from sluice.config.rules.change_rule import ChangeRule
from sluice.config.table import TableConfig, refuse_changes
from sluice.errors import ChangeRefused

KEYS = ("orderid", "line"), ("day",)
TABLE = TableConfig(
    "sales.orders", "sales", "orders", "shop.sales.order", *KEYS, table_type="mor", hudi={"a": "b"}, lane="big"
)


def test_a_tables_configuration_travels_in_a_manifest():
    values = json.loads(json.dumps(TABLE.to_dict()))
    assert TableConfig.from_dict(values) == TABLE
    assert TableConfig.from_dict({**values, "of_a_later_release": 1}) == TABLE


@pytest.mark.parametrize(
    "change",
    [{"record_key": ("orderid",)}, {"partition_by": ()}, {"partition_by": ("month(day)",)}, {"table_type": "cow"}],
)
def test_changing_key_partition_or_type_of_a_table_with_data_asks_for_a_rebuild(change):
    with pytest.raises(ChangeRefused, match="sluice rebuild table") as refused:
        refuse_changes(replace(TABLE, **change), json.loads(json.dumps(TABLE.pinned)))
    assert list(refused.value.facts["changes"]) == list(change)


def test_the_name_of_a_history_table_is_fixed_once_it_was_written():
    pinned = json.loads(json.dumps(replace(TABLE, history="order_log").pinned))
    for may in (False, "order_log"):
        refuse_changes(replace(TABLE, history=may), pinned)
    for other in (True, "orders_log"):
        with pytest.raises(ChangeRefused, match="history is order_log"):
            refuse_changes(replace(TABLE, history=other), pinned)
    refuse_changes(replace(TABLE, history="order_log"), TABLE.pinned)
    by_default = replace(TABLE, history=True)
    refuse_changes(replace(TABLE, history="orders_history"), by_default.pinned)
    assert by_default.history_table.table == "sales.orders_history"
    log = replace(TABLE, history="order_log").history_table
    assert (log.table, log.database, log.name) == ("sales.order_log", "sales", "order_log")


def test_the_paths_that_order_changes_are_fixed():
    by_time, by_number = (replace(TABLE, change=ChangeRule(row="row", order=(path,))) for path in ("at", "seq"))
    pinned = json.loads(json.dumps(by_time.pinned))
    for may in (by_time, TABLE):
        refuse_changes(may, pinned)
    with pytest.raises(ChangeRefused, match="change.order is at and would become seq"):
        refuse_changes(by_number, pinned)
    refuse_changes(by_number, TABLE.pinned)  # of a release that didn't keep them


def test_what_may_change_in_place_does_and_a_table_without_data_takes_anything():
    refuse_changes(replace(TABLE, freshness_s=1, lane="other", generation=2, topic="moved.topic"), TABLE.pinned)
    refuse_changes(replace(TABLE, record_key=("other",)), None)
    refuse_changes(replace(TABLE, record_key=("other",)), {})
