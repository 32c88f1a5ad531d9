"""Catalog sync: the state of Glue afterwards, the number of calls, and the user's own changes that it keeps."""

import dataclasses
import json
import time
from itertools import chain, repeat
from unittest.mock import DEFAULT, Mock

import pytest
from botocore.exceptions import ClientError
from emulation.catalog import ARTIST, SILVER, artists
from support.builders import avro_record, aws_error

from sluice.catalog.partitions import CREATE_BATCH
from sluice.catalog.tables import ATHENA_NATIVE
from sluice.catalog.views import decoded
from sluice.config.catalog import CatalogRule
from sluice.config.table import MOR
from sluice.errors import NameTaken, PartitionKeysDiffer
from sluice_aws.errors import CatalogDenied, IcebergBehind

DEMONSTRATION = CatalogRule(tables="{table}", views=None)  # names the tables as the published demonstration has them


def synced(catalog, **more):
    """A table whose first commit, in one partition, is in the catalog."""
    config = artists()
    catalog.commit(config, 1, partitions=["nationality=German"], **more)
    catalog.sync.sync(config)
    return config


def of_columns(table, attribute="Type"):
    """An attribute of each column of a table, a view or a partition, by the column's name."""
    return {column["Name"]: column.get(attribute) for column in table["StorageDescriptor"]["Columns"]}


def spark_fields(table):
    parameters = table["Parameters"]
    numbers = range(int(parameters["spark.sql.sources.schema.numParts"]))
    text = "".join(parameters[f"spark.sql.sources.schema.part.{number}"] for number in numbers)
    return {field["name"]: (field["type"], field["nullable"]) for field in json.loads(text)["fields"]}


def test_the_real_time_table_has_the_properties_that_hudis_own_sync_writes(catalog):
    config = artists(MOR, catalog=DEMONSTRATION)
    instant = catalog.commit(config, 1, partitions=["nationality=German", "nationality=American"])
    catalog.sync.sync(config)
    assert catalog.names("moma") == ["artists_ro", "artists_rt"]
    table = catalog.table("moma", "artists_rt")
    storage, parameters = table["StorageDescriptor"], table["Parameters"]
    assert table["TableType"] == "EXTERNAL_TABLE" and parameters["EXTERNAL"] == "TRUE"
    assert storage["Location"] == f"s3://{SILVER}/moma/artists"
    assert storage["InputFormat"] == "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
    assert storage["OutputFormat"] == "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
    assert storage["SerdeInfo"]["SerializationLibrary"] == "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
    expected = {"hoodie.query.as.ro.table": "false", "path": f"s3://{SILVER}/moma/artists", "serialization.format": "1"}
    assert storage["SerdeInfo"]["Parameters"] == expected
    assert {
        "last_commit_time_sync": instant,
        "spark.sql.sources.provider": "hudi",
        "spark.sql.partitionProvider": "catalog",
        "spark.sql.sources.schema.numParts": "1",
        "spark.sql.sources.schema.numPartCols": "1",
        "spark.sql.sources.schema.partCol.0": "nationality",
    }.items() <= parameters.items()
    fields = spark_fields(table)
    of_hudi = ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
    assert list(fields)[:7] == [*(f"_hoodie_{name}" for name in of_hudi), "artist_id", "name"]
    assert list(fields)[-1] == "nationality"
    assert fields["artist_id"] == ("integer", True)
    assert fields["__deleted"] == ("boolean", False)
    assert table["PartitionKeys"] == [{"Name": "nationality", "Type": "string"}]
    assert "nationality" not in [column["Name"] for column in storage["Columns"]]
    optimized = catalog.table("moma", "artists_ro")["StorageDescriptor"]
    assert optimized["InputFormat"] == "org.apache.hudi.hadoop.HoodieParquetInputFormat"
    assert optimized["SerdeInfo"]["Parameters"]["hoodie.query.as.ro.table"] == "true"
    for name in ("artists_ro", "artists_rt"):
        assert catalog.partitions("moma", name) == {
            ("German",): f"s3://{SILVER}/moma/artists/nationality=German",
            ("American",): f"s3://{SILVER}/moma/artists/nationality=American",
        }


