"""No text of others steers a terminal, whichever way it is printed."""

import io
import json
import re
import subprocess
import sys
import unicodedata
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from sluice_cli.main import main, run
from sluice_cli.terminal.guard import escaped, escaping_console, guarded_output, json_escaped, shell_text, visible
from sluice_cli.terminal.interaction import ask
from sluice_cli.terminal.output import print_json, say
from sluice_cli.terminal.rows import Form, write_csv, write_rows
from sluice_cli.terminal.tables import print_table

ROOT = Path(__file__).resolve().parents[4]
STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
JOINERS = {"\u200c", "\u200d"}
HOSTILE = "\x1b]0;owned\x07\x9b31m\u202e\u2066\x7f\u2028\ufeff\U000e0041\b\rend"
TEXTS = st.text(alphabet=st.one_of(st.sampled_from(HOSTILE), st.characters(exclude_categories=["Cs"])), max_size=60)


def steering(text, allowed="\n\t"):
    """The characters of a text that could steer a terminal."""
    return {mark for mark in text if unicodedata.category(mark) in STEERING and mark not in JOINERS.union(allowed)}


@pytest.mark.long
@pytest.mark.parametrize("shell", [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("bash", "zsh")])
@pytest.mark.parametrize(
    "word", ["a\x07b", "it's a\\b\x1b1", "\u202e1é\n\t", "\x85f\U000e0041", "plain b'c", "\udcff0", ""]
)
def test_a_shell_reads_back_the_word_of_a_command_that_is_shown(shell, word):
    shown = shell_text([word, "end"])
    assert visible(shown) == shown
    read = subprocess.run([shell, "-c", f"printf '%s|' {shown}"], capture_output=True, check=True).stdout
    assert read == word.encode("utf-8", "surrogateescape") + b"|end|"


@pytest.mark.long
def test_exactly_what_unicode_calls_control_or_format_is_escaped():
    unassigned = {"Cn"}  # of this Python's Unicode; newer ones may know them
    for code in range(sys.maxunicode + 1):
        mark, changed = chr(code), escaped(chr(code)) != chr(code)
        steers = bool(steering(mark))
        assert changed == steers or (changed and unicodedata.category(mark) in unassigned), hex(code)


@given(TEXTS)
def test_a_field_is_one_line_and_text_keeps_its_lines(text):
    assert steering(visible(text), allowed="") == set() == steering(escaped(text))
    assert escaped(text).count("\n") == text.count("\n")


@given(st.dictionaries(TEXTS, st.one_of(TEXTS, st.none(), st.lists(TEXTS, max_size=2)), max_size=4))
def test_json_is_escaped_and_reads_back_unchanged(document):
    for indent in (None, 2):
        text = json_escaped(json.dumps(document, ensure_ascii=False, indent=indent))
        assert json.loads(text) == document and steering(text) == set()


class Terminal(io.StringIO):
    """A terminal that knows no styles."""

    def isatty(self):
        return True


def rows_of(*texts):
    batch = pa.RecordBatch.from_arrays([pa.array(texts), pa.array([[text] for text in texts])], names=["a\x1b", "b"])
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


WAYS = {
    "print": lambda text: print(text, file=sys.stdout),
    "stderr": lambda text: sys.stderr.writelines([text, text]),
    "say": say,
    "json": lambda text: print_json({text: [text]}),
    "table": lambda text: print_table(("a", text), [(text, "b")], right=(1,)),
    "rows": lambda text: write_rows(rows_of(text), Form()),
    "json lines": lambda text: write_rows(rows_of(text), Form(json_lines=True)),
    "spreadsheet": lambda text: write_rows(rows_of(text), Form(spreadsheet=True)),
    "console": lambda text: escaping_console().print(text, Panel(text), Text(text)),
    "line beside a spinner": lambda text: beside_a_spinner(text),
}


def beside_a_spinner(text):
    with escaping_console(stderr=True).status(text) as status:
        status.update(text)
        say(text)


