"""Builds a release of the Spark code: the files of a job run, under a version that is their hash.

The bytes of its zip and tar.gz files depend only on their content.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sluice_deploy import DISTRIBUTION
from sluice_deploy.byte_code import build_of, byte_code
from sluice_deploy.errors import NoSources, ReleaseDiffers
from sluice_deploy.sbom import SBOM, sbom
from sluice_deploy.wheels import Host, listed_wheels, wheel_contents, without_models

JOB_PYTHONS = ("3.11", "3.9")  # by which PySpark runs on EMR's image: by default from emr-7.13.0 on, and before it
ENTRY_POINT, CODE = "ingest.py", "sluice.zip"
PREFIX = "releases"
BUNDLED = "sluice_source"  # what a distribution holds of a clone beside its packages: pyproject.toml lists it
_INSTALLED = Path(__file__).resolve().parents[1]
MANIFEST = "release.json"
# The line of the entry point that receives the checksums of the other files.
_NO_CHECKSUMS = b"CHECKSUMS: dict[str, str] = {}\n"
# Without a VPC a job reaches no other service, and every start unpacks their models.
SERVICES = ("s3", "dynamodb", "sts", "kms", "glue", "logs", "secretsmanager")


@dataclass(frozen=True)
class Release:
    """Files by name, and their hash as the version."""

    version: str
    files: Mapping[str, bytes]

    def url(self, bucket: str) -> str:
        """The URL of the uploaded release."""
        return f"s3://{bucket}/{PREFIX}/{self.version}/"


def source_root() -> Path:
    """The clone from which this command runs, or what its distribution holds of one. Raises NoSources."""
    clone, bundled = Path(__file__).resolve().parents[2], _INSTALLED / BUNDLED
    for root in (clone, bundled):
        if (root / "template.yaml").is_file() and (root / "spark").is_dir():
            return root
    raise NoSources(f"{clone} holds no template.yaml and no spark/", root=str(clone))


def distribution_version() -> str:
    """The version of Sluice that runs; empty if it is not installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""


def commit_of(root: Path) -> str:
    """The commit of a clone, with `-dirty` if its files differ from it; empty for a distribution, and without git."""
    if not (root / ".git").exists() or shutil.which("git") is None:
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--exclude", "*", "--abbrev=12", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def build_release(root: Path, hosts: Sequence[Host], cache: Path, python: Path | None) -> Release:
    """Build the release of the sources under `root` for `hosts`. The same sources give the same bytes.

    An environment has the packages of all hosts of its processor. `python` compiles the archives ahead, for the Python
    of its own version; None leaves the byte code out. Raises NoSources, WheelsUnavailable and NotCompiled.
    """
    sources = {
        **read_packages(root / "functions", ("sluice", "sluice_formats", "sluice_aws")),
        **read_packages(root / "spark", ("sluice_spark",)),
    }
    code = zip_bytes({**sources, **byte_code(sources, python, in_zip=True)})
    files, checksums = {CODE: code}, {CODE: hashlib.sha256(code).hexdigest()}
    requirements = root / "spark" / "requirements.txt"
    for architecture in sorted({host.architecture for host in hosts}):
        name = f"environment-{architecture}.tar.gz"
        of_processor = [host for host in hosts if host.architecture == architecture]
        files[name] = _environment(requirements, of_processor, cache, python)
        checksums[name] = _tree_checksum(files[name])
    files[ENTRY_POINT] = _entry_point((root / "spark" / ENTRY_POINT).read_bytes(), checksums)
    wheels = {wheel for host in hosts for wheel in listed_wheels(requirements, host, cache)}
    files[SBOM] = sbom("sluice-job", wheels, files)
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    version = hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()[:20]
    manifest = {
        "version": version,
        "sluice": distribution_version(),
        "commit": commit_of(root),
        "files": hashes,
        "python": sorted({host.python for host in hosts}),
    }
    return Release(version, {**files, MANIFEST: json.dumps(manifest, indent=2, sort_keys=True).encode()})


def _entry_point(source: bytes, checksums: Mapping[str, str]) -> bytes:
    """The entry point with the checksums that it verifies before it imports anything else of the release."""
    if source.count(_NO_CHECKSUMS) != 1:
        raise NoSources(f"spark/{ENTRY_POINT} has no place for the checksums of its release", root="spark")
    return source.replace(_NO_CHECKSUMS, f"CHECKSUMS = {json.dumps(checksums, sort_keys=True)}\n".encode())


