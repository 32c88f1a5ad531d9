"""The choice of the emulator, and the Python that LocalStack needs."""

from pathlib import Path

import pytest

from sluice_local.emulators import localstack
from sluice_local.emulators.choose import Kind, chosen
from sluice_local.emulators.localstack import Pythons
from sluice_local.errors import NotInstalled


def python(folder, answer):
    """A program that says it is a Python of this version."""
    file = folder / answer.replace(" ", "-")
    file.write_text(f"#!/bin/sh\necho {answer}\n")
    file.chmod(0o755)
    return file


def test_a_stack_runs_on_ministack_unless_the_environment_names_the_other():
    expected = (Kind.MINISTACK, Kind.MINISTACK, Kind.LOCALSTACK)
    assert (chosen({}), chosen({"SLUICE_EMULATOR": ""}), chosen({"SLUICE_EMULATOR": "localstack"})) == expected


def test_localstack_listens_where_it_is_told_and_is_reached_from_this_machine(tmp_path):
    pythons = Pythons(Path("/a/python"), Path("/b/python"))
    settings = {
        bind: localstack._settings(pythons, tmp_path, bind, 4566, {}) for bind in ("127.0.0.1", "0.0.0.0", "172.17.0.1")
    }
    assert [(setting["GATEWAY_LISTEN"], setting["LOCALSTACK_HOST"]) for setting in settings.values()] == [
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