def test_the_column_of_a_transform_is_a_partition_key_of_its_type(catalog):
    config = artists("cow", partition_by=("day(born)", "bucket(4)"))
    born = [("born_day", {"type": "int", "logicalType": "date"}), ("key_bucket", "int")]
    place = "born_day=2026-11-28/key_bucket=3"
    catalog.commit(config, 1, [*ARTIST, *born], partitions=[place], action="commit")
    catalog.sync.sync(config)
    keys = [{"Name": "born_day", "Type": "date"}, {"Name": "key_bucket", "Type": "int"}]
    assert catalog.table("moma", "artists_all")["PartitionKeys"] == keys
    location = f"s3://{SILVER}/moma/artists/{place}"
    assert catalog.partitions("moma", "artists_all") == {("2026-11-28", "3"): location}
    assert catalog.sync.sync(config).nothing


def test_default_names_are_those_of_the_design(catalog):
    of_mor = ["artists_all_ro", "artists_all_rt", "artists_ro", "artists_rt"]
    for kind, expected in (("cow", ["artists", "artists_all"]), (MOR, of_mor)):
        config = artists(kind, partition_by=(), catalog=CatalogRule(database=f"lake_{kind}_{{database}}"))
        catalog.commit(config, 1, action="commit")
        catalog.process().sync(config)
        assert catalog.names(f"lake_{kind}_moma") == expected


def test_a_view_shows_the_living_rows_and_the_sources_own_columns_in_trinos_types(catalog):
    config = artists(MOR)
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    decimal = {"type": "fixed", "name": "d", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 2}
    columns = [
        *ARTIST,
        ("born", {"type": "int", "logicalType": "date"}),
        ("Seen", micros),
        ("worth", decimal),
        ("tags", {"type": "array", "items": ["null", "string"]}),
        ("raw", "bytes"),
        ("odd", "float"),
    ]
    catalog.commit(config, 1, columns, ["nationality=German"])
    catalog.sync.sync(config)
    view = catalog.table("moma", "artists_ro")
    expected = ("VIRTUAL_VIEW", "true", "/* Presto View */")
    assert (view["TableType"], view["Parameters"]["presto_view"], view["ViewExpandedText"]) == expected
    document = decoded(view["ViewOriginalText"])
    assert {column["name"]: column["type"] for column in document["columns"]} == {
        **{"artist_id": "integer", "name": "varchar", "nationality": "varchar", "birth_year": "integer"},
        **{"born": "date", "seen": "timestamp(3)", "worth": "decimal(10,2)", "tags": "array(varchar)"},
        **{"raw": "varbinary", "odd": "real"},
    }
    assert (document["catalog"], document["schema"]) == ("awsdatacatalog", "moma")
    assert document["originalSql"].endswith(
        'CAST("seen" AS timestamp(3)) AS "seen", "worth", "tags", "raw", "odd" FROM "moma"."artists_all_ro" WHERE '
        'NOT coalesce("__deleted", false)'
    )
    real_time = decoded(catalog.table("moma", "artists_rt")["ViewOriginalText"])
    seen = """date_add('millisecond', "seen" / 1000, TIMESTAMP '1970-01-01 00:00:00.000') AS "seen\""""
    assert seen in real_time["originalSql"]
    assert real_time["columns"] == document["columns"]
    types = {name: of_columns(catalog.table("moma", f"artists_all_{name}")) for name in ("ro", "rt")}
    assert (types["ro"]["seen"], types["rt"]["seen"], types["ro"]["tags"]) == ("timestamp", "bigint", "array<string>")


def added(catalog, table):
    """The number of partitions that were sent for a table."""
    sent = (sent for name, sent in catalog.sent if name == "BatchCreatePartition" and sent["TableName"] == table)
    return len({tuple(partition["Values"]) for call in sent for partition in call["PartitionInputList"]})


