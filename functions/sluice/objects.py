"""What makes two mentions of an S3 object the same object: one function for notices and listings."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from sluice.errors import UnidentifiedObject

MAX_KEY_BYTES = 1024  # S3's own limit, on the UTF-8 form
ETAG_PREFIX = "etag:"


@dataclass(frozen=True, order=True)
class ObjectId:
    """One version of one object. `version` is a versionId (also "null") or "etag:" and the ETag."""

    bucket: str
    key: str
    version: str

    @property
    def hash(self) -> str:
        """32 hexadecimal digits, equal for equal identities, the same in every process."""
        named = json.dumps([self.bucket, self.key, self.version], ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(named.encode("ascii")).hexdigest()[:32]

    @property
    def version_id(self) -> str | None:
        """The versionId to read by; None where reading is by If-Match with `etag`."""
        return None if self.version.startswith(ETAG_PREFIX) else self.version

    @property
    def etag(self) -> str | None:
        """The ETag without quotes to read by, where the bucket keeps no versions."""
        return self.version[len(ETAG_PREFIX) :] if self.version.startswith(ETAG_PREFIX) else None

    @property
    def lineage(self) -> str:
        """How a row names the object it came from: "bucket/key?versionId=v"."""
        return f"{self.bucket}/{self.key}?versionId={self.version}"


def identify(
    bucket: str, key: str, version_id: str | None, etag: str | None, *, bucket_versioned: bool = True
) -> ObjectId:
    """Name one version of an object: the versionId where there is one, else the ETag without its quotes.

    `bucket_versioned=False` is for listings of a bucket that never kept versions: ListObjectVersions
    calls what is there "null", notices of the same bucket carry no versionId, and both must agree.
    Raises UnidentifiedObject when neither is there or bucket or key can't be S3's.
    """
    if not bucket or not key or len(key.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
        raise UnidentifiedObject(
            "An object needs a bucket and a key of at most 1,024 bytes", bucket=bucket, key=key[:200]
        )
    if version_id and bucket_versioned:
        return ObjectId(bucket, key, version_id)
    bare = (etag or "").strip().strip('"')
    if not bare:
        raise UnidentifiedObject(
            "An object without versionId and without ETag can't be told from its other versions", bucket=bucket, key=key
        )
    return ObjectId(bucket, key, ETAG_PREFIX + bare)
