"""The files of silver tables: in a bucket here, in a folder on disk for the reading library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from botocore.exceptions import ClientError

from sluice_aws.errors import NoSuchBucket
from sluice_aws.s3.objects import Objects


@dataclass(frozen=True)
class StoredFile:
    """One file: its path below the prefix that was listed, its size in bytes, and when it was written (epoch ms)."""

    path: str
    size: int
    modified_ms: int


class SilverFiles(Protocol):
    """Files by key (`database/table/...`). Prefixes end with a slash, or are empty."""

    def read(self, key: str) -> bytes | None:
        """A small file's bytes; None when there is no such file."""

    def exists(self, key: str) -> bool:
        """Whether there is such a file."""

    def under(self, prefix: str) -> Iterator[StoredFile]:
        """Every file below a prefix, at any depth."""

    def names(self, prefix: str, since: str = "") -> Iterator[str]:
        """Names of the files directly below a prefix, in order; with `since`, those that sort after it."""

    def folders(self, prefix: str, starting: str = "") -> Iterator[str]:
        """Names of the folders directly below a prefix whose names start so, in order."""


class SilverBucket:
    """SilverFiles in S3. `s3` is a boto3 client. Each LIST request returns a thousand names."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3 = s3
        self._objects = Objects(s3)
        self._bucket = bucket

    def read(self, key: str) -> bytes | None:
        document = self._objects.get(self._bucket, key)
        return None if document is None else document.data

    def read_elsewhere(self, key: str) -> bytes | None:
        """`read` of a bucket that a user named. Raises NoSuchBucket."""
        try:
            return self.read(key)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") != "NoSuchBucket":
                raise
            raise NoSuchBucket(f"There is no bucket {self._bucket}", bucket=self._bucket) from error

    def exists(self, key: str) -> bool:
        listing = self._s3.list_objects_v2(Bucket=self._bucket, Prefix=key, MaxKeys=1)
        return any(item["Key"] == key for item in listing.get("Contents", ()))

    def under(self, prefix: str) -> Iterator[StoredFile]:
        for item in self._objects.documents(self._bucket, prefix):
            yield StoredFile(item.key[len(prefix) :], item.size, item.put_at)

    def names(self, prefix: str, since: str = "") -> Iterator[str]:
        start = {"StartAfter": prefix + since} if since else {}
        for page in self._pages(Prefix=prefix, Delimiter="/", **start):
            yield from (item["Key"][len(prefix) :] for item in page.get("Contents", ()))

    def folders(self, prefix: str, starting: str = "") -> Iterator[str]:
        for page in self._pages(Prefix=prefix + starting, Delimiter="/"):
            yield from (item["Prefix"][len(prefix) : -1] for item in page.get("CommonPrefixes", ()))

    def _pages(self, **request: str) -> Iterator[dict[str, Any]]:
        yield from self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, **request)


def read_if_allowed(files: SilverFiles, key: str) -> bytes | None:
    """A small file's bytes; None also where it may not be read, as by a reader of one database alone."""
    try:
        return files.read(key)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in ("AccessDenied", "403"):
            return None
        raise