def calls_of_the_first_sync(catalog, config, *tables):
    """The calls of a sync that finds 2,000 partitions; the next one changes nothing, in two calls and a second."""
    catalog.commit(config, 1, partitions=[f"nationality=n{number:04d}" for number in range(2000)])
    # With it missing there is one call less: it is made, and no name is asked for alone.
    catalog.glue.create_database(DatabaseInput={"Name": "moma"})
    catalog.counting()
    catalog.sync.sync(config)
    assert [added(catalog, table) for table in tables] == [2000] * len(tables)
    first, again = catalog.counting(), catalog.process()
    catalog.counting()
    began = time.perf_counter()
    assert again.sync(config).nothing
    assert time.perf_counter() - began < 1
    assert catalog.counting() == {"GetTables": 1, "ListObjectsV2": 1}
    return first


@pytest.mark.long
def test_two_thousand_partitions_take_thirty_calls_and_no_change_takes_two(catalog):
    first = calls_of_the_first_sync(catalog, artists(), "artists_all")
    assert first["BatchCreatePartition"] == 20 and sum(first.values()) <= 30, first


@pytest.mark.whole
def test_each_merge_on_read_table_takes_at_most_thirty_calls_and_no_change_two(catalog):
    first = calls_of_the_first_sync(catalog, artists(MOR), "artists_all_ro", "artists_all_rt")
    assert first["BatchCreatePartition"] == 2 * 2000 / CREATE_BATCH, "Glue takes so many to a call"
    assert sum(first.values()) <= 53 and sum(first.values()) / 2 <= 30, first


def test_a_commit_in_known_partitions_changes_what_was_synced_and_nothing_else(catalog):
    config = synced(catalog)
    second = catalog.commit(config, 2, partitions=["nationality=German"])
    catalog.counting()
    plan = catalog.sync.sync(config)
    expected = {"GetTables": 1, "ListObjectsV2": 1, "GetObject": 1, "BatchGetPartition": 1, "UpdateTable": 1}
    assert catalog.counting() == expected
    assert plan.instant == second == catalog.table("moma", "artists_all")["Parameters"]["last_commit_time_sync"]
    assert len(plan.tables[0].change.described) == 1 and plan.views == ()


def test_partitions_are_added_and_emptied_ones_dropped_by_what_commits_say(catalog):
    config = artists()
    catalog.commit(config, 1, partitions=["nationality=German", "nationality=Dutch"])
    catalog.sync.sync(config)
    catalog.commit(config, 2, partitions=["nationality=C%2FD é"])
    replaced = {f"nationality={name}": ["f"] for name in ("German", "Dutch", "C%2FD é")}
    catalog.commit(config, 3, partitions=["nationality=German"], operation="INSERT_OVERWRITE_TABLE", replaced=replaced)
    catalog.commit(config, 4, partitions=["nationality=__HIVE_DEFAULT_PARTITION__", "nationality=Dutch"])
    catalog.counting()
    catalog.sync.sync(config)
    assert not catalog.counting()["GetPartitions"]
    assert set(catalog.partitions("moma", "artists_all")) == {("German",), ("Dutch",), ("__HIVE_DEFAULT_PARTITION__",)}
    catalog.commit(config, 5, partitions=["nationality=C%2FD é"])
    catalog.commit(config, 6, partitions=[], operation="DELETE_PARTITION", replaced={"nationality=Dutch": ["f"]})
    catalog.sync.sync(config)
    assert catalog.partitions("moma", "artists_all")[("C/D é",)] == f"s3://{SILVER}/moma/artists/nationality=C%2FD é"
    assert ("Dutch",) not in catalog.partitions("moma", "artists_all")


def test_a_sync_that_is_behind_the_active_timeline_lists_the_folders(catalog):
    config = artists()
    first = catalog.commit(config, 1, partitions=["nationality=German"])
    catalog.sync.sync(config)
    catalog.archive(config, catalog.commit(config, 2, partitions=["nationality=Dutch"]))
    catalog.archive(config, first)
    catalog.commit(config, 3, partitions=["nationality=Danish"])
    gone = {"Values": ["Gone"], "StorageDescriptor": {"Location": "s3://x"}}
    catalog.glue.batch_create_partition(DatabaseName="moma", TableName="artists_all", PartitionInputList=[gone])
    catalog.sync.sync(config)
    assert set(catalog.partitions("moma", "artists_all")) == {("German",), ("Dutch",), ("Danish",)}


