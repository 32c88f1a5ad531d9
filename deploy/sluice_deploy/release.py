"""Builds a release of the Spark code: the files of a job run, under a version that is their hash.

The bytes of its zip and tar.gz files depend only on their content.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.lane.job_request import TRIAL_ENTRY_POINT
from sluice_deploy.errors import NoSources
from sluice_deploy.wheels import Host, wheel_contents

JOB_PYTHON = "3.9"  # EMR's default interpreter
ENTRY_POINTS = ("ingest.py", TRIAL_ENTRY_POINT)
PREFIX = "releases"
MANIFEST = "release.json"
# Service models for a job: without a VPC it reaches no other service, and all 400 are 20 MB to unpack at every start.
_SERVICES = ("s3", "dynamodb", "sts", "kms", "glue", "logs")
_MODELS = "botocore/data/"


@dataclass(frozen=True)
class Release:
    """Files by name, and their hash as the version."""

    version: str
    files: Mapping[str, bytes]

    def url(self, bucket: str) -> str:
        """The URL of the uploaded release."""
        return f"s3://{bucket}/{PREFIX}/{self.version}/"


def source_root() -> Path:
    """The clone from which this command runs. Raises NoSources."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "template.yaml").is_file() or not (root / "spark").is_dir():
        raise NoSources(f"{root} holds no template.yaml and no spark/", root=str(root))
    return root


def build_release(root: Path, hosts: Sequence[Host], cache: Path) -> Release:
    """Build the release of the sources under `root` for `hosts`. The same sources give the same bytes.

    Raises WheelsUnavailable.
    """
    sources = {
        **read_tree(root / "functions", ("sluice", "sluice_formats", "sluice_aws")),
        **read_tree(root / "spark", ("sluice_spark",)),
    }
    files = {**{name: (root / "spark" / name).read_bytes() for name in ENTRY_POINTS}, "sluice.zip": zip_bytes(sources)}
    for host in hosts:
        files[f"environment-{host.architecture}.tar.gz"] = _environment(
            root / "spark" / "requirements.txt", host, cache
        )
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    version = hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()[:20]
    manifest = {"version": version, "files": hashes, "python": sorted({host.python for host in hosts})}
    return Release(version, {**files, MANIFEST: json.dumps(manifest, indent=2, sort_keys=True).encode()})


def _environment(requirements: Path, host: Host, cache: Path) -> bytes:
    """The packages that a job imports beyond EMR's image, from the cache: packing takes longer than all the rest."""
    key = hashlib.sha256(requirements.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]
    kept = (
        cache / "environments" / f"{key}-{host.python}-{host.architecture}{'-here' if host.this_machine else ''}.tar.gz"
    )
    if not kept.exists():
        packed = tar_gz_bytes(
            {name: content for name, content in wheel_contents(requirements, host, cache).items() if _is_used(name)}
        )
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(".partial")
        partial.write_bytes(packed)
        partial.replace(kept)
    return kept.read_bytes()


def _is_used(name: str) -> bool:
    if name.endswith(("/RECORD", "/INSTALLER")):
        return False  # lists of the places where pip put files
    if not name.startswith(_MODELS):
        return True
    service, separator, _ = name[len(_MODELS) :].partition("/")
    return not separator or service in _SERVICES


def write_release(release: Release, folder: Path) -> None:
    """Write the files of a release into `folder`; creates it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in release.files.items():
        (folder / name).write_bytes(content)


def upload_release(release: Release, s3: Any, bucket: str) -> bool:
    """Upload a release into the artifact bucket, its manifest last. Returns whether it was missing.

    `s3` is a boto3 client.
    """
    manifest = f"{PREFIX}/{release.version}/{MANIFEST}"
    if s3.list_objects_v2(Bucket=bucket, Prefix=manifest, MaxKeys=1).get("KeyCount"):
        return False
    for name, content in sorted(release.files.items(), key=lambda file: file[0] == MANIFEST):
        s3.put_object(Bucket=bucket, Key=f"{PREFIX}/{release.version}/{name}", Body=content)
    return True


_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date of a zip
_EPOCH_S = 315_532_800
_MODE = 0o644


def zip_bytes(files: Mapping[str, bytes]) -> bytes:
    """A zip of `files` (path in the archive -> content), sorted, dated 1980, without owners."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = _MODE << 16
            info.create_system = 3  # Unix on every system
            archive.writestr(info, files[name], zipfile.ZIP_DEFLATED, 6)
    return buffer.getvalue()


def tar_gz_bytes(files: Mapping[str, bytes]) -> bytes:
    """A tar.gz of `files`, sorted, dated 1980, owned by root, without a name in the gzip header."""
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
    """The Python sources of `folders` under `root` by relative path."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for folder in folders
        for path in sorted((root / folder).rglob("*.py"))
    }
