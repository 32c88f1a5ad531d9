"""Output of the commands: data on stdout, everything about it on stderr."""

from __future__ import annotations

import html
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sluice.errors import UsageError
from sluice.names import shortened
from sluice_cli.terminal.colours import STATES
from sluice_cli.terminal.guard import escaped, escaping_console, json_escaped, visible
from sluice_cli.terminal.options import option

if TYPE_CHECKING:  # for the help of a verb they would be loaded in vain
    from sluice_aws.s3.objects import SkippedDocument
    from sluice_aws.stack import Target

Stack = Annotated[str | None, option("--stack NAME", "A deployed stack instead of the local one (also SLUICE_STACK).")]
# The stack that the command line names, before or behind the verb; next steps name it too.
named_stack: ContextVar[str | None] = ContextVar("named_stack", default=None)
# The stacks that were named already, where several verbs run one after the other; None names each time.
stacks_named: ContextVar[set[str] | None] = ContextVar("stacks_named", default=None)
# The command line, for records of decisions; the root command sets it.
command_line: ContextVar[str] = ContextVar("command_line", default="sluice")
Json = Annotated[bool, option("--json", "Print JSON on stdout.")]
DryRun = Annotated[bool, option("--dry-run", "Show what would be done, and change nothing.")]


def chosen_target(stack: str | None) -> Target:
    """Choose the stack to work on and name it on stderr. `stack` is the verb's own option. Raises NoTarget."""
    from sluice_aws.stack import find_target

    if stack is not None:
        named_stack.set(stack)
    target = find_target(named_stack.get(), os.environ, Path.cwd())
    stacks = stacks_named.get()
    if stacks is None or target.described not in stacks:
        say(target.described)
    if stacks is not None:
        stacks.add(target.described)
    return target


def say(line: str, style: str = "", *, whole: str = "") -> None:
    """Print one line on stderr, after everything that was printed on stdout before.

    A terminal shows it in `style`, wrapped between words. See `wrapped` for `whole`.
    """
    sys.stdout.flush()
    if sys.stderr.isatty():
        _print_wrapped(stderr_console(), line, whole, style)
        return
    # Escaped here, since beside a spinner rich takes the line and would follow its sequences.
    print(escaped(line), file=sys.stderr, flush=True)


def print_line(line: str = "", *, whole: str = "") -> None:
    """Print prose on stdout: as it is in a pipe, in a terminal wrapped between words. See `wrapped` for `whole`.

    Data that is copied or read by programs is printed by `print`, `print_table` and `print_json`.
    """
    if sys.stdout.isatty():
        _print_wrapped(escaping_console(), line, whole)
    else:
        print(line)


def _print_wrapped(console: Console, line: str, whole: str = "", style: str = "") -> None:
    """Print a line in a terminal, wrapped between words, its label in colour unless NO_COLOR is set."""
    for part in wrapped(escaped(line), console.width, whole):
        shown = Text(part, style)
        for label, colour in _LABELS.items():
            shown.highlight_regex(rf"^ *{label}:", colour)
        console.print(shown, soft_wrap=True, highlight=False)


# A number and its unit, which stand on one line.
QUANTITY = r"\d (?:d|h|min|s|ms|B|[KMGT]iB)(?!\w)"
_AFTER_COMMAND = re.compile(r"`[.,;:)]+$")


def wrapped(text: str, width: int, whole: str = "") -> list[str]:
    """Lines of at most `width` columns, as far as words allow. The rest of a line is indented by two more than it.

    A command in backquotes is never broken, nor a number from its unit, nor `whole`, a key for example, which may hold
    blanks. A line that would be too long gives up its indent, and the punctuation behind its command.
    """
    verbatim = f"{re.escape(whole)}|" if whole else ""
    words = re.compile(rf"[ \t]*(?:{verbatim}`[^`]*`|{QUANTITY}|[^ \t])+")
    return [part for line in text.split("\n") for part in _parts(words.findall(line), width)]


