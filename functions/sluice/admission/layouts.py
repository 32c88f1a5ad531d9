"""Recognizes the layout of keys whose names tell no topic, and proposes the `key_pattern` of a rule for each folder."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sluice.admission.routing import DAY, DMS_FILE, MONTH, READABLE_FORMATS, UNROUTABLE, YEAR, Route, classify
from sluice.config.document import KeyMatch
from sluice.config.key_pattern import MAX_PATTERN, named_by
from sluice.names import TOPIC

DMS, SPARK, DLT, NUMBERED, FOLDER = "AWS DMS", "Spark", "dlt", "a sink that numbers its objects", "a folder"

# The files of each writer, by its documentation: docs/producing.md. The first that fits counts.
_FILES: tuple[tuple[str, re.Pattern[str], str], ...] = (
    (DMS, re.compile(rf"(?:{DMS_FILE})\.[a-z.]+"), "/.*"),
    (SPARK, re.compile(r"part-[0-9]{5}-[0-9a-f-]{36}[^/]*"), "/(?:.*/)?part-[^/]+"),
    (DLT, re.compile(r"[0-9]{10}\.[0-9]+\.[0-9a-f]+\.[a-z.]+"), "/[^/]+"),
)
_NUMBERED = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]{1,9})-(?P<offset>[0-9]{1,18})(?P<end>(?:\.[a-z0-9]+)*)")
# A date in a name that would read so: `prices-2026-11-21.csv`, `prices-20261121-103000.csv`.
_DATED = re.compile(
    rf"(?P<name>.*?)(?<![0-9]){YEAR}(?:-{MONTH}(?:[-_]{DAY}(?![0-9])[0-9T_-]*)?|{MONTH}{DAY}-[0-9]+)(?:\.[a-z0-9]+)*"
)
# Folders below a table's: partitions of Hive's kind, and parts of a date.
_BELOW = re.compile(r"[^/=]+=[^/]*|[0-9]{1,4}([_-]?[0-9]{1,2}){0,3}")
_PARTS = 2  # of a topic: the last two folders, as a database and a table


@dataclass(frozen=True)
class Layout:
    """The layout of one key: who writes such names, the topic, and the pattern of all keys beside it.

    `start` is what all these keys begin with. `format` is set where the keys' extension doesn't tell it.
    """

    writer: str
    topic: str
    key_pattern: str
    start: str
    format: str | None = None

    def fits(self, key: str) -> bool:
        return named_by(self.key_pattern, key) is not None

    def route(self, key: str, size: int) -> Route:
        """The route of a key under a rule with this layout. It is unroutable as long as its format is unknown."""
        name = named_by(self.key_pattern, key)
        if name is None:
            return Route(UNROUTABLE, reason="another layout")
        return classify(key, size, KeyMatch(replace(name, topic=self.topic), self.format))


def layout_of(key: str) -> Layout | None:
    """The layout of a key, None for one without a folder, or whose names make no topic."""
    folders, _, file = key.rpartition("/")
    of_writer = any(form.fullmatch(file) for _, form, _ in _FILES)
    numbered, dated = None if of_writer else _NUMBERED.fullmatch(file), _DATED.fullmatch(file)
    if numbered and not dated and TOPIC.fullmatch(numbered["topic"]):
        start = key[: len(key) - len(file)] + numbered["topic"]
        pattern = f"{re.escape(start)}-(?P<partition>[0-9]+)-(?P<offset>[0-9]+){re.escape(numbered['end'])}"
        return _checked(Layout(NUMBERED, numbered["topic"], pattern, start))
    parts = folders.split("/")
    while len(parts) > 1 and _BELOW.fullmatch(parts[-1]):
        parts.pop()
    if numbered and dated and parts[-1] and TOPIC.fullmatch(topic := dated["name"].rstrip("-_.")):
        start = f"{'/'.join(parts)}/"
        pattern = f"{re.escape(start)}(?:.*/)?{re.escape(dated['name'])}{YEAR}[^/]*"
        return _checked(Layout(FOLDER, topic, pattern, start))
    if not parts[-1]:
        return None
    writer, rest = next(((name, rest) for name, files, rest in _FILES if files.fullmatch(file)), (FOLDER, "/.*"))
    start = "/".join(parts)
    return _checked(Layout(writer, ".".join(parts[-_PARTS:]), re.escape(start) + rest, f"{start}/"))


def _checked(layout: Layout) -> Layout | None:
    return layout if TOPIC.fullmatch(layout.topic) and len(layout.key_pattern) <= MAX_PATTERN else None


def needs_format(layout: Layout, key: str) -> bool:
    """Whether neither the layout nor the key's extension tells the format of an object."""
    return layout.route(key, 1).format not in READABLE_FORMATS
