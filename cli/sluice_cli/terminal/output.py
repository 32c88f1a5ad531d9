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
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sluice_cli.terminal.guard import escaped, escaping_console, json_escaped, visible

if TYPE_CHECKING:  # for the help of a verb they would be loaded in vain
    from sluice_aws.s3.objects import SkippedDocument
    from sluice_aws.stack import Target

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
# The stacks that were named already, where several verbs run one after the other; None names each time.
stacks_named: ContextVar[set[str] | None] = ContextVar("stacks_named", default=None)
# The command line, for records of decisions; the root command sets it.
command_line: ContextVar[str] = ContextVar("command_line", default="sluice")
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def chosen_target(stack: str | None) -> Target:
    """Choose the stack to work on and name it on stderr. `stack` is the verb's own option. Raises NoTarget."""
    from sluice_aws.stack import find_target

    target = find_target(stack or stack_before_verb.get(), os.environ, Path.cwd())
    named = stacks_named.get()
    if named is None or target.described not in named:
        say(target.described)
    if named is not None:
        named.add(target.described)
    return target


def say(line: str, style: str = "") -> None:
    """Print one line on stderr, after everything that was printed on stdout before. A terminal shows it in `style`."""
    sys.stdout.flush()
    if style and sys.stderr.isatty():
        stderr_console().print(Text(escaped(line), style=style), soft_wrap=True, highlight=False)
        return
    # Escaped here, since beside a spinner rich takes the line and would follow its sequences.
    print(escaped(line), file=sys.stderr, flush=True)


def say_error(message: str, next_step: str = "") -> None:
    """Print what failed on stderr, and the next step on a line of its own."""
    say(f"error: {message}")
    if next_step:
        say(f"next step: {next_step}")


DOCUMENTS_SHOWN = 5
GAP, WRAPPED_WIDTH = 2, 24  # between columns of a table; of a text that is wrapped, at least


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
    """Print a table: aligned in a terminal, tab-separated in a pipe. `right` are the columns to align right.

    Where the terminal is too narrow, texts are wrapped between words. Where that doesn't suffice, each row is printed
    below the other, a line for each column, so that ids and keys stay whole.
    """
    if not sys.stdout.isatty():
        for row in chain([columns], rows):
            print("\t".join(_cell(value) for value in row))
        return
    console = escaping_console()
    # As Text a cell holds no markup. Escaped here, since the table measures it.
    cells = [[Text(_cell(value)) for value in row] for row in chain([columns], rows)]
    widths = column_widths([[text.plain for text in row] for row in cells], console.width)
    if widths is None:
        _print_below_each_other(console, cells)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    aligned = set(right)
    for number, (heading, width) in enumerate(zip(cells[0], widths, strict=True)):
        table.add_column(heading, justify="right" if number in aligned else "left", width=width, overflow="fold")
    for texts in cells[1:]:
        table.add_row(*texts)
    console.print(table)


def column_widths(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """The widths of a table's columns in a terminal of `width` columns, headings included. None if they don't fit.

    A column is never narrower than its longest word; a text that is wrapped gets at least WRAPPED_WIDTH.
    """
    columns = list(zip(*rows, strict=True))
    natural = [max(map(cell_len, column)) for column in columns]
    least = [
        max(min(full, WRAPPED_WIDTH), *(cell_len(word) for value in column for word in value.split(" ")))
        for full, column in zip(natural, columns, strict=True)
    ]
    left = width - GAP * (len(columns) - 1) - sum(least)
    if left < 0:
        return None
    widths = list(least)
    wanting = sorted(range(len(columns)), key=lambda number: natural[number] - least[number])
    for position, number in enumerate(wanting):
        more = min(natural[number] - least[number], left // (len(wanting) - position))
        widths[number] += more
        left -= more
    return widths


def _print_below_each_other(console: Console, cells: Sequence[Sequence[Text]]) -> None:
    headings = max(cell_len(heading.plain) for heading in cells[0])
    for number, row in enumerate(cells[1:]):
        if number:
            console.print()
        for heading, value in zip(cells[0], row, strict=True):
            line = Text.assemble((heading.plain.ljust(headings + GAP), "bold"), value)
            console.print(line, soft_wrap=True, highlight=False)


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
