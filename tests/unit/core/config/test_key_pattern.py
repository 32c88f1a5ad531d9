"""Patterns of keys: what they read, and which are refused because an untrusted key could make them slow."""

import pytest

from sluice.config.document import Configuration
from sluice.config.key_pattern import KEY_PATTERN, MAX_KEY, KeyName, named_by
from sluice.config.rules.table_rule import TableRule

DMS = r"dms/(?P<topic>[^/]+/[^/]+)/(?:.*/)?(?:LOAD[0-9A-F]{8}|[0-9]{8}-[0-9]+)\.(?:parquet|csv)"
AIVEN = r"(?P<topic>.+)-(?P<partition>[0-9]+)-(?P<offset>[0-9]+)\.gz"


@pytest.mark.parametrize(
    "pattern, key, name",
    [
        (AIVEN, "shop.orders-3-120.gz", KeyName("shop.orders", 3, 120)),
        (DMS, "dms/public/orders/2026/LOAD0000000A.csv", KeyName("public.orders")),
        (r"[^/]+/(?P<last_offset>[0-9]+)\.json", "x/9.json", KeyName(None, None, 9, True)),
        (r"drop/.*", "drop/a/b", KeyName()),
        (r"drop/.*", "other/drop/a", None),
        (r"a(?P<offset>\d{18,19})?.*", "a" + "9" * 19, None),
        (r"(?P<partition>\w+)", "1a", None),
        (r"(?P<partition>.)", "٣", None),
    ],
)
def test_a_pattern_reads_its_groups_from_the_whole_key(pattern, key, name):
    assert KEY_PATTERN.parse(pattern) == pattern
    assert named_by(pattern, key) == name


@pytest.mark.parametrize(
    "pattern, why",
    [
        ("(", "is not a regular expression"),
        ("", "1 to 500 characters"),
        ("a" * 501, "1 to 500 characters"),
        (7, "1 to 500 characters"),
        ("(?P<table>a)", "group table, which is not one of topic, partition, offset, last_offset"),
        ("(?P<offset>1)(?P<last_offset>2)", "both offset and last_offset"),
        ("(?=a)a", "look-around"),
        (r"(a)\1", "back-reference"),
        ("^a", "an anchor"),
        ("(?i)a", "sets flags"),
        ("(?i:a)", "sets flags"),
    ],
)
def test_a_pattern_with_a_mistake_is_refused_with_what_is_wrong(pattern, why):
    with pytest.raises(ValueError, match=why):
        KEY_PATTERN.parse(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a+)+b", "(a|aa)+b", "(?:ab)*c", "(?:a?){30}b"),
        *(".*.*.*=", "[0-9]+[0-9]+[0-9]+a", r"\w+\d+\w+-", "[^/]*[^-]*x"),
        *("(?:a|a)" * 20, "a?.*" * 3, ".{0,900}.{0,900}z"),
    ],
)
def test_a_pattern_that_a_key_could_make_slow_is_refused(pattern):
    with pytest.raises(ValueError, match="repeats a group|which may take too long"):
        KEY_PATTERN.parse(pattern)


@pytest.mark.parametrize(
    "pattern, key", [(AIVEN, "-1" * 512), (DMS, "dms/" + "a/b/" * 255), (r"(?:a|b|c|d)?(?:e|f)?.*(?:x|y)z", "ax" * 512)]
)
def test_the_longest_keys_meet_an_accepted_pattern(pattern, key):
    assert KEY_PATTERN.parse(pattern) and named_by(pattern, key[:MAX_KEY]) is None
    assert named_by(".*", "a" * (MAX_KEY + 1)) is None


def test_the_rule_that_takes_the_topic_reads_the_key():
    orders = TableRule("shop.orders", ("id",), topic="shop.orders", key_pattern=r"drop/orders/.*", format="json")
    rest = TableRule("{1}.{2}", ("id",), topic="*.*", key_pattern=r"drop/(?P<topic>[^/]+/[^/]+)/.*")
    configuration = Configuration((orders, rest))
    assert configuration.match_key("drop/orders/1.gz").name.topic == "shop.orders"
    assert configuration.match_key("drop/orders/1.gz").format == "json"
    assert configuration.match_key("drop/crm/user/1.json").name.topic == "crm.user"
    assert configuration.match_key("drop/shop/orders/1.json") is None, "the first rule takes this topic, not this key"
    assert configuration.match_key("drop/a b/c/1.json") is None, "Kafka allows no such topic"
    assert configuration.match_key("elsewhere/1.json") is None
    assert Configuration.from_json(configuration.to_json()) == configuration
