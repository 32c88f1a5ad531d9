"""A key leads to its topic, is ignored by a named rule, or is reported without a topic."""

import json
from pathlib import Path

import pytest

from sluice.admission.routing import classify, first_offset, identities, route_of
from sluice.config.document import Configuration
from sluice.config.rules.ignore import Ignore
from sluice.config.rules.snapshot import SnapshotRule
from sluice.config.rules.table_rule import TableRule
from sluice.objects import ObjectId

DATA = Path(__file__).resolve().parents[3] / "data"


@pytest.mark.parametrize(
    "key, topic, partition, offset, offset_is",
    [
        ("topics/moma.public.art/partition=0/moma.public.art+0+0000014150.avro", "moma.public.art", 0, 14150, "first"),
        ("topics/t/year=2026/month=11/day=21/t+12+0000000300.avro", "t", 12, 300, "first"),
        ("t+1+5.avro", "t", 1, 5, "first"),
        ("any/where/t+1+5.avro", "t", 1, 5, "first"),
        ("cdc/customer_id=/order_id=10251/demo.datalake.events(0_50).avro", "demo.datalake.events", 0, 50, "last"),
        ("lake/topics/a.b.c/part-0001.avro", "a.b.c", None, None, None),
        ("topics/a.b.c/partition=3/x.avro", "a.b.c", 3, None, None),
        ("topics/_internal/_internal+0+1.avro", "_internal", 0, 1, "first"),
        ("topics/tombstone/partition=0/tombstone+0+1.avro", "tombstone", 0, 1, "first"),
        ("topics/orders.keys/orders.keys+0+1.avro", "orders.keys", 0, 1, "first"),
    ],
)
def test_a_change_files_name_gives_topic_partition_and_offset(key, topic, partition, offset, offset_is):
    route = classify(key, 100)
    expected = ("change_file", topic, partition, offset, offset_is, "avro")
    assert (route.kind, route.topic, route.kafka_partition, route.offset, route.offset_is, route.format) == expected


# Where the sinks put their objects, by their own documentation:
# https://docs.confluent.io/kafka-connectors/s3-sink/current/overview.html#s3-object-names
# https://docs.lenses.io/latest/connectors/kafka-connectors/sinks/aws-s3
@pytest.mark.parametrize(
    "key, partition, offset, offset_is, file_format",
    [
        ("topics/src.s.t/partition=3/src.s.t+3+0000000012.avro", 3, 12, "first", "avro"),  # DefaultPartitioner
        # FieldPartitioner
        ("topics/src.s.t/customer_id=a b+c/order_id=Ünï/src.s.t+3+000012.snappy.parquet", 3, 12, "first", "parquet"),
        # partition.field.format.path=false
        ("topics/src.s.t/VICTE/10251/src.s.t+3+0000000012.json", 3, 12, "first", "json"),
        # HourlyPartitioner
        ("topics/src.s.t/year=2026/month=11/day=21/hour=07/src.s.t+3+0000000012.json.gz", 3, 12, "first", "json"),
        # DailyPartitioner
        ("topics/src.s.t/year=2026/month=11/day=21/src.s.t+3+0000000012.avro", 3, 12, "first", "avro"),
        # TimeBasedPartitioner with a path.format
        ("topics/src.s.t/2026/11-21/07/src.s.t+3+0000000012.gz.parquet", 3, 12, "first", "parquet"),
        # topics.dir of several folders, and a partitioner without the topic
        ("a/b/c/src.s.t+3+0000000012.avro", 3, 12, "first", "avro"),
        # Lenses, no PARTITIONBY
        ("cdc/src.s.t/3/000000000012_1700000000000_1700000000009.avro", 3, 12, "last", "avro"),
        # the same of earlier releases, padded, without prefix
        ("src.s.t/3/00000012.parquet", 3, 12, "last", "parquet"),
        # unpadded, under a prefix that is called topics
        ("topics/src.s.t/3/12_1700000000000_1700000000009.json", 3, 12, "last", "json"),
        ("cdc/region=a(1_2)/src.s.t(3_12).json", 3, 12, "last", "json"),  # Lenses, PARTITIONBY
        ("cdc/2026/11/21/src.s.t(000003_000000000012).jsonl", 3, 12, "last", "json"),  # with padding
        # Lenses' JSON in gzip: FileExtensionNamer.scala puts the codec's extension in place of .json
        ("cdc/region=a/src.s.t(3_12).gz", 3, 12, "last", "json"),
        ("cdc/src.s.t/3/000000000012_1700000000000_1700000000009.gz", 3, 12, "last", "json"),
        ("cdc/src.s.t(3_12)-cluster_a.avro", 3, 12, "last", "avro"),  # with key.suffix
        ("cdc/src.s.t/3/000000000012_1700000000000_1700000000009-2b.avro", 3, 12, "last", "avro"),
    ],
)
def test_the_topic_is_found_with_any_partitioner_and_depth(key, partition, offset, offset_is, file_format):
    route = classify(key, 1)
    expected = ("change_file", "src.s.t", partition, offset, offset_is, file_format)
    assert (route.kind, route.topic, route.kafka_partition, route.offset, route.offset_is, route.format) == expected


