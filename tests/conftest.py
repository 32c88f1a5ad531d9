"""What all tests share: markers and time limits by folder, the order of work, the local stack, and AWS's service models."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import botocore.session
import botocore.useragent
import pytest
import typer.main

TESTS = Path(__file__).resolve().parent
MARKERS: Mapping[str, str] = {
    "spark": "spark",
    "integration": "integration",
    "faults": "fault",
    "job_permissions": "job_permissions",
}
TIMEOUT_S: Mapping[str, float] = {"integration": 300, "faults": 300, "job_permissions": 600}
# Tests that share the session's local stack run in one worker. What is long starts first; the last two end a run.
STACK = "the stack"
STACK_ORDER = ("test_judge.py", "", "test_rebuilt_table.py", "test_driver_killed.py")
WITHOUT_THE_STACK = frozenset(
    {
        "test_demo.py",
        "test_documented_sam_commands.py",
        "test_driver_dies.py",
        "test_least_privilege.py",
        "test_notices.py",
        "test_release_wheels.py",
        "test_runtime_interface.py",
    }
)
FOLDER_ORDER = ("spark", "integration", "faults", "job_permissions", "property", "emulated", "unit")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add each folder's marker and time limit, and put what shares a stack together, at the front."""
    from judging.patience import patient

    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in MARKERS:
            item.add_marker(MARKERS[folder])
        if folder in TIMEOUT_S:
            limit = item.get_closest_marker("timeout")
            seconds = limit.args[0] if limit is not None else TIMEOUT_S[folder]
            item.add_marker(pytest.mark.timeout(patient(seconds)), append=False)
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[int, int]:
    """Where a test comes in a session; tests of one place keep their order."""
    file = item.path.relative_to(TESTS)
    if scope_of(file.as_posix()) == STACK:
        return 0, STACK_ORDER.index(file.name if file.name in STACK_ORDER else "")
    return 1, FOLDER_ORDER.index(file.parts[0]) if file.parts[0] in FOLDER_ORDER else len(FOLDER_ORDER)


def scope_of(path: str) -> str:
    """Tests of one scope run in one worker: those of a file, and all that share the local stack."""
    file = PurePosixPath(path)
    shares = {"integration", "faults"} & set(file.parts) and file.name not in WITHOUT_THE_STACK
    return STACK if shares else path


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
    """The session's local stack: emulator, stand-in, deployed template, release. Tests configure topics of their own."""
    from judging.running_stack import local_stack

    with local_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running


def pytest_sessionstart() -> None:
    """Collect no garbage during imports: what is imported stays."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the collector from going through what was imported again and again."""
    if "hypothesis" not in sys.modules:  # its plugin would import it at the end, to report on no tests
        session.config.pluginmanager.unregister(name="hypothesispytest")
    gc.freeze()
    atexit.register(_let_go)
    gc.set_threshold(100_000, 50, 50)
    gc.enable()


def _let_go() -> None:
    """Skip the collection at exit; the process ends anyway."""
    gc.unfreeze()
    gc.disable()


@pytest.fixture(scope="session", autouse=True)
def command_line_built_once() -> Iterator[None]:
    """Build the command line once. Typer builds it for each command, and a test process runs many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", lru_cache(maxsize=None)(typer.main.get_command))
        yield


@pytest.fixture(scope="session", autouse=True)
def service_models_read_once() -> Iterator[None]:
    """Share one loader of service models. Reading them again costs more than most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", lru_cache(maxsize=None)(botocore.session.create_loader))
        # Built for every request, at a tenth of its cost.
        patch.setattr(botocore.useragent.UserAgentString, "to_string", lambda self: "tests")
        yield
