"""Refuses objects with changes of another source table than those that a table holds, unless its rule merges them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.changes.log_restart import SeenObject
from sluice.changes.source_tables import parts_of
from sluice.config.table import TableConfig
from sluice.errors import OtherSourceTable


@dataclass(frozen=True)
class SourceMark:
    """The source table whose changes were merged under a generation, as `source_tables.source_table` names it."""

    generation: int
    table: str


def judge_sources(
    before: SourceMark | None, seen: Sequence[SeenObject], config: TableConfig
) -> tuple[SourceMark | None, dict[str, OtherSourceTable]]:
    """The mark after the accepted objects, and the refused ones by hash (`one-source-table`).

    The first object decides. What a column of the table names of the source (`TableConfig.source_words`) may differ.
    """
    if config.merged:
        return None, {}
    compared = [word not in config.source_words for word in ("db", "schema", "table")]
    table = before.table if before is not None and before.generation == config.generation else None
    refused: dict[str, OtherSourceTable] = {}
    for item in seen:
        others = [name for name in item.source_tables if not _is_same(name, table or item.source_tables[0], compared)]
        if others:
            refused[item.object] = OtherSourceTable(
                f"The object has changes of the source table {others[0]}, and {config.table} holds those of "
                f"{table or item.source_tables[0]}",
                found=others[0],
                held=table or item.source_tables[0],
            )
        elif table is None and item.source_tables:
            table = item.source_tables[0]
    return (before if table is None else SourceMark(config.generation, table)), refused


def _is_same(one: str, other: str, compared: Sequence[bool]) -> bool:
    """Whether two names may be of one table: a connector may leave out its database or its schema."""
    parts = zip(parts_of(one), parts_of(other), compared)
    return all(part == own or not part or not own or not counts for part, own, counts in parts)
