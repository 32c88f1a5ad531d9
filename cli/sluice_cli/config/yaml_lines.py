"""A YAML document with the line of each value, and the mistakes found in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from sluice.errors import InvalidConfiguration

MAX_BYTES = 1_000_000  # of a file
MAX_NODES = 100_000  # of a document: aliases can make a small file a large tree

Path = tuple[Any, ...]


@dataclass(frozen=True, order=True)
class Mistake:
    """A mistake: its line, from 1 on, its place such as tables[2].freshness, and what is wrong."""

    line: int
    where: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.where}: {self.message}" if self.where else f"line {self.line}: {self.message}"


class ConfigurationMistakes(InvalidConfiguration):
    """All mistakes of a tables.yaml, in the order of their lines. `file` is the file as the user named it."""

    def __init__(self, mistakes: list[Mistake], file: str = "tables.yaml") -> None:
        self.mistakes = tuple(sorted(set(mistakes)))
        many = f"{len(self.mistakes)} mistake{'s' if len(self.mistakes) != 1 else ''}"
        super().__init__(
            "\n".join([f"{file} has {many}:", *map(str, self.mistakes)]),
            mistakes=[str(mistake) for mistake in self.mistakes],
        )


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
            loader = yaml.SafeLoader(text)
            node = loader.get_single_node()
            nodes = list(_walk(node, ()))
            value = None if node is None else loader.construct_document(node)
        except RecursionError as error:
            raise ConfigurationMistakes([Mistake(1, "", "is nested too deeply")]) from error
        except (yaml.YAMLError, ValueError) as error:  # a ValueError is a date that no calendar has
            mark = getattr(error, "problem_mark", None)
            raise ConfigurationMistakes(
                [Mistake(mark.line + 1 if mark else 1, "", f"is not YAML: {getattr(error, 'problem', None) or error}")]
            ) from error
        if not isinstance(value, dict):
            raise ConfigurationMistakes([Mistake(1, "", "needs the key tables, with a list of rules")])
        tree = cls(value, {})
        for path, line, twice in nodes:
            if twice:
                tree.mistakes.append(Mistake(line, _describe(path), "is given twice"))
            tree._lines.setdefault(path, line)
        return tree

    def mistake(self, path: Path, message: str) -> None:
        """Note a mistake, at the line of the path or of the longest part of it that the file has."""
        near = path
        while near and near not in self._lines:
            near = near[:-1]
        self.mistakes.append(Mistake(self._lines.get(near, 1), _describe(path), message))


def _walk(node: yaml.Node | None, path: Path) -> Iterator[tuple[Path, int, bool]]:
    """Yield every path of a document with its line, and whether the mapping has the key already."""
    pending: list[tuple[yaml.Node | None, Path, int, bool]] = [(node, path, 1, False)]
    seen = 0
    while pending:
        current, where, line, twice = pending.pop()
        seen += 1
        if seen > MAX_NODES:
            raise ConfigurationMistakes([Mistake(1, "", f"has more than {MAX_NODES:,} values")])
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
