"""Published Hudi Streamer configurations translated into rules."""

from pathlib import Path

import pytest

from sluice.hudi.java_properties import parse_properties
from sluice.onboarding.hudi_streamer import translate
from sluice_cli.config.source import read_tables
from sluice_cli.main import run

# Settings of published configurations, each under the place it was published at; comments and host names are left away.
PUBLISHED = {
    # https://github.com/garystafford/kafka-connect-msk-demo:
    # hudi/debezium_hudi_demo/deltastreamer_artworks_apicurio_mor.properties
    "artworks": """
hoodie.datasource.hive_sync.assume_date_partitioning=false
hoodie.datasource.hive_sync.database=moma_mor
hoodie.datasource.hive_sync.partition_extractor_class=org.apache.hudi.hive.MultiPartKeysValueExtractor
hoodie.datasource.hive_sync.partition_fields=classification
hoodie.datasource.hive_sync.table=artworks
hoodie.datasource.write.hive_style_partitioning=true
hoodie.datasource.write.partitionpath.field=classification
hoodie.datasource.write.recordkey.field=artwork_id
hoodie.deltastreamer.schemaprovider.registry.url=http://registry:8080/apis/ccompat/v6/subjects/moma.public.artworks-value/versions/latest
hoodie.deltastreamer.source.dfs.root=s3://data-lake/topics/moma.public.artworks/partition=0/
hoodie.parquet.small.file.limit=134217728
hoodie.index.type=GLOBAL_BLOOM
""",
    # https://gist.github.com/garystafford/a8cc0aa919e5c4eaf62fa3a3894665be
    "sale": """
include=base.properties
hoodie.datasource.hive_sync.partition_fields=__table
hoodie.datasource.hive_sync.table=sale
hoodie.datasource.write.partitionpath.field=__table
hoodie.datasource.write.recordkey.field=salesid
hoodie.deltastreamer.schemaprovider.registry.url=http://registry:8080/apis/ccompat/v6/subjects/tickit.ecomm.sale-value/versions/latest
hoodie.deltastreamer.source.dfs.root=s3://data-lake/cdc_hudi_data_lake/bronze/tickit.ecomm.sale/
""",
    # https://github.com/apache/hudi: docker/demo/config/dfs-source.properties
    "dfs": """
include=base.properties
hoodie.datasource.write.recordkey.field=key
hoodie.datasource.write.partitionpath.field=date
hoodie.deltastreamer.schemaprovider.source.schema.file=/var/demo/config/schema.avsc
hoodie.deltastreamer.source.dfs.root=/usr/hive/data/input/
""",
    # https://github.com/apache/hudi: hudi-utilities/src/test/resources/streamer-config/uber_config.properties
    "uber": """
include=base.properties
hoodie.datasource.write.recordkey.field=_row_key
hoodie.datasource.write.partitionpath.field=created_at
hoodie.streamer.source.kafka.topic=topic1
hoodie.keygen.timebased.timestamp.type=UNIX_TIMESTAMP
hoodie.keygen.timebased.input.dateformat=yyyy-MM-dd HH:mm:ss.S
hoodie.datasource.hive_sync.database=uber_hive_db
hoodie.datasource.hive_sync.table=uber_hive_dummy_table
hoodie.streamer.schemaprovider.registry.url=http://localhost:8081/subjects/random-value/versions/latest
""",
    # https://github.com/apache/hudi: hudi-utilities/src/test/resources/streamer-config/kafka-source.properties
    "kafka": """
hoodie.datasource.write.recordkey.field=impressionid
hoodie.datasource.write.partitionpath.field=userid
hoodie.streamer.schemaprovider.registry.url=http://localhost:8081/subjects/impressions-value/versions/latest
hoodie.streamer.source.kafka.topic=impressions
bootstrap.servers=localhost:9092
auto.offset.reset=earliest
""",
    # https://github.com/cevoaustralia/data-lake-demo: hudi/config/cdc_events_deltastreamer_s3.properties
    "events": """
hoodie.upsert.shuffle.parallelism=2
hoodie.datasource.hive_sync.database=datalake
hoodie.datasource.hive_sync.table=cdc_events
hoodie.datasource.hive_sync.partition_fields=customer_id,order_id
hoodie.datasource.write.recordkey.field=order_id
hoodie.datasource.write.partitionpath.field=customer_id,order_id
hoodie.datasource.write.keygenerator.class=org.apache.hudi.keygen.ComplexKeyGenerator
hoodie.datasource.write.hive_style_partitioning=true
hoodie.deltastreamer.source.dfs.root=s3://data-lake/hudi/cdc-events/
hoodie.parquet.small.file.limit=134217728
""",
    # https://github.com/anorth848/analytics-black-belt-2021:
    # use_case_specific/hammerdb/deltastreamer.sh, its --hoodie-conf
    "warehouse": """
hoodie.datasource.write.recordkey.field=w_id
hoodie.table.name=hammerdb_public_warehouse2
hoodie.datasource.write.precombine.field=trx_seq
hoodie.datasource.hive_sync.database=rdbms_analytics
hoodie.datasource.hive_sync.enable=true
hoodie.datasource.hive_sync.table=hammerdb_public_warehouse2
hoodie.datasource.write.hive_style_partitioning=true
hoodie.deltastreamer.source.dfs.root=s3://bronze/rdbms_analytics/cdc/hammerdb/public/warehouse/
hoodie.datasource.hive_sync.partition_extractor_class=org.apache.hudi.hive.NonPartitionedExtractor
hoodie.datasource.write.keygenerator.class=org.apache.hudi.keygen.NonpartitionedKeyGenerator
""",
}


