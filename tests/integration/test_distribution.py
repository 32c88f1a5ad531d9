"""The wheel in empty environments: it installs with few packages, and its command works without a clone."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from judging.patience import patient

from sluice_deploy.pythons import find_python
from sluice_deploy.release import BUNDLED, source_root

VERSIONS = ("3.10", "3.13")
MOST_PACKAGES = 30
HELP_S = 0.3  # on a quiet machine
MOMENTS = "from sluice_read.moments import instant_at as at; print(at('2026-05-01T10:15:00Z'), at('2026-05-01T10:15Z'))"

pytestmark = [pytest.mark.whole, pytest.mark.needs("the package index")]


def done(*command, cwd=None, seconds=60.0):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SLUICE_"))}
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=patient(seconds),
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    built = done(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, source_root(), seconds=200)
    assert built.returncode == 0, built.stderr[-300:]
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(
    scope="module", params=[pytest.param(version, marks=pytest.mark.needs(f"python{version}")) for version in VERSIONS]
)
def installed(request, wheel, tmp_path_factory):
    python = find_python(request.param, os.environ)
    folder = tmp_path_factory.mktemp("environment")
    assert done(python, "-m", "venv", folder).returncode == 0
    installation = done(folder / "bin/pip", "install", "--quiet", wheel, seconds=250)
    assert installation.returncode == 0, installation.stderr[-300:]
    return folder / "bin"


def test_the_wheel_holds_no_handler_as_a_package_and_every_project_file(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.startswith("sluice")} == set()
    assert f"{BUNDLED}/template.yaml" in names and f"{BUNDLED}/functions/admit/handler.py" in names
    assert all(f"{package}/py.typed" in names for package in ("sluice_cli", "sluice_read", "sluice_deploy"))
    assert "License-Expression: Apache-2.0" in metadata and "Provides-Extra: read" in metadata


def test_the_command_of_a_deployed_stack_needs_few_packages(installed):
    packages = done(installed / "pip", "list", "--format=freeze").stdout.splitlines()
    assert len(packages) <= MOST_PACKAGES, packages
    assert done(installed / "sluice", "--version").stdout.startswith("sluice ")


def test_help_comes_at_once(installed):
    spent = []
    for _ in range(3):
        before = os.times()
        assert done(installed / "sluice", "--help").returncode == 0
        after = os.times()
        spent.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(spent) < patient(HELP_S), spent


def test_a_project_is_written_and_its_functions_are_packed_without_a_clone(installed, tmp_path):
    assert done(installed / "sluice", "init", tmp_path / "lake").returncode == 0
    project = tmp_path / "lake"
    checked = done(installed / "sluice", "config", "check", "tables.yaml", cwd=project)
    assert checked.returncode == 0, checked.stderr
    packed = done(
        installed / "sluice", "package", "--functions", ".aws-sam/functions.zip", "--python", "3.13", cwd=project,
        seconds=200,
    )  # fmt: skip
    assert packed.returncode == 0, packed.stderr
    names = zipfile.ZipFile(project / ".aws-sam/functions.zip").namelist()
    assert {"admit/handler.py", "sluice/errors.py", "sluice_aws/clients.py", "boto3/__init__.py"} <= set(names)


def test_moments_are_read_on_every_python(installed):
    assert done(installed / "python", "-c", MOMENTS).stdout.split() == ["20260501101500000"] * 2


def test_a_verb_that_reads_names_its_extra(installed, tmp_path):
    refused = done(installed / "sluice", "--stack", "none", "query", "select 1", cwd=Path(tmp_path))
    assert refused.returncode == 1 and "'PATH[read]'" in refused.stderr
