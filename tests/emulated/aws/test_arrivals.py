"""The time of an object in S3 is one property of it, whoever asks and however the object became known."""

import pytest
from admit.handler import handler as admit
from emulation.deployment import BRONZE, REGION, context, s3_body, sqs_event
from reconcile.handler import handler as reconcile

from sluice.config.rules.table_rule import TableRule
from sluice_aws.s3.objects import Objects, files_beside

CSV = b"id,price\n1,2\n"
RULE = TableRule(table="drop.prices", record_key=("id",), topic="drop.prices", key_pattern="drop/prices/.*")


@pytest.fixture
def drops(deployment):
    deployment.environment(FORGET_AFTER_SECONDS="0")
    deployment.configure(RULE)
    return deployment


def test_versions_of_a_key_have_times_in_the_order_in_which_they_were_written(drops):
    objects = Objects(drops.s3)
    ids = [drops.land("drop/prices/latest.csv", CSV + b"%d,1\n" % number) for number in range(25)]
    drops.land("drop/prices/latest.csv.old.csv", CSV)  # its key begins with the other
    times = [objects.arrival(id) for id in ids]
    assert times == sorted(set(times))
    assert [time // 1000 * 1000 for time in times] == [objects.modified_at(id) for id in ids]
    drops.s3.delete_object(Bucket=BRONZE, Key=ids[0].key)
    assert [objects.arrival(id) for id in ids] == times


def test_without_versions_it_is_the_time_of_the_object(drops):
    drops.s3.create_bucket(Bucket="plain", CreateBucketConfiguration={"LocationConstraint": REGION})
    id = drops.land("drop/prices/a.csv", CSV, bucket="plain")
    objects = Objects(drops.s3)
    assert objects.arrival(id) == objects.modified_at(id) is not None
    drops.s3.delete_object(Bucket="plain", Key=id.key)
    assert objects.arrival(id) is None


def test_the_time_is_the_same_by_a_notice_and_by_a_listing_and_is_kept(drops):
    first, second = (drops.land("drop/prices/latest.csv", CSV + b"%d,1\n" % number) for number in range(2))
    admit(sqs_event(s3_body(second)), context())
    reconcile({}, context(400_000))
    objects = Objects(drops.s3)
    for id, via in ((first, "listing"), (second, "s3")):
        record = drops.record(id)
        assert (record.via, record.modified_at) == (via, objects.arrival(id))
    pending = {item.id: item.modified_at for item in drops.ledger.pending.oldest("main", 10)}
    assert pending == {id: objects.arrival(id) for id in (first, second)}


def test_an_object_whose_rows_something_else_orders_has_none(drops):
    drops.configure(TableRule(table="drop.prices", record_key=(), topic="drop.prices", append_only=True))
    id = drops.land("topics/drop.prices/a.csv", CSV)
    admit(sqs_event(s3_body(id)), context())
    assert (drops.record(id).state, drops.record(id).modified_at) == ("pending", None)


def test_the_files_of_a_folder_are_those_that_a_reader_gets_now(drops):
    replaced, *_ = (drops.land(f"drop/prices/1/{name}.csv", CSV) for name in ("a", "gone", "kept"))
    newer = drops.land("drop/prices/1/a.csv", CSV + b"3,4\n")
    drops.land("drop/prices/10/other.csv", CSV)
    drops.s3.delete_object(Bucket=BRONZE, Key="drop/prices/1/gone.csv")
    objects = Objects(drops.s3)
    files = files_beside(objects, newer, "drop/prices/1/")
    assert sorted(id.key for id in files) == ["drop/prices/1/a.csv", "drop/prices/1/kept.csv"]
    assert replaced not in files and files[newer] // 1000 * 1000 == objects.modified_at(newer)
