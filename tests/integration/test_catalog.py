"""The catalog after a commit, synced by the deployed function: the emulated Glue agrees with the table's timeline."""

import json
from typing import Any

import pytest
from judging.running_stack import REPOSITORY, RunningStack

from sluice.catalog.views import decoded

BRONZE = REPOSITORY / "tests" / "data" / "tickit_small" / "bronze"
TOPIC = "tickit.ems.category"
PREFIX = "catalogued."  # of the topic on the stack, where other tests have the same objects under their own names


def synced(stack: RunningStack, table: str) -> dict[str, Any]:
    """The answer of the deployed function."""
    answer = stack.target.client("lambda").invoke(
        FunctionName=stack.target.outputs["SyncCatalogFunction"], Payload=json.dumps({"table": table}).encode()
    )
    content = answer["Payload"].read()
    assert "FunctionError" not in answer, content
    return dict(json.loads(content))


@pytest.mark.whole
def test_the_deployed_function_syncs_columns_partitions_and_views_after_a_commit(stack: RunningStack) -> None:
    rule = {"topic": PREFIX + TOPIC, "table": "catalogued.category", "record_key": "catid", "partition_by": "catgroup"}
    stack.configure([{**rule, "table_type": "mor", "catalog": {"database": "lake_{database}"}}])
    for file in sorted(BRONZE.rglob(f"{TOPIC}+*.avro")):
        stack.put(file.relative_to(BRONZE).as_posix().replace(TOPIC, PREFIX + TOPIC), file)
    stack.wait(120)
    report = synced(stack, "catalogued.category")
    glue, s3 = stack.target.client("glue"), stack.target.client("s3")
    whole = ("category_all_ro", "category_all_rt")
    by_name = {
        name: glue.get_table(DatabaseName="lake_catalogued", Name=name)["Table"]
        for name in (*whole, "category_ro", "category_rt")
    }
    assert {by_name[name]["Parameters"]["last_commit_time_sync"] for name in whole} == {report["instant"]}
    place = {"Bucket": stack.target.silver, "Prefix": "catalogued/category/catgroup=", "Delimiter": "/"}
    folders = {item["Prefix"] for item in s3.list_objects_v2(**place)["CommonPrefixes"]}
    for name in whole:
        partitions = glue.get_partitions(DatabaseName="lake_catalogued", TableName=name)["Partitions"]
        assert folders and {partition["StorageDescriptor"]["Location"] for partition in partitions} == {
            f"s3://{stack.target.silver}/{folder.rstrip('/')}" for folder in folders
        }
    shown = json.loads(stack.sluice("query", "select * from catalogued.category limit 1", "--json").splitlines()[0])
    document = decoded(by_name["category_rt"]["ViewOriginalText"])
    assert document is not None and [column["name"] for column in document["columns"]] == list(shown)
    again = synced(stack, "catalogued.category")
    assert (again["changed"], again["instant"]) == (False, report["instant"])
    (planned,) = stack.describe("ops", "catalog", "sync", "catalogued.category", "--dry-run")["tables"]
    assert planned["changed"] is False
