"""The choice of the emulator, and the Python that LocalStack needs."""

from pathlib import Path

import pytest

from sluice_deploy import pythons
from sluice_local.emulators import localstack
from sluice_local.emulators.choose import Kind, chosen
from sluice_local.emulators.localstack import Pythons, find_python313
from sluice_local.errors import NoPython313, NotInstalled, UnknownEmulator


def python(folder, answer):
    """A program that says it is a Python of this version."""
    file = folder / answer.replace(" ", "-")
    file.write_text(f"#!/bin/sh\necho {answer}\n")
    file.chmod(0o755)
    return file


def test_a_stack_runs_on_ministack_unless_the_environment_names_the_other():
    assert (chosen({}), chosen({"SLUICE_EMULATOR": ""}), chosen({"SLUICE_EMULATOR": "localstack"})) == (
        Kind.MINISTACK,
        Kind.MINISTACK,
        Kind.LOCALSTACK,
    )


def test_an_emulator_that_nobody_knows_is_refused_with_those_that_are_known():
    with pytest.raises(UnknownEmulator, match="'moto', which is not one of ministack, localstack"):
        chosen({"SLUICE_EMULATOR": "moto"})


def test_localstacks_python_is_the_one_that_answers_as_3_13_wherever_it_lies(tmp_path):
    home = {"HOME": str(tmp_path), "PATH": str(tmp_path)}
    old, right = python(tmp_path, "3.11"), python(tmp_path, "3.13")
    right.write_text(right.read_text() + '[ "$1" = -I ] || exit 1  # what PYTHONPATH names may be another version\'s\n')
    assert find_python313({**home, "SLUICE_PYTHON_313": str(right)}) == right
    with pytest.raises(NoPython313, match="uv python install 3.13") as refused:
        find_python313({**home, "SLUICE_PYTHON_313": str(old)})
    assert refused.value.facts["looked_at"] == [
        "SLUICE_PYTHON_313",
        "python3.13 on PATH",
        str(tmp_path / ".pyenv" / "versions"),
        "uv",
    ]
    installed = tmp_path / ".pyenv" / "versions" / "3.13.2" / "bin"
    installed.mkdir(parents=True)
    right.rename(installed / "python")
    assert find_python313(home) == installed / "python"


def test_a_python_that_does_not_print_its_version_in_time_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(pythons, "ANSWER_SECONDS", 0.01)
    silent = python(tmp_path, "silent")
    silent.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    with pytest.raises(NoPython313) as refused:
        find_python313({"HOME": str(tmp_path), "PATH": str(tmp_path), "SLUICE_PYTHON_313": str(silent)})
    assert refused.value.facts["looked_at"][0] == "SLUICE_PYTHON_313" and len(refused.value.facts["looked_at"]) == 4


def test_localstack_listens_where_it_is_told_and_is_reached_from_this_machine(tmp_path):
    pythons = Pythons(Path("/a/python"), Path("/b/python"))
    settings = {
        bind: localstack._settings(pythons, tmp_path, bind, 4566, {}) for bind in ("127.0.0.1", "0.0.0.0", "172.17.0.1")
    }
    assert [(each["GATEWAY_LISTEN"], each["LOCALSTACK_HOST"]) for each in settings.values()] == [
        ("127.0.0.1:4566", "127.0.0.1:4566"),
        ("0.0.0.0:4566", "127.0.0.1:4566"),
        ("172.17.0.1:4566", "172.17.0.1:4566"),
    ]


def test_packages_are_built_without_the_modules_of_this_python(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "${PYTHONPATH-none} ${PYTHONHOME-none} $*" >> "$0.log"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PYTHONHOME", "/elsewhere")
    localstack._install(python, "cbor2")
    assert (tmp_path / "python.log").read_text().startswith("none none -I -m pip install ")
    python.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(NotInstalled, match="pip ended with 3"):
        localstack._install(python, "cbor2")
