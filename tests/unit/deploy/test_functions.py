"""The functions' package: the same bytes from the same sources, byte code that is used, pinned libraries alone."""

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sluice_deploy import functions as functions_module
from sluice_deploy.functions import PARTS, SERVICES, build_functions
from sluice_deploy.release import source_root
from sluice_deploy.sbom import SBOM
from sluice_deploy.template import read_template
from sluice_deploy.wheels import Wheel, this_host

ROOT = source_root()
HERE = Path(sys.executable)
TEMPLATE = read_template(ROOT / "template.yaml")
WHEELS = {
    "boto3/__init__.py": b"names = {'b', 'a', 'c'}\n",
    "boto3-1.dist-info/RECORD": b"list",
    "botocore/data/endpoints.json": b"{}",
    "botocore/data/emr-serverless/2021-07-13/service-2.json.gz": b"emr",
    "botocore/data/ec2/2016-11-15/service-2.json.gz": b"ec2",
}
# Services that Lambda calls with a function's role, or that another service's call needs: no function has a client.
NOT_BY_CODE = {"ec2", "iam", "kms", "logs", "sqs", "xray"}
CHECK_SOURCE, BY_HASH = 0b10, 0b01  # flags of byte code, PEP 552


@pytest.fixture()
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone as small as one can be, and wheels without a network."""
    root = tmp_path / "clone"
    for name in ("requirements.txt", "admit/handler.py", "sluice/lane.py", "sluice_aws/__init__.py"):
        path = root / "functions" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("STATES = frozenset(('idle', 'running', 'halted'))\n")
    monkeypatch.setattr(functions_module, "wheel_contents", lambda *_: WHEELS)
    monkeypatch.setattr(functions_module, "listed_wheels", lambda *_: (Wheel("boto3-1-py3-none-any.whl", "b" * 64),))
    return root


def entries(package: bytes) -> dict[str, zipfile.ZipInfo]:
    return {entry.filename: entry for entry in zipfile.ZipFile(io.BytesIO(package)).infolist()}


def test_two_builds_of_the_same_sources_give_the_same_bytes(sources: Path, tmp_path: Path) -> None:
    first = build_functions(sources, this_host(), HERE, tmp_path / "one")
    for path in sources.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o755)
    assert build_functions(sources, this_host(), HERE, tmp_path / "two") == first
    assert build_functions(sources, this_host(), HERE, tmp_path / "one") == first, "and so does what was kept"


def test_every_source_has_byte_code_that_is_used_without_a_look_at_its_source(sources: Path, tmp_path: Path) -> None:
    package = build_functions(sources, this_host(), HERE, tmp_path)
    code = {name for name in entries(package) if name.endswith(".pyc")}
    assert len(code) == len([name for name in entries(package) if name.endswith(".py")])
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        assert {int.from_bytes(archive.read(name)[4:8], "little") for name in code} == {BY_HASH & ~CHECK_SOURCE}
        archive.extractall(tmp_path / "task")
    (tmp_path / "task/admit/handler.py").write_text("raise SystemExit('compiled again')\n")
    program = "import sys; sys.path[:0] = [sys.argv[1]]; import admit.handler; print(len(admit.handler.STATES))"
    done = subprocess.run([HERE, "-ISB", "-c", program, tmp_path / "task"], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("3", "")


def test_without_a_python_of_the_runtime_the_package_has_no_byte_code(sources: Path, tmp_path: Path) -> None:
    compiled = entries(build_functions(sources, this_host(), HERE, tmp_path))
    plain = entries(build_functions(sources, this_host(), None, tmp_path))
    assert set(plain) == {name for name in compiled if not name.endswith(".pyc")}


def test_the_package_has_the_models_of_the_called_services_and_a_bill_of_materials(
    sources: Path, tmp_path: Path
) -> None:
    package = build_functions(sources, this_host(), None, tmp_path)
    left_out = {"boto3-1.dist-info/RECORD", "botocore/data/ec2/2016-11-15/service-2.json.gz"}
    assert set(WHEELS) - set(entries(package)) == left_out
    (component,) = json.loads(zipfile.ZipFile(io.BytesIO(package)).read(SBOM))["components"]
    assert component["purl"] == "pkg:pypi/boto3@1?file_name=boto3-1-py3-none-any.whl"
    assert component["hashes"] == [{"alg": "SHA-256", "content": "b" * 64}]


def test_the_package_has_the_models_of_all_services_that_functions_may_call() -> None:
    roles = {name: one for name, one in TEMPLATE["Resources"].items() if one["Type"] == "AWS::IAM::Role"}
    of_functions = [one["Properties"] for name, one in roles.items() if "lambda.amazonaws.com" in str(one)]
    actions = re.findall(r"'([a-z0-9-]+):[A-Z][A-Za-z]+'", str([one["Policies"] for one in of_functions]))
    assert {"dynamodb", "pricing"} <= set(actions) and len(of_functions) == 6
    assert set(actions) - NOT_BY_CODE <= set(SERVICES)


def test_the_parts_are_the_packages_of_functions() -> None:
    assert set(PARTS) == {path.parent.name for path in (ROOT / "functions").glob("*/__init__.py")}


def test_the_template_deploys_the_package_that_make_build_writes() -> None:
    resources = TEMPLATE["Resources"].values()
    functions = [one["Properties"] for one in resources if one["Type"] == "AWS::Serverless::Function"]
    (made,) = {one["CodeUri"] for one in functions}
    assert f"--functions {made} " in (ROOT / "deploy" / "deploy.mk").read_text(encoding="utf-8")
    assert {one["Handler"].split(".")[0] for one in functions} <= set(PARTS)


@pytest.mark.parametrize("part", ["functions", "spark"])
def test_every_library_is_pinned_with_its_hashes(part: str) -> None:
    text = (ROOT / part / "requirements.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines and all(re.fullmatch(r"[a-z0-9-]+==\S+(\s+--hash=sha256:[0-9a-f]{64})+", line) for line in lines)
    names = {line.partition("==")[0] for line in lines}
    wanted = (ROOT / part / "requirements.in").read_text(encoding="utf-8").splitlines()
    assert names >= {re.match(r"[a-z0-9-]+", line)[0] for line in wanted if line and line[0] not in "#-"}
    if part == "functions":
        assert "boto3" in names and not names & {"cramjam", "fastavro", "aws-xray-sdk", "pytest", "moto"}
