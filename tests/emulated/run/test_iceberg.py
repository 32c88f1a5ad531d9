"""Iceberg metadata in S3, over tables that Spark wrote: the requests, and what a second writer meets."""

import io
import json
from unittest.mock import Mock

import fastavro
import pytest
from emulation.aws import emulated_aws, emulated_session
from support.silver_tables import SILVER_FOLDER
from support.workbench import table

from sluice.hudi.timeline import Timeline
from sluice_aws.s3.objects import Objects
from sluice_spark.errors import IcebergRaced, LaneLost
from sluice_spark.iceberg import follow as following
from sluice_spark.iceberg.follow import IcebergTable

TYPES = {"id": "bigint", "nationality": "string", "name": "string", "__deleted": "boolean"}
CONFIG = table("artists", database="moma", partition_by=("nationality",), iceberg=True)


@pytest.fixture
def silver():
    """The bucket with `moma.artists`: six rows in four partitions, one of them deleted."""
    with emulated_aws():
        s3 = emulated_session("us-east-1").client("s3")
        s3.create_bucket(Bucket="lake")
        for path in (SILVER_FOLDER / "moma" / "artists").rglob("*"):
            if path.is_file():
                s3.put_object(Bucket="lake", Key=path.relative_to(SILVER_FOLDER).as_posix(), Body=path.read_bytes())
        yield s3


def iceberg_of(s3):
    return IcebergTable(Objects(s3), "s3://lake/moma/artists", CONFIG)


def timeline_of(s3, bucket="lake"):
    prefix = "moma/artists/.hoodie/"
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=prefix, Delimiter="/")["Contents"]
    return Timeline.of(item["Key"].removeprefix(prefix) for item in listed)


def body(s3, name):
    return s3.get_object(Bucket="lake", Key=f"moma/artists/.hoodie/iceberg/metadata/{name}")["Body"]


def test_a_version_names_each_file_by_its_key_and_hides_the_deleted_row(silver):
    followed = iceberg_of(silver).follow(timeline_of(silver), TYPES, now_ms=0)
    assert (followed.version, followed.added, followed.deletes) == (1, 4, 1)
    metadata = json.loads(body(silver, "v1.metadata.json").read())
    snapshot = metadata["snapshots"][-1]
    assert metadata["location"] == "s3://lake/moma/artists/.hoodie/iceberg"
    assert snapshot["summary"]["total-records"] == "6" and snapshot["summary"]["total-position-deletes"] == "1"
    name = f"files-{followed.instant}-1.avro"
    entries = [entry["data_file"] for entry in fastavro.reader(io.BytesIO(body(silver, name).read()))]
    listed = silver.list_objects_v2(Bucket="lake", Prefix="moma/artists/nationality")["Contents"]
    keys = [item["Key"] for item in listed]
    paths = {entry["file_path"] for entry in entries}
    assert paths < {f"s3://lake/{key}" for key in keys} and any("Côte%2Fd Ivoire%3Dx" in path for path in paths)
    (place,) = (field["id"] for field in metadata["schemas"][0]["fields"] if field["name"] == "nationality")
    bounds = {entry["file_path"].split("/")[5]: entry["lower_bounds"] for entry in entries}
    assert bounds["nationality=German"] == [{"key": place, "value": b"German"}]
    assert iceberg_of(silver).follow(timeline_of(silver), TYPES, now_ms=0) is None


def test_a_version_that_somebody_else_wrote_is_not_replaced(silver, monkeypatch):
    real = following.write_new_file

    def another_was_first(objects, uri, content):
        real(objects, uri, b"{}")
        return real(objects, uri, content)

    monkeypatch.setattr(following, "write_new_file", another_was_first)
    with pytest.raises(IcebergRaced):
        iceberg_of(silver).follow(timeline_of(silver), TYPES, now_ms=0)
    assert body(silver, "v1.metadata.json").read() == b"{}"


def test_a_driver_that_lost_its_lane_shows_no_older_commit_after_a_newer_one(silver):
    seen = timeline_of(silver)
    newer = f"{int(seen.newest.time) + 1}.commit"
    silver.put_object(Bucket="lake", Key=f"moma/artists/.hoodie/{newer}", Body=b"")

    taken_over = Mock(side_effect=LaneLost("The lane was taken over"))

    def taken_over_meanwhile():
        iceberg_of(silver).follow(timeline_of(silver), TYPES, now_ms=0)

    late = IcebergTable(Objects(silver), "s3://lake/moma/artists", CONFIG, taken_over_meanwhile)
    with pytest.raises(IcebergRaced):
        late.follow(seen, TYPES, now_ms=0)
    late = IcebergTable(Objects(silver), "s3://lake/moma/artists", CONFIG, taken_over)
    with pytest.raises(LaneLost):
        late.follow(seen, TYPES, now_ms=0)
    assert body(silver, "version-hint.text").read() == b"1"
    assert json.loads(body(silver, "v1.metadata.json").read())["current-snapshot-id"] == int(newer.partition(".")[0])


def test_unreadable_metadata_is_an_error_until_it_is_written_again(silver):
    iceberg_of(silver).follow(timeline_of(silver), TYPES, now_ms=0)
    silver.put_object(Bucket="lake", Key="moma/artists/.hoodie/iceberg/metadata/v1.metadata.json", Body=b"{")
    with pytest.raises(ValueError):
        iceberg_of(silver).follow(timeline_of(silver), TYPES, now_ms=0)
    followed = iceberg_of(silver).follow(timeline_of(silver), TYPES, now_ms=0, rebuild=True)
    assert (followed.version, followed.added) == (2, 4)
    assert body(silver, "version-hint.text").read() == b"2"
    assert iceberg_of(silver).follow(timeline_of(silver), TYPES, now_ms=0) is None


def test_metadata_of_a_copied_table_names_the_files_of_the_copy(silver):
    iceberg_of(silver).follow(timeline_of(silver), TYPES, now_ms=0)
    silver.create_bucket(Bucket="copy")
    for item in silver.list_objects_v2(Bucket="lake")["Contents"]:
        silver.copy_object(Bucket="copy", Key=item["Key"], CopySource=f"lake/{item['Key']}")
        silver.delete_object(Bucket="lake", Key=item["Key"])
    copied = IcebergTable(Objects(silver), "s3://copy/moma/artists", CONFIG)
    timeline = timeline_of(silver, "copy")
    followed = copied.follow(timeline, TYPES, now_ms=0)
    assert (followed.version, followed.added, followed.deletes) == (2, 4, 1)
    metadata = silver.get_object(Bucket="copy", Key="moma/artists/.hoodie/iceberg/metadata/v2.metadata.json")
    assert b"s3://lake" not in metadata["Body"].read()
    assert copied.follow(timeline, TYPES, now_ms=0) is None
