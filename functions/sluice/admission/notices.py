"""Parses a queue message into notices of new objects and ignored parts, each with its reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import unquote_plus

from sluice.errors import UnidentifiedObject
from sluice.objects import ObjectId, identify

S3, SNS, EVENTBRIDGE = "s3", "sns", "eventbridge"
LISTING = "listing"  # the `via` of an object that no notice announced
MAX_EXCERPT = 500  # characters kept of an ignored message
MAX_WRAPPINGS = 3  # nested SNS notifications

NOT_JSON = "not_json"
TEST_EVENT = "test_event"
NOT_A_CREATION = "not_a_creation"  # a delete, a restore, a tagging
UNKNOWN_MESSAGE = "unknown_message"
UNUSABLE_RECORD = "unusable_record"
SUBSCRIPTION = "subscription_message"


@dataclass(frozen=True)
class Notice:
    """One announced object version. `size` is in bytes, `event_time_ms` in epoch milliseconds; None if unknown."""

    id: ObjectId
    size: int | None
    sequencer: str | None
    event_time_ms: int | None
    event_name: str
    via: str
    etag: str | None = None


@dataclass(frozen=True)
class IgnoredMessage:
    """A message, or one record of it, that announces no new object. `excerpt` is its beginning."""

    reason: str
    excerpt: str


@dataclass(frozen=True)
class Parsed:
    """The parts of one message. Every record of it is in one of the two lists."""

    notices: tuple[Notice, ...] = ()
    ignored: tuple[IgnoredMessage, ...] = ()


def parse_body(body: str) -> Parsed:
    """Parse one SQS message body: an S3 notification, plain or wrapped by SNS, or an EventBridge event.

    Never raises: an unusable record is in `ignored`. Keys are decoded exactly once: S3 form-encodes them (a space
    becomes `+`), EventBridge doesn't encode them.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
    """
    return _parse(body, S3, MAX_WRAPPINGS)


def _parse(body: str, via: str, wrappings: int) -> Parsed:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return _ignored(NOT_JSON, body)
    if not isinstance(message, Mapping):
        return _ignored(UNKNOWN_MESSAGE, body)
    if isinstance(message.get("Records"), list):
        return _records(message["Records"], via)
    if message.get("Event") == "s3:TestEvent":
        return _ignored(TEST_EVENT, body)
    if isinstance(message.get("TopicArn"), str) and isinstance(message.get("Message"), str):
        if message.get("Type") != "Notification":
            return _ignored(SUBSCRIPTION, body)
        return _parse(message["Message"], SNS, wrappings - 1) if wrappings > 0 else _ignored(UNKNOWN_MESSAGE, body)
    if isinstance(message.get("detail-type"), str) and isinstance(message.get("detail"), Mapping):
        return _event(message, body)
    return _ignored(UNKNOWN_MESSAGE, body)


def _records(records: list[Any], via: str) -> Parsed:
    notices: list[Notice] = []
    ignored: list[IgnoredMessage] = []
    for record in records:
        excerpt = json.dumps(record, ensure_ascii=True)[:MAX_EXCERPT]
        if not isinstance(record, Mapping) or not isinstance(record.get("s3"), Mapping):
            ignored.append(IgnoredMessage(UNKNOWN_MESSAGE, excerpt))
            continue
        name = str(record.get("eventName", ""))
        if not name.startswith(("ObjectCreated:", "s3:ObjectCreated:")):
            ignored.append(IgnoredMessage(NOT_A_CREATION, excerpt))
            continue
        try:
            key = unquote_plus(_text(record["s3"]["object"]["key"]), encoding="utf-8", errors="strict")
            notices.append(_notice(record["s3"], key, ("versionId", "eTag"), record.get("eventTime"), name, via))
        except (KeyError, TypeError, AttributeError, ValueError, UnidentifiedObject) as error:
            ignored.append(IgnoredMessage(UNUSABLE_RECORD, _with_cause(error, excerpt)))
    return Parsed(tuple(notices), tuple(ignored))


def _event(event: Mapping[str, Any], body: str) -> Parsed:
    if event["detail-type"] != "Object Created":
        reason = NOT_A_CREATION if event.get("source") == "aws.s3" else UNKNOWN_MESSAGE
        return _ignored(reason, body)
    try:
        detail, reason = event["detail"], event["detail"].get("reason")
        name = f"Object Created:{reason}" if reason else "Object Created"
        key = _text(detail["object"]["key"])
        notice = _notice(detail, key, ("version-id", "etag"), event.get("time"), name, EVENTBRIDGE)
    except (KeyError, TypeError, AttributeError, ValueError, UnidentifiedObject) as error:
        return Parsed(ignored=(IgnoredMessage(UNUSABLE_RECORD, _with_cause(error, body[:MAX_EXCERPT])),))
    return Parsed(notices=(notice,))


def _notice(place: Mapping[str, Any], key: str, names: tuple[str, str], time: Any, event_name: str, via: str) -> Notice:
    """The notice of the object and bucket in `place`; `names` are the fields of the object's version and ETag."""
    bucket, described = place["bucket"], place["object"]
    size = described.get("size")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        raise ValueError("size is not a number of bytes")
    texts = (described.get(name) for name in (*names, "sequencer"))
    version_id, etag, sequencer = (None if text is None else _text(text) for text in texts)
    id = identify(_text(bucket["name"]), key, version_id, etag)
    return Notice(id, size, sequencer, _epoch_ms(time), event_name, via, etag and etag.strip('"'))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {type(value).__name__}")
    value.encode("utf-8")  # refuse a lone surrogate here: it can't be in a key, and would fail much later
    return value


def _epoch_ms(value: Any) -> int | None:
    """Epoch milliseconds of "2021-11-12T00:00:00Z", with or without a fraction; None for anything else.

    Only lag metrics and reports use the time, so an unreadable one doesn't refuse the object.
    """
    for layout in ("%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%dT%H:%M:%SZ"):
        try:
            at = datetime.strptime(value, layout).replace(tzinfo=timezone.utc)
        except (TypeError, ValueError):
            continue
        return (at - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)
    return None


def _ignored(reason: str, body: str) -> Parsed:
    return Parsed(ignored=(IgnoredMessage(reason, body[:MAX_EXCERPT]),))


def _with_cause(error: Exception, described: str) -> str:
    return f"{type(error).__name__}: {error}: {described}"[:MAX_EXCERPT]
