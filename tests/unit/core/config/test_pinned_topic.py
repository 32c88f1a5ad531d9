"""A table's configuration in force, by the topic that feeds it."""

import pytest

from sluice.config.document import Configuration
from sluice.config.pinned_topic import config_by_pinned_topic, config_by_topic, config_in_force, pinned_topic
from sluice.config.rules.table_rule import TableRule
from sluice.errors import NotConfigured

EXACT = TableRule("shop.orders", ("id",), topic="eu.orders", lane="big")
PATTERN = TableRule("shop.{2}", ("id",), topic_regex=r"([a-z]+)\.([a-z]+)")
CONFIGURATION = Configuration((EXACT, PATTERN))


@pytest.mark.parametrize("pinned", [None, {}, {"topic": None}, {"topic": ""}, {"record_key": ["id"]}])
def test_a_table_without_data_has_no_pinned_topic(pinned):
    assert pinned_topic(pinned) is None
    assert config_by_pinned_topic(CONFIGURATION, "shop.orders", pinned) is None


def test_a_topic_counts_only_for_the_table_and_the_lane_that_it_feeds_now():
    assert config_by_topic(CONFIGURATION, "eu.orders", "shop.orders").lane == "big"
    assert config_by_topic(CONFIGURATION, "eu.orders", "shop.orders", lane="big") is not None
    assert config_by_topic(CONFIGURATION, "eu.orders", "shop.orders", lane="main") is None
    assert config_by_topic(CONFIGURATION, "eu.orders", "shop.customers") is None
    assert config_by_topic(None, "eu.orders", "shop.orders") is None


def test_of_two_topics_that_could_feed_a_table_the_pinned_one_counts():
    pinned = {"topic": "us.orders"}
    assert config_in_force(CONFIGURATION, "shop.orders", pinned).topic == "us.orders"
    assert config_by_pinned_topic(CONFIGURATION, "shop.orders", pinned).topic == "us.orders"


def test_without_a_pinned_topic_that_still_feeds_the_table_the_exact_rule_counts():
    assert config_in_force(CONFIGURATION, "shop.orders", None).topic == "eu.orders"
    assert config_in_force(CONFIGURATION, "shop.orders", {"topic": "eu.customers"}).topic == "eu.orders"


def test_a_table_is_described_by_the_fixed_settings_of_its_data():
    pinned = {"topic": "eu.orders", "record_key": ["id"], "partition_by": ["day"], "table_type": "mor"}
    config = config_in_force(CONFIGURATION, "shop.orders", pinned)
    assert (config.partition_by, config.table_type, config.lane) == (("day",), "mor", "big")


@pytest.mark.parametrize("configuration", [None, Configuration(()), Configuration((PATTERN,))])
def test_a_table_that_no_rule_makes_is_refused(configuration):
    with pytest.raises(NotConfigured):
        config_in_force(configuration, "shop.orders", None)
