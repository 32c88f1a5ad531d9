"""`sluice local`: what it needs before it starts, and what `down` discards is asked about once, in a terminal."""

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.builders import in_a_terminal

from sluice_aws.failures import NO_STACK
from sluice_cli.local import commands
from sluice_cli.main import run
from sluice_cli.terminal.run import installation_of
from sluice_local.emulators.ministack_program import ASKED, COMPLETE
from sluice_local.home import Description, Home

DESCRIPTION = Description(
    stack="sluice",
    region="us-east-1",
    endpoint="http://127.0.0.1:1001",
    emr_endpoint="http://127.0.0.1:1002",
    buckets=dict.fromkeys(("bronze", "silver", "artifacts"), "bucket"),
    ledger="ledger",
    credentials=dict.fromkeys(("access_key_id", "secret_access_key"), "local"),
    application_id="00f",
    release="v1",
    pids={},
)
OWNER = (
    "import sys, time; from pathlib import Path; from sluice_local.home import Home\n"
    "with Home(Path(sys.argv[1])).own(): print('owned', flush=True); time.sleep(60)"
)


@pytest.fixture
def owner(tmp_path, monkeypatch):
    """A process that owns the folder as a running stack does."""
    home = Home(tmp_path / ".sluice")
    home.path.mkdir()
    home.describe(DESCRIPTION)
    monkeypatch.setenv("SLUICE_HOME", str(home.path))
    with subprocess.Popen([sys.executable, "-c", OWNER, str(home.path)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"owned\n"
        yield process
        process.kill()


class Refusing(BaseHTTPRequestHandler):
    """An emulator that refuses what it is asked: an answer all the same."""

    def do_GET(self):
        self.send_error(403)

    def log_message(self, *given):
        pass


@pytest.fixture
def emulator():
    """The endpoint of a server that answers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_no_in_a_terminal_keeps_the_stack(owner, monkeypatch, capsys):
    asked = in_a_terminal(monkeypatch, False)
    assert run(["local", "down"]) == 1
    assert len(asked) == 1 and "discard its buckets, tables and ledger" in asked[0]
    assert owner.poll() is None and "Nothing was changed" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "questions"), [([], 1), (["--yes"], 0)], ids=["asked", "--yes"])
def test_a_yes_ends_the_stack_and_says_what_is_gone(owner, monkeypatch, capsys, arguments, questions):
    asked = in_a_terminal(monkeypatch, True)
    assert run(["local", "down", *arguments]) == 0
    assert len(asked) == questions and owner.wait(10) == -signal.SIGTERM
    assert "tables and ledger are gone" in capsys.readouterr().err


def test_without_a_terminal_nothing_is_discarded_unless_yes_is_given(owner, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert run(["local", "down"]) == 2
    assert owner.poll() is None and "Use --yes to go on without a question" in capsys.readouterr().err
    assert run(["local", "down", "--yes"]) == 0
    assert owner.wait(10) == -signal.SIGTERM and "are gone" in capsys.readouterr().err


def test_down_with_keep_asks_nothing_and_fails_where_nothing_was_kept(owner, monkeypatch, capsys):
    asked = in_a_terminal(monkeypatch, True)
    home = Home(Path(os.environ["SLUICE_HOME"]))
    assert run(["local", "down", "--keep"]) == 1  # this owner is no stack, and keeps nothing
    assert asked == [] and owner.wait(10) == -signal.SIGTERM and "was not kept" in capsys.readouterr().err
    (home.kept / ASKED).rename(home.kept / COMPLETE)
    assert home.kept_ports() == (1001, 1002), "the next start has the same addresses"
    assert run(["local", "down"]) == 0 and home.kept.exists()


def test_down_without_keep_discards_what_was_kept_before(owner, monkeypatch):
    in_a_terminal(monkeypatch, True)
    home = Home(Path(os.environ["SLUICE_HOME"]))
    home.ask_to_keep(DESCRIPTION)
    assert run(["local", "down", "--yes"]) == 0 and not home.kept.exists()


def test_an_emulator_that_keeps_nothing_is_not_ended_by_down_with_keep(owner, monkeypatch, capsys):
    home = Home(Path(os.environ["SLUICE_HOME"]))
    home.describe(replace(DESCRIPTION, emulator="LocalStack"))
    assert run(["local", "down", "--keep"]) == 2
    assert "LocalStack can't keep its data" in capsys.readouterr().err and owner.poll() is None


@pytest.mark.parametrize(
    ("bind", "warned"),
    [("127.0.0.1", False), ("0.0.0.0", True), ("172.17.0.1", True)],
    ids=["loopback", "everywhere", "one address"],
)
def test_a_stack_that_others_can_reach_is_warned_of(owner, emulator, tmp_path, capsys, bind, warned):
    Home(tmp_path / ".sluice").describe(replace(DESCRIPTION, bind=bind, endpoint=emulator))
    assert run(["local", "info", "--json"]) == 0
    assert (f"warning: the stack listens on {bind}" in capsys.readouterr().err) is warned


def test_a_stack_whose_emulator_was_killed_is_not_ready(owner, capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # and doesn't listen
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
        Home(Path(os.environ["SLUICE_HOME"])).describe(replace(DESCRIPTION, endpoint=endpoint))
        assert run(["local", "info"]) == NO_STACK
    shown = capsys.readouterr()
    error, step = shown.err.splitlines()
    assert shown.out == "" and error.endswith(f": nothing answers at {endpoint}")
    assert "`sluice local up`" in step


@pytest.fixture
def foreground(tmp_path, monkeypatch):
    """A stack in the foreground that gets Ctrl-C as soon as it is ready, and what happened in which order."""
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / ".sluice"))
    happened = []

    @contextmanager
    def stack(home, *given, progress, **more):
        home.path.mkdir(exist_ok=True)
        progress("Starting the emulator")
        yield SimpleNamespace(description=DESCRIPTION)
        if home.is_asked_to_keep():
            (home.kept / ASKED).rename(home.kept / COMPLETE)

    def interrupted(*given):
        raise KeyboardInterrupt

    lines = SimpleNamespace(say=lambda line: happened.append("spinner"), stop=lambda: happened.append("stop"))
    monkeypatch.setattr(commands, "local_stack", stack)
    monkeypatch.setattr(commands, "progress_lines", lambda: nullcontext(lines))
    monkeypatch.setattr(commands, "wait_for_end", interrupted)
    monkeypatch.setattr(commands, "_show", lambda *given, **more: happened.append("show"))
    monkeypatch.setattr(commands, "_push", lambda *given: happened.append("push"))
    return happened


def test_an_address_to_listen_on_is_checked_before_anything_starts(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    assert run(["local", "up", "--bind", "everywhere"]) == 2
    assert "everywhere is not an IPv4 address" in capsys.readouterr().err
    assert not (tmp_path / "home").exists()


@pytest.fixture
def nothing_starts(tmp_path, monkeypatch):
    def started(*given, **more):
        raise AssertionError("something was started")

    monkeypatch.setattr("sluice_local.stack.stack.start_emulator", started)
    monkeypatch.setattr("sluice_cli.local.commands._start_detached", started)
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("option", ["--port", "--emr-port"])
@pytest.mark.parametrize("words", [[], ["--detach"]], ids=" ".join)
def test_a_port_of_another_server_is_refused_before_anything_starts(option, words, emulator, nothing_starts, capsys):
    port = emulator.rpartition(":")[2]
    assert run(["local", "up", option, port, *words]) == 1
    error, step = capsys.readouterr().err.splitlines()
    assert error == f"error: Port {port} of 127.0.0.1 can't be listened on: Address already in use"
    assert step.startswith("next step: Name another port")


def test_data_is_not_restored_at_a_port_that_another_server_took(emulator, nothing_starts, capsys):
    home = Home(Path(os.environ["SLUICE_HOME"]))
    home.path.mkdir()
    home.ask_to_keep(replace(DESCRIPTION, endpoint=emulator))
    (home.kept / ASKED).rename(home.kept / COMPLETE)
    assert run(["local", "up"]) == 1
    assert f"Port {emulator.rpartition(':')[2]} of 127.0.0.1 can't be listened on" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["local", "up"], ["local", "up", "--detach"], ["demo"]], ids=" ".join)
def test_a_missing_extra_is_named_before_anything_starts(verb, nothing_starts, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ministack", None)
    assert run(verb) == 1
    error, hint = capsys.readouterr().err.splitlines()
    assert error == "error: This needs ministack, of the extra `local`" and hint.endswith(installation_of("local"))
    assert not (tmp_path / "home").exists()


def test_a_python_for_which_there_is_no_spark_is_refused(nothing_starts, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    assert run(["local", "up"]) == 1
    assert "error: Spark 3.5 doesn't run on Python 3.13" in capsys.readouterr().err
