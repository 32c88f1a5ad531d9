"""The `sluice` command as a whole."""

import inspect
import json
import os
import re
import subprocess
import sys

import pytest
import typer.main

from sluice_cli.main import run
from sluice_cli.terminal.run import run_command
from sluice_cli.verbs import MOVED, OPS, VERBS, app, built

LOADED_BY = """
import json, sys
from sluice_cli.main import run
codes = [run([*words, "--help"]) for words in json.loads(sys.argv[1])]
print(json.dumps({"codes": codes, "modules": sorted(sys.modules)}), file=sys.stderr)
"""
# As on Windows: what Python there doesn't have.
WITHOUT_UNIX = """
import sys
for name in ("fcntl", "resource", "pty", "termios", "tty", "pwd", "grp", "readline", "curses", "_curses"):
    sys.modules[name] = None
"""
# As after `pip install .`, without extras.
WITHOUT_EXTRAS = """
import sys
from sluice_cli.terminal.run import PARTS
for name in PARTS:
    sys.modules[name] = None
"""
EVERY_VERB = """
from sluice_cli.main import run
from sluice_cli.verbs import built
groups = (built(), built().commands["ops"])
verbs = [verb for group in groups for verb in group.commands.values()]
print(len(verbs), run(["--version"]), run(["config", "check", sys.argv[1]]))
"""
MODULES_OF_A_VERB = 275  # beside those of the help of `sluice`; half of them are the core's and Typer's
HEAVY = {"boto3", "duckdb", "hudi", "numpy", "pandas", "pyarrow", "sluice_cli.config.model"}


def loaded_by_help_of(*verbs):
    ended = subprocess.run(
        [sys.executable, "-c", LOADED_BY, json.dumps(verbs)], capture_output=True, text=True, timeout=60, check=True
    )
    content = json.loads(ended.stderr)
    assert content["codes"] == [0] * len(verbs) and "sluice_cli.main" in content["modules"]
    return set(content["modules"])


def paths(command, *path):
    yield path, command
    for name in getattr(command, "commands", {}):
        yield from paths(command.commands[name], *path, name)


def test_help_shows_no_types_and_cuts_no_summary(capsys):
    for path, _ in paths(built()):
        assert run([*path, "-h"]) == 0
        text = capsys.readouterr().out
        assert not re.search(r"<(list|str|int|float|path|bool)|\[\[|\{[A-Z]", text.partition("Examples:")[0]), path
        assert "..." not in text.partition("Commands:")[2], path


