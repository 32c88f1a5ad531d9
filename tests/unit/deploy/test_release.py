"""A release's bytes depend only on its sources, and its version on its bytes."""

import base64
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sluice_deploy import release as release_module
from sluice_deploy.errors import ReleaseDiffers
from sluice_deploy.release import (
    JOB_PYTHONS,
    MANIFEST,
    SERVICES,
    Release,
    build_release,
    commit_of,
    distribution_version,
    read_tree,
    source_root,
    tar_gz_bytes,
    upload_release,
    write_release,
    zip_bytes,
)
from sluice_deploy.sbom import SBOM
from sluice_deploy.template import read_template
from sluice_deploy.wheels import Host, Wheel, this_host

ENTRY = Path(__file__).resolve().parents[3] / "spark" / "ingest.py"
HOSTS = tuple(Host(python, processor) for processor in ("x86_64", "arm64") for python in JOB_PYTHONS)
HERE = replace(this_host(), architecture="x86_64")
UNCHECKED_HASH = 1  # flags of byte code, PEP 552
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
    packages = (
        "functions/sluice",
        "functions/sluice_aws",
        *("spark/sluice_spark" + part for part in ("", "/engine", "/run")),
    )
    for name, content in {
        **{f"{package}/__init__.py": "" for package in packages},
        "functions/sluice/lane/machine.py": "LANE = 1\n",
        "functions/admit/handler.py": "",
        "spark/ingest.py": ENTRY.read_text(),
        "spark/sluice_spark/engine/session.py": "class SparkProcess:\n    def session(self): print('Spark starts')\n",
        "spark/sluice_spark/run/driver.py": "drive, parse = lambda *_: print('it runs'), list\n",
        "spark/requirements.txt": "boto3==1\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (root / "functions/sluice/__pycache__").mkdir()
    (root / "functions/sluice/__pycache__/lane.cpython-311.pyc").write_bytes(b"compiled")

    def contents(requirements: Path, host: Host, cache: Path) -> dict[str, bytes]:
        return {**WHEELS, compiled(host): host.architecture.encode()}

    def wheels(requirements: Path, host: Host, cache: Path) -> tuple[Wheel, ...]:
        return Wheel("boto3-1-py3-none-any.whl", "b" * 64), fastavro_of(host)

    monkeypatch.setattr(release_module, "wheel_contents", contents)
    monkeypatch.setattr(release_module, "listed_wheels", wheels)
    return root


def compiled(host: Host) -> str:
    return f"fastavro/_read.cpython-{host.python.replace('.', '')}.so"


def fastavro_of(host: Host) -> Wheel:
    tag = f"cp{host.python.replace('.', '')}"
    file = f"fastavro-1.12.2-{tag}-{tag}-manylinux_2_28_{host.architecture}.whl"
    return Wheel(file, f"{host.architecture[0]}{host.python[-1]}" * 32)


def test_the_bill_of_materials_names_each_wheel_once_and_the_releases_files(sources: Path, tmp_path: Path) -> None:
    files = build_release(sources, HOSTS, tmp_path, None).files
    components = {component["bom-ref"]: component for component in json.loads(files[SBOM])["components"]}
    assert len([ref for ref in components if ref.startswith("pkg:pypi/boto3@1?")]) == 1
    assert len([ref for ref in components if ref.startswith("pkg:pypi/fastavro@1.12.2?")]) == len(HOSTS)
    assert set(components) - {ref for ref in components if ref.startswith("pkg:")} == set(files) - {MANIFEST, SBOM}


@pytest.mark.parametrize("python", [None, Path(sys.executable)], ids=["sources alone", "byte code"])
def test_the_same_sources_give_the_same_bytes_wherever_and_whenever(
    sources: Path, tmp_path: Path, python: Path | None
) -> None:
    first = build_release(sources, HOSTS, tmp_path / "one", python)
    for path in sources.rglob("*"):
        os.utime(path, (1, 1))
    assert build_release(sources, HOSTS, tmp_path / "two", python) == first


def test_a_changed_source_is_another_version(sources: Path, tmp_path: Path) -> None:
    first = build_release(sources, HOSTS, tmp_path, None)
    (sources / "functions/sluice/lane/machine.py").write_text("LANE = 2\n")
    second = build_release(sources, HOSTS, tmp_path, None)
    assert second.version != first.version
    changed = {name for name in first.files if first.files[name] != second.files[name]}
    assert changed == {"ingest.py", "sluice.zip", SBOM, MANIFEST}, "ingest.py knows the checksums of the others"


def test_the_zip_holds_what_the_job_imports_and_no_handler(sources: Path, tmp_path: Path) -> None:
    content = build_release(sources, HOSTS, tmp_path, None).files["sluice.zip"]
    assert zipfile.ZipFile(io.BytesIO(content)).namelist() == [
        *("sluice/__init__.py", "sluice/lane/machine.py", "sluice_aws/__init__.py", "sluice_spark/__init__.py"),
        *("sluice_spark/engine/__init__.py", "sluice_spark/engine/session.py"),
        *("sluice_spark/run/__init__.py", "sluice_spark/run/driver.py"),
    ]


def test_byte_code_of_every_source_is_where_python_looks_for_it(job: Path) -> None:
    with zipfile.ZipFile(job / "sluice.zip") as archive:
        sources = {name for name in archive.namelist() if name.endswith(".py")}
        code = {name: archive.read(name) for name in archive.namelist() if name not in sources}
    assert sources and set(code) == {name + "c" for name in sources}
    packed = {path.name: path.read_bytes() for path in (job / "environment/boto3/__pycache__").iterdir()}
    assert list(packed) == [f"__init__.{sys.implementation.cache_tag}.pyc"]
    flags = {int.from_bytes(content[4:8], "little") for content in (*code.values(), *packed.values())}
    assert flags == {UNCHECKED_HASH}


def test_a_python_of_another_version_compiles_the_sources_itself(job: Path) -> None:
    """As where an image has another interpreter than the one that the release was compiled for."""
    with zipfile.ZipFile(job / "sluice.zip") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files.update({name: b"\0\0\r\n" + content[4:] for name, content in files.items() if name.endswith(".pyc")})
    (job / "sluice.zip").write_bytes(zip_bytes(files))
    entry = job / "ingest.py"
    entry.write_text(re.sub(r"^CHECKSUMS = .*$", "CHECKSUMS = {}", entry.read_text(), flags=re.MULTILINE))
    assert started(job) == (0, "Spark starts\nit runs\n")


def test_every_processor_has_its_own_environment_of_the_services_that_a_job_reaches(
    sources: Path, tmp_path: Path
) -> None:
    files = build_release(sources, HOSTS, tmp_path, None).files
    for processor in ("x86_64", "arm64"):
        with tarfile.open(fileobj=io.BytesIO(files[f"environment-{processor}.tar.gz"])) as tar:
            of_botocore = ("endpoints.json", "s3/2006-03-01/service-2.json.gz")
            of_pythons = [compiled(Host(python, processor)) for python in JOB_PYTHONS]
            assert tar.getnames() == [
                "boto3/__init__.py",
                *(f"botocore/data/{name}" for name in of_botocore),
                *of_pythons,
            ]
            assert {tar.extractfile(name).read() for name in of_pythons} == {processor.encode()}


def test_a_job_has_the_models_of_every_service_that_its_role_may_call() -> None:
    role = read_template(source_root() / "template.yaml")["Resources"]["JobRole"]["Properties"]
    statements = [statement for policy in role["Policies"] for statement in policy["PolicyDocument"]["Statement"]]
    actions = re.findall(r"'([a-z0-9-]+):[A-Z]", repr([one["Action"] for one in statements if "Action" in one]))
    assert {"s3", "dynamodb", "secretsmanager"} <= set(actions) <= set(SERVICES)


def test_the_manifest_names_every_file_by_its_hash(sources: Path, tmp_path: Path) -> None:
    release = build_release(sources, HOSTS, tmp_path, None)
    manifest = json.loads(release.files[MANIFEST])
    assert manifest["version"] == release.version
    assert (manifest["sluice"], manifest["commit"]) == (distribution_version(), ""), "these sources are in no clone"
    assert set(manifest["files"]) == set(release.files) - {MANIFEST}
    write_release(release, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(release.files)


def test_a_clone_is_named_by_its_commit_and_by_what_differs_from_it(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        given = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org", *words]
        return subprocess.run(given, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "--quiet")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "--quiet", "--message", "x")
    commit = git("rev-parse", "HEAD")[:12]
    assert commit_of(tmp_path) == commit
    (tmp_path / "a").write_text("2")
    assert commit_of(tmp_path) == f"{commit}-dirty"


@pytest.fixture()
def job(sources: Path, tmp_path: Path) -> Path:
    """The work directory of a job, as EMR Serverless prepares it from a release."""
    release, directory = build_release(sources, (HERE,), tmp_path / "cache", Path(sys.executable)), tmp_path / "job"
    write_release(release, directory)
    with tarfile.open(directory / "environment-x86_64.tar.gz") as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11 has it from 3.11.4 on
        tar.extractall(directory / "environment")
    return directory


def started(job: Path, entry: str = "ingest.py", **environment: str) -> tuple[int, str]:
    """The exit status of the entry point, and what it printed."""
    path = os.pathsep.join(["./environment", str(job / "sluice.zip")])
    command = [sys.executable, entry, "--lane", "main"]
    environment = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run(command, cwd=job, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_job_runs_what_its_release_holds(job: Path) -> None:
    assert started(job) == (0, "Spark starts\nit runs\n")


def test_a_job_leaves_the_packages_as_they_were_for_the_next_one(job: Path) -> None:
    """On one machine jobs share what was unpacked, and each verifies it."""
    (job / "after.py").write_text("import boto3, sys; sys.argv[0] = 'ingest.py'; exec(open('ingest.py').read())\n")
    assert started(job, "after.py", PYTHONDONTWRITEBYTECODE="") == (0, "Spark starts\nit runs\n")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("sluice.zip", zip_bytes({"sluice/__init__.py": b"print('it runs')"})),
        ("environment/fastavro/_read.so", b"other"),
        ("environment/fastavro/added.py", b"print('it runs')"),
        ("environment/boto3/__pycache__/__init__.cpython-39.pyc", b"of another Python"),
        (f"environment/boto3/__pycache__/__init__.{sys.implementation.cache_tag}.pyc", b"other"),
    ],
    ids=["code", "package", "added file", "added byte code", "byte code"],
)
def test_a_job_runs_nothing_of_an_altered_release(job: Path, name: str, content: bytes) -> None:
    (job / name).write_bytes(content)
    status, printed = started(job)
    assert status == 1 and "ReleaseAltered" in printed and not {"it runs", "Spark starts"} & set(printed.splitlines())


def test_a_job_without_its_packages_runs_nothing(job: Path) -> None:
    (job / "environment").rename(job / "elsewhere")
    status, printed = started(job)
    assert status == 1 and "ReleaseAltered" in printed


class Bucket:
    """A bucket that remembers the order of its objects."""

    class exceptions:
        ClientError = ClientError

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.taken = b""  # what another deployment writes a moment earlier

    @property
    def keys(self) -> list[str]:
        return list(self.objects)

    def head_object(self, *, Bucket: str, Key: str, ChecksumMode: str) -> dict[str, Any]:
        if Key not in self.objects:
            raise answered(404)
        return {"ChecksumSHA256": base64.b64encode(hashlib.sha256(self.objects[Key]).digest()).decode()}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, ChecksumSHA256: str, IfNoneMatch: str) -> None:
        assert IfNoneMatch == "*" and ChecksumSHA256 == base64.b64encode(hashlib.sha256(Body).digest()).decode()
        self.objects[Key] = self.taken or Body
        if self.taken:
            raise answered(412)