def test_a_partition_with_a_wrong_location_is_corrected_and_keeps_its_properties(catalog):
    config = synced(catalog)
    (partition,) = catalog.glue.get_partitions(DatabaseName="moma", TableName="artists_all")["Partitions"]
    stored = {**partition["StorageDescriptor"], "Location": "s3://elsewhere"}
    elsewhere = {"Values": ["German"], "Parameters": {"mine": "1"}, "StorageDescriptor": stored}
    entry = {"PartitionValueList": ["German"], "PartitionInput": elsewhere}
    catalog.glue.batch_update_partition(DatabaseName="moma", TableName="artists_all", Entries=[entry])
    catalog.commit(config, 2, partitions=["nationality=German"])
    assert catalog.sync.sync(config).to_dict()["tables"][0]["partitions"]["corrected"] == 1
    (mended,) = catalog.glue.get_partitions(DatabaseName="moma", TableName="artists_all")["Partitions"]
    assert (mended["StorageDescriptor"], mended["Parameters"]) == (partition["StorageDescriptor"], {"mine": "1"})


def test_columns_are_added_and_widened_and_partitions_get_the_new_types(catalog):
    config = synced(catalog)
    catalog.commit(config, 2, [("artist_id", "long"), *ARTIST[1:], ("died", "int")], ["nationality=Dutch"])
    plan = catalog.sync.sync(config)
    assert {"artist_id int becomes bigint", "adds died int"} <= set(plan.tables[0].change.described)
    columns = of_columns(catalog.table("moma", "artists_all"))
    assert (columns["artist_id"], columns["died"]) == ("bigint", "int")
    partitions = catalog.glue.get_partitions(DatabaseName="moma", TableName="artists_all")["Partitions"]
    assert [of_columns(partition)["artist_id"] for partition in partitions] == ["bigint"] * 2
    shown = decoded(catalog.table("moma", "artists")["ViewOriginalText"])["columns"]
    assert {"name": "artist_id", "type": "bigint"} in shown
    assert catalog.process().sync(config).nothing


def test_a_users_properties_comments_columns_and_description_survive_every_change(catalog):
    config = synced(catalog, docs={"name": "as the source has it\nin two lines", "birth_year": "y" * 300})
    comments = of_columns(catalog.table("moma", "artists_all"), "Comment")
    expected = ("as the source has it in two lines", 255, "Whether the source deleted the row")
    assert (comments["name"], len(comments["birth_year"]), comments["__deleted"]) == expected
    catalog.edit(
        "moma",
        "artists_all",
        parameters={"owner_team": "art", "hudi.metadata-listing-enabled": "FALSE"},
        description="Our artists",
        comments={"name": "The name"},
        columns=[{"Name": "mine", "Type": "int"}],
    )
    by_user = {"parameters": {"comment": "Living artists"}, "comments": {"name": "As painted"}}
    catalog.edit("moma", "artists", description="Ask us", **by_user)
    catalog.commit(config, 2, [*ARTIST, ("died", "int")], ["nationality=German"], docs={"name": "another"})
    catalog.sync.sync(config)
    table, view = catalog.table("moma", "artists_all"), catalog.table("moma", "artists")
    types = of_columns(table)
    assert (types["mine"], types["died"], table["Description"]) == ("int", "int", "Our artists")
    assert of_columns(table, "Comment")["name"] == "The name"
    assert {"owner_team": "art", "hudi.metadata-listing-enabled": "FALSE"}.items() <= table["Parameters"].items()
    assert (view["Description"], view["Parameters"]["comment"]) == ("Ask us", "Living artists")
    assert of_columns(view, "Comment")["name"] == "As painted"
    catalog.counting()
    assert catalog.process().sync(config).nothing
    assert not {"UpdateTable", "CreateTable"} & set(catalog.counting())


