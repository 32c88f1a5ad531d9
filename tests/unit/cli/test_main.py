"""The `sluice` command as a whole."""

import contextlib
import inspect
import io
import json
import os
import re
import signal
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
    found = json.loads(ended.stderr)
    assert found["codes"] == [0] * len(verbs) and "sluice_cli.main" in found["modules"]
    return set(found["modules"])


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


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no file without an end")
@pytest.mark.parametrize("verb", ["check", "import"])
def test_a_file_without_an_end_is_refused_by_its_beginning(verb, capsys):
    assert run(["config", verb, "/dev/zero"]) in (1, 2)
    assert "is larger than 1,000,000 bytes" in capsys.readouterr().err


def test_a_valid_file_is_said_to_be_valid(tmp_path, capsys):
    file = tmp_path / "tables.yaml"
    file.write_text("tables: [{topic: a.b, table: a.b, record_key: id, freshness: 1h}]")
    assert run(["config", "check", str(file)]) == 0
    assert re.fullmatch(
        rf"{re.escape(str(file))} is valid: 1 rule, 1 lane \(main\), version \w+\n", capsys.readouterr().out
    )


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


def test_a_file_whose_name_is_no_text_is_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "\udcff.yaml").write_text("tables: [{topic: a.b, table: a.b, record_key: id}]")
    assert run(["config", "check", "\udcff.yaml"]) == 0


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_a_statement_of_stdin_that_is_no_text_is_refused(errors, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"select '\xff'"), "utf-8", errors))
    monkeypatch.setattr("sluice_cli.tables.query.chosen_target", lambda stack: None)
    assert run(["query", "-"]) == 2
    assert capsys.readouterr().err.startswith("error: The statement is not UTF-8\nnext step: Save it in UTF-8")


def test_options_of_a_table_are_refused_for_a_statement(capsys):
    assert run(["query", "select 1", "--limit", "3"]) == 2
    assert "error: --column and --limit need a table" in capsys.readouterr().err


def test_a_dry_run_and_values_have_one_name_in_every_help(capsys):
    options = []
    for path, _ in paths(built()):
        assert run([*path, "--help"]) == 0
        options.append(" ".join(capsys.readouterr().out.split()).partition("Options: ")[2])
        assert not re.search(r"<(?:int|float|str|path)\b", options[-1]), path
    assert len({text.partition("--dry-run ")[2].partition(".")[0] for text in options if "--dry-run" in text}) == 1


def test_help_loads_no_module_of_any_verb():
    modules = loaded_by_help_of([])
    assert not modules & (HEAVY | {verb.where.partition(":")[0] for verb in (VERBS | OPS).values()})
    assert len(modules) < 350


@pytest.mark.long
def test_help_of_any_verb_loads_no_sdk_and_no_reader():
    assert not loaded_by_help_of(*([verb] for verb in VERBS), *(["ops", verb] for verb in OPS)) & HEAVY


def test_version_says_which_distribution_is_installed():
    done = subprocess.run(
        [sys.executable, "-c", "from sluice_cli.main import main; main()", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("sluice ") and done.stderr == ""


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
    done = subprocess.run(
        [sys.executable, "-c", without + EVERY_VERB, str(tmp_path / "tables.yaml")],
        capture_output=True,
        text=True,
        timeout=60,
    )
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
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_BY, module],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "SLUICE_HOME": str(tmp_path), "SLUICE_STACK": ""},
    )
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (130, ["Interrupted"]), done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 1


ASKING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from sluice_cli.main import main
main(["init", sys.argv[1]])
"""


def test_ctrl_c_at_a_question_ends_with_130_and_one_line(tmp_path):
    assert run(["init", str(tmp_path / "project")]) == 0
    (tmp_path / "project" / "Makefile").write_text("all:\n")
    ours, theirs = os.openpty()
    asking = subprocess.Popen(
        [sys.executable, "-c", ASKING, str(tmp_path / "project")], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while not shown.endswith(b"[y/N]: "):
            shown += os.read(ours, 1024)
        while asking.poll() is None:  # a signal between the question and its read is seen only with the next one
            asking.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                asking.wait(1)
        assert asking.returncode == 130
        shown += os.read(ours, 1024)
    finally:
        asking.kill()
        asking.wait()
        os.close(ours)
    assert shown.split()[-1] == b"Interrupted" and b"Aborted" not in shown


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


def test_a_picture_of_the_demonstration_that_has_no_folder_is_refused_at_once(tmp_path, capsys):
    for picture in (tmp_path / "none" / "x.svg", tmp_path):
        assert run(["demo", "--svg", str(picture)]) == 2
        assert "can't be written: it is a folder, or lies in none that exists" in capsys.readouterr().err
