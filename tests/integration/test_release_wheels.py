"""The archives of wheels are for the job's Python and each processor, and the functions' package is whole."""

import io
import os
import re
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from judging.patience import patient

from sluice_deploy.functions import build_functions
from sluice_deploy.pythons import find_python
from sluice_deploy.release import JOB_PYTHONS, build_release, source_root
from sluice_deploy.wheels import Host, this_host
from sluice_local.cache import cache_directory

HOSTS = tuple(Host(python, processor) for processor in ("x86_64", "arm64") for python in JOB_PYTHONS)
pytestmark = pytest.mark.needs("the package index")
COMPILER = find_python(JOB_PYTHONS[0], os.environ)
MACHINES = {"x86_64": 62, "arm64": 183}  # ELF's e_machine: EM_X86_64, EM_AARCH64
TAG = {"x86_64": "x86_64", "arm64": "aarch64"}


@pytest.fixture(scope="module")
def release():
    return build_release(source_root(), HOSTS, cache_directory(os.environ), COMPILER)


def members(release, host):
    with tarfile.open(fileobj=io.BytesIO(release.files[f"environment-{host.architecture}.tar.gz"])) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar.getmembers() if member.isfile()}


@pytest.mark.whole
@pytest.mark.parametrize("host", HOSTS, ids=lambda host: f"{host.architecture}-{host.python}")
def test_every_library_is_for_the_archives_processor_and_the_jobs_python(release, host):
    files = members(release, host)
    libraries = {name: content for name, content in files.items() if content[:4] == b"\x7fELF"}
    own = f".cpython-{host.python.replace('.', '')}-"
    for package in ("fastavro/_read", "cramjam/cramjam"):
        assert any(name.startswith(f"{package}{own}") for name in libraries), package
    for name, content in libraries.items():
        assert struct.unpack_from("<H", content, 18)[0] == MACHINES[host.architecture], name
        assert re.search(r"\.(cpython-39-|cpython-311-|abi3\.)|\.libs/", name), name


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: f"{host.architecture}-{host.python}")
def test_every_wheel_says_by_its_tag_that_it_runs_there(release, host):
    for name, content in members(release, host).items():
        if name.endswith(".dist-info/WHEEL"):
            tags = re.findall(r"^Tag: (\S+)-(\S+)-(\S+)", content.decode(), re.MULTILINE)
            assert any(
                platform == "any"
                and "py3" in python.split(".")
                or python in ("cp39", "cp311", "py3", "cp38", "cp37")
                and platform.startswith("manylinux")
                and platform.endswith(TAG[host.architecture])
                for python, _, platform in tags
            ), (name, tags)


def test_the_same_inputs_give_the_same_bytes_without_what_was_kept(release, tmp_path):
    wheels = cache_directory(os.environ) / "wheels"
    (tmp_path / "wheels").symlink_to(wheels)  # what was downloaded is an input
    again = build_release(source_root(), HOSTS, tmp_path, COMPILER)
    assert (again.version, again.files) == (release.version, release.files)


@pytest.fixture(scope="module")
def package():
    return build_functions(source_root(), this_host(), Path(sys.executable), cache_directory(os.environ))


def test_the_functions_package_is_the_same_for_every_processor_and_has_no_tests(package):
    names = zipfile.ZipFile(io.BytesIO(package)).namelist()
    assert not [name for name in names if name.endswith((".so", ".dylib", ".pyd"))]
    assert not [name for name in names if {"test", "tests", "conftest.py"} & set(name.split("/"))]


def test_every_handler_imports_from_the_package_alone(package, tmp_path):
    zipfile.ZipFile(io.BytesIO(package)).extractall(tmp_path)
    handlers = sorted(path.parent.name for path in tmp_path.glob("*/handler.py"))
    program = f"import sys; sys.path.insert(0, sys.argv[1])\nimport {', '.join(f'{name}.handler' for name in handlers)}"
    program += "\nfrom botocore.session import get_session\nmodel = get_session().get_service_model('emr-serverless')"
    program += "\nprint('executionIamPolicy' in model.operation_model('StartJobRun').input_shape.members)"
    done = subprocess.run(
        [sys.executable, "-ISB", "-c", program, tmp_path], capture_output=True, text=True, timeout=patient(60)
    )
    assert (done.stdout.strip(), done.stderr) == ("True", "") and len(handlers) == 6