def test_the_sources_comments_are_synced_with_the_columns_and_read_once(catalog):
    config = artists()
    value = avro_record({"artist_id": {"type": "int", "connect.doc": "Who it is"}, "name": ["null", "string"]})
    value["fields"][1]["doc"] = "As signed"
    sides = {"before": ["null", value], "after": ["null", "Value"], "op": "string", "source": "string"}
    assert catalog.keep_schema(config, avro_record(sides, name="Envelope"))
    catalog.commit(config, 1, partitions=["nationality=German"])
    catalog.sync.sync(config)
    for name in ("artists_all", "artists"):
        comments = of_columns(catalog.table("moma", name), "Comment")
        assert (comments["artist_id"], comments["name"], comments["birth_year"]) == ("Who it is", "As signed", None)
    catalog.commit(config, 2, partitions=["nationality=German"])
    catalog.counting()
    catalog.sync.sync(config)
    assert catalog.counting()["GetObject"] == 1


def test_manual_changes_of_synced_properties_are_reverted(catalog):
    config = synced(catalog)
    wrong = {"spark.sql.sources.provider": "parquet", "spark.sql.sources.schema.part.7": "}"}
    catalog.edit("moma", "artists_all", parameters=wrong, types={"birth_year": "string"})
    described = set(catalog.sync.sync(config).tables[0].change.described)
    assert {
        "birth_year string becomes int",
        "spark.sql.sources.provider: parquet becomes hudi",
        "spark.sql.sources.schema.part.7 goes",
    } <= described
    table = catalog.table("moma", "artists_all")
    assert "spark.sql.sources.schema.part.7" not in table["Parameters"]
    assert catalog.process().sync(config).nothing


def test_a_table_that_hudis_own_sync_made_is_taken_over_with_what_it_has(catalog):
    config = artists(catalog=DEMONSTRATION)
    first = catalog.commit(config, 1, partitions=["nationality=German"])
    catalog.glue.create_database(DatabaseInput={"Name": "moma"})
    own = {"spark.sql.create.version": "3.5.1", "mine": "1", "last_commit_time_sync": first}
    storage = {
        "Columns": [{"Name": "artist_id", "Type": "int", "Comment": ""}],
        "Location": f"s3a://{SILVER}/moma/artists/",
        "SerdeInfo": {"Parameters": {"path": "x", "mine": "2"}},
    }
    keys = [{"Name": "nationality", "Type": "string", "Comment": ""}]
    about = {"Parameters": {"EXTERNAL": "TRUE", **own}, "PartitionKeys": keys, "StorageDescriptor": storage}
    made = {"Name": "artists", "TableType": "EXTERNAL_TABLE", **about}
    catalog.glue.create_table(DatabaseName="moma", TableInput=made)
    catalog.sync.sync(config)
    table = catalog.table("moma", "artists")
    assert own.items() <= table["Parameters"].items()
    assert table["StorageDescriptor"]["SerdeInfo"]["Parameters"]["mine"] == "2"
    assert catalog.process().sync(config).nothing


def test_a_name_taken_by_something_else_is_refused_and_left_unchanged(catalog):
    config = artists()
    catalog.commit(config, 1, partitions=["nationality=German"])
    catalog.glue.create_database(DatabaseInput={"Name": "moma"})
    theirs = {"Name": "artists", "TableType": "EXTERNAL_TABLE", "StorageDescriptor": {"Location": "s3://theirs"}}
    catalog.glue.create_table(DatabaseName="moma", TableInput=theirs)
    with pytest.raises(NameTaken, match="artists"):
        catalog.sync.sync(config)
    assert catalog.names("moma") == ["artists"]
    with pytest.raises(NameTaken):
        catalog.sync.sync(artists(catalog=DEMONSTRATION))


def test_other_partition_keys_in_the_catalog_are_refused(catalog):
    config = artists(partition_by=())
    catalog.commit(config, 1)
    catalog.sync.sync(config)
    catalog.commit(config, 2, partitions=["nationality=German"])
    with pytest.raises(PartitionKeysDiffer):
        catalog.sync.sync(artists())