@pytest.mark.parametrize(
    "key, topic",
    [
        ("topics/src.s.t/partition=3/src.s.t-3-0000000012.avro", "src.s.t"),
        ("cdc/lake/src.s.t/year=2026/month=11/src.s.t_3_0000000012.avro", "src.s.t"),  # topics.dir is another, too
        ("src_1/partition=3/src_1_3_0000000012.avro", "src_1"),  # topics.dir is empty
        ("topics/src-1/src-1--3--0000000012.avro", "src-1"),
        ("topics/_src/partition=3/_src__3__0000000012.avro", "_src"),
    ],
)
def test_partition_and_offset_are_found_with_another_file_delimiter(key, topic):
    route = classify(key, 1)
    expected = ("change_file", topic, 3, 12, "first")
    assert (route.kind, route.topic, route.kafka_partition, route.offset, route.offset_is) == expected
    assert classify(key.replace(".avro", ".keys.avro"), 1).rule == "keys_file"


def test_a_date_in_a_files_name_is_no_offset():
    assert classify("exports/report/report-11-20261121.avro", 1).kind == "unroutable"
    assert classify("topics/report/report-11-20261121.avro", 1).offset is None


# BigQuery numbers the files of an export with twelve digits: https://cloud.google.com/bigquery/docs/exporting-data
@pytest.mark.parametrize("folder", ["20261121", "202611", "1763683200"])
def test_a_date_above_a_padded_number_is_no_partition(folder):
    route = classify(f"topics/orders/{folder}/000000000000.json", 1)
    assert (route.topic, route.kafka_partition, route.offset) == ("orders", None, None)
    assert classify("topics/orders/000000000003/000000000012.json", 1).kafka_partition == 3


@pytest.mark.parametrize(
    "name",
    [
        "2026/20261121",
        "2026/11/20261121",
        "2026/11/21/20261121103000",
        "2026/11/202611211030",
        "2026/20251231",
        "2026/1121/20261121",
    ],
)
def test_a_date_below_a_folder_of_its_year_is_no_offset(name):
    """The last offset is counted back by the records: a longer dump of the next day would lose to the one before."""
    route = classify(f"topics/sales/{name}.csv", 1)
    assert (route.topic, route.kafka_partition, route.offset) == ("sales", None, None)
    for partition, offset in (("11", "20261121"), ("11", "20251121"), ("2026", "000020261121")):
        assert classify(f"topics/src.s.t/{partition}/{offset}.csv", 1).offset == int(offset), "it may be Lenses'"


@pytest.mark.parametrize("key", ["exports/2026/11/21.avro", "exports/orders/2026.avro", "2026/11/0000001.json"])
def test_a_bare_number_in_numbered_folders_is_no_offset(key):
    assert classify(key, 1).kind == "unroutable"


def test_what_a_sink_writes_beside_json_and_parquet_is_ignored_too():
    keys = ["topics/t/t+0+1.keys.json", "topics/t/t+0+1.headers.json.gz", "topics/t/t+0+1.keys.snappy.parquet"]
    assert [classify(key, 1).rule for key in keys] == ["keys_file", "headers_file", "keys_file"]


