"""What the functions store in S3 and read from it: the configuration, schemas, objects by version."""

import pytest
from emulation.deployment import ARTIFACTS, BRONZE, SCHEMA, SILVER, Recorder, avro, key

from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.objects import ObjectId
from sluice.schema.avro import fingerprint
from sluice_aws.admission.heads import read_head
from sluice_aws.errors import ConfigurationUnreadable, ObjectGone
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaStore


def configuration(*topics):
    return Configuration(tuple(TableRule(f"a.{topic}", ("id",), topic=topic) for topic in topics))


def push(deployment, data):
    deployment.s3.put_object(Bucket=ARTIFACTS, Key="config/tables.json", Body=data)


def test_a_configuration_is_read_again_only_when_it_changed(deployment):
    store = ConfigStore(Objects(deployment.s3), ARTIFACTS)
    assert store.load() is None
    push(deployment, configuration("x").to_json().encode())
    first = store.load_if_changed()
    assert first == configuration("x")
    assert store.load_if_changed() is None
    assert store.load() is first
    push(deployment, configuration("y").to_json().encode())
    assert store.load_if_changed() == configuration("y")


@pytest.mark.parametrize("data", [b"{", b"\xff\xfe", b"{}", b"[]"])
def test_an_invalid_configuration_is_reported_and_changes_nothing(deployment, data):
    store, report = ConfigStore(Objects(deployment.s3), ARTIFACTS), Recorder()
    push(deployment, configuration("x").to_json().encode())
    store.load()
    push(deployment, data)
    with pytest.raises(ConfigurationUnreadable) as raised:
        store.load()
    assert raised.value.retriable
    assert store.last == store.load_or_last(report) == configuration("x")
    assert report.metrics == {"ConfigurationUnreadable": 1}
    push(deployment, configuration("z").to_json().encode())
    assert store.load_or_last(report) == configuration("z")


def test_a_kept_schema_comes_back_with_the_same_fingerprint_and_is_put_once(deployment):
    schema = {**SCHEMA, "doc": "é \u2028 \U0001f600"}
    store = SchemaStore(Objects(deployment.s3), SILVER)
    mark = store.keep(schema)
    deployment.calls.clear()
    assert store.keep(schema) == mark == fingerprint(store.load(mark))
    assert deployment.calls.count("PutObject") == 0
    assert store.load("0" * 32) is None


def test_an_object_is_read_by_its_exact_version(deployment):
    objects = Objects(deployment.s3)
    body = avro(rows=900)
    old, new = deployment.land(key(1), avro(rows=1)), deployment.land(key(1), body)
    assert objects.head_bytes(old, 10_000).whole and not objects.head_bytes(new, 100).whole
    assert read_head(objects, old, "avro") == SCHEMA
    assert objects.exists(old)
    deployment.s3.delete_object(Bucket=BRONZE, Key=old.key, VersionId=old.version)
    assert not objects.exists(old)
    assert objects.exists(new)
    assert b"".join(objects.chunks(new)) == body
    with pytest.raises(ObjectGone):
        objects.has_ranges(old)


def test_an_identity_without_versions_is_read_on_condition_of_its_etag(deployment):
    deployment.s3.create_bucket(Bucket="plain", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    id = deployment.land("k", b"123", bucket="plain")
    assert Objects(deployment.s3).head_bytes(id, 10).data == b"123"
    assert not Objects(deployment.s3).exists(ObjectId("plain", "k", "etag:0123"))


class SendsTwice:
    """S3 by a client that sends each put again, as boto3 does after an answer that was lost on its way."""

    def __init__(self, s3):
        self._s3 = s3

    def __getattr__(self, name):
        return getattr(self._s3, name)

    def put_object(self, **put):
        self._s3.put_object(**put)
        return self._s3.put_object(**put)


def test_a_conditional_put_whose_answer_was_lost_is_one_that_was_made(deployment):
    objects, place = Objects(SendsTwice(deployment.s3)), (SILVER, "a/document")
    how = {"content_type": "text/plain"}
    assert objects.put_if(*place, b"first", replaces=None, **how)
    assert not objects.put_if(*place, b"other", replaces=None, **how)
    assert objects.put_if(*place, b"next", replaces=objects.get(*place).etag, **how)
    assert not objects.put_if(*place, b"late", replaces='"0"', **how)
    assert objects.get(*place).data == b"next"