def _tree_checksum(packed: bytes) -> str:
    """The checksum that spark/ingest.py computes of the unpacked archive."""
    total = hashlib.sha256()
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        for member in sorted(tar.getmembers(), key=lambda member: member.name):
            content = tar.extractfile(member)
            if content is not None:
                total.update(member.name.encode() + b"\0" + hashlib.sha256(content.read()).digest())
    return total.hexdigest()


def _environment(requirements: Path, hosts: Sequence[Host], cache: Path, python: Path | None) -> bytes:
    """The packages that a job imports beyond EMR's image, those of several Pythons in one: compiled modules are named
    by theirs. From the cache, since packing takes longer than all the rest.
    """

    def pack() -> bytes:
        contents = [wheel_contents(requirements, host, cache) for host in hosts]
        libraries = without_models(dict(ChainMap(*contents)), SERVICES)
        return tar_gz_bytes({**libraries, **byte_code(libraries, python)})

    return packed_once(cache / "environments", ".tar.gz", pack, requirements, hosts, python)


def packed_once(
    folder: Path,
    ending: str,
    pack: Callable[[], bytes],
    requirements: Path,
    hosts: Sequence[Host],
    python: Path | None,
    sources: Mapping[str, bytes] = MappingProxyType({}),
) -> bytes:
    """The archive that `pack` makes, from `folder` where one of the same inputs, and by the same code, is there."""
    digest = hashlib.sha256()
    for source in (requirements, *sorted(Path(__file__).parent.glob("*.py"))):
        digest.update(source.read_bytes())
    digest.update(repr((list(hosts), build_of(python))).encode())
    for name, content in sorted(sources.items()):
        digest.update(name.encode() + b"\0" + content + b"\0")
    archive = folder / f"{digest.hexdigest()[:20]}{ending}"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        content = pack()
        partial = archive.with_suffix(f".{os.getpid()}")
        partial.write_bytes(content)
        partial.replace(archive)
    return archive.read_bytes()


def write_release(release: Release, folder: Path) -> None:
    """Write the files of a release into `folder`; creates it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in release.files.items():
        (folder / name).write_bytes(content)


def upload_release(release: Release, s3: Any, bucket: str) -> bool:
    """Upload the missing files of a release into the artifact bucket, its manifest last. Returns whether any was.

    `s3` is a boto3 client. A file is never overwritten. Raises ReleaseDiffers if one exists with another content, but
    the manifest, which may name another commit with the same sources.
    """
    missing = False
    for name, content in sorted(release.files.items(), key=lambda file: file[0] == MANIFEST):
        key = f"{PREFIX}/{release.version}/{name}"
        checksum = base64.b64encode(hashlib.sha256(content).digest()).decode()
        stored = _stored_checksum(s3, bucket, key)
        if stored is None:
            missing = True
            try:
                s3.put_object(Bucket=bucket, Key=key, Body=content, ChecksumSHA256=checksum, IfNoneMatch="*")
                continue
            except s3.exceptions.ClientError as error:
                # 412: another deployment was first. 409: it is not finished, and will be by the time of the answer.
                if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (409, 412):
                    raise
                stored = _stored_checksum(s3, bucket, key)
        if stored != checksum and name != MANIFEST:
            raise ReleaseDiffers(f"s3://{bucket}/{key} is not the file of this release", bucket=bucket, key=key)
    return missing


def _stored_checksum(s3: Any, bucket: str, key: str) -> str | None:
    """The SHA-256 of an object in base64; None if it is missing."""
    try:
        head = s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    except s3.exceptions.ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
            raise
        return None
    if head.get("ChecksumSHA256"):
        return str(head["ChecksumSHA256"])
    content = s3.get_object(Bucket=bucket, Key=key)["Body"].read()  # uploaded without a checksum
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


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


def read_packages(folder: Path, packages: Iterable[str]) -> dict[str, bytes]:
    """The Python sources of packages under `folder` of a source root, by relative path.

    A distribution holds them once, as its own packages.
    """
    bundled = folder.parent.name == BUNDLED
    return {
        name: content
        for package in packages
        for name, content in read_tree(
            _INSTALLED if bundled and not (folder / package).is_dir() else folder, (package,)
        ).items()
    }


def read_tree(root: Path, folders: Iterable[str]) -> dict[str, bytes]:
    """The Python sources of `folders` under `root` by relative path."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for folder in folders
        for path in sorted((root / folder).rglob("*.py"))
    }
