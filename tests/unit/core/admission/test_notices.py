"""Notices of every shape are parsed, keys are decoded exactly once, and nothing is lost."""

import json

import pytest

from sluice.admission.notices import MAX_EXCERPT, parse_body
from sluice.objects import ObjectId

KEY = "topics/a b/red flower + 100% é.avro"
ENCODED = "topics/a+b/red+flower+%2B+100%25+%C3%A9.avro"


def record(key=ENCODED, name="ObjectCreated:Put", **described):
    about = {"key": key, "size": 1024, "eTag": "d41d8cd98f00b204e9800998ecf8427e", "versionId": "096fKKXTRTtl3on89fVO"}
    held = {"bucket": {"name": "bronze"}, "object": {**about, "sequencer": "0055AED6DCD90281E5", **described}}
    event = {"eventSource": "aws:s3", "eventTime": "1970-01-01T00:00:01.250Z", "eventName": name}
    return {"eventVersion": "2.6", **event, "s3": {"s3SchemaVersion": "1.0", **held}}


def s3(*records):
    return json.dumps({"Records": list(records)})


def sns(message, kind="Notification"):
    about = {"Type": kind, "MessageId": "d88d4479", "TopicArn": "arn:aws:sns:us-west-2:111122223333:bronze"}
    return json.dumps({**about, "Message": message})


def event(key=KEY, detail_type="Object Created", **described):
    version = {"etag": "b1946ac92492d2347c6235b4d2611184", "version-id": "IYV3p45BT0ac8hjHg1houSdS1a"}
    about = {"key": key, "size": 5, **version, "sequencer": "617f08299329d189", **described}
    detail = {"bucket": {"name": "bronze"}, "object": about, "reason": "PutObject"}
    of_bus = {"version": "0", "detail-type": detail_type, "source": "aws.s3", "time": "2021-11-12T00:00:00Z"}
    return json.dumps({**of_bus, "detail": detail})


def only(body):
    parsed = parse_body(body)
    assert parsed.ignored == ()
    (notice,) = parsed.notices
    return notice


def test_an_s3_notification_describes_its_object_completely():
    notice = only(s3(record()))
    assert notice.id == ObjectId("bronze", KEY, "096fKKXTRTtl3on89fVO")
    assert (notice.size, notice.sequencer, notice.event_time_ms) == (1024, "0055AED6DCD90281E5", 1_250)
    expected = ("ObjectCreated:Put", "s3", "d41d8cd98f00b204e9800998ecf8427e")
    assert (notice.event_name, notice.via, notice.etag) == expected


def test_a_notification_that_sns_wrapped_is_the_same_object():
    notice = only(sns(s3(record())))
    assert (notice.id, notice.via) == (only(s3(record())).id, "sns")


def test_an_event_of_eventbridge_has_a_key_that_is_not_encoded():
    notice = only(event())
    assert notice.id == ObjectId("bronze", KEY, "IYV3p45BT0ac8hjHg1houSdS1a")
    expected = ("Object Created:PutObject", "eventbridge", 1_636_675_200_000)
    assert (notice.event_name, notice.via, notice.event_time_ms) == expected


def test_an_event_wrapped_by_sns_keeps_its_key_unchanged():
    assert only(sns(event("a%20b+c"))).id.key == "a%20b+c"


@pytest.mark.parametrize(
    "encoded, key",
    [
        ("a+b", "a b"),
        ("a%20b", "a b"),
        ("a%2Bb", "a+b"),
        ("a%252Bb", "a%2Bb"),
        ("100%25", "100%"),
        ("%C3%A9", "é"),
        ("a%3Db/c", "a=b/c"),
        ("%F0%9F%8C%8A", "🌊"),
        ("topics/t/t+0+0000000000.avro".replace("+", "%2B"), "topics/t/t+0+0000000000.avro"),
    ],
)
def test_a_key_is_decoded_exactly_once(encoded, key):
    assert only(s3(record(encoded))).id.key == key


def test_an_unversioned_object_is_identified_by_its_etag():
    bare = record()
    del bare["s3"]["object"]["versionId"]
    assert only(s3(bare)).id.version == "etag:d41d8cd98f00b204e9800998ecf8427e"


def test_the_test_event_is_ignored_by_name():
    parsed = parse_body(json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "bronze"}))
    assert ([message.reason for message in parsed.ignored], parsed.notices) == (["test_event"], ())


@pytest.mark.parametrize(
    "body, reason",
    [
        ("", "not_json"),
        ("{", "not_json"),
        ("[" * 100_000, "not_json"),
        ("[]", "unknown_message"),
        ("5", "unknown_message"),
        ("{}", "unknown_message"),
        ('{"Records": {}}', "unknown_message"),
        ('{"Records": [{"eventSource": "aws:sqs"}]}', "unknown_message"),
        (sns("hello"), "not_json"),
        (sns("", "SubscriptionConfirmation"), "subscription_message"),
        (sns(sns(sns(sns(sns("{}"))))), "unknown_message"),
        (s3(record(name="ObjectRemoved:Delete")), "not_a_creation"),
        (s3(record(name="ObjectRestore:Completed")), "not_a_creation"),
        (event(detail_type="Object Deleted"), "not_a_creation"),
        (s3(record("%FF")), "unusable_record"),
        (s3(record("")), "unusable_record"),
        (s3(record(5)), "unusable_record"),
        (s3(record(size=-1)), "unusable_record"),
        (s3(record(size="9")), "unusable_record"),
        (s3(record("a" * 1025)), "unusable_record"),
        (event(key=None), "unusable_record"),
        (json.dumps({"detail-type": "Object Created", "detail": {}}), "unusable_record"),
    ],
)
def test_what_announces_no_object_is_ignored_with_its_reason(body, reason):
    parsed = parse_body(body)
    assert ([message.reason for message in parsed.ignored], parsed.notices) == ([reason], ())
    assert len(parsed.ignored[0].excerpt) <= MAX_EXCERPT


def test_a_record_that_is_no_use_does_not_take_its_neighbours_with_it():
    parsed = parse_body(s3(record("a"), record("%FF"), {"what": 1}, record("b")))
    assert [notice.id.key for notice in parsed.notices] == ["a", "b"]
    assert [message.reason for message in parsed.ignored] == ["unusable_record", "unknown_message"]


def test_a_message_without_records_is_ignored_without_an_error():
    assert parse_body('{"Records": []}').notices == ()


def test_a_time_that_cannot_be_read_does_not_cost_the_object():
    odd = record()
    odd["eventTime"] = "yesterday"
    assert only(s3(odd)).event_time_ms is None
