"""What a terminal sees: data on stdout, everything said about it on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sluice_cli.plain_text import visible
from sluice_cli.target import Target, find_target

Stack = Annotated[
    str | None,
    typer.Option(
        "--stack",
        metavar="NAME",
        help="A deployed stack instead of the local one (also SLUICE_STACK).",
        show_default=False,
    ),
]
# `sluice --stack NAME verb` means the same as `sluice verb --stack NAME`; the root command sets it.
stack_before_verb: ContextVar[str | None] = ContextVar("stack_before_verb", default=None)
# What was typed, for records of who decided what; the root command sets it.
command_line: ContextVar[str] = ContextVar("command_line", default="sluice")
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def chosen_target(stack: str | None) -> Target:
    """The stack to work on, said on the first line of stderr. `stack` is the verb's own option. Raises NoTarget."""
    target = find_target(stack or stack_before_verb.get(), os.environ, Path.cwd())
    say(target.described)
    return target


def say(line: str) -> None:
    """One line about what happens, on stderr, as it is: names may hold anything. What was printed before it is out first, also into a file or a pipe."""
    sys.stdout.flush()
    print(line, file=sys.stderr, flush=True)


def print_json(document: Any) -> None:
    """One JSON document on stdout; indented for eyes, one line for a pipe."""
    print(json.dumps(document, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None), flush=True)


def stderr_console() -> Console:
    """Where progress goes; rich leaves it out when stderr is no terminal."""
    return Console(stderr=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> None:
    """A table on stdout: rich's in a terminal, tab-separated text in a pipe. `right` are columns to align right."""
    if not sys.stdout.isatty():
        print("\t".join(columns))
        for row in rows:
            print("\t".join(_one_line(value) for value in row))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    aligned = set(right)
    for number, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if number in aligned else "left", overflow="fold")
    for row in rows:
        table.add_row(
            *(Text(visible(_one_line(value))) for value in row)
        )  # Text: what is in a cell is never markup, and visible: nothing of it steers a terminal
    Console().print(table)


def _one_line(value: str) -> str:
    return value.replace("\t", "\\t").replace("\r", "\\r").replace("\n", "\\n")


def human_bytes(count: int) -> str:
    """1536 -> "1.5 KiB"."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def human_age(milliseconds: int) -> str:
    """95000 -> "1 min 35 s"."""
    seconds = max(0, milliseconds) // 1000
    for length, unit, part_length, part in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= length:
            rest = seconds % length // part_length
            return f"{seconds // length} {unit} {rest} {part}" if rest else f"{seconds // length} {unit}"
    return f"{seconds} s"


def counted(count: int, noun: str, many: str | None = None) -> str:
    """(1, "object") -> "1 object", (2, "object") -> "2 objects"; `many` is for nouns that take no s: (2, "batch", "batches")."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"
