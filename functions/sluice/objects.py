"""Identifies a version of an S3 object, in the same way for notices and listings."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

from sluice.errors import UnidentifiedObject

MAX_KEY_BYTES = 1024  # S3's own limit, on the UTF-8 form
ETAG_PREFIX = "etag:"


@dataclass(frozen=True, order=True)
class ObjectId:
    """One version of one object. `version` is a versionId (also "null") or "etag:" and the ETag.

    Where a rule takes a topic too that another rule takes (`also`), the ledger has each object once more for that
    rule's table, which is `also_for`; "" for the table of the first rule.
    """

    bucket: str
    key: str
    version: str
    also_for: str = ""

    @property
    def hash(self) -> str:
        """32 hexadecimal digits: a hash of the identity that is the same in every process."""
        parts = [self.bucket, self.key, self.version, *([self.also_for] if self.also_for else [])]
        coordinates = json.dumps(parts, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(coordinates.encode("ascii")).hexdigest()[:32]

    @property
    def of_first_rule(self) -> ObjectId:
        return replace(self, also_for="")

    @property
    def version_id(self) -> str | None:
        """The versionId to read by, None for an object that is read by If-Match with `etag`."""
        return None if self.version.startswith(ETAG_PREFIX) else self.version

    @property
    def etag(self) -> str | None:
        """The ETag (without quotes) to read by, None for a versioned object."""
        return self.version[len(ETAG_PREFIX) :] if self.version.startswith(ETAG_PREFIX) else None

    @property
    def lineage(self) -> str:
        """The name of the object in lineage columns: "bucket/key?versionId=v"."""
        return f"{self.bucket}/{self.key}?versionId={self.version}"


def identify(
    bucket: str, key: str, version_id: str | None, etag: str | None, *, bucket_versioned: bool = True
) -> ObjectId:
    """Identify one version of an object: by its versionId if it has one, else by its ETag without quotes.

    Set `bucket_versioned=False` for listings of a bucket that never kept versions: ListObjectVersions reports the
    version "null" there, while notices carry no versionId, and both must give the same identity. Raises
    UnidentifiedObject without versionId and ETag, or for a bucket or key that S3 can't have.
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
            "An object without versionId and without ETag can't be distinguished from its other versions",
            bucket=bucket,
            key=key,
        )
    return ObjectId(bucket, key, ETAG_PREFIX + bare)