def rule_of(name, **given):
    return translate(parse_properties(PUBLISHED[name]), **given)


@pytest.mark.parametrize(
    ("name", "rule", "still_open"),
    [
        (
            "artworks",
            {
                **{"topic": "moma.public.artworks", "table": "moma_mor.artworks", "record_key": ("artwork_id",)},
                **{"partition_by": ("classification",), "hudi": {"hoodie.parquet.small.file.limit": "134217728"}},
            },
            0,
        ),
        ("sale", {"topic": "tickit.ecomm.sale", "record_key": ("salesid",)}, 1),
        ("dfs", {"record_key": ("key",), "partition_by": ("date",)}, 2),
        (
            "uber",
            {
                **{"topic": "topic1", "table": "uber_hive_db.uber_hive_dummy_table"},
                **{"record_key": ("_row_key",), "partition_by": ("created_at",)},
            },
            0,
        ),
        ("kafka", {"topic": "impressions", "record_key": ("impressionid",), "partition_by": ("userid",)}, 1),
        (
            "events",
            {
                **{"table": "datalake.cdc_events", "record_key": ("order_id",)},
                **{"partition_by": ("customer_id", "order_id")},
                "hudi": {"hoodie.parquet.small.file.limit": "134217728"},
            },
            1,
        ),
        ("warehouse", {"table": "rdbms_analytics.hammerdb_public_warehouse2", "record_key": ("w_id",)}, 1),
    ],
)
def test_a_published_configuration_becomes_a_rule_with_its_gaps_named(name, rule, still_open):
    actual = rule_of(name)
    assert (dict(actual.rule), len(actual.open)) == ({"table_type": "cow", **rule}, still_open)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_every_option_is_taken_or_left_out_with_its_reason(name):
    rule = rule_of(name)
    left = {item.option for item in rule.left_out}
    taken = set(parse_properties(PUBLISHED[name])) - left
    of_tables = ("recordkey.field", "partitionpath.field", "hive_sync.database", "hive_sync.table", "table.name")
    of_objects = ("kafka.topic", "dfs.root", "registry.url", "small.file.limit")
    assert all(option.endswith(of_tables + of_objects) for option in taken), taken
    assert all(item.why for item in rule.left_out)


def test_a_metadata_column_is_no_partition_and_changed_paths_are_reported():
    left_out = {item.option: item.why for item in rule_of("sale").left_out}
    assert "metadata" in left_out["hoodie.datasource.write.partitionpath.field"]
    assert any("column=value" in note for note in rule_of("dfs").notes)
    assert not any("column=value" in note for note in rule_of("artworks").notes)


def test_the_ordering_column_is_left_out_and_named_for_rows_that_a_query_captured():
    assert rule_of("warehouse").ordering == "trx_seq"
    assert translate({"hoodie.datasource.write.precombine.field": "__source_ts_ms"}).ordering is None


def keys_of(generator, partition):
    return {
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
        "hoodie.datasource.write.partitionpath.field": partition,
        "hoodie.datasource.write.recordkey.field": "id",
    }


@pytest.mark.parametrize(
    ("generator", "partition", "still_open", "taken"),
    [
        ("NonpartitionedKeyGenerator", "d", 0, None),
        ("TimestampBasedKeyGenerator", "d", 1, None),
        ("CustomKeyGenerator", "a:SIMPLE,d:TIMESTAMP", 1, ("a",)),
    ],
)
def test_partition_paths_that_are_no_columns_value_are_left_to_the_operator(generator, partition, still_open, taken):
    translation = translate(keys_of(generator, partition), topic="a.b", table="a.b")
    assert (len(translation.open), translation.rule.get("partition_by")) == (still_open, taken)