@pytest.mark.parametrize("stream", [io.StringIO, Terminal], ids=["pipe", "terminal"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_way_of_printing_lets_a_control_character_through(monkeypatch, stream, way):
    monkeypatch.setenv("TERM", "dumb")  # rich's own sequences aside

    @given(TEXTS)
    @example(HOSTILE)
    def printed(text):
        out, err = stream(), stream()
        with redirect_stdout(out), redirect_stderr(err), guarded_output():
            way(text)
        assert steering(out.getvalue() + err.getvalue()) == set()

    printed()


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\\x0d=1"),
        ("\n=1", '"\'\n=1"'),
        ("＝1", "'＝1"),
        ('=1,"2"', '"\'=1,""2"""'),
        ("-12.50", "-12.50"),
        ("+1e5", "+1e5"),
        (-1, "-1"),
        (-1.5, "-1.5"),
        (None, ""),
        ("", '""'),
        ("a=b", "a=b"),
        (["=1"], '"[""=1""]"'),
    ],
    ids=repr,
)
def test_a_cell_for_a_spreadsheet_is_no_formula(value, cell):
    out = io.StringIO()
    with redirect_stdout(out):
        write_csv(["=a"], [[value]], spreadsheet=True)
    assert out.getvalue() == f"'=a\n{cell}\n"


def test_csv_is_exact_in_a_pipe_and_escaped_in_a_terminal():
    pipe, terminal = io.StringIO(), Terminal()
    for stream in (pipe, terminal):
        with redirect_stdout(stream), guarded_output():
            write_rows(rows_of(HOSTILE), Form(csv=True))
    assert HOSTILE in pipe.getvalue() and steering(terminal.getvalue()) == set()


def test_no_module_goes_round_the_guard():
    round_it = re.compile(r"\bConsole\(|\b__std(out|err)__\b|\.buffer\b|\brich\.print\b|import print\b|\becho\(")
    sources = list((ROOT / "cli").rglob("*.py"))
    assert sources and {path.name for path in sources if round_it.search(path.read_text())} == set()


def test_rich_keeps_its_own_sequences():
    stream = io.StringIO()
    console = escaping_console(file=stream, force_terminal=True, color_system="standard")
    console.print(Text("\x1b[31mred", style="bold"), "[bold]plain[/]", highlight=False)
    assert stream.getvalue() == "\x1b[1m\\x1b[31mred\x1b[0m [bold]plain[/]\n"


def test_guards_do_not_pile_up_and_are_taken_away():
    before = sys.stdout
    with guarded_output():
        guard = sys.stdout
        with guarded_output():
            assert sys.stdout is guard
        assert sys.stdout is guard and Console().file.fileno() == before.fileno()
    assert sys.stdout is before


@pytest.mark.parametrize(
    "arguments",
    [["status", HOSTILE], [HOSTILE], ["status", f"--{HOSTILE}"], ["-" + HOSTILE]],
    ids=["argument", "verb", "option", "root option"],
)
def test_a_mistake_on_the_command_line_is_quoted_without_control_characters(capsys, arguments):
    assert run(arguments) == 2
    printed = "".join(capsys.readouterr())
    assert "\\x1b" in printed and steering(printed) == set()


@pytest.fixture
def asked(monkeypatch):
    """The questions that a person is asked, and says yes to."""
    questions = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", lambda question: questions.append(question) or True)
    return questions


def test_a_question_is_escaped(asked):
    ask(f"Discard {HOSTILE}?")
    assert steering(asked[0]) == set()


def test_the_traceback_of_an_unexpected_error_is_escaped(monkeypatch):
    def fails(arguments):
        raise RuntimeError(HOSTILE)

    stream = io.StringIO()
    monkeypatch.setattr("sluice_cli.main.run", fails)
    with redirect_stdout(io.StringIO()), redirect_stderr(stream):
        with pytest.raises(RuntimeError) as raised:
            main([])
        sys.excepthook(raised.type, raised.value, raised.tb)
    assert "\\x1b]0;owned" in stream.getvalue() and steering(stream.getvalue()) == set()
