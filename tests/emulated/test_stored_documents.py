"""What the functions keep in S3 and read from it: the configuration, schemas, objects by their version."""

import pytest
from function_world import ARTIFACTS, BRONZE, SCHEMA, SILVER, Recorder, avro, key, world  # noqa: F401

from sluice.config.document import Configuration
from sluice.config.table import TableRule
from sluice.objects import ObjectId
from sluice.schema.avro import fingerprint
from sluice_aws.admission.heads import read_head
from sluice_aws.errors import ConfigurationUnreadable, Unchanged
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaStore


def configuration(*topics):
    return Configuration(tuple(TableRule(f"a.{topic}", ("id",), topic=topic) for topic in topics))


def push(world, data):  # noqa: F811
    world.s3.put_object(Bucket=ARTIFACTS, Key="config/tables.json", Body=data)


def test_a_configuration_is_read_again_only_when_it_changed(world):  # noqa: F811
    store = ConfigStore(Objects(world.s3), ARTIFACTS)
    assert store.load() is None
    push(world, configuration("x").to_json().encode())
    first = store.load_if_changed()
    assert first == configuration("x")
    assert store.load_if_changed() is None
    assert store.load() is first
    push(world, configuration("y").to_json().encode())
    assert store.load_if_changed() == configuration("y")


@pytest.mark.parametrize("data", [b"{", b"\xff\xfe", b"{}", b"[]"])
def test_a_broken_configuration_changes_nothing_and_is_told(world, data):  # noqa: F811
    store, report = ConfigStore(Objects(world.s3), ARTIFACTS), Recorder()
    push(world, configuration("x").to_json().encode())
    store.load()
    push(world, data)
    with pytest.raises(ConfigurationUnreadable) as raised:
        store.load()
    assert raised.value.retriable
    assert store.last == store.load_or_last(report) == configuration("x")
    assert report.metrics == {"ConfigurationUnreadable": 1}
    push(world, configuration("z").to_json().encode())
    assert store.load_or_last(report) == configuration("z")


def test_a_kept_schema_comes_back_with_the_same_fingerprint_and_is_put_once(world):  # noqa: F811
    schema = {**SCHEMA, "doc": "é \u2028 \U0001f600"}
    store = SchemaStore(Objects(world.s3), SILVER)
    named = store.keep(schema)
    world.calls.clear()
    assert store.keep(schema) == named == fingerprint(store.load(named))
    assert world.calls.count("PutObject") == 0
    assert store.load("0" * 32) is None


def test_an_object_is_read_by_its_exact_version(world):  # noqa: F811
    objects = Objects(world.s3)
    old, new = world.land(key(1), avro(rows=1)), world.land(key(1), avro(rows=900))
    assert objects.head_bytes(old, 10_000).whole and not objects.head_bytes(new, 100).whole
    assert read_head(objects, old, "avro").schema == SCHEMA
    assert objects.exists(old)
    world.s3.delete_object(Bucket=BRONZE, Key=old.key, VersionId=old.version)
    assert not objects.exists(old)
    assert objects.exists(new)


def test_an_unchanged_document_is_not_sent_again(world):  # noqa: F811
    objects = Objects(world.s3)
    objects.put_json(SILVER, "a/b.json", {"b": 1, "a": "é"})
    document = objects.get(SILVER, "a/b.json")
    assert document.data == '{"a":"é","b":1}'.encode()
    with pytest.raises(Unchanged):
        objects.get(SILVER, "a/b.json", unless=document.etag)
    assert objects.get_json(SILVER, "a/c.json") is None
    assert list(objects.keys(SILVER, "a/")) == ["a/b.json"]


def test_an_identity_without_versions_is_read_on_condition_of_its_etag(world):  # noqa: F811
    world.s3.create_bucket(Bucket="plain", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    id = world.land("k", b"123", bucket="plain")
    assert Objects(world.s3).head_bytes(id, 10).data == b"123"
    assert not Objects(world.s3).exists(ObjectId("plain", "k", "etag:0123"))
