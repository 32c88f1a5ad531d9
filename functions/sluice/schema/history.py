"""The schema history of a table: its stored columns, and every writer schema that came, with its verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sluice.errors import UnreadableHistory
from sluice.schema.columns import RowSchema
from sluice.schema.evolution import INCOMPATIBLE, Evolution
from sluice.silver_keys import PREFIX

FORMAT = 1
TABLES_PREFIX = f"{PREFIX}/schemas/tables/"
MAX_CHANGES = 200  # kept of one verdict: a schema may have thousands of columns, and the first ones show the cause


@dataclass(frozen=True)
class SeenColumn:
    """A column of a writer schema: its name, its stored Spark type, and the writer's name of its type."""

    name: str
    type: str
    source_type: str


@dataclass(frozen=True)
class SchemaVerdict:
    """A verdict on a schema. `at` is in epoch ms; `batch` is empty for a verdict at admission, before any batch."""

    at: int
    batch: str
    verdict: str
    changes: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class SeenSchema:
    """A writer schema that came for a table. `judged` are its first verdict, and each later one that changed sides."""

    table: str
    fingerprint: str
    columns: tuple[SeenColumn, ...]
    judged: tuple[SchemaVerdict, ...]

    @property
    def verdict(self) -> str:
        """The last verdict."""
        return self.judged[-1].verdict

    @property
    def types(self) -> dict[str, str]:
        """Name -> Spark's type name."""
        return {column.name: column.type for column in self.columns}

    def judged_again(self, judged: SchemaVerdict) -> SeenSchema:
        """With a further verdict, if that changes whether the schema is accepted; otherwise unchanged."""
        if (judged.verdict == INCOMPATIBLE) == (self.verdict == INCOMPATIBLE):
            return self
        return replace(self, judged=(*self.judged, judged))

    def to_json(self) -> str:
        return _canonical({"format": FORMAT, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> SeenSchema:
        """Read the JSON of `to_json`. Raises UnreadableHistory."""
        content = _content(text)
        try:
            if not content["judged"]:
                raise KeyError("judged")
            return cls(
                content["table"],
                content["fingerprint"],
                tuple(SeenColumn(**column) for column in content["columns"]),
                tuple(
                    SchemaVerdict(item["at"], item["batch"], item["verdict"], tuple(item["changes"]))
                    for item in content["judged"]
                ),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UnreadableHistory(f"Not a schema of a table's history: {error}", found=text[:200]) from error


@dataclass(frozen=True)
class StoredColumns:
    """A table's columns in its newest commit, hidden columns included: name -> Spark's type name, in order.

    `history` is the name of its history table, by which readers find it; None where it has no other than
    `<table>_history`.
    """

    table: str
    columns: Mapping[str, str]
    history: str | None = None

    def to_json(self) -> str:
        columns = [[name, kind] for name, kind in self.columns.items()]
        history = {} if self.history is None else {"history": self.history}
        return _canonical({"format": FORMAT, "table": self.table, "columns": columns, **history})

    @classmethod
    def from_json(cls, text: str) -> StoredColumns:
        """Read the JSON of `to_json`. Raises UnreadableHistory."""
        content = _content(text)
        try:
            history = content.get("history")
            if not isinstance(history, (str, type(None))):
                raise TypeError("history")
            return cls(content["table"], {name: kind for name, kind in content["columns"]}, history)
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableHistory(f"Not the columns of a table: {error}", found=text[:200]) from error


def seen(table: str, fingerprint: str, row: RowSchema, evolution: Evolution, *, at: int, batch: str = "") -> SeenSchema:
    """A schema with its first verdict."""
    columns = tuple(SeenColumn(column.name, column.spark_type, column.source_type[:200]) for column in row.columns)
    changes = tuple(evolution.to_dict()["changes"][:MAX_CHANGES])
    return SeenSchema(table, fingerprint, columns, (SchemaVerdict(at, batch, evolution.verdict, changes),))


def stored_key(table: str) -> str:
    return f"{TABLES_PREFIX}{table}/stored.json"


def seen_prefix(table: str) -> str:
    """Key prefix of the writer schemas that came for a table."""
    return f"{TABLES_PREFIX}{table}/seen/"


def seen_key(table: str, fingerprint: str) -> str:
    return f"{seen_prefix(table)}{fingerprint}.json"


def _content(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
        format_read = content["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableHistory(f"Not a document of a schema history: {error}", found=text[:200]) from error
    if format_read != FORMAT:
        raise UnreadableHistory(
            f"The schema history has format {format_read!r}, this release reads {FORMAT}", found=format_read
        )
    return dict(content)


def _canonical(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=True)
