"""The prompt of `sluice query`: statements out of lines, completion, and errors that don't end it."""

import pytest

from sluice.errors import UsageError
from sluice_cli.tables.prompt import completions, prompt, statements


def lines(*given):
    """A reader of these lines; an exception among them is raised."""
    left = list(given)

    def read(shown):
        line = left.pop(0) if left else EOFError()
        if isinstance(line, BaseException):
            raise line
        return line

    return read


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["select 1;"], ["select 1"]),
        (["select 1", "from a.b;", "", "select 2;"], ["select 1\nfrom a.b", "select 2"]),
        (["select", KeyboardInterrupt(), "select 3;"], ["select 3"]),
        (["exit", "select 1;"], []),
        ([".quit", "select 1;"], []),
        ([" .EXIT ;", "select 1;"], []),
        (["\\q", "select 1;"], []),
        (["select 1"], []),
        ([";", "select 1 ; "], ["select 1"]),
        ([".tables", "select 1;"], [".tables", "select 1"]),
    ],
    ids=["one line", "two lines", "Ctrl-C drops it", "exit", ".quit", ".exit", "q", "unfinished", "empty", "a command"],
)
def test_a_statement_ends_with_a_semicolon(given, expected):
    assert [statement.strip() for statement in statements(lines(*given))] == expected


def test_tab_completes_keywords_and_tables():
    tables = ["ecomm.sale", "ecomm.listing", 'crm."user"']
    assert completions("EC", lambda: tables) == ["ecomm.sale", "ecomm.listing"]
    assert completions("sel", lambda: tables) == ["select"]
    assert completions("crm", lambda: tables) == ['crm."user"']


def test_the_prompt_lists_tables_and_refuses_other_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("builtins.input", lines(".tables", "Show Tables;", ".schema", "select 1;"))
    ran = []
    prompt(ran.append, lambda: ["ecomm.sale", "crm.user"], tmp_path / "history")
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ['crm."user"', "ecomm.sale"] * 2
    assert ".schema is not a command" in shown.err and ran == ["select 1"]


def test_an_error_ends_its_statement_alone_and_the_history_is_kept(tmp_path, monkeypatch, capsys):
    pytest.importorskip("readline")
    ran = []

    def run(statement):
        ran.append(statement)
        if len(ran) == 1:
            raise UsageError("no such table")

    monkeypatch.setattr("builtins.input", lines("select 1;", "select 2;"))
    prompt(run, lambda: ["a.b"], tmp_path / "cache" / "history")
    assert ran == ["select 1", "select 2"]
    assert "no such table" in capsys.readouterr().err
    assert (tmp_path / "cache" / "history").stat().st_mode & 0o077 == 0
