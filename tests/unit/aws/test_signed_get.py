"""A read task's GET: signed and sent as boto3 does it, and left to boto3 where the answer is not plain."""

from __future__ import annotations

import base64
import io
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ConnectionClosedError, FlexibleChecksumError

from sluice.errors import ObjectTooLarge
from sluice.objects import ObjectId
from sluice_aws.errors import ObjectGone
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.signed_get import SignedGets

pytestmark = pytest.mark.long

FIRST = ObjectId("bronze", "topics/first.avro", "v0")
ID = ObjectId("bronze", "topics/t+0+1.avro", "v1")
EMULATOR, AWS = "http://127.0.0.1:4566", None
MISSING = b"<Error><Code>NoSuchVersion</Code></Error>"


class Raw(io.BytesIO):
    """The body of an answer, as urllib3 has it."""

    def stream(self, *_: Any, **__: Any) -> Any:
        yield self.read()

    def drain_conn(self) -> None:
        self.read()


class Wire:
    """Answers requests in order, and keeps them. An answer that is an error is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent: list[Any] = []

    def send(self, request: Any) -> AWSResponse:
        self.sent.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, body, headers = answer
        self.raw = Raw(body)
        return AWSResponse(request.url, status, {"Content-Length": str(len(body)), **headers}, self.raw)


def plain(body: bytes, headers: Mapping[str, str] = {}) -> tuple[int, bytes, Mapping[str, str]]:
    return 200, body, headers


def reader(wire: Wire, endpoint: str | None = EMULATOR, token: str | None = None) -> tuple[Objects, Any]:
    """A task's reader over a wire, and the session whose credentials it has."""
    session = boto3.Session("AKID", "secret", aws_session_token=token, region_name="eu-central-1")
    style = {"addressing_style": "path"} if endpoint else None
    retries = {"mode": "standard", "total_max_attempts": 2}
    client = session.client("s3", endpoint_url=endpoint, config=Config(s3=style, retries=retries))
    client._endpoint.http_session = wire
    return Objects(client, SignedGets(client, session).whole), session


def by_boto3(request: Any) -> bool:
    return "amz-sdk-invocation-id" in request.headers


def read(answers: Sequence[Any], id: ObjectId = ID, limit: int | None = None) -> tuple[bytes, Wire]:
    """Read an object after the first of its bucket."""
    wire = Wire(plain(b"first"), *answers)
    objects, _ = reader(wire)
    objects.whole(FIRST)
    return objects.whole(id, limit), wire


@pytest.mark.parametrize("endpoint", [EMULATOR, AWS], ids=["path", "virtual"])
@pytest.mark.parametrize(
    "key",
    ["topics/a+0+1.avro", "a b/ü/[x]{y}*~.avro", "50%/a?b&c=d#e", "/a//b", "a/../b", "quote'\""],
    ids=["plain", "signs", "query", "slashes", "dots", "quotes"],
)
def test_the_first_get_of_a_bucket_shows_where_the_others_are_sent(endpoint: str | None, key: str) -> None:
    id = ObjectId("bronze", key, "v+/1")
    wire = Wire(plain(b"1"), plain(b"2"))
    objects, _ = reader(wire, endpoint)
    assert [objects.whole(id), objects.whole(id)] == [b"1", b"2"]
    first, second = wire.sent
    assert (by_boto3(first), by_boto3(second)) == (True, False)
    assert second.url == first.url
    scope = "/eu-central-1/s3/aws4_request, SignedHeaders="
    assert scope in first.headers["Authorization"].decode() and scope in second.headers["Authorization"]


def test_an_object_of_a_bucket_without_versions_is_read_by_its_etag() -> None:
    _, wire = read([plain(b"x")], ObjectId("bronze", "k", "etag:abc"))
    assert wire.sent[1].headers["If-Match"] == '"abc"' and "?" not in wire.sent[1].url


def test_each_request_is_signed_with_the_credentials_of_its_moment() -> None:
    wire = Wire(plain(b"1"), plain(b"2"), plain(b"3"))
    objects, session = reader(wire, token="old")
    objects.whole(ID)
    objects.whole(ID)
    session._session._credentials = Credentials("AKID2", "secret", "new")
    objects.whole(ID)
    assert [request.headers["X-Amz-Security-Token"] for request in wire.sent[1:]] == ["old", "new"]
    assert "Credential=AKID2/" in wire.sent[2].headers["Authorization"]


@pytest.mark.parametrize(
    "answer",
    [
        (503, b"<Error><Code>SlowDown</Code></Error>", {}),
        (301, b"", {"Location": "elsewhere"}),
        ConnectionClosedError(endpoint_url=EMULATOR),
        (200, b"cut", {"Content-Length": "5"}),
        (200, b"other", {"x-amz-checksum-crc32": "AAAAAA=="}),
        (200, b"endless", {"Content-Length": "unknown"}),
    ],
    ids=["busy", "moved", "connection lost", "cut", "wrong checksum", "of no length"],
)
def test_an_answer_that_is_not_plain_is_asked_for_again_by_boto3(answer: Any) -> None:
    data, wire = read([answer, plain(b"whole")])
    assert data == b"whole"
    assert [by_boto3(request) for request in wire.sent] == [True, False, True]


def test_errors_are_those_of_boto3() -> None:
    with pytest.raises(ObjectGone):
        read([(404, MISSING, {}), (404, MISSING, {})])
    wrong = (200, b"other", {"x-amz-checksum-crc32": "AAAAAA=="})
    with pytest.raises(FlexibleChecksumError):
        read([wrong, wrong])


def test_checksums_that_boto3_validates_are_validated() -> None:
    checksum = base64.b64encode(zlib.crc32(b"whole").to_bytes(4, "big")).decode()
    _, wire = read([plain(b"whole", {"x-amz-checksum-crc32": checksum})])
    assert wire.sent[1].headers["x-amz-checksum-mode"] == "ENABLED"
    data, _ = read([plain(b"whole", {"x-amz-checksum-crc32": f"{checksum}-3"})])
    assert data == b"whole"


def test_an_object_above_the_limit_is_refused_before_it_is_read() -> None:
    wire = Wire(plain(b"first"), plain(b"x" * 11))
    objects, _ = reader(wire)
    objects.whole(FIRST)
    with pytest.raises(ObjectTooLarge) as refused:
        objects.whole(ID, 10)
    assert refused.value.facts == {"bytes": 11, "limit": 10} and wire.raw.closed
