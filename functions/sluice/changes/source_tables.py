"""Names the source table of a change, and decides which changes and rows a truncate of a source table concerns.

One topic may hold the changes of several tables: shards, PostgreSQL's partitions, Debezium's topic routers. A truncate
concerns the rows of its own table alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

NEVER = ""  # lower than every position

# Floors of so many source tables are kept, those that were raised last: the table's properties hold them.
MOST_FLOORS = 500
_NOT_IN_A_TOPIC = re.compile(r"[^A-Za-z0-9._\-]")  # Debezium writes `_` for these


def source_table(db: Any, schema: Any, table: Any, *server: Any) -> str | None:
    """The text that names a source table, from its metadata; None without the table's name.

    The parts are separated by dots; one that the source doesn't have is empty. The `server` is the first one, where
    the table's key names it: rows of two servers are then of two tables, whatever these are called.
    """
    if not isinstance(table, str) or not table:
        return None
    parts = (part if isinstance(part, str) else "" for part in (*server, db, schema, table))
    return ".".join(part.replace("\\", "\\\\").replace(".", "\\.") for part in parts)


def parts_of(source: str) -> list[str]:
    """The database, schema and table of a text of `source_table`, with their dots escaped."""
    return re.split(r"(?<!\\)\.", source)[-3:]


def concerns(truncated: str | None, source: str | None, topic: str) -> bool:
    """Whether a truncate of the source table `truncated` concerns what the table `source` wrote.

    A truncate without a name concerns everything. A row whose source table isn't known (its metadata had none, or an
    earlier release stored it) is taken to be of the table that the topic is named after: `prefix.schema.table`.
    """
    if truncated is None:
        return True
    return truncated == source if source is not None else _is_topics_own(truncated, topic)


def _is_topics_own(source: str, topic: str) -> bool:
    """Whether a topic is named after a source table. A rule without a topic has objects of one table."""
    name = parts_of(source)[-1].replace("\\", "")
    name = _NOT_IN_A_TOPIC.sub("_", name)
    return not topic or topic == name or topic.endswith(f".{name}")


@dataclass(frozen=True)
class Floors:
    """The positions of a table's newest truncates: no older change that they concern comes back.

    `everywhere` is that of truncates without a source table, and of those that an earlier release merged; `by_source`
    has those of source tables. `topic` is the table's.
    """

    everywhere: str = NEVER
    by_source: Mapping[str, str] = field(default_factory=dict, hash=False)
    topic: str = ""

    def __bool__(self) -> bool:
        return bool(self.everywhere or self.by_source)

    @property
    def highest(self) -> str:
        """The position above which no change of any source table loses."""
        return max([self.everywhere, *self.by_source.values()])

    def of(self, source: str | None) -> str:
        """The position at or below which a change of this source table loses."""
        if source is not None:
            return max(self.everywhere, self.by_source.get(source, NEVER))
        own = (position for truncated, position in self.by_source.items() if concerns(truncated, None, self.topic))
        return max([self.everywhere, *own])

    def raised(self, truncates: Iterable[tuple[str | None, str]]) -> Floors:
        """The floors after truncates, each of a source table and at a position."""
        everywhere, by_source = self.everywhere, dict(self.by_source)
        for source, position in truncates:
            if source is None:
                everywhere = max(everywhere, position)
            elif position > by_source.get(source, NEVER):
                by_source.pop(source, None)  # the last one is the one that was raised last
                by_source[source] = position
        newest = list(by_source.items())[-MOST_FLOORS:]
        return Floors(everywhere, dict(newest), self.topic)

    def joined(self, other: Floors) -> Floors:
        """The higher of two tables' floors for each source table."""
        return self.raised([(None, other.everywhere), *other.by_source.items()])

    def to_text(self) -> str:
        """The text of the table's property: a position alone where no source table has one, else JSON."""
        if not self.by_source:
            return self.everywhere
        values = {**({"": self.everywhere} if self.everywhere else {}), **self.by_source}
        return json.dumps(values, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str | None, topic: str) -> Floors:
        """Read the result of `to_text`; None where the table has no such property."""
        if not text or not text.startswith("{"):
            return cls(text or NEVER, topic=topic)
        values = {str(source): str(position) for source, position in json.loads(text).items()}
        return cls(values.pop("", NEVER), values, topic)
