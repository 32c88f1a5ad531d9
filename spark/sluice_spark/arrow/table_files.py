"""Reads and writes files of a table whole: objects in S3, and files on disk in tests."""

from __future__ import annotations

from pathlib import Path

from sluice_aws.s3.objects import Objects


def read_file(objects: Objects, uri: str) -> bytes:
    """All bytes of a file."""
    scheme, place = _parts(uri)
    if scheme == "file":
        return Path("/" + place).read_bytes()
    bucket, _, key = place.partition("/")
    return objects.data_file(bucket, key)


def write_file(objects: Objects, uri: str, body: bytes) -> None:
    """Write a file."""
    scheme, place = _parts(uri)
    if scheme == "file":
        path = Path("/" + place)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    else:
        bucket, _, key = place.partition("/")
        objects.put(bucket, key, body)


def _parts(uri: str) -> tuple[str, str]:
    """The scheme, and the rest without slashes in front: Hudi writes `file:/a` where others write `file:///a`."""
    scheme, _, rest = uri.partition(":")
    return scheme, rest.lstrip("/")