@pytest.mark.parametrize(
    "key, rule",
    [
        ("topics/t/partition=0/t+0+0000000000.keys.avro", "keys_file"),
        ("topics/t/partition=0/t+0+0000000000.headers.avro", "headers_file"),
        ("topics/t/tombstone/partition=0/t+0+0000000000.keys.avro", "tombstone_folder"),
        ("topics/t/tombstone/partition=0/t+0+0000000000.avro", "tombstone_folder"),
        ("topics/tombstone/tombstone/tombstone+0+1.avro", "tombstone_folder"),
        ("topics/t/_SUCCESS", "hidden_file"),
        ("topics/t/.t.avro.crc", "hidden_file"),
        ("topics/t/._copy.avro", "hidden_file"),
        ("topics/t/x.avro._COPYING_", "hidden_file"),
        ("topics/t/_temporary/0/t+0+0000000000.avro", "hidden_folder"),
        ("topics/t/dt=1/_work/x.json", "hidden_folder"),
        ("topics/t/.part/x.parquet", "hidden_folder"),
        ("topics/+tmp/t/partition=0/t+0+0000000000.avro", "hidden_folder"),
        ("exports/t/_delta_log/00000000000000000000.json", "hidden_folder"),
        ("exports/t/_spark_metadata/0", "hidden_folder"),
        ("_temporary/0/public/user/LOAD00000001.csv", "hidden_folder"),
        ("topics/t/", "folder_marker"),
        ("topics/t_$folder$", "folder_marker"),
    ],
)
def test_what_is_written_beside_the_changes_is_ignored_by_name(key, rule):
    route = classify(key, 0)
    assert (route.kind, route.rule) == ("ignored", rule)


@pytest.mark.parametrize(
    "key, topic",
    [
        ("_landing/topics/t/partition=0/t+0+0000000000.avro", "t"),
        (".landing/topics/t/x.json", "t"),
        ("topics/_schemas/partition=0/_schemas+0+0000000000.avro", "_schemas"),
        ("topics/t/_part=1/x.json", "t"),
        ("_dms/public/user/LOAD00000001.csv", None),
    ],
)
def test_folders_of_a_topic_and_above_it_are_the_users_own(key, topic):
    route = classify(key, 1)
    assert route.topic == topic and route.kind == ("change_file" if topic else "unroutable")


@pytest.mark.parametrize(
    "key",
    [
        *("orders.avro", "a/b/c.avro", "topics/t/t+0+1.tsv", "topics/t/README", "topics/bad topic/x.avro"),
        *("a b+0+1.avro", "topics//x.avro", "x" * 300 + "+0+1.avro", "dir\n/a+0+1x.avro", "topics/t/dump.gz"),
        *("t+0+99999999999999999999999.avro", "topics/t/t+0+1.tsv.gz", "cdc/t(0_1).tsv.gz", "topics/t/", "topics/"),
    ],
)
def test_what_names_no_topic_is_unroutable_with_a_reason(key):
    route = classify(key, 9)
    assert route.kind == "unroutable" and route.reason


def test_an_empty_change_file_is_still_a_change_file():
    assert classify("t+0+1.avro", 0).kind == "change_file"


def test_other_formats_are_named():
    assert classify("topics/t/t+0+1.json", 1).format == "json"
    assert classify("topics/t/t+0+1.json.gz", 1).format == "json"
    assert classify("topics/t/t+0+1.csv", 1).format == classify("cdc/t(0_1).csv.gz", 1).format == "csv"


