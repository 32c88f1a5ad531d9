"""The table of a topic, and the stored form of a configuration."""

import json
from pathlib import Path

import pytest

from sluice.config.document import Configuration
from sluice.config.lane import LaneConfig
from sluice.config.rules.ignore import Ignore
from sluice.config.rules.table_rule import TableRule
from sluice.errors import InvalidConfiguration

REGION = r"crm-(?P<region>[a-z]+)\.(?P<entity>\w+)"
BIG = {"partition_by": ("day",), "table_type": "mor", "lane": "big"}
RULES = (
    TableRule("sales.orders", ("orderid", "line"), topic="shop.sales.order", **BIG),
    TableRule("{1}.{2}", ("{2}id",), topic="shop.*.*", hudi={"a": "b"}),
    TableRule("crm_{region}.{entity}", ("id",), topic_regex=REGION, partition_by=("{1}_day",)),
)
CONFIGURATION = Configuration(rules=RULES, lanes=(LaneConfig(), LaneConfig(name="big", max_executors=3)))


def test_the_first_rule_that_takes_a_topic_counts():
    table = CONFIGURATION.table_for_topic("shop.sales.order")
    expected = ("sales.orders", "sales", "orders", ("orderid", "line"), "big")
    assert (table.table, table.database, table.name, table.record_key, table.lane) == expected


def test_a_pattern_names_table_and_key_from_the_parts_of_the_topic():
    table = CONFIGURATION.table_for_topic("shop.ems.venue")
    assert (table.table, table.record_key, table.topic) == ("ems.venue", ("venueid",), "shop.ems.venue")


def test_a_regular_expression_names_them_from_its_groups():
    table = CONFIGURATION.table_for_topic("crm-eu.person")
    assert (table.table, table.partition_by) == ("crm_eu.person", ("eu_day",))


@pytest.mark.parametrize(
    "topic",
    ["shop.ems", "shop.ems.venue.old", "xshop.ems.venue", "shop..venue", "", "shop.ems.venue\n", "a/b", "x" * 250],
)
def test_a_star_is_one_part_without_dots_and_the_whole_topic_counts(topic):
    match = CONFIGURATION.match_topic(topic)
    assert match.config is None and match.reason and CONFIGURATION.table_for_topic(topic) is None


@pytest.mark.parametrize(
    "topic", ["shop.ems.Venue", "shop.e-ms.venue", "shop.ems.1venue", "shop.ems._venue", "shop._sluice.manifests"]
)
def test_a_topic_without_a_usable_table_name_is_reported_with_the_reason(topic):
    match = CONFIGURATION.match_topic(topic)
    assert match.config is None and topic in match.reason


def test_no_topic_becomes_the_history_table_of_another():
    rules = (
        TableRule("shop.orders", ("id",), topic="a", history=True),
        TableRule("crm.{1}", ("id",), topic="crm.*", history=True),
        TableRule("{1}.{2}", ("id",), topic="*.*"),
    )
    configuration = Configuration(rules=rules)
    for topic, table in {"shop.orders_history": "shop.orders", "crm.user_history": "crm.user"}.items():
        match = configuration.match_topic(topic)
        assert match.config is None and f"{topic} may be a history table" in match.reason, table
    for topic in ("shop.user_history", "shop.history", "ems.orders_history"):
        assert configuration.table_for_topic(topic).table == topic


def test_a_history_table_has_the_name_that_its_rule_makes_and_no_two_have_one():
    rules = (
        TableRule("shop.orders", ("id",), topic="a", history="log"),
        TableRule("shop.users", ("id",), topic="b", history="log"),
        TableRule("shop.log", ("id",), topic="c"),
        TableRule("crm.{1}", ("id",), topic="crm.*", history="{1}_log"),
        TableRule("ems.{1}", ("id",), topic="ems.*", history=True),
        TableRule("ems.sale", ("id",), topic="sale", history=True),
        TableRule("p.t_{1}", ("id",), topic="p.*", history="{1}"),
    )
    configuration = Configuration(rules=rules)
    assert Configuration.from_json(configuration.to_json()) == configuration
    tables = {"crm.user": "crm.user_log", "ems.venue": "ems.venue_history", "sale": "ems.sale_history"}
    for topic, name in tables.items():
        assert configuration.table_for_topic(topic).history_table.table == name
    for topic in ("a", "b", "c", "crm.user_log"):
        assert "may be a history table" in configuration.match_topic(topic).reason
    assert "which is not a table name" in configuration.match_topic("p.1").reason


def test_dots_in_an_exact_topic_are_dots():
    assert Configuration(rules=RULES[:1]).table_for_topic("shopxsales.order") is None


def test_canonical_json_gives_the_configuration_back_and_is_stable():
    text = CONFIGURATION.to_json()
    again = Configuration.from_json(text)
    assert again == CONFIGURATION and again.to_json() == text
    assert Configuration(rules=RULES, lanes=tuple(reversed(CONFIGURATION.lanes))).version == CONFIGURATION.version


def test_what_is_ignored_is_of_the_version_and_stored_only_if_anything_is():
    ignoring = Configuration(rules=RULES, ignore=Ignore(keys=("*.RESOLVED",)))
    assert Configuration.from_json(ignoring.to_json()) == ignoring
    assert ignoring.version != Configuration(rules=RULES).version
    assert "ignore" not in json.loads(Configuration(rules=RULES).to_json())


def test_a_document_of_an_earlier_release_keeps_every_byte():
    stored = (Path(__file__).resolve().parents[3] / "data" / "stored_configuration.json").read_text(encoding="utf-8")
    configuration = Configuration.from_json(stored)
    assert configuration.to_json() == stored
    assert [len(configuration.rules), configuration.lane("big").service_slice_s] == [3, 33]


def test_settings_of_later_releases_are_stored_only_where_they_differ():
    (plain,) = json.loads(Configuration((TableRule("a.b", ("id",), topic="a.b"),)).to_json())["rules"]
    assert not {"limits", "services", "catalog", "lineage", "index", "raw"} & set(plain)
    (changed,) = json.loads(Configuration((TableRule("a.b", ("id",), topic="a.b", index="simple"),)).to_json())["rules"]
    assert {**plain, "index": "simple"} == changed


def test_another_content_is_another_version():
    assert Configuration(rules=RULES[1:]).version != CONFIGURATION.version


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "5", "{}", '{"format":2,"rules":[],"lanes":[]}'),
        '{"format":1,"rules":[{"what":1}],"lanes":[]}',
        '{"format":1,"rules":[5],"lanes":[]}',
        CONFIGURATION.to_json().replace("venue", "v").replace('"big"', '"huge"'),
    ],
)
def test_what_config_push_did_not_write_is_refused(text):
    with pytest.raises(InvalidConfiguration):
        Configuration.from_json(text)


def test_a_lane_that_is_only_mentioned_has_the_defaults():
    assert CONFIGURATION.lane("other") == LaneConfig(name="other")
    assert CONFIGURATION.lane_names() == ("big", "main")