def test_another_configuration_is_put_into_effect_without_a_new_commit(catalog):
    catalog.commit(artists(), 1, partitions=["nationality=German"])
    catalog.sync.sync(artists(catalog=CatalogRule(views=None)))
    assert catalog.names("moma") == ["artists_all"]
    catalog.sync.sync(artists())
    assert catalog.names("moma") == ["artists", "artists_all"]


def test_athenas_newer_reader_is_chosen_by_the_rule_and_otherwise_by_the_user(catalog):
    catalog.commit(artists(), 1, partitions=["nationality=German"])

    def chosen(rule, by_hand=None):
        config = artists(catalog=rule)
        catalog.sync.sync(config)
        if by_hand:
            catalog.edit("moma", "artists_all", parameters={ATHENA_NATIVE: by_hand})
            catalog.sync.sync(config)
        return catalog.table("moma", "artists_all")["Parameters"].get(ATHENA_NATIVE)

    assert chosen(CatalogRule()) is None and chosen(CatalogRule(), "true") == "true"
    assert chosen(CatalogRule(athena_native=False)) == "false"
    assert chosen(CatalogRule(athena_native=True), "false") == "true"


def test_a_table_that_is_kept_out_or_has_no_commit_changes_nothing(catalog):
    assert catalog.sync.sync(artists()).nothing
    catalog.commit(artists(), 1, partitions=["nationality=German"])
    catalog.counting()
    assert catalog.sync.sync(artists(catalog=CatalogRule(sync=False))).nothing
    assert catalog.counting() == {}


def test_a_plan_lists_every_change_and_makes_none(catalog):
    config = artists()
    catalog.commit(config, 1, partitions=["nationality=German"])
    described = catalog.sync.plan(config).to_dict()
    assert described["changed"] and described["creates_database"]
    assert [table["does"] for table in described["tables"]] == ["create"]
    assert [view["name"] for view in described["views"]] == ["artists"]
    expected = {"added": 1, "dropped": 0, "corrected": 0, "first": ["+ nationality=German"]}
    assert described["tables"][0]["partitions"] == expected
    assert catalog.glue.get_databases()["DatabaseList"] == []


def test_an_instant_that_the_catalog_shows_already_is_not_looked_for_in_s3(catalog):
    config = artists()
    first = catalog.commit(config, 1, partitions=["nationality=German"])
    catalog.sync.sync(config)
    catalog.counting()
    assert catalog.sync.sync(config, first).nothing
    assert catalog.counting() == {"GetTables": 1}
    second = catalog.commit(config, 2, partitions=["nationality=German"])
    assert catalog.sync.sync(config, second).instant == second


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ("create_table", "AlreadyExistsException"),
        ("update_table", "ConcurrentModificationException"),
        ("batch_create_partition", "EntityNotFoundException"),
    ],
)
def test_a_concurrent_change_is_read_again(catalog, monkeypatch, operation, code):
    config = artists()
    catalog.commit(config, 1, partitions=["nationality=German"])
    crossed = Mock(wraps=getattr(catalog.glue, operation), side_effect=chain([aws_error(code)], repeat(DEFAULT)))
    monkeypatch.setattr(catalog.glue, operation, crossed)
    catalog.sync.sync(config)
    assert crossed.called
    assert catalog.partitions("moma", "artists_all") and catalog.process().sync(config).nothing


def test_a_denied_call_is_reported_with_the_next_step(catalog, monkeypatch):
    catalog.commit(artists(), 1, partitions=["nationality=German"])
    error = {"Code": "AccessDeniedException", "Message": "Insufficient Lake Formation permissions"}
    denied = Mock(side_effect=ClientError({"Error": error}, "CreateTable"))
    monkeypatch.setattr(catalog.glue, "create_table", denied)
    said = "artists_all can't be written to the catalog: Insufficient Lake Formation .*docs/catalog.md"
    with pytest.raises(CatalogDenied, match=said):
        catalog.sync.sync(artists())


