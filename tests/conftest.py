"""What all tests share: markers and time limits by folder, the order of work, and the local stack."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent
MARKERS: Mapping[str, str] = {
    "spark": "spark",
    "integration": "integration",
    "faults": "fault",
    "job_permissions": "job_permissions",
}
TIMEOUT_S: Mapping[str, float] = {"integration": 300, "faults": 300, "job_permissions": 600}
# Tests that share the session's local stack run in one worker. What is long starts first; the last three end a run.
STACK = "the stack"
#: So do those that look at all sources, which one process reads once.
SOURCES = "the sources"
STACK_ORDER = ("test_judge.py", "", "test_rebuilt_table.py", "test_faults.py", "test_soak.py")
WITHOUT_THE_STACK = frozenset(
    {
        "test_demo.py",
        "test_documented_sam_commands.py",
        "test_distribution.py",
        "test_driver_dies.py",
        "test_executors.py",
        "test_least_privilege.py",
        "test_notices.py",
        "test_release_wheels.py",
        "test_runtime_interface.py",
    }
)
FOLDER_ORDER = ("spark", "integration", "faults", "job_permissions", "property", "emulated", "unit")


@pytest.fixture(autouse=True)
def no_named_stack() -> None:
    """Begin each test without a stack that a command line before named, as each call of `sluice` does."""
    options = sys.modules.get("sluice_cli.terminal.options")
    if options is not None:
        options.named_stack.set(None)


def pytest_configure() -> None:
    """Let no generated case fail for the load of the machine."""
    from hypothesis import settings

    settings.register_profile("sluice", deadline=None)
    settings.load_profile("sluice")
    gc.set_threshold(100_000, 20, 100)  # emulators and syntax trees are a million objects, which stay


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of all collections of garbage, but the last."""
    gc.freeze()


def pytest_unconfigure() -> None:
    """Have the last collection find what libraries count as leaked."""
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add each folder's marker and time limit, and put what shares a stack together, at the front."""
    from judging.patience import patient

    for item in items:
        folder = _place(item.path)[1].parts[0]
        if folder in MARKERS:
            item.add_marker(MARKERS[folder])
        if folder in TIMEOUT_S:
            limit = item.get_closest_marker("timeout")
            seconds = limit.args[0] if limit is not None else TIMEOUT_S[folder]
            item.add_marker(pytest.mark.timeout(patient(seconds)), append=False)
    items.sort(key=lambda item: _place(item.path)[0])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs what this machine lacks, before its fixtures are made."""
    absent = [name for mark in item.iter_markers("needs") for name in mark.args if not is_here(name)]
    if absent:
        pytest.skip(f"not on this machine: {', '.join(absent)}")


PACKAGE_INDEX = "the package index"


@cache
def is_here(name: str) -> bool:
    """True if this machine has what `pytest.mark.needs` names: a program, `python3.N`, Chromium, the package index."""
    from sluice_deploy.pythons import find_python
    from tools.status_pictures import browser

    if name == "chromium":
        return browser() is not None
    if name.startswith("python3."):
        return find_python(name.removeprefix("python"), os.environ) is not None
    if name == PACKAGE_INDEX:
        with TemporaryDirectory() as folder:
            pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", folder, "hatchling"]
            return subprocess.run(pip, capture_output=True, check=False).returncode == 0
    return shutil.which(name) is not None


@cache
def _place(path: Path) -> tuple[tuple[int, int], Path]:
    """Where the tests of a module come in a session, and the module's path in this folder."""
    file = path.relative_to(TESTS)
    if scope_of(file.as_posix()) == STACK:
        return (0, STACK_ORDER.index(file.name if file.name in STACK_ORDER else "")), file
    return (1, FOLDER_ORDER.index(file.parts[0]) if file.parts[0] in FOLDER_ORDER else len(FOLDER_ORDER)), file


def scope_of(path: str) -> str:
    """Tests of one scope run in one worker: those of a file, and all that share the local stack."""
    file = PurePosixPath(path)
    if {"integration", "faults"} & set(file.parts) and file.name not in WITHOUT_THE_STACK:
        return STACK
    return SOURCES if file.parts[:3] == ("tests", "unit", "docs") or file.name == "test_next_steps.py" else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With pytest-xdist: give workers whole scopes, in the order of collection."""
    from xdist.scheduler import LoadScopeScheduling

    class InScopes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid.partition("::")[0])

    config.option.loadscopereorder = False  # most tests first isn't longest first
    return InScopes(config, log)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session's local stack: emulator, stand-in, template, release. Tests configure topics of their own."""
    from judging.running_stack import local_stack

    with local_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running


@pytest.fixture
def sluice(capsys: pytest.CaptureFixture[str]) -> Any:
    """The command line: `sluice("status").out`, `sluice("put", name, code=2).err`, `sluice.json("history")`."""
    from support.command_line import CommandLine

    return CommandLine(capsys)
