"""`sluice local down`: what it discards is asked about once, in a terminal."""

import signal
import subprocess
import sys

import pytest
from builders import in_a_terminal

from sluice_cli.main import run
from sluice_local.home import Home

OWNER = (
    "import sys, time; from pathlib import Path; from sluice_local.home import Home\n"
    "with Home(Path(sys.argv[1])).own(): print('owned', flush=True); time.sleep(60)"
)


@pytest.fixture
def owner(tmp_path, monkeypatch):
    """A process that owns the folder as a running stack does."""
    home = Home(tmp_path / ".sluice")
    home.path.mkdir()
    home.file.write_text("{}")
    monkeypatch.setenv("SLUICE_HOME", str(home.path))
    with subprocess.Popen([sys.executable, "-c", OWNER, str(home.path)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"owned\n"
        yield process
        process.kill()


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


def test_a_script_is_not_asked(owner, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert run(["local", "down"]) == 0
    assert owner.wait(10) == -signal.SIGTERM and "are gone" in capsys.readouterr().err
