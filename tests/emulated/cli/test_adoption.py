"""`sluice table adopt`: the other table is checked before anything is requested of the lane."""

import pytest
from emulation.stack import NOW
from support.builders import note_commit

from sluice.batch.outcome import COMMITTED, Outcome
from sluice.config.rules.table_rule import TableRule
from sluice.services.requests import ADOPTION, ServiceError, ServiceReport

TABLE = "shop.orders"
SOURCE = "s3://lake/crm/orders"
PROPERTIES = """#Updated at 2024-01-01T00:00:00Z
hoodie.table.name=orders
hoodie.table.type=MERGE_ON_READ
hoodie.table.version=6
hoodie.table.recordkey.fields=id
hoodie.table.precombine.field=updated_at
hoodie.table.partition.fields=place
hoodie.compaction.payload.class=org.apache.hudi.common.model.OverwriteWithLatestAvroPayload
"""


@pytest.fixture
def lake(stack):
    """A table with one commit, and the table of another tool in a bucket of its own, which is still written."""
    rule(stack)
    stack.ledger.lanes.wake("main")
    stack.ledger.tables.pin(TABLE, {"topic": "orders"})
    note_commit(stack.ledger, Outcome("b", TABLE, COMMITTED, instant="20240101", committed_at=NOW), {"commits": 1})
    stack.s3.create_bucket(Bucket="lake", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    for name in ("20240101000000000.deltacommit", "20240101000000001.deltacommit.inflight"):
        stack.s3.put_object(Bucket="lake", Key=f"crm/orders/.hoodie/{name}", Body=b"{}")
    properties(stack, PROPERTIES)
    return stack


def rule(stack, **settings):
    stack.configure(TableRule(TABLE, ("id",), topic="orders", **settings))


def properties(stack, text):
    stack.s3.put_object(Bucket="lake", Key="crm/orders/.hoodie/hoodie.properties", Body=text.encode())


ADOPTED = ServiceReport(rows=5, ms=1_500, instant="20240102", more={"read": 8, "known": 2, "below_purge_floor": 1})


def lane_does(lake, monkeypatch, outcome):
    """Have the lane's run adopt the rows as soon as it is asked to, or fail."""
    supervise = "sluice_cli.terminal.services.supervise_now"
    monkeypatch.setattr(supervise, lambda target: lake.serve(TABLE, ADOPTION, outcome))


def test_the_other_table_is_described_and_its_adoption_requested(lake, invoked, sluice):
    about = sluice.json("table adopt", TABLE, "--from", SOURCE + "/", "--dry-run")
    assert (about["version"], about["ordering"], about["pending"]) == ("6", "updated_at", ["20240101000000001"])
    assert about["request"] is None and invoked == []

    sluice("table adopt", TABLE, "--from", SOURCE, code=2)  # nobody to ask
    assert lake.ledger.services.get("main", TABLE, ADOPTION) is None

    out, err = sluice("table adopt", TABLE, "--from", SOURCE + "/", "--yes")
    assert "version 6, merge-on-read, key id, ordered by updated_at, partitioned by place" in out
    assert "1 instant unfinished: its writer may still run" in out and "sluice ops services list shop.orders" in err
    request = lake.ledger.services.get("main", TABLE, ADOPTION)
    assert request.arguments == {"source": SOURCE} and invoked == [("s-supervise", "Event")]


def test_a_trial_says_which_runs_refuse_the_version(lake, invoked, sluice):
    for version, refused in (("6", False), ("9", True)):
        properties(lake, PROPERTIES.replace("version=6", f"version={version}"))
        assert ("refuses version" in sluice("table adopt", TABLE, "--from", SOURCE, "--dry-run").out) == refused


def test_waiting_ends_with_the_rows_or_with_the_reason(lake, invoked, monkeypatch, sluice):
    arguments = ["table", "adopt", TABLE, "--from", SOURCE, "--yes", "--wait", "5"]
    lane_does(lake, monkeypatch, ADOPTED)
    out, err = sluice(*arguments)
    assert "shop.orders: 5 rows adopted of 8, 2 keys known already" in out and "1 row left out" in err
    refused = ServiceError("not_adoptable", "columns have other types: name is string, not bigint", retriable=False)
    lane_does(lake, monkeypatch, refused)
    assert "name is string, not bigint" in sluice(*arguments, code=1).err


def test_a_second_table_waits_until_the_first_is_adopted(lake, invoked, sluice):
    sluice("table adopt", TABLE, "--from", SOURCE, "--yes")
    for name in ("hoodie.properties", "20240101000000000.deltacommit"):
        lake.s3.put_object(Bucket="lake", Key=f"crm/more/.hoodie/{name}", Body=PROPERTIES.encode())
    assert f"from {SOURCE}" in sluice("table adopt", TABLE, "--from", "s3://lake/crm/more", "--yes", code=1).err
    assert lake.ledger.services.get("main", TABLE, ADOPTION).arguments == {"source": SOURCE}


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["shop.other", "--from", SOURCE], "There is no table 'shop.other'", 2),
        ([TABLE, "--from", "/data/orders"], "is not a path in S3", 2),
        ([TABLE, "--from", "s3://lake/crm"], "has no .hoodie/hoodie.properties", 2),
        ([TABLE, "--from", "s3://s-silver/old/orders"], "lies in the silver bucket", 1),
    ],
    ids=["no-table", "no-uri", "no-hudi", "silver"],
)
def test_a_place_without_an_adoptable_table_is_refused(lake, invoked, sluice, arguments, message, code):
    assert message in sluice("table adopt", *arguments, "--yes", code=code).err and invoked == []


def test_a_table_with_another_key_or_history_is_refused(lake, invoked, sluice):
    properties(lake, PROPERTIES.replace("recordkey.fields=id", "recordkey.fields=number"))
    said = sluice("table adopt", TABLE, "--from", SOURCE, "--yes", code=1).err
    assert "its record key is number, and the rule's is id" in said
    for settings, word in (({"history": "orders_history"}, "history"), ({"partition_by": ("bucket(4)",)}, "bucket(4)")):
        rule(lake, **settings)
        assert f"has `{word}`" in sluice("table adopt", TABLE, "--from", SOURCE, "--yes", code=1).err and invoked == []
