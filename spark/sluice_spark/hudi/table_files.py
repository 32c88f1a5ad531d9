"""Lists, reads and writes files of a table: objects in S3, and files on disk in tests.

Spark ends a cancelled task without waiting for its Python worker, which may write on. So a data file that arrives
behind the roll-back of its write is removed by its own writer: an instant that was rolled back may be older than the
table's first, and readers would take the file for committed.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from sluice_aws.s3.objects import Objects
from sluice_spark.errors import WriteUndone
from sluice_spark.hudi.own_files import NewFiles, marker

READ_WHOLE_BYTES = 1024**2  # a request takes longer than so many bytes


def read_file(objects: Objects, uri: str) -> bytes:
    """All bytes of a file."""
    path = _on_disk(uri)
    return objects.data_file(*_place(uri)) if path is None else path.read_bytes()


def read_file_or_none(objects: Objects, uri: str) -> bytes | None:
    """All bytes of a file; None where there is none."""
    path = _on_disk(uri)
    if path is not None:
        return path.read_bytes() if path.exists() else None
    document = objects.get(*_place(uri))
    return None if document is None else document.data


def open_parquet(objects: Objects, uri: str, size: int) -> pq.ParquetFile:
    """A Parquet file of so many bytes. Of a large one in S3, only what is asked for is read, by ranges."""
    path = _on_disk(uri)
    if path is not None:
        return pq.ParquetFile(path)
    if size <= READ_WHOLE_BYTES:
        return pq.ParquetFile(pa.BufferReader(objects.data_file(*_place(uri))))
    ranges = _Ranges(partial(objects.data_range, *_place(uri)), size)
    return pq.ParquetFile(pa.PythonFile(ranges, mode="r"), pre_buffer=True)


class _Ranges(io.RawIOBase):
    """A file that is read by ranges, each a request."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read, self._size, self._place = read, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def read(self, size: int = -1) -> bytes:
        length = self._size - self._place if size < 0 else min(size, self._size - self._place)
        body = self._read(self._place, length) if length > 0 else b""
        self._place += len(body)
        return body


def files_below(objects: Objects, uri: str, *, partitioned: bool) -> Iterator[tuple[str, int]]:
    """Path below the table's folder and size in bytes of each file of it, but for those of the timeline."""
    root = _on_disk(uri)
    if root is not None:
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(name for name in folders if name != ".hoodie")
            below = "" if folder == str(root) else f"{folder[len(str(root)) + 1 :]}/"
            yield from ((f"{below}{name}", os.stat(f"{folder}/{name}").st_size) for name in sorted(names))
        return
    bucket, folder = _place(uri)
    prefix = f"{folder}/"
    # Partitions have names that sort behind the timeline's folder. A file at the top, which may sort before it, has
    # siblings alone beside that folder in an unpartitioned table.
    where = {"after": f"{prefix}.hoodie0"} if partitioned else {"in_folder": True}
    for item in objects.documents(bucket, prefix, **where):
        yield item.key[len(prefix) :], item.size


def write_file(objects: Objects, uri: str, body: bytes) -> None:
    """Write a file."""
    path = _on_disk(uri)
    if path is None:
        objects.put(*_place(uri), body)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


def write_new_file(objects: Objects, uri: str, body: bytes) -> bool:
    """Write a file where there is none yet; False where there is one."""
    path = _on_disk(uri)
    if path is None:
        return objects.put_if(*_place(uri), body, replaces=None, content_type="application/octet-stream")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("xb") as file:
            file.write(body)
    except FileExistsError:
        return False
    return True


def write_data_file(
    objects: Objects, table_uri: str, path: str, body: bytes, *, new: NewFiles, kind: str, alone: bool = True
) -> None:
    """Write a file of a table behind Hudi's marker of this kind. `path` is below the table's folder.

    Raises WriteUndone, without the file, where the write was rolled back meanwhile. A roll-back that comes later finds
    the file. One that isn't written `alone` is looked at with others by `refuse_undone`.
    """
    write_file(objects, f"{table_uri}/{marker(path, new.instant, kind)}", b"")
    write_file(objects, f"{table_uri}/{path}", body)
    if alone:
        refuse_undone(objects, table_uri, [path], new=new)


def refuse_undone(objects: Objects, table_uri: str, paths: Sequence[str], *, new: NewFiles) -> None:
    """Raise WriteUndone, without these files, where the write was rolled back while they were written."""
    if read_file_or_none(objects, f"{table_uri}/{new.inflight}") is not None:
        return
    for path in paths:
        remove_file(objects, f"{table_uri}/{path}")
    raise WriteUndone(f"The write {new.instant} was rolled back while its files were written", instant=new.instant)


def remove_file(objects: Objects, uri: str) -> None:
    """Delete a file, if there is one."""
    path = _on_disk(uri)
    if path is None:
        objects.delete(*_place(uri))
    else:
        path.unlink(missing_ok=True)


def _on_disk(uri: str) -> Path | None:
    """The path of a file on disk. Hudi writes `file:/a` where others write `file:///a`."""
    scheme, _, rest = uri.partition(":")
    return Path("/" + rest.lstrip("/")) if scheme == "file" else None


def _place(uri: str) -> tuple[str, str]:
    """Bucket and key of an object in S3."""
    bucket, _, key = uri.partition(":")[2].lstrip("/").partition("/")
    return bucket, key
