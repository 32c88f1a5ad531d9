"""Output of the commands: data on stdout, everything about it on stderr."""

from __future__ import annotations

import html
import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sluice_aws.s3.objects import SkippedDocument
from sluice_aws.stack import Target, find_target
from sluice_cli.terminal.guard import escaped, escaping_console, json_escaped, visible

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
# The command line, for records of decisions; the root command sets it.
command_line: ContextVar[str] = ContextVar("command_line", default="sluice")
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def chosen_target(stack: str | None) -> Target:
    """Choose the stack to work on and name it on stderr. `stack` is the verb's own option. Raises NoTarget."""
    target = find_target(stack or stack_before_verb.get(), os.environ, Path.cwd())
    say(target.described)
    return target


def say(line: str) -> None:
    """Print one line on stderr, after everything that was printed on stdout before."""
    sys.stdout.flush()
    # Escaped here, since beside a spinner rich takes the line and would follow its sequences.
    print(escaped(line), file=sys.stderr, flush=True)


DOCUMENTS_SHOWN = 5


def say_skipped(documents: Sequence[SkippedDocument]) -> None:
    """Name on stderr the documents of the silver bucket that can't be read."""
    if not documents:
        return
    number = counted(len(documents), "document", "documents")
    say(f"Left out: {number} in the silver bucket can't be read. If another program wrote them, remove them")
    for document in documents[:DOCUMENTS_SHOWN]:
        say(f"  {visible(document.key)}: {visible(document.reason)}")
    if len(documents) > DOCUMENTS_SHOWN:
        say(f"  and {len(documents) - DOCUMENTS_SHOWN:,} more (--json lists all)")


def described_documents(documents: Sequence[SkippedDocument]) -> list[dict[str, str]]:
    """The JSON form of skipped documents."""
    return [{"key": document.key, "reason": document.reason} for document in documents]


def print_json(document: Any) -> None:
    """Print one JSON document on stdout: indented in a terminal, one line in a pipe."""
    print(json_text(document, indent=2 if sys.stdout.isatty() else None), flush=True)


def json_text(document: Any, *, indent: int | None = None) -> str:
    r"""The JSON of a document; what could steer a terminal is written as `\u....`, which JSON reads back."""
    return json_escaped(json.dumps(document, ensure_ascii=False, indent=indent))


def stderr_console() -> Console:
    """A console for progress, which rich leaves out where stderr is not a terminal."""
    return escaping_console(stderr=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> None:
    """Print a table: aligned in a terminal, tab-separated in a pipe. `right` are the columns to align right."""
    if not sys.stdout.isatty():
        for row in chain([columns], rows):
            print("\t".join(_cell(value) for value in row))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    aligned = set(right)
    for number, column in enumerate(columns):
        table.add_column(Text(_cell(column)), justify="right" if number in aligned else "left", overflow="fold")
    for row in rows:
        # As Text a cell holds no markup. Escaped here, since the table measures it.
        table.add_row(*(Text(_cell(value)) for value in row))
    escaping_console().print(table)


def _cell(value: str) -> str:
    return visible(value.replace("\t", "\\t").replace("\r", "\\r").replace("\n", "\\n"))


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
    """(1, "object") -> "1 object", (2, "object") -> "2 objects"; (2, "batch", "batches") for other plurals."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def marked_up(text: str) -> str:
    """The text as content or quoted attribute of HTML and XML 1.0, which allows few control characters."""
    return html.escape(visible(text), quote=True)


def shortened(text: str, length: int) -> str:
    """Shorten to `length` characters. The middle is left out, since keys differ at their ends."""
    if len(text) <= length:
        return text
    head = (length - 1) // 3
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"
