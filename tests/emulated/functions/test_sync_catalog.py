"""sync_catalog: a request names a table, the answer lists the changes, and an error has a name of its kind."""

import boto3
import pytest
from emulation.deployment import REGION, SILVER, context
from support.silver_tables import put_tables
from sync_catalog.handler import handler

from sluice.config.rules.table_rule import TableRule
from sluice.config.table import MOR
from sluice.errors import NotConfigured
from sluice_aws.errors import UnusableCatalogRequest


@pytest.fixture
def moma(deployment):
    """A deployment with the tables that Spark wrote."""
    deployment.configure(
        TableRule("moma.artists", ("id",), topic="moma.public.artists", partition_by=("nationality",)),
        TableRule("moma.{1}", ("id",), topic="moma.public.*", partition_by=("nationality",), table_type=MOR),
    )
    put_tables(deployment.s3, SILVER)
    return deployment


def test_a_table_of_spark_is_synced_with_all_partitions_and_a_second_sync_is_idle(moma):
    answer = handler({"table": "moma.artists"}, context())
    partitions, views = answer["tables"][0]["partitions"], [view["name"] for view in answer["views"]]
    assert (answer["database"], answer["changed"], partitions["added"], views) == ("moma", True, 4, ["artists"])
    values = ("American", "Côte%2Fd Ivoire%3Dx", "German", "__HIVE_DEFAULT_PARTITION__")
    assert partitions["first"] == [f"+ nationality={value}" for value in values]
    again = handler({"table": "moma.artists", "instant": answer["instant"]}, context())
    assert (again["changed"], again["instant"]) == (False, answer["instant"])


def test_the_topic_of_a_table_that_a_pattern_makes_is_found_in_the_ledger(moma):
    with pytest.raises(NotConfigured):
        handler({"table": "moma.works"}, context())
    moma.ledger.tables.pin("moma.works", {"topic": "moma.public.works"})
    expected = ["works_all_ro", "works_all_rt"]
    assert [table["name"] for table in handler({"table": "moma.works"}, context())["tables"]] == expected


def test_a_history_table_is_synced_with_its_table(moma):
    rule = TableRule("moma.artists", ("id",), topic="moma.public.artists", partition_by=("nationality",), history=True)
    moma.configure(rule)
    assert handler({"table": "moma.artists"}, context())["changed"], "the history table has no commit yet"
    copied = moma.s3.list_objects_v2(Bucket=SILVER, Prefix="moma/artists/")["Contents"]
    for item in copied:
        body = moma.s3.get_object(Bucket=SILVER, Key=item["Key"])["Body"].read()
        key = item["Key"].replace("moma/artists/", "moma/artists_history/", 1)
        moma.s3.put_object(Bucket=SILVER, Key=key, Body=body.replace(b"moma.artists", b"moma.artists_history"))
    handler({"table": "moma.artists"}, context())
    glue = boto3.client("glue", region_name=REGION)
    assert {"artists", "artists_all", "artists_history", "artists_history_all"} == {
        table["Name"] for table in glue.get_tables(DatabaseName="moma")["TableList"]
    }


@pytest.mark.parametrize("request_", [{}, {"table": 7}, {"table": "moma.artists", "instant": 20240501}])
def test_a_request_that_names_no_table_is_refused(moma, request_):
    with pytest.raises(UnusableCatalogRequest):
        handler(request_, context())
