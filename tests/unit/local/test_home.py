"""A local stack's folder has one owner, and holds no description after the owner has exited."""

import subprocess
import sys
from pathlib import Path

import pytest

from sluice_bench.measure.ledger_times import await_until
from sluice_local.emr.spark_runner import verdict
from sluice_local.emulators.choose import Kind
from sluice_local.emulators.ministack_program import COMPLETE
from sluice_local.errors import AlreadyRunning, NotRunning
from sluice_local.home import Description, Home, chosen_home, running_home
from sluice_local.processes import bound_command, is_running
from sluice_local.stack.stack import kept_start

DESCRIPTION = Description(
    *("sluice", "us-east-1", "http://127.0.0.1:1", "http://127.0.0.1:2"),
    {"bronze": "b", "silver": "s", "artifacts": "a"},
    "ledger",
    {"access_key_id": "test", "secret_access_key": "test"},
    "00f",
    "v1",
    {"owner": 1, "emulator": 2},
)


def test_a_folder_is_owned_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with home.own():
        with pytest.raises(AlreadyRunning), home.own():
            pass
    with home.own():
        pass


def test_a_stacks_description_is_removed_with_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with home.own():
        home.describe(DESCRIPTION)
        assert home.description() == DESCRIPTION
        assert home.file.stat().st_mode & 0o077 == 0, "others can read the credentials"
    with pytest.raises(NotRunning):
        home.description()


def test_only_ministack_restores_what_a_stack_kept(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert kept_start(home, Kind.MINISTACK) == ((None, None), None)
    home.ask_to_keep(DESCRIPTION)
    (home.kept / COMPLETE).touch()
    ports, said = kept_start(home, Kind.MINISTACK)
    assert ports == (1, 2) and said is not None and said.startswith("Restoring the buckets")
    ports, said = kept_start(home, Kind.LOCALSTACK)
    assert ports == (None, None) and said is not None and said.startswith("Starting empty")


def test_a_file_left_by_a_killed_owner_describes_nothing(tmp_path: Path) -> None:
    program = (
        "import sys, os, signal; from pathlib import Path; from sluice_local.home import Home; h = "
        "Home(Path(sys.argv[1])); c = h.own(); c.__enter__(); h.file.write_text('{}'); os.kill(os.getpid(), "
        "signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, env={"PYTHONPATH": ":".join(sys.path)})
    home = Home(tmp_path)
    assert home.file.exists()
    assert home.owner() is None
    with pytest.raises(NotRunning):
        home.description()


def test_a_stack_is_found_from_the_folders_below_it(tmp_path: Path) -> None:
    below = tmp_path / "one" / "two"
    below.mkdir(parents=True)
    home = chosen_home({}, tmp_path)
    with home.own():
        assert running_home({}, below) == home
    assert running_home({}, below).path == below / ".sluice"


def test_a_bound_child_dies_with_a_killed_parent(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("the kernel's parent-death signal is Linux's")
    pid_file = tmp_path / "pid"
    child = (
        f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); print('up', flush=True); "
        f"time.sleep(60)"
    )
    program = (
        "import os, signal, subprocess, sys; from sluice_local.processes import bound_command; "
        f"p = subprocess.Popen(bound_command([sys.executable, '-c', {child!r}], parent=os.getpid()), "
        f"stdout=subprocess.PIPE); p.stdout.readline(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program], check=False, env={"PYTHONPATH": ":".join(sys.path)})
    await_until(lambda: not is_running(int(pid_file.read_text())), timeout_s=10, what="the end of the child")


def test_a_bound_child_whose_parent_has_exited_does_not_start() -> None:
    done = subprocess.run(
        bound_command([sys.executable, "-c", "print('ran')"], parent=1), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (-9, "The driver was killed (SIGKILL). The machine may have run out of memory"),
        (137, "The driver was killed (SIGKILL). The machine may have run out of memory"),
        (143, "The driver was ended by SIGTERM"),
        (1, "Job failed: the driver ended with status 1. Last of stderr: the end"),
    ],
)
def test_a_driver_that_a_signal_ended_is_reported_as_such_and_not_by_its_log(
    tmp_path: Path, status: int, words: str
) -> None:
    (tmp_path / "stderr").write_text("the end")
    assert verdict(status, tmp_path / "stderr") == ("FAILED", words)
