"""The timelines of tables that Spark wrote, read from an emulated bucket without a JVM."""

import pytest
from emulation.aws import emulated_aws, emulated_session
from support.silver_tables import SILVER, put_tables

from sluice.hudi.timeline import COMPLETED, Instant, Timeline
from sluice_aws.errors import NoSuchCommit
from sluice_aws.s3.silver_files import SilverBucket
from sluice_aws.s3.timelines import TimelineReader


@pytest.fixture(scope="module")
def reader():
    with emulated_aws():
        s3 = emulated_session("us-east-1").client("s3")
        s3.create_bucket(Bucket=SILVER)
        put_tables(s3)
        yield TimelineReader(SilverBucket(s3, SILVER))


def test_a_timeline_that_spark_wrote_is_read_in_order_and_from_an_instant_on(reader):
    whole = reader.timeline("moma.works")
    assert [instant.action for instant in whole.commits] == ["deltacommit"] * 3
    second = whole.commits[1]
    part = reader.timeline("moma.works", since=second.time)
    assert part.commits == whole.commits[1:]
    assert part.holds(second.time) and part.after(second.time) == whole.commits[2:]
    assert reader.timeline("moma.nothing") == Timeline()


def test_a_commit_gives_its_operation_schema_batch_partitions_and_files(reader):
    newest = reader.timeline("moma.artists").newest
    commit = reader.commit("moma.artists", newest)
    assert (commit.operation, commit.extra["sluice.table"], commit.compacted) == ("UPSERT", "moma.artists", False)
    assert '"_sluice_position"' in commit.schema
    assert commit.partitions == {"nationality=German", "nationality=American", "nationality=__HIVE_DEFAULT_PARTITION__"}
    (german,) = [file for file in commit.files if file.partition == "nationality=German"]
    assert (german.rows, german.inserts, german.updates, german.deletes, german.log) == (2, 1, 1, 1, False)
    assert reader.commit("moma.artists", newest) is commit


def test_log_files_are_distinguished_from_base_files(reader):
    commit = reader.commit("moma.works", reader.timeline("moma.works").newest)
    expected = {True: True, False: False}
    assert {file.path.rsplit("/", 1)[-1].startswith("."): file.log for file in commit.files} == expected


def test_a_commit_that_was_archived_meanwhile_is_reported_as_missing(reader):
    with pytest.raises(NoSuchCommit):
        reader.commit("moma.works", Instant("20200101000000000", "deltacommit", COMPLETED))


def test_partition_folders_are_listed_at_every_level(reader):
    assert list(reader.partition_paths("moma.artists", ("nationality",))) == [
        "nationality=American",
        "nationality=Côte%2Fd Ivoire%3Dx",
        "nationality=German",
        "nationality=__HIVE_DEFAULT_PARTITION__",
    ]
    assert list(reader.partition_paths("crm.user", ("a", "b"))) == []
