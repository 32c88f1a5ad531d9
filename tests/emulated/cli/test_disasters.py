"""What docs/disasters.md says is lost and the way back, on an emulated stack."""

from __future__ import annotations

import pytest
from emulation.merged_stack import merged_into

from sluice_aws.s3.objects import Objects

LEDGER = "s-ledger"


@pytest.fixture
def merged(stack, invoked, tables, sluice):
    """A stack that has merged, configured, with its lane paused."""
    sluice("config push --yes", tables("tables: [{topic: crm.public.user, table: crm.user, record_key: id}]"))
    made = merged_into(stack)
    lanes = stack.ledger.lanes
    lanes.pause("main")
    assert lanes.release("main", "run-1", lanes.get("main").arrivals, None, 0)
    return made


def states(stack):
    """The states of all versions in bronze by the ledger."""
    listed = stack.s3.list_object_versions(Bucket="s-bronze").get("Versions", [])
    records = [record for entry in listed for record in stack.ledger.objects.versions("s-bronze", entry["Key"])]
    return {record.id: record.state for record in records}


def empty(s3, bucket, prefix=""):
    for entry in s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", []):
        s3.delete_object(Bucket=bucket, Key=entry["Key"])


@pytest.mark.parametrize("prefix", ["", "crm/user/", "_sluice/"], ids=["all of silver", "a table", "documents"])
def test_every_committed_object_is_merged_again_after_silver_is_gone(merged, prefix, sluice):
    before = states(merged.stack)
    empty(merged.stack.s3, "s-silver", prefix)
    sluice("audit", code=1)  # the loss is found
    sluice("rebuild table crm.user --yes")
    expected = {identity: "pending" if state == "committed" else state for identity, state in before.items()}
    assert states(merged.stack) == expected and "committed" in before.values()
    sluice("resume main")


def test_a_ledger_that_is_restored_under_its_name_is_taken_up(merged, sluice):
    """The steps with the AWS CLI, but for the deployment that names the new stream."""
    dynamodb, before = merged.stack.dynamodb, states(merged.stack)
    backup = dynamodb.create_backup(TableName=LEDGER, BackupName="ledger")["BackupDetails"]["BackupArn"]
    dynamodb.delete_table(TableName=LEDGER)
    dynamodb.restore_table_from_backup(TargetTableName=LEDGER, BackupArn=backup)
    merged.stack.ledger.objects.forget(merged.stack.record(merged.first))  # older than S3
    sluice("audit", code=1)
    merged.stack.ledger.history.put_checkpoint({"bucket": "s-bronze", "since": 10**15}, 0, "listing")
    sluice("rebuild ledger --yes")
    assert states(merged.stack) == before
    assert merged.stack.ledger.history.checkpoint("listing") == {}, "reconcile asks about everything again"
    sluice("resume main")


@pytest.mark.parametrize("versions", [False, True], ids=["s3 rm", "with versions"])
def test_deleting_bronze_loses_only_what_was_not_merged_and_only_with_versions(merged, versions, sluice):
    before = states(merged.stack)
    empty(merged.stack.s3, "s-bronze")  # delete markers
    if versions:
        for entry in merged.stack.s3.list_object_versions(Bucket="s-bronze")["Versions"]:
            merged.stack.s3.delete_object(Bucket="s-bronze", Key=entry["Key"], VersionId=entry["VersionId"])
    exists = Objects(merged.stack.s3).exists
    assert {exists(identity) for identity in before} == {not versions}
    sluice("rebuild table crm.user --yes", code=1 if versions else 0)
