"""The commands that README and docs show: from code blocks and from code in a line, split as a shell would."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import typer.main

from sluice_cli.verbs import app

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("sluice", "make", "sam")
_FENCED = re.compile(r"^```[a-z]*\n(.*?)^```$", re.M | re.S)
_INDENTED = re.compile(r"(?:^(?: {4}|\t).*\n|^\n)+", re.M)
_SUBSTITUTED = re.compile(r"\$\(([^()]*)")
_LITERALS = re.compile(r"[a-z][a-z-]*")
_IN_LINE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Shown:
    """A command that a document shows; `words` without the program's own name."""

    document: str
    program: str
    words: tuple[str, ...]
    text: str


def documents() -> list[Path]:
    """README, its companions, and all that docs hold."""
    pages = [
        ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "events/README.md")
    ]
    return [path for path in pages if path.exists()] + sorted((ROOT / "docs").rglob("*.md"))


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
    """Between &&, |, ; and > is a command each, and what $(...) runs. Brackets of optional words don't count."""
    for inner in _SUBSTITUTED.findall(line):
        yield from _parts(inner, document)
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


@cache
def command_line():
    return typer.main.get_command(app)


def problem(words):
    """What is wrong with the words after `sluice`, None when nothing is.

    By what Typer's commands say of themselves, since it parses with a click of its own.
    """
    command, path, rest = command_line(), "sluice", list(words)
    while True:
        options = {
            name: parameter
            for parameter in command.params
            if parameter.param_type_name == "option"
            for name in parameter.opts
        }
        positional = []
        while rest and (rest[0].startswith("-") and rest[0] != "-" or not hasattr(command, "commands")):
            word = rest.pop(0)
            if word == "--":
                positional, rest = positional + rest, []
            elif not word.startswith("-") or word == "-":
                positional.append(word)
            elif word.partition("=")[0] not in (*options, "-h", "--help"):
                return f"`{path}` has no option {word}"
            elif word in options and not options[word].is_flag and rest:
                rest.pop(0)
        if hasattr(command, "commands"):
            if not rest or not _LITERALS.fullmatch(rest[0]):
                return None
            if rest[0] not in command.commands:
                return f"`{path}` has no command {rest[0]}"
            path, command = f"{path} {rest[0]}", command.commands[rest.pop(0)]
            continue
        arguments = [parameter.nargs for parameter in command.params if parameter.param_type_name == "argument"]
        return (
            f"`{path}` takes {len(arguments)} arguments"
            if -1 not in arguments and len(positional) > len(arguments)
            else None
        )
