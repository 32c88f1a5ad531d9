"""Output of the commands: data on stdout, everything about it on stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sluice_cli.terminal.colours import STATES
from sluice_cli.terminal.guard import escaped, escaping_console, json_escaped, visible
from sluice_cli.terminal.words import QUANTITY, counted, path_shortened

if TYPE_CHECKING:  # for the help of a verb they would be loaded in vain
    from sluice_aws.s3.objects import SkippedDocument


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


def key_in_line(key: str) -> str:
    """A key in a line of text: whole in a pipe, without folders where a line of the terminal has no room for it.

    `sluice trace` takes both.
    """
    shown = visible(key)
    return path_shortened(shown, escaping_console().width - LINE_INDENT) if sys.stdout.isatty() else shown
