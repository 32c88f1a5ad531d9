"""Reads and writes files of a table whole: objects in S3, and files on disk in tests.

Spark ends a cancelled task without waiting for its Python worker, which may write on. So a data file that arrives
behind the roll-back of its write is removed by its own writer: an instant that was rolled back may be older than the
table's first, and readers would take the file for committed.
"""

from __future__ import annotations

from pathlib import Path

from sluice_aws.s3.objects import Objects
from sluice_spark.errors import WriteUndone
from sluice_spark.hudi.base_files import NewFiles, marker


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


def write_data_file(objects: Objects, table_uri: str, path: str, body: bytes, *, new: NewFiles, kind: str) -> None:
    """Write a file of a table behind Hudi's marker of this kind. `path` is below the table's folder.

    Raises WriteUndone, without the file, where the write was rolled back meanwhile. A roll-back that comes later finds
    the file.
    """
    write_file(objects, f"{table_uri}/{marker(path, new.instant, kind)}", b"")
    write_file(objects, f"{table_uri}/{path}", body)
    if not _is_file(objects, f"{table_uri}/{new.inflight}"):
        _remove_file(objects, f"{table_uri}/{path}")
        raise WriteUndone(f"The write {new.instant} was rolled back while {path} was written", instant=new.instant)


def _is_file(objects: Objects, uri: str) -> bool:
    scheme, place = _parts(uri)
    if scheme == "file":
        return Path("/" + place).exists()
    bucket, _, key = place.partition("/")
    return objects.get(bucket, key) is not None


def _remove_file(objects: Objects, uri: str) -> None:
    scheme, place = _parts(uri)
    if scheme == "file":
        Path("/" + place).unlink(missing_ok=True)
    else:
        bucket, _, key = place.partition("/")
        objects.delete(bucket, key)


def _parts(uri: str) -> tuple[str, str]:
    """The scheme, and the rest without slashes in front: Hudi writes `file:/a` where others write `file:///a`."""
    scheme, _, rest = uri.partition(":")
    return scheme, rest.lstrip("/")