@pytest.mark.parametrize(
    ("form", "zone", "taken", "noted"),
    [
        ("yyyy/MM/dd", None, ("day(at)",), False),
        ("yyyyMMddHH", "UTC", ("hour(at)",), False),
        ("'year='yyyy'/month='MM", "GMT", ("month(at)",), False),
        ("YYYY", "Europe/Berlin", ("year(at)",), True),
        ("YYYY-'W'ww", None, None, False),
    ],
)
def test_partition_paths_of_a_time_become_the_transform_of_their_finest_unit(form, zone, taken, noted):
    prefix = "hoodie.deltastreamer.keygen.timebased."
    properties = {
        **keys_of("TimestampBasedKeyGenerator", "at"),
        f"{prefix}timestamp.type": "EPOCHMILLISECONDS",
        f"{prefix}output.dateformat": form,
        **({f"{prefix}timezone": zone} if zone else {}),
    }
    translation = translate(properties, topic="a.b", table="a.b")
    assert (translation.rule.get("partition_by"), bool(translation.open)) == (taken, taken is None)
    assert any("UTC" in note for note in translation.notes) is noted
    rule = f"{{topic: a.b, table: a.b, record_key: id, partition_by: {list(taken or ())}}}"
    assert read_tables(f"tables:\n  - {rule}\n").rules[0].partition_by == (taken or ())


def test_type_history_and_dropped_partition_columns_are_understood():
    properties = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.cleaner.hours.retained": "48"}
    translation = translate({**properties, "hoodie.datasource.write.drop.partition.columns": "true"})
    assert (translation.rule["table_type"], translation.rule["time_travel"]) == ("mor", "48h")
    assert "stay in the files" in translation.left_out[0].why


def test_the_command_writes_a_usable_rule_and_hides_the_values_it_leaves_out(tmp_path, capsys):
    (tmp_path / "base.properties").write_text("hoodie.upsert.shuffle.parallelism=2\nsasl.jaas.config=secret\n")
    source = tmp_path / "artworks.properties"
    source.write_text("include=base.properties\n" + PUBLISHED["artworks"])
    file = tmp_path / "tables.yaml"
    assert run(["config", "import", str(source), "--table-type", "MERGE_ON_READ", "--write", "--file", str(file)]) == 0
    out, err = capsys.readouterr()
    assert "secret" not in out + err
    assert "left out: sasl.jaas.config:" in err
    assert "left out: hoodie.upsert.shuffle.parallelism:" in err
    (rule,) = read_tables(file.read_text()).rules
    expected = ("moma_mor.artworks", "mor", ("classification",), "134217728")
    assert (rule.table, rule.table_type, rule.partition_by, rule.hudi["hoodie.parquet.small.file.limit"]) == expected


def test_what_is_open_is_commented_out_and_not_written(tmp_path, capsys):
    source = Path(tmp_path / "dfs.properties")
    source.write_text(PUBLISHED["dfs"])
    assert run(["config", "import", str(source), "--write", "--file", str(tmp_path / "tables.yaml")]) == 1
    assert not (tmp_path / "tables.yaml").exists()
    out, err = capsys.readouterr()
    assert "  # - topic: ?" in out and "open: the topic is unknown (the source folder ends with input, and" in err
    assert run(["config", "import", str(source), "--topic", "a.b", "--table", "a.b", "--json"]) == 0
    assert run(["config", "import", str(tmp_path / "nothing")]) == 2


# The form of https://hudi.apache.org/blog/2020/08/22/ingest-multiple-tables-using-hudi.
SEVERAL = """
hoodie.deltastreamer.ingestion.tablesToBeIngested=shop.orders,items
hoodie.deltastreamer.ingestion.shop.orders.configFile=s3://config/orders.properties
hoodie.datasource.write.hive_style_partitioning=true
hoodie.parquet.max.file.size=64000000
sasl.jaas.config=a secret
"""
ORDERS = """
hoodie.datasource.write.recordkey.field=id
hoodie.deltastreamer.source.s3incr.key.prefix=topics/shop.public.orders/
"""
ITEMS = """
hoodie.datasource.write.recordkey.field=id,line
hoodie.deltastreamer.source.kafka.topic=shop.public.items
hoodie.parquet.max.file.size=32000000
"""


def several(folder: Path, items: str = ITEMS) -> Path:
    (folder / "orders.properties").write_text(ORDERS)
    (folder / "default_items_config.properties").write_text(items)
    (folder / "common.properties").write_text(SEVERAL)
    return folder / "common.properties"


def test_the_tables_of_a_multi_table_streamer_become_rules(tmp_path, capsys):
    file = tmp_path / "tables.yaml"
    assert run(["config", "import", str(several(tmp_path)), "--write", "--file", str(file)]) == 0
    rules = read_tables(file.read_text()).rules
    expected = [("shop.public.orders", "shop.orders", ("id",)), ("shop.public.items", "default.items", ("id", "line"))]
    assert [(rule.topic, rule.table, rule.record_key) for rule in rules] == expected
    expected = [{"hoodie.parquet.max.file.size": "64000000"}, {"hoodie.parquet.max.file.size": "32000000"}]
    assert [dict(rule.hudi) for rule in rules] == expected
    err = capsys.readouterr().err
    assert "orders.properties: sasl.jaas.config" in err and "secret" not in err
