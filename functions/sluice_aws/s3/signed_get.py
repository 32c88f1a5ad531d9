"""Reads a whole object by one signed GET: boto3's signer and connections, without what it does around each call.

boto3 validates parameters, resolves the endpoint and parses the answer anew for each object, which takes longer than to
sign and to send. The first GET of a bucket goes through boto3 and shows where the bucket is. Any answer but a
plain one is left to boto3 too, with its retries, redirects and error codes.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, HTTPClientError
from botocore.utils import percent_encode
from urllib3.exceptions import HTTPError

from sluice.objects import ObjectId
from sluice_aws.errors import too_large

_UNQUOTED = "/~"  # in a key, as boto3 has it
_CHECKSUM = "x-amz-checksum-"
# Those that boto3 validates without further packages. A composite one of parts has a dash and isn't validated.
_CHECKSUMS: Mapping[str, Callable[[bytes], bytes]] = {
    "crc32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "sha1": lambda data: hashlib.sha1(data, usedforsecurity=False).digest(),
    "sha256": lambda data: hashlib.sha256(data).digest(),
}


@dataclass(frozen=True)
class _Place:
    """Where a bucket is: what precedes a key in its URLs, and the region that requests are signed for."""

    base: str
    region: str


class SignedGets:
    """The GETs of one client. Safe in several threads."""

    def __init__(self, client: Any, session: Any) -> None:
        """`session` is the boto3 Session that made the client: its credentials are refreshed as the client's are."""
        self._client = client
        self._session = session
        self._places: dict[str, _Place] = {}
        self._asked = threading.local()
        client.meta.events.register("before-send.s3.GetObject", self._learn)

    def whole(self, id: ObjectId, limit: int | None, by_boto3: Callable[[], bytes]) -> bytes:
        """All bytes of exactly this version. Calls `by_boto3` for an answer that isn't plain, and raises its errors.

        Raises ObjectTooLarge, before reading, for more than `limit` bytes.
        """
        place = self._places.get(id.bucket)
        content = None if place is None else self._got(place, id, limit)
        if content is not None:
            return content
        self._asked.id = id
        try:
            return by_boto3()
        finally:
            self._asked.id = None

    def _got(self, place: _Place, id: ObjectId, limit: int | None) -> bytes | None:
        """The object's bytes; None where boto3 has to ask for them."""
        try:
            answer = self._client._endpoint.http_session.send(self._request(place, id))
            if answer.status_code != 200:
                answer.raw.drain_conn()
                return None
            size = answer.headers.get("Content-Length", "")
            if not size.isdigit():
                answer.raw.close()
                return None
            if limit is not None and int(size) > limit:
                answer.raw.close()
                raise too_large(int(size), limit)
            data = bytes(answer.raw.read())
        except (BotoCoreError, HTTPClientError, HTTPError, OSError):
            return None
        return data if len(data) == int(size) and _is_sound(data, answer.headers) else None

    def _request(self, place: _Place, id: ObjectId) -> Any:
        url = place.base + percent_encode(id.key, safe=_UNQUOTED)
        headers = {"User-Agent": self._client.meta.config.user_agent, "x-amz-checksum-mode": "ENABLED"}
        if id.version_id:
            url += "?versionId=" + percent_encode(id.version_id)
        else:
            headers["If-Match"] = f'"{id.etag}"'
        request = AWSRequest("GET", url, headers, stream_output=True)
        S3SigV4Auth(self._session.get_credentials().get_frozen_credentials(), "s3", place.region).add_auth(request)
        return request.prepare()

    def _learn(self, request: Any, **_: Any) -> None:
        """Note the place of the bucket that this thread asks boto3 for, from the request that it sends."""
        id: ObjectId | None = getattr(self._asked, "id", None)
        if id is None:
            return
        url = request.url.partition("?")[0]
        key = percent_encode(id.key, safe=_UNQUOTED)
        authorization = request.headers.get("Authorization", b"")
        signed = authorization.decode() if isinstance(authorization, bytes) else authorization
        scope = signed.partition("Credential=")[2].partition(",")[0].split("/")
        if url.endswith("/" + key) and len(scope) == 5 and signed.startswith("AWS4-HMAC-SHA256 "):
            self._places[id.bucket] = _Place(url[: -len(key)], scope[2])


def _is_sound(data: bytes, headers: Mapping[str, str]) -> bool:
    """False where a checksum in the answer is of other bytes."""
    for name, checksum in _CHECKSUMS.items():
        stated = headers.get(_CHECKSUM + name)
        if stated is not None and "-" not in stated:
            return base64.b64encode(checksum(data)).decode() == stated
    return True
