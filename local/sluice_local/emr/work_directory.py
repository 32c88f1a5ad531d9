"""Fetches the files of a job from S3 into an empty directory."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sluice_local.cache import only_one
from sluice_local.emr.submission import Archive, Submission


class CannotFetch(Exception):
    """A file of the job is missing: its name and the reason."""


@dataclass(frozen=True)
class Fetched:
    """A job's files on this machine."""

    entry_point: Path
    py_files: tuple[Path, ...]
    jars: tuple[Path, ...]
    files: tuple[Path, ...]


class Fetcher:
    """Fetches for every job of one stand-in. Archives are unpacked once per content."""

    def __init__(self, s3: Any, unpacked: Path) -> None:
        """`s3` is a boto3 client. `unpacked` keeps unpacked archives between jobs."""
        self._s3 = s3
        self._unpacked = unpacked

    def fetch(self, submission: Submission, directory: Path) -> Fetched:
        """Fetch all files of the job into `directory`. Raises CannotFetch."""
        with ThreadPoolExecutor(8) as pool:
            archives = [pool.submit(self._archive, archive, directory) for archive in submission.archives]
            lists = [
                [pool.submit(self._file, uri, directory) for uri in uris]
                for uris in ((submission.entry_point,), submission.py_files, submission.jars, submission.files)
            ]
            for archive in archives:
                archive.result()
            entry, py_files, jars, files = (tuple(file.result() for file in files) for files in lists)
        return Fetched(entry[0], py_files, jars, files)

    def _file(self, uri: str, directory: Path) -> Path:
        """Copy an S3 object, or use a file of the image in place."""
        url = urlsplit(uri)
        if url.scheme in ("", "file", "local"):
            path = Path(unquote(url.path))
            if not path.is_absolute() or not path.exists():
                raise CannotFetch(f"{uri} is not a file of the image")
            return path
        target = directory / Path(url.path).name
        self._download(uri, target)
        return target

    def _archive(self, archive: Archive, directory: Path) -> None:
        etag = self._head(archive.uri)
        name = hashlib.sha256(f"{archive.uri} {etag}".encode()).hexdigest()[:24]
        ready = self._unpacked / name
        with only_one(self._unpacked / "lock"):
            if not ready.exists():
                packed, partial = self._unpacked / f"{name}.packed", self._unpacked / f"{name}.partial"
                shutil.rmtree(partial, ignore_errors=True)
                self._download(archive.uri, packed)
                if tarfile.is_tarfile(packed):
                    with tarfile.open(packed) as tar:
                        # Python 3.11 has this filter from 3.11.4 on, and Debian 12's is 3.11.2.
                        tar.extraction_filter = getattr(tarfile, "data_filter", None)
                        tar.extractall(partial)
                else:
                    with zipfile.ZipFile(packed) as file:
                        file.extractall(partial)
                packed.unlink()
                partial.rename(ready)
        (directory / archive.directory).symlink_to(ready, target_is_directory=True)

    def _download(self, uri: str, target: Path) -> None:
        self._asked(uri, lambda bucket, key: self._s3.download_file(bucket, key, str(target)))

    def _head(self, uri: str) -> str:
        return str(self._asked(uri, lambda bucket, key: self._s3.head_object(Bucket=bucket, Key=key)["ETag"]))

    def _asked(self, uri: str, call: Callable[[str, str], Any]) -> Any:
        try:
            return call(*_s3(uri))
        except self._s3.exceptions.ClientError as error:
            raise CannotFetch(f"{uri}: {error}") from error

    def keep_logs(self, log_uri: str | None, application: str, run: str, directory: Path) -> None:
        """Upload the driver's output to its place under the job's logUri."""
        if not log_uri:
            return
        bucket, prefix = _s3(log_uri)
        for name in ("stdout", "stderr"):
            key = f"{prefix.rstrip('/')}/applications/{application}/jobs/{run}/SPARK_DRIVER/{name}.gz".lstrip("/")
            self._s3.put_object(Bucket=bucket, Key=key, Body=gzip.compress((directory / name).read_bytes()))


def _s3(uri: str) -> tuple[str, str]:
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme not in ("s3", "s3a", "s3n") or not bucket:
        raise CannotFetch(f"{uri} is not an S3 location")
    return bucket, key
