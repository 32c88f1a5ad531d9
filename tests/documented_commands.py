"""The commands that README and docs show: from code blocks and from code in a line, split as a shell would."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ("sluice", "make", "sam")
_FENCED = re.compile(r"^```[a-z]*\n(.*?)^```$", re.M | re.S)
_INDENTED = re.compile(r"(?:^(?: {4}|\t).*\n|^\n)+", re.M)
_IN_LINE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Shown:
    """A command that a document shows; `words` without the program's own name."""

    document: str
    program: str
    words: tuple[str, ...]
    text: str


def documents() -> list[Path]:
    """README and all that docs hold."""
    named = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    return [path for path in named if path.exists()] + sorted((ROOT / "docs").rglob("*.md"))


def shown_commands() -> list[Shown]:
    """Every command of PROGRAMS in the documents."""
    return [
        command
        for path in documents()
        for command in commands_in(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())
    ]


def commands_in(text: str, document: str) -> Iterator[Shown]:
    """The commands of one document.

    Lines of code blocks that begin with a program's name, after a prompt or not; code in a line likewise.
    """
    blocks = _FENCED.findall(text)
    without = _FENCED.sub("", text)
    blocks += _INDENTED.findall(without)
    for line in (line for block in blocks for line in block.replace("\\\n", " ").splitlines()):
        yield from _parts(line.strip().removeprefix("$ "), document)
    for code in _IN_LINE.findall(_INDENTED.sub("\n", without)):
        yield from _parts(code, document)


def _parts(line: str, document: str) -> Iterator[Shown]:
    """What is between &&, |, ; and > is a command each; brackets of optional words don't count."""
    if not line.startswith(PROGRAMS):
        return
    reader = shlex.shlex(line, posix=True, punctuation_chars="&|;>")
    reader.whitespace_split = True
    reader.commenters = "#"
    try:
        words = list(reader)
    except ValueError:  # an apostrophe of prose
        words = line.split()
    command: list[str] = []
    for word in [*words, "&&"]:
        if word in ("&&", "|", ";", ">", "||"):
            if command and command[0] in PROGRAMS:
                yield Shown(
                    document,
                    command[0],
                    tuple(
                        word
                        for part in command[1:]
                        for word in [part.strip("[]")]
                        if word and word != "…" and word != "..."
                    ),
                    line,
                )
            command = []
        else:
            command.append(word)