def _parts(words: Sequence[str], width: int) -> Iterator[str]:
    """Join words, each with the blanks before it, to lines."""
    line, *rest = words or [""]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    for word in rest:
        if cell_len(line) + cell_len(word) > width:
            yield line
            forms = (f"{indent}{word.lstrip()}", word.lstrip(), _AFTER_COMMAND.sub("`", word.lstrip()))
            line = min(forms, key=lambda form: -(-cell_len(form) // width))
        else:
            line += word
    yield line


def say_error(message: str, next_step: str = "") -> None:
    """Print what failed on stderr, and the next step on a line of its own."""
    say(f"error: {message}")
    if next_step:
        say_next_step(next_step)


def say_next_step(step: str) -> None:
    """Print on stderr what to do next."""
    say(f"next step: {step}")


DOCUMENTS_SHOWN = 5
LONGEST_TEXT = 160  # characters of a reason or an error beside others
LINE_INDENT = 4  # of a wrapped line, at most
# Labels that begin a line, and the style a terminal shows them in.
_LABELS = {"error": "bold red", "warning": "yellow", **{name: STATES[name] for name in ("quarantined", "parked")}}


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


def human_bytes(count: int) -> str:
    """1536 -> "1.5 KiB"."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def human_age(milliseconds: int | None) -> str:
    """95000 -> "1 min 35 s"; "-" where it is not known."""
    if milliseconds is None:
        return "-"
    seconds = max(0, milliseconds) // 1000
    for length, unit, part_length, part in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= length:
            rest = seconds % length // part_length
            return f"{seconds // length} {unit} {rest} {part}" if rest else f"{seconds // length} {unit}"
    return f"{seconds} s"


def counted(count: int, noun: str, many: str | None = None) -> str:
    """(1, "object") -> "1 object", (2, "object") -> "2 objects"; (2, "batch", "batches") for other plurals."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def round_number(least: float) -> int:
    """The next 1, 2 or 5 times a power of ten."""
    size = 1
    while True:
        for factor in (1, 2, 5):
            if least <= size * factor:
                return size * factor
        size *= 10


def first_names(names: Sequence[str], most: int) -> str:
    """The first `most` names, and how many more there are: `a, b and 3 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def marked_up(text: str) -> str:
    """The text as content or quoted attribute of HTML and XML 1.0, which allows few control characters."""
    return html.escape(visible(text), quote=True)


def cut(text: str, characters: int | None = LONGEST_TEXT) -> str:
    """The beginning of the first line of a text, up to a whole word. No part of a command in backquotes is left.

    None for `characters` leaves the line whole.
    """
    line = (text.splitlines() or [""])[0]
    if characters is None or len(line) <= characters:
        return line
    begin = line[: characters - 1]
    begin = begin.rpartition("`")[0] if begin.count("`") % 2 else begin.rpartition(" ")[0] or begin
    return f"{begin.rstrip(' ,;:')}…"


def path_shortened(key: str, length: int) -> str:
    """Shorten a key to `length` characters. Its folders are left out from the front: `…/partition=0/file.avro`.

    Where not even the last part fits, the middle of the key is left out. `sluice trace` takes both.
    """
    if len(key) <= length:
        return key
    end = key[len(key) - (length - 1) :] if length > 1 else ""
    folder, slash, rest = end.partition("/")
    return f"…/{rest}" if slash else shortened(key, length)


def key_in_line(key: str) -> str:
    """A key in a line of text: whole in a pipe, without folders where a line of the terminal has no room for it.

    `sluice trace` takes both.
    """
    shown = visible(key)
    return path_shortened(shown, escaping_console().width - LINE_INDENT) if sys.stdout.isatty() else shown


def is_named(given: str, name: str) -> bool:
    """True if `given` is the beginning of a name, or the name as `shortened` shows it: `b-97…8fa55e00f`.

    Raises UsageError if `given` is empty, since every name begins so.
    """
    if not given:
        raise UsageError("The name is empty", next_step="Is a variable unset? Give a name or its beginning")
    head, cut, tail = given.partition("…")
    return name.startswith(head) and (not cut or len(name) > len(head) + len(tail) and name.endswith(tail))
