"""The prompt of `sluice query`: statements until `;`, with the history of earlier sessions and completion by Tab.

Both come from the standard library's readline; without it, as on Windows, lines are read plainly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sluice.errors import SluiceError
from sluice_cli.errors import plain_reason
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.output import say, say_error

HISTORY_LINES = 1_000
_KEYWORDS = (
    "all and as between by case count desc describe distinct else end exclude from group having in is join left like "
    "limit not null on or order select sum summarize then union using when where with"
).split()
_HELP = (
    "One SELECT, ended by `;`. `.tables` lists tables, Tab completes them, Ctrl-C drops a statement, `.quit` or Ctrl-D "
    "ends, `.help` shows this"
)
_ENDS = frozenset({"exit", "quit", ".exit", ".quit", "\\q"})  # of DuckDB's and PostgreSQL's prompts
_ASKS = frozenset({".help", "help", "\\?"})
_LISTS_TABLES = re.compile(r"\s*(\.tables|show\s+tables)\s*", re.IGNORECASE)
_BREAKS = " \t\n\"'(),;=<>+*/"


def prompt(run: Callable[[str], None], tables: Callable[[], Sequence[str]], history: Path) -> None:
    """Read statements and run each, until the end of input. An error of Sluice ends its statement alone.

    `.tables` and `show tables` list the tables, `.help` the commands; any other line that begins with a dot is refused.
    """
    say(_HELP)
    with _line_editing(history, cache(lambda: _quoted(tables))):
        for statement in statements(input):
            try:
                if _LISTS_TABLES.fullmatch(statement):
                    for table in sorted(map(quoted_table, tables())):
                        print(visible(table))
                elif statement.lower() in _ASKS:
                    say(_HELP)
                elif statement.startswith("."):
                    say(f"{visible(statement)} is not a command. {_HELP}")
                else:
                    run(statement)
            except SluiceError as error:
                say_error(error.message, error.next_step)
            except KeyboardInterrupt:
                say("interrupted")


def statements(read: Callable[[str], str]) -> Iterator[str]:
    """The statements among the lines that `read` returns for a prompt's text, up to its EOFError."""
    lines: list[str] = []
    while True:
        try:
            line = read("sluice> " if not lines else "   ...> ")
        except KeyboardInterrupt:
            say("")
            lines = []
            continue
        except EOFError:
            say("")
            return
        if not lines and not line.strip():
            continue
        if not lines and _word(line).lower() in _ENDS:
            return
        if not lines and (line.lstrip().startswith(".") or _word(line).lower() in _ASKS):
            yield _word(line)
            continue
        lines.append(line)
        if line.rstrip().endswith(";"):
            statement = "\n".join(lines).strip().rstrip(";")
            lines = []
            if statement:
                yield statement


def _word(line: str) -> str:
    return line.strip().rstrip(";").strip()


def completions(word: str, tables: Callable[[], Sequence[str]]) -> list[str]:
    """What may follow the beginning of a word: keywords and `database.table`, which is completed without case."""
    folded = word.lower()
    return [choice for choice in (*_KEYWORDS, *tables()) if choice.lower().startswith(folded)]


def _quoted(tables: Callable[[], Sequence[str]]) -> Sequence[str]:
    try:
        return [quoted_table(table) for table in tables()]
    except Exception:  # completion must not end the prompt, whatever S3 answers
        return []


def quoted_table(table: str) -> str:
    """`database.table` as a statement names it."""
    database, _, name = table.partition(".")
    return table if re.fullmatch(r"[a-z][a-z0-9_]*", name) and name not in ("user", "table") else f'{database}."{name}"'


@contextmanager
def _line_editing(history: Path, tables: Callable[[], Sequence[str]]) -> Iterator[None]:
    try:
        import readline
    except ModuleNotFoundError:
        yield
        return
    lines: Any = readline
    matches: list[str] = []

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            matches[:] = completions(word, tables)
        return matches[number] if number < len(matches) else None

    lines.set_completer(complete)
    lines.set_completer_delims(_BREAKS)
    lines.parse_and_bind("tab: complete")
    lines.set_history_length(HISTORY_LINES)
    try:
        lines.read_history_file(history)
    except OSError:
        pass  # the first session, or a file of others
    try:
        yield
    finally:
        try:
            history.parent.mkdir(parents=True, exist_ok=True)
            history.touch(mode=0o600)
            lines.write_history_file(history)
        except OSError as error:
            say(f"The history was not kept: {plain_reason(error)}")
