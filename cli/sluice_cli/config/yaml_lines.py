"""A YAML document with the line of each value, and the mistakes found in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path as FilePath
from typing import Any

import yaml

from sluice.errors import InvalidConfiguration
from sluice_cli.errors import no_tables_file
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.output import say
from sluice_cli.terminal.step import completed

MAX_BYTES = 1_000_000  # of a file
MAX_NODES = 100_000  # of a document: aliases can make a small file a large tree
MAX_DEPTH = 100  # of a value: an alias within what it stands for has no end

STDIN = "-"  # as a file's name

Path = tuple[Any, ...]

# What to do about a text that is not YAML.
_STEP = (
    "Indent what belongs together by the same number of blanks, close quotes and brackets, and put text in quotes that "
    "holds a colon and a blank, or begins with a sign such as { or *"
)
_KINDS = {"timestamp": "date", "int": "number", "float": "number"}  # by the end of YAML's tag
_VALUE_SHOWN = 40  # characters


@dataclass(frozen=True, order=True)
class Mistake:
    """A mistake: its line, from 1 on, its place such as tables[2].freshness, and what is wrong.

    `column` (from 1 on; 0: not known) and `next_step` are of a text that is not YAML.
    """

    line: int
    where: str
    message: str
    column: int = 0
    next_step: str = ""

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}" if self.column else f"line {self.line}"
        return f"{place}: {self.where}: {self.message}" if self.where else f"{place}: {self.message}"


class ConfigurationMistakes(InvalidConfiguration):
    """All mistakes of a tables.yaml, in the order of their lines. `file` is the file as the user named it."""

    def __init__(self, mistakes: list[Mistake], file: str = "tables.yaml") -> None:
        self.mistakes = tuple(sorted(set(mistakes)))
        many = f"{len(self.mistakes)} mistake{'s' if len(self.mistakes) != 1 else ''}"
        super().__init__(
            "\n".join([f"{name_of(FilePath(file))} has {many}:", *map(str, self.mistakes)]),
            next_step=next(
                (mistake.next_step for mistake in self.mistakes if mistake.next_step),
                completed(self.next_step, FILE=file),
            ),
            mistakes=[str(mistake) for mistake in self.mistakes],
        )


def text_of_file(file: FilePath) -> str:
    """Read a text of at most about MAX_BYTES, which a larger one exceeds. Raises UsageError if it can't be read."""
    try:
        if file.is_fifo():
            say(f"{visible(str(file))} is a pipe: reading until its writer ends")
        with file.open(encoding="utf-8") as opened:
            return opened.read(MAX_BYTES + 1)  # more is refused; a device may have no end
    except (OSError, UnicodeDecodeError) as error:
        raise no_tables_file(file, error) from error


def name_of(file: FilePath) -> str:
    """The name of a tables.yaml in messages."""
    return "stdin" if str(file) == STDIN else str(file)


def text_of_stdin() -> str:
    """Read stdin as `text_of_file` reads a file."""
    if sys.stdin.isatty():
        say("Reading a tables.yaml from the terminal until Ctrl-D")
    try:
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8")  # as of a file, whatever the locale is
        return sys.stdin.read(MAX_BYTES + 1)
    except UnicodeDecodeError as error:
        raise no_tables_file(FilePath("stdin"), error) from error


class _Loader(yaml.SafeLoader):
    """A loader whose errors about a value, as a date that no calendar has, say where it stands.

    It has its own tags: libraries, as SAM's translator, add theirs to the shared `yaml.SafeLoader`.
    """

    yaml_constructors = dict(yaml.constructor.SafeConstructor.yaml_constructors)
    yaml_multi_constructors: dict[str, Any] = {}

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, AttributeError) as error:
            kind = _KINDS.get(node.tag.rpartition(":")[2], "value of its tag")
            problem = f"{str(node.value)[:_VALUE_SHOWN]} is written as a {kind}, but is not one"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


class YamlLines:
    """A YAML document: its values, the line of every path in it, and the mistakes found so far."""

    def __init__(self, value: dict[str, Any], lines: dict[Path, int]) -> None:
        self.value = value
        self.mistakes: list[Mistake] = []
        self._lines = lines

    def has_mistake(self, path: Path) -> bool:
        """Return whether a mistake at this very path was noted."""
        return any(mistake.where == _describe(path) for mistake in self.mistakes)

    @classmethod
    def of(cls, text: str) -> YamlLines:
        """Read a document that is a mapping. Raises ConfigurationMistakes if it isn't one, or is too large."""
        if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
            raise ConfigurationMistakes([Mistake(1, "", f"is larger than {MAX_BYTES:,} bytes")])
        try:
            loader = _Loader(text)
            node = loader.get_single_node()
            nodes = list(_walk(node, ()))
            value = None if node is None else loader.construct_document(node)
        except RecursionError as error:
            raise ConfigurationMistakes([Mistake(1, "", "is nested too deeply")]) from error
        except yaml.YAMLError as error:
            raise ConfigurationMistakes([_not_yaml(error, text)]) from error
        if not isinstance(value, dict):
            raise ConfigurationMistakes([Mistake(1, "", "needs the key tables, with a list of rules")])
        tree = cls(value, {})
        for path, line, twice in nodes:
            if twice:
                tree.mistakes.append(Mistake(line, _describe(path), "is given twice"))
            tree._lines.setdefault(path, line)
        return tree

    def line(self, path: Path) -> int | None:
        """Return the line of a path; None where the file doesn't have it."""
        return self._lines.get(path)

    def mistake(self, path: Path, message: str) -> None:
        """Note a mistake, at the line of the path or of the longest part of it that the file has."""
        near = path
        while near and near not in self._lines:
            near = near[:-1]
        self.mistakes.append(Mistake(self._lines.get(near, 1), _describe(path), message))


def _not_yaml(error: yaml.YAMLError, text: str) -> Mistake:
    """The mistake that PyYAML found, in its words."""
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        problem = f"the character U+{ord(text[error.position]):04X} can't be part of it"
    else:
        mark, begun = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 0)
        problem = str(getattr(error, "problem", None) or error)
        if begun is not None and begun.line + 1 != line:
            problem = f"{problem}, {getattr(error, 'context', '')} from line {begun.line + 1} on"
    return Mistake(line, "", f"the file is not YAML: {problem}", column, _STEP)


def _walk(node: yaml.Node | None, path: Path) -> Iterator[tuple[Path, int, bool]]:
    """Yield every path of a document with its line, and whether the mapping has the key already."""
    pending: list[tuple[yaml.Node | None, Path, int, bool]] = [(node, path, 1, False)]
    seen = 0
    while pending:
        current, where, line, twice = pending.pop()
        seen += 1
        if seen > MAX_NODES:
            raise ConfigurationMistakes([Mistake(1, "", f"has more than {MAX_NODES:,} values")])
        if len(where) > MAX_DEPTH:
            raise ConfigurationMistakes([Mistake(line, "", "is nested too deeply")])
        yield where, line, twice
        if isinstance(current, yaml.MappingNode):
            keys: set[Any] = set()
            for key, value in current.value:
                # A list as a key is refused when values are made.
                name = key.value if isinstance(key, yaml.ScalarNode) else None
                pending.append((value, where + (name,), key.start_mark.line + 1, name in keys))
                keys.add(name)
        elif isinstance(current, yaml.SequenceNode):
            pending.extend(
                (item, where + (number,), item.start_mark.line + 1, False) for number, item in enumerate(current.value)
            )


def _describe(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
