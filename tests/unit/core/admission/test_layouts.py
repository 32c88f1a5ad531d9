"""Keys of writers that Sluice doesn't know by name, read by the `key_pattern` of a rule.

The keys are those of the writers' documentation:
https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.S3.html
https://aiven.io/docs/products/kafka/kafka-connect/reference/s3-sink-additional-parameters
https://dlthub.com/docs/dlt-ecosystem/destinations/filesystem#files-layout
"""

import pytest

from sluice.admission.routing import classify
from sluice.admission.verdict import judge_unread
from sluice.config.document import Configuration, KeyMatch
from sluice.config.key_pattern import KEY_PATTERN, KeyName, named_by
from sluice.config.rules.snapshot import SnapshotRule
from sluice.config.rules.table_rule import TableRule

PART = "part-00000-4d6e6a4c-2f0e-4d5b-9a3c-0f1f6d1f8a11"
DMS = r"(?P<topic>dms/[^/]+/[^/]+)/(?:.*/)?(?:LOAD[0-9A-F]{8}|[0-9]{8}-[0-9]+)\.parquet"
OLDER = r"(?P<topic>old/[^/]+)/(?P<partition>[0-9]+)/(?P<last_offset>[0-9]+)\..*"
AIVEN = r"aiven/(?P<topic>.+)-(?P<partition>[0-9]+)-(?P<offset>[0-9]+)\.gz"
WRITERS: dict[str, dict[str, str]] = {
    "aws_dms": {"topic": "dms.*.*", "key_pattern": DMS},
    "spark": {"topic": "exports.*", "key_pattern": r"(?P<topic>exports/[^/]+)/(?:.*/)?part-[^/]+"},
    "dlt": {"topic": "lake.*", "key_pattern": r"(?P<topic>lake/[a-z][^/]*)/[0-9.]+\.[0-9a-f]+\.[^/]+"},
    "hand_made": {"topic": "shop.prices", "key_pattern": r"drop/prices/.*"},
    "older_sink": {"topic": "old.*.*", "key_pattern": OLDER},
    "aiven": {"topic": "*.*", "key_pattern": AIVEN, "format": "json"},
}
IN_FORCE = Configuration(tuple(TableRule(f"db.{name}", ("id",), **keys) for name, keys in WRITERS.items()))


@pytest.mark.parametrize(
    "key, route",
    [
        ("dms/hr/employee/LOAD00000001.parquet", ("dms.hr.employee", None, None, None, "parquet")),
        ("dms/hr/employee/2026/11/21/20261121-134010000.parquet", ("dms.hr.employee", None, None, None, "parquet")),
        ("aiven/shop.orders-3-120.gz", ("shop.orders", 3, 120, "first", "json")),
        (f"exports/orders/dt=2026-11-21/{PART}.c000.snappy.parquet", ("exports.orders", None, None, None, "parquet")),
        (f"exports/orders/{PART}-c000.json.gz", ("exports.orders", None, None, None, "json")),
        ("lake/users/1718000000.5.a1b2c3d4e5.jsonl", ("lake.users", None, None, None, "json")),
        ("lake/users/1718000000.5.a1b2c3d4e5.parquet", ("lake.users", None, None, None, "parquet")),
        ("drop/prices/of november.json", ("shop.prices", None, None, None, "json")),
        ("old/crm.user/7/0000000099.avro", ("old.crm.user", 7, 99, "last", "avro")),
        ("topics/a.b/partition=0/a.b+0+0000000005.avro", ("a.b", 0, 5, "first", "avro")),
    ],
)
def test_a_writers_documented_key_gives_topic_partition_offset_and_format(key, route):
    verdict = classify(key, 9, IN_FORCE.match_key(key))
    assert verdict.kind == "change_file"
    assert (verdict.topic, verdict.kafka_partition, verdict.offset, verdict.offset_is, verdict.format) == route


@pytest.mark.parametrize("name", WRITERS)
def test_the_patterns_of_the_samples_are_accepted(name):
    assert KEY_PATTERN.parse(WRITERS[name]["key_pattern"])