def put_iceberg(catalog, config, version, instant, *, type="string"):
    """Write the metadata of an Iceberg table as a run does, after the commit of that instant."""
    fields = [{"id": 3, "name": "Name", "required": False, "type": type}]
    snapshot = {"snapshot-id": int(instant), "summary": {"sluice.instant": instant}}
    metadata = {"current-schema-id": 0, "schemas": [{"schema-id": 0, "fields": fields}], "snapshots": [snapshot]}
    folder = f"{config.database}/{config.name}/.hoodie/iceberg/metadata"
    for name, body in ((f"v{version}.metadata.json", json.dumps(metadata)), ("version-hint.text", str(version))):
        catalog.s3.put_object(Bucket=SILVER, Key=f"{folder}/{name}", Body=body.encode())


def test_an_iceberg_table_is_registered_beside_the_hudi_table_and_follows_it(catalog):
    config = dataclasses.replace(artists(), iceberg=True)
    first = catalog.commit(config, 1, partitions=["nationality=German"])
    catalog.sync.sync(config)
    assert catalog.names("moma") == ["artists", "artists_all"]  # a run has yet to write its metadata
    put_iceberg(catalog, config, 1, first)
    catalog.sync.sync(config)
    table = catalog.table("moma", "artists_iceberg")
    location = f"s3://{SILVER}/moma/artists/.hoodie/iceberg"
    assert table["StorageDescriptor"]["Location"] == location and table["PartitionKeys"] == []
    assert table["StorageDescriptor"]["Columns"] == [{"Name": "name", "Type": "string"}]
    assert table["Parameters"]["table_type"] == "ICEBERG"
    assert table["Parameters"]["metadata_location"] == f"{location}/metadata/v1.metadata.json"
    assert catalog.sync.sync(config, first).nothing

    second = catalog.commit(config, 2, partitions=["nationality=German"])
    with pytest.raises(IcebergBehind):  # its write failed: the function's errors raise an alarm
        catalog.sync.sync(config, second)
    assert catalog.table("moma", "artists_all")["Parameters"]["last_commit_time_sync"] == second
    assert catalog.sync.sync(config, first).instant == second  # nothing was promised of a commit in the making
    table = catalog.table("moma", "artists_iceberg")
    assert table["Parameters"]["metadata_location"].endswith("/v1.metadata.json")
    assert table["Parameters"]["last_commit_time_sync"] == first
    put_iceberg(catalog, config, 2, second, type="long")
    catalog.edit("moma", "artists_iceberg", parameters={"mine": "kept"})
    catalog.sync.sync(config, second)
    table = catalog.table("moma", "artists_iceberg")
    assert table["Parameters"]["metadata_location"].endswith("/v2.metadata.json")
    assert table["Parameters"]["mine"] == "kept"
    assert table["StorageDescriptor"]["Columns"] == [{"Name": "name", "Type": "bigint"}]
    assert catalog.process().sync(config).nothing
    put_iceberg(catalog, config, 3, second, type="long")  # before a cleaning, which makes no commit
    catalog.sync.sync(config, second)
    table = catalog.table("moma", "artists_iceberg")
    assert table["Parameters"]["metadata_location"].endswith("/v3.metadata.json")


def test_an_iceberg_table_is_replaced_only_by_who_read_its_definition_last(catalog, monkeypatch):
    config = dataclasses.replace(artists(), iceberg=True)
    put_iceberg(catalog, config, 1, catalog.commit(config, 1, partitions=["nationality=German"]))
    catalog.sync.sync(config)
    second = catalog.commit(config, 2, partitions=["nationality=German"])
    put_iceberg(catalog, config, 2, second)
    real, versions = catalog.glue.update_table, []

    def another_was_first(**arguments):
        version = arguments.pop("VersionId", None)  # the emulator doesn't compare it
        if version is not None:
            versions.append(version)
            if len(versions) == 1:
                put_iceberg(catalog, config, 3, second)
                raise aws_error("VersionMismatchException")
        return real(**arguments)

    monkeypatch.setattr(catalog.glue, "update_table", another_was_first)
    catalog.sync.sync(config)
    stored = catalog.table("moma", "artists_iceberg")
    assert stored["Parameters"]["metadata_location"].endswith("/v3.metadata.json") and len(versions) == 2
