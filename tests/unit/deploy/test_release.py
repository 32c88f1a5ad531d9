"""A release's bytes depend only on its sources, and its version on its bytes."""

import io
import json
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sluice_deploy import release as release_module
from sluice_deploy.release import (
    MANIFEST,
    Release,
    build_release,
    read_tree,
    tar_gz_bytes,
    upload_release,
    write_release,
    zip_bytes,
)
from sluice_deploy.wheels import Host

HOSTS = (Host("3.9", "x86_64"), Host("3.9", "arm64"))
WHEELS = {
    "boto3/__init__.py": b"",
    "boto3-1.dist-info/RECORD": b"list",
    "botocore/data/endpoints.json": b"{}",
    "botocore/data/s3/2006-03-01/service-2.json.gz": b"s3",
    "botocore/data/ec2/2016-11-15/service-2.json.gz": b"ec2",
}


@pytest.fixture()
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone as small as one can be, and wheels without a network."""
    root = tmp_path / "clone"
    for name, content in {
        "functions/sluice/__init__.py": "",
        "functions/sluice/lane/machine.py": "LANE = 1\n",
        "functions/sluice_aws/__init__.py": "",
        "functions/admit/handler.py": "",
        "spark/ingest.py": "print()\n",
        "spark/trial.py": "print()\n",
        "spark/sluice_spark/__init__.py": "",
        "spark/requirements.txt": "boto3==1\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (root / "functions/sluice/__pycache__").mkdir()
    (root / "functions/sluice/__pycache__/lane.cpython-311.pyc").write_bytes(b"compiled")
    monkeypatch.setattr(
        release_module,
        "wheel_contents",
        lambda requirements, host, cache: {**WHEELS, "fastavro/_read.so": host.architecture.encode()},
    )
    return root


def test_the_same_sources_give_the_same_bytes_wherever_and_whenever(sources: Path, tmp_path: Path) -> None:
    first = build_release(sources, HOSTS, tmp_path / "one")
    for path in sources.rglob("*"):
        os.utime(path, (1, 1))
    assert build_release(sources, HOSTS, tmp_path / "two") == first


def test_a_changed_source_is_another_version(sources: Path, tmp_path: Path) -> None:
    first = build_release(sources, HOSTS, tmp_path)
    (sources / "functions/sluice/lane/machine.py").write_text("LANE = 2\n")
    second = build_release(sources, HOSTS, tmp_path)
    assert second.version != first.version
    assert {name for name in first.files if first.files[name] != second.files[name]} == {"sluice.zip", MANIFEST}


def test_a_version_is_what_the_template_takes(sources: Path, tmp_path: Path) -> None:
    version = build_release(sources, HOSTS, tmp_path).version
    assert len(version) == 20 and set(version) <= set("0123456789abcdef")


def test_the_zip_holds_what_the_job_imports_and_no_handler(sources: Path, tmp_path: Path) -> None:
    content = build_release(sources, HOSTS, tmp_path).files["sluice.zip"]
    assert zipfile.ZipFile(io.BytesIO(content)).namelist() == [
        "sluice/__init__.py",
        "sluice/lane/machine.py",
        "sluice_aws/__init__.py",
        "sluice_spark/__init__.py",
    ]


def test_every_processor_has_its_own_environment_of_the_services_that_a_job_reaches(
    sources: Path, tmp_path: Path
) -> None:
    files = build_release(sources, HOSTS, tmp_path).files
    for host in HOSTS:
        with tarfile.open(fileobj=io.BytesIO(files[f"environment-{host.architecture}.tar.gz"])) as tar:
            assert tar.getnames() == [
                "boto3/__init__.py",
                "botocore/data/endpoints.json",
                "botocore/data/s3/2006-03-01/service-2.json.gz",
                "fastavro/_read.so",
            ]
            assert tar.extractfile("fastavro/_read.so").read() == host.architecture.encode()


def test_the_manifest_names_every_file_by_its_hash(sources: Path, tmp_path: Path) -> None:
    release = build_release(sources, HOSTS, tmp_path)
    manifest = json.loads(release.files[MANIFEST])
    assert manifest["version"] == release.version
    assert set(manifest["files"]) == set(release.files) - {MANIFEST}
    write_release(release, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(release.files)


class Bucket:
    """A bucket that remembers the order of its objects."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def list_objects_v2(self, *, Bucket: str, Prefix: str, MaxKeys: int) -> dict[str, Any]:
        return {"KeyCount": len([key for key in self.keys if key.startswith(Prefix)])}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> None:
        self.keys.append(Key)


def test_a_release_is_uploaded_once_and_its_manifest_last() -> None:
    bucket = Bucket()
    release = Release("v1", {MANIFEST: b"{}", "ingest.py": b"", "sluice.zip": b""})
    assert upload_release(release, bucket, "artifacts")
    assert bucket.keys == ["releases/v1/ingest.py", "releases/v1/sluice.zip", "releases/v1/release.json"]
    assert not upload_release(release, bucket, "artifacts")


def test_archives_say_nothing_of_where_and_when_they_were_made() -> None:
    files = {"b": b"2", "a": b"1"}
    assert zip_bytes(files) == zip_bytes(dict(sorted(files.items())))
    assert tar_gz_bytes(files) == tar_gz_bytes(dict(sorted(files.items())))
    with tarfile.open(fileobj=io.BytesIO(tar_gz_bytes(files))) as tar:
        assert [(member.name, member.uid, member.uname, member.mtime) for member in tar.getmembers()] == [
            ("a", 0, "", 315532800),
            ("b", 0, "", 315532800),
        ]


def test_only_sources_are_read(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "m.py").write_text("1")
    (tmp_path / "p" / "secret.env").write_text("2")
    assert read_tree(tmp_path, ("p",)) == {"p/m.py": b"1"}