def test_the_list_of_all_verbs_is_short_and_ends_with_the_exit_codes(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert run([]) == 2
    shown = "".join(capsys.readouterr())
    verbs, _, codes = shown.partition("Exit codes: ")
    assert len(shown.splitlines()) < 95
    unlisted = [name for name in VERBS if f"\n  {name} " not in verbs]
    assert unlisted == [name for name in VERBS if VERBS[name].hidden] and len(VERBS) - len(unlisted) <= 25
    assert codes.startswith("0 success") and codes.rstrip().endswith("3 and 4.")
    assert "  row         Show the life of one row\n" in verbs


def test_examples_stand_in_the_help_in_lines_that_can_be_copied(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    for path, command in paths(built()):
        written = [line for line in (command.help or "").splitlines() if line.startswith("  ")]
        assert run([*path, "--help"]) == 0
        shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
        assert [line for line in written if line.strip() not in shown] == [], path
        assert shown[0].count("[") == shown[0].count("]"), path


@pytest.mark.long
def test_help_fits_in_80_columns_but_for_a_single_long_command(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    long = []
    for path, command in paths(built()):
        assert run([*path, "--help"]) == 0
        examples = {line.strip() for line in (command.help or "").splitlines() if line.startswith("  ")}
        shown = capsys.readouterr().out.splitlines()
        long += [line.strip() for line in shown if len(line) > 80 and (line.strip() not in examples or " | " in line)]
    assert long == []


def test_a_file_that_is_not_there_is_named_without_a_traceback(tmp_path, capsys):
    missing = tmp_path / "nowhere" / "tables.yaml"
    assert run(["config", "check", str(missing)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"error: {missing} can't be read: No such file or directory"
    assert said[1].startswith("next step: ")

    def reads():
        missing.read_bytes()

    assert run_command(lambda **how: reads()) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"error: {missing} can't be read or written: No such file or directory"
    assert said[1].startswith("next step: ") and len(said) == 2


def test_a_file_in_another_encoding_is_refused_with_the_place(tmp_path, capsys):
    file = tmp_path / "tables.yaml"
    file.write_bytes("tables: []\n# gr\u00fcn".encode("latin-1"))
    assert run(["config", "check", str(file)]) == 2
    assert "tables.yaml can't be read: it is not UTF-8 at line 2, column 5" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ops", "runs", "--limit", "0"], "Invalid value for '--limit'"),
        (["table", "ddl", "crm.user", "--engine", "x"], "'x' is not one of 'spark', 'redshift', 'athena'"),
        (["wait", "--timeout", "soon"], "soon is not a duration"),
        (["table", "accept"], "Missing argument 'TABLE'"),
        (["nosuch"], "No such command 'nosuch'"),
        (["status", "--json=yes"], "Option '--json' does not take a value"),
        (["wait", "--timeout", ""], "'' is not a duration"),
        (["row", "crm.user", "-5"], "Put `--` before values that begin with a dash"),
        (["--json", "status"], "No such option"),
    ],
)
def test_a_mistake_of_the_command_line_reads_as_other_errors_do(words, said, capsys):
    assert run(words) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: ") and said in first
    assert re.fullmatch("next step: `sluice.* --help` shows what can be given", second)


@pytest.mark.parametrize(
    "words",
    [["trace", "\udcff"], ["row", "crm.user", "\udcff"], ["query", "select '\udcff'"], ["serve", "--host=\udcff"]],
)
def test_an_argument_that_is_no_text_is_refused_before_anything_is_done(words, capsys):
    assert run(words) == 2
    shown = words[-1].replace("\udcff", "\\udcff")
    step = "Correct it, or set a locale such as LC_ALL=C.UTF-8"
    assert capsys.readouterr().err == f"error: '{shown}' is not UTF-8\nnext step: {step}\n"


def test_help_loads_no_module_of_any_verb():
    modules = loaded_by_help_of([])
    assert not modules & (HEAVY | {f"sluice_cli.{verb.where.split(':')[0]}" for verb in (VERBS | OPS).values()})
    assert len(modules) < 350


@pytest.mark.long
def test_help_of_any_verb_loads_no_sdk_and_no_reader():
    assert not loaded_by_help_of(*([verb] for verb in VERBS), *(["ops", verb] for verb in OPS)) & HEAVY


def test_the_summary_of_a_verb_begins_its_own_help():
    commands = typer.main.get_command(app).commands
    for name, command in (*commands.items(), *commands["ops"].commands.items()):
        paragraph = inspect.cleandoc(command.help).split("\n\n")[0]
        assert " ".join(paragraph.split()) == (VERBS | OPS)[name].summary, name


@pytest.mark.parametrize("name", MOVED)
def test_an_earlier_name_of_a_verb_works_with_a_note_on_stderr(name, capsys):
    assert run([*MOVED[name].split(), "--help"]) == 0
    now = capsys.readouterr()
    assert run([name, "--help"]) == 0 and name not in VERBS
    assert capsys.readouterr() == (now.out, f"`sluice {name}` is now `sluice {MOVED[name]}`\n")


@pytest.mark.parametrize("without", [WITHOUT_UNIX, WITHOUT_EXTRAS], ids=["Unix", "extras"])
@pytest.mark.long
def test_every_verb_loads_without_what_a_machine_may_lack(without, tmp_path):
    (tmp_path / "tables.yaml").write_text("tables: [{topic: a.b, table: a.b, record_key: id}]")
    command = [sys.executable, "-c", without + EVERY_VERB, str(tmp_path / "tables.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1:] == [f"{len(VERBS) + len(OPS)} 0 0"], done.stderr


# Sends SIGINT, as Ctrl-C does, when a module is imported.
INTERRUPTED_BY = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, *more):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupt())
from sluice_cli.main import main
main(["status"])
"""


@pytest.mark.parametrize("module", ["typer", "sluice_cli.verbs", "sluice_cli.status.status", "boto3"])
@pytest.mark.long
def test_ctrl_c_during_an_import_ends_with_130_and_one_line(module, tmp_path):
    (tmp_path / "local.json").write_text("{}")
    env = {**os.environ, "SLUICE_HOME": str(tmp_path), "SLUICE_STACK": ""}
    command = [sys.executable, "-c", INTERRUPTED_BY, module]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (130, ["Interrupted"]), done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 1


# Counts, in a process of its own for each verb, the modules that its help imports beside those of the root's.
COUNTED_BY = """
import contextlib, io, json, os, sys
from sluice_cli.main import run
from sluice_cli.verbs import OPS, VERBS
with contextlib.redirect_stdout(io.StringIO()):
    run(["--help"])
before, counts = len(sys.modules), {}
for verb in (*VERBS, *(f"ops {name}" for name in OPS)):
    read, write = os.pipe()
    if os.fork() == 0:
        with contextlib.redirect_stdout(io.StringIO()):
            run([*verb.split(), "--help"])
        os.write(write, str(len(sys.modules) - before).encode())
        os._exit(0)
    os.wait()
    counts[verb] = int(os.read(read, 20))
print(json.dumps(counts))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="counts in forked processes")
@pytest.mark.whole  # a process for each verb
def test_help_of_a_verb_imports_few_modules():
    done = subprocess.run([sys.executable, "-c", COUNTED_BY], capture_output=True, text=True, timeout=60, check=True)
    counts = json.loads(done.stdout.splitlines()[-1])
    assert len(counts) == len(VERBS) + len(OPS)
    assert {verb: count for verb, count in counts.items() if count > MODULES_OF_A_VERB} == {}