@pytest.mark.parametrize(
    ("key", "topic"),
    [
        ("topics/public/film/LOAD00000001.parquet", "public.film"),
        ("lake/topics/public/film/LOAD0000000A.parquet", "public.film"),
        ("topics/public/film/20141029-1134010000.parquet", "public.film"),
        ("topics/public/film/2014/10/29/20141029-113401000.parquet", "public.film"),
        ("topics/public/film/2014-10-29/20141029-113401000.parquet", "public.film"),
        ("topics/shop.film/public/film/LOAD00000001.parquet", "shop.film"),
        ("topics/shop.film/2014/20141029-113401000.parquet", "shop.film"),
        ("topics/shop.film/LOAD00000001.parquet", "shop.film"),
        ("topics/shop.film/region=eu/20141029-113401000.parquet", "shop.film"),
        ("topics/public/film/part-00001.parquet", "public"),
        ("topics/public/film/20141029-113401000.json", "public"),
    ],
)
def test_schema_and_table_of_aws_dms_make_a_topic(key, topic):
    route = classify(key, 100)
    assert (route.kind, route.topic, route.offset) == ("change_file", topic, None)


def test_the_last_offset_is_counted_back_by_the_records():
    last = classify("t(0_50).avro", 1)
    assert [first_offset(last, records) for records in (1, 51, 60)] == [50, 0, 0]
    assert first_offset(classify("t+0+50.avro", 1), 51) == 50
    assert first_offset(classify("topics/t/x.avro", 1), 51) is None


@pytest.mark.parametrize("name", ["tickit_small", "pagila_env", "types_flat_precise"])
def test_every_recorded_object_leads_to_the_topic_of_its_folder(name):
    manifest = json.loads((DATA / name / "manifest.json").read_text())
    keys = [item["key"] for item in manifest["objects"]]
    assert keys
    for key in keys:
        route = classify(key, 1)
        assert (route.kind, route.topic) == ("change_file", key.split("/")[1])


IGNORING = Configuration(
    rules=(
        TableRule("crm.{1}", ("id",), topic="crm.*", key_pattern="drop/(?P<topic>[^/]+/[^/]+)/.*", format="json"),
        TableRule("a.{1}", ("id",), topic="*.heartbeat"),
    ),
    ignore=Ignore(topics=("*.heartbeat", "crm.tmp"), keys=("*.RESOLVED", "exports/*/manifest.json", "part-[0-9]")),
)


@pytest.mark.parametrize(
    "key, rule",
    [
        ("topics/crm.heartbeat/crm.heartbeat+0+1.avro", "ignore: *.heartbeat"),  # also where a rule takes it
        ("drop/crm/tmp/1", "ignore: crm.tmp"),
        ("feed/2026-11-28/202611280000.RESOLVED", "ignore: *.RESOLVED"),
        ("topics/crm.user/x.RESOLVED", "ignore: *.RESOLVED"),
        ("exports/2026/11/manifest.json", "ignore: exports/*/manifest.json"),
        ("deep/in/part-1", "ignore: part-[0-9]"),
        ("topics/crm.user/_SUCCESS", "hidden_file"),
        ("topics/crm.a.heartbeat/crm.a.heartbeat+0+1.avro", None),  # a star is one part
        ("x/exports/2026/manifest.json", None),
        ("feed/resolved.txt", None),
    ],
)
def test_ignore_leaves_out_topics_and_keys_before_all_rules(key, rule):
    route = route_of(key, 1, IGNORING)
    assert (route.rule, route.kind == "ignored") == (rule, rule is not None)
    assert (IGNORING.table_for_topic(route.topic or "") is None) or rule is None


def test_an_object_has_an_identity_for_each_table_that_its_topic_feeds():
    dumps = SnapshotRule(replace="folder", marker="_SUCCESS")
    first = TableRule("raw.{1}", ("id",), topic="crm.*", snapshot=dumps)
    also = {"topic": "crm.*", "also": True}
    copies = (TableRule("a.{1}", ("id",), snapshot=dumps, **also), TableRule("b.{1}", ("id",), **also))
    configuration = Configuration(rules=(first, *copies))
    marker, file = (ObjectId("bucket", f"topics/crm.user/{name}", "v") for name in ("_SUCCESS", "x.json"))
    assert [id.also_for for id in identities(file, 1, configuration)] == ["", "a.user", "b.user"]
    assert [id.also_for for id in identities(marker, 1, configuration)] == ["", "a.user"]
    assert len({id.hash for id in identities(file, 1, configuration)}) == 3
    assert identities(file, 1, Configuration(rules=(first,))) == identities(file, 1, None) == (file,)