def answered(status: int) -> ClientError:
    return ClientError({"Error": {}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutObject")


RELEASE = Release("v1", {MANIFEST: b"{}", "ingest.py": b"", "sluice.zip": b""})


def test_a_release_is_uploaded_once_and_its_manifest_last() -> None:
    bucket = Bucket()
    assert upload_release(RELEASE, bucket, "artifacts")
    assert bucket.keys == ["releases/v1/ingest.py", "releases/v1/sluice.zip", "releases/v1/release.json"]
    assert not upload_release(RELEASE, bucket, "artifacts")


def test_a_file_of_a_release_is_never_overwritten() -> None:
    bucket = Bucket()
    bucket.objects["releases/v1/sluice.zip"] = b"other"
    with pytest.raises(ReleaseDiffers):
        upload_release(RELEASE, bucket, "artifacts")
    assert bucket.objects["releases/v1/sluice.zip"] == b"other"


def test_of_two_deployments_at_once_the_second_compares_what_the_first_wrote() -> None:
    bucket = Bucket()
    bucket.taken = b"other"
    with pytest.raises(ReleaseDiffers):
        upload_release(RELEASE, bucket, "artifacts")


def test_archives_say_nothing_of_where_and_when_they_were_made() -> None:
    files = {"b": b"2", "a": b"1"}
    assert zip_bytes(files) == zip_bytes(dict(sorted(files.items())))
    assert tar_gz_bytes(files) == tar_gz_bytes(dict(sorted(files.items())))
    with tarfile.open(fileobj=io.BytesIO(tar_gz_bytes(files))) as tar:
        expected = [("a", 0, "", 315532800), ("b", 0, "", 315532800)]
        assert [(member.name, member.uid, member.uname, member.mtime) for member in tar.getmembers()] == expected


def test_only_sources_are_read(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "m.py").write_text("1")
    (tmp_path / "p" / "secret.env").write_text("2")
    assert read_tree(tmp_path, ("p",)) == {"p/m.py": b"1"}
