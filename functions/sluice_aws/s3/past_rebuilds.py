"""Reads the marks that rebuilds of tables left beside the data that they moved away."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from sluice.batch.manifest import check_types
from sluice.errors import UnreadableManifest
from sluice.silver_keys import BEGUN, FINISHED, REPLACED
from sluice_aws.s3.objects import Objects, SkippedDocuments


class PastRebuilds:
    """The rebuilds of one silver bucket. `marks` are by table and by the place of the data that was moved."""

    def __init__(self, objects: Objects, silver: str, marks: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
        self._objects = objects
        self._silver = silver
        self._marks = marks

    @classmethod
    def read(
        cls, objects: Objects, silver: str, skipped: SkippedDocuments, *, table: str | None = None
    ) -> PastRebuilds:
        """Read all marks, or those of one table; `skipped` gets those that can't be read."""
        marks_by_table: dict[str, dict[str, dict[str, Any]]] = {}
        for key in objects.keys(silver, REPLACED if table is None else f"{REPLACED}{table}/"):
            if key.endswith(f"/{BEGUN}") and key.count("/") == REPLACED.count("/") + 2:
                mark = skipped.parsed(key, objects.get(silver, key), _mark)
                if mark is not None:
                    marks_by_table.setdefault(mark["table"], {})[key[: -len(BEGUN)]] = mark
        return cls(objects, silver, marks_by_table)

    @property
    def last_at(self) -> dict[str, int]:
        """When each table was last rebuilt, or dropped, or that was begun (epoch ms)."""
        return {table: max(mark["at"] for mark in marks.values()) for table, marks in self._marks.items()}

    @cached_property
    def dropped_at(self) -> dict[str, int]:
        """When each table was last dropped (epoch ms); without those whose drops never finished: they may be in use."""
        return {
            table: max(times)
            for table, marks in self._marks.items()
            if (times := [mark["at"] for to, mark in marks.items() if mark.get("dropped") and self._is_finished(to)])
        }

    def times(self, table: str) -> tuple[int, ...]:
        """When a table was rebuilt (epoch ms), the first time first."""
        return tuple(sorted(mark["at"] for mark in self._marks.get(table, {}).values()))

    def newest(self, table: str) -> Mapping[str, Any]:
        """The mark of a table's last rebuild."""
        marks = self._marks[table]
        return marks[max(marks)]

    def unfinished(self, *, drops: bool = False) -> tuple[str, ...]:
        """The tables whose last rebuild was interrupted, sorted; with `drops` those whose drop was."""
        return tuple(
            sorted(
                table
                for table, marks in self._marks.items()
                if bool(marks[max(marks)].get("dropped")) == drops and not self._is_finished(max(marks))
            )
        )

    def _is_finished(self, to: str) -> bool:
        return self._objects.get(self._silver, to + FINISHED) is not None


def _mark(text: str) -> dict[str, Any]:
    """The mark of a rebuild. Raises UnreadableManifest."""
    try:
        mark: dict[str, Any] = json.loads(text)
        check_types(mark, "mark", {"table": str, "lane": str, "to": str, "at": int})
    except (ValueError, AttributeError, RecursionError) as error:
        raise UnreadableManifest("This is not a mark of a rebuild", found=text[:200]) from error
    return mark