@pytest.mark.parametrize(
    "key, rule",
    [
        *(("exports/orders/_SUCCESS", "hidden_file"), ("exports/orders/.part-0.crc", "hidden_file")),
        ("drop/prices/", "folder_marker"),
    ],
)
def test_a_marker_that_a_pattern_matches_stays_ignored(key, rule):
    verdict = classify(key, 0, IN_FORCE.match_key(key))
    assert (verdict.kind, verdict.rule) == ("ignored", rule)


SPARK = KeyMatch(KeyName("exports.t"), None)


@pytest.mark.parametrize(
    "key",
    [
        "exports/t/_temporary/0/_temporary/attempt_1/dt=1/part-00000.snappy.parquet",
        "exports/t/.spark-staging-0f0f/dt=1/part-00000.snappy.parquet",
        "exports/t/.hive-staging_hive_1/part-00000.parquet",
        "exports/t/_delta_log/part-of-nothing.json",
        "exports/t/_any/part-00000.json",
        "exports/t/.any/part-00000.json",
    ],
)
def test_a_pattern_of_any_folders_takes_no_hidden_one(key):
    assert classify(key, 1, SPARK).rule == "hidden_folder"


@pytest.mark.parametrize(
    "pattern, key, kind",
    [
        (r"lake/_raw/(?P<topic>[^/]+)/.*", "lake/_raw/t/x.json", "change_file"),
        (r"lake/_raw/(?P<topic>[^/]+)/.*", "lake/_raw/t/_new/x.json", "ignored"),
        (r"lake/\.raw/.*", "lake/.raw/x.json", "change_file"),
        (r"lake/[.]raw/.*", "lake/.raw/x.json", "change_file"),
        (r"_delta_log/.*", "_delta_log/x.json", "change_file"),
        (r"lake/(_raw|b)/.*", "lake/_raw/x.json", "ignored"),
        (r"lake/_raw?/.*", "lake/_raw/x.json", "ignored"),
        (r"lake/.*", "lake/_raw/x.json", "ignored"),
    ],
)
def test_a_hidden_folder_that_a_pattern_spells_out_is_read(pattern, key, kind):
    name = named_by(KEY_PATTERN.parse(pattern), key)
    assert classify(key, 1, KeyMatch(name, None)).kind == kind


@pytest.mark.parametrize("key", ["drop/prices/november", "drop/prices/november.gz", "drop/prices/november.xlsx"])
def test_a_key_without_a_format_says_that_the_rule_has_to_name_it(key):
    verdict = classify(key, 9, IN_FORCE.match_key(key))
    assert verdict.kind == "unroutable" and "add `format` to the rule" in verdict.reason


DUMPS = Configuration(
    tuple(
        TableRule(f"db.{name}", ("id",), topic=topic, key_pattern=pattern, snapshot=SnapshotRule(dumps))
        for name, topic, pattern, dumps in (
            ("prices", "shop.prices", r"drop/prices/(?P<order>[0-9-]+)/[^/]+\.csv", "folder"),
            ("names", "names", "drop/names/.*", "folder"),
            ("whole", "whole", "drop/whole/.*", "object"),
            ("person", "pg.public.person", None, "generation"),
            ("employee", "hr.employee", None, "generation"),
        )
    )
)


@pytest.mark.parametrize(
    ("key", "topic"),
    [
        ("drop/prices/2026-11-02/_SUCCESS", "shop.prices"),
        ("drop/names/2026/11/_SUCCESS", "names"),
        ("topics/pg.public.person/_SUCCESS", "pg.public.person"),
        ("dms/hr/employee/_SUCCESS", "hr.employee"),
        ("drop/prices/_SUCCESS", None),
        ("drop/prices/2026-11-02/_started", None),
        ("drop/whole/_SUCCESS", None),
        ("topics/pg.public.other/_SUCCESS", None),
    ],
)
def test_a_marker_is_that_of_the_rule_whose_objects_lie_beside_it(key, topic):
    route = classify(key, 0, DUMPS.match_key(key))
    expected = ("change_file", topic, "marker") if topic else ("ignored", None, None)
    assert (route.kind, route.topic, route.format) == expected
    verdict = judge_unread(route, 0, DUMPS.table_for_topic(topic) if topic else None)
    assert verdict is not None and verdict.state == ("pending" if topic else "ignored")
