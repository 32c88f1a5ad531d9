"""Writes zip and tar.gz files whose bytes depend on nothing but what is in them."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest a zip can say
_EPOCH_S = 315_532_800
_MODE = 0o644


def zip_bytes(files: Mapping[str, bytes]) -> bytes:
    """A zip of `files` (path in the archive -> content): sorted, dated 1980, without owners."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = _MODE << 16
            info.create_system = 3  # Unix, also when it is not made on one
            archive.writestr(info, files[name], zipfile.ZIP_DEFLATED, 6)
    return buffer.getvalue()


def tar_gz_bytes(files: Mapping[str, bytes]) -> bytes:
    """A tar.gz of `files`: sorted, dated 1980, owned by root, no name in the gzip header."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=buffer, compresslevel=6, mtime=_EPOCH_S) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for name in sorted(files):
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(files[name]), _EPOCH_S, _MODE
            tar.addfile(info, io.BytesIO(files[name]))
    return buffer.getvalue()


def read_tree(root: Path, folders: Iterable[str]) -> dict[str, bytes]:
    """The Python sources of `folders` under `root`, by their path relative to it."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for folder in folders
        for path in sorted((root / folder).rglob("*.py"))
    }
