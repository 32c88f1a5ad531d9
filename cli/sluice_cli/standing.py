"""Which tables no run will claim from as things are, though objects of theirs wait: what `sluice wait` would wait for in vain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sluice.claiming import TableState, fed_by
from sluice.configuration import Configuration
from sluice.errors import TwoTopics
from sluice.ledger_items import PENDING
from sluice.ledger_records import ObjectRecord


@dataclass(frozen=True)
class StandingTable:
    """A table whose objects wait until somebody does something: how many wait, why, and what is to be done."""

    table: str
    lane: str
    objects: int
    reason: str
    next_step: str


def standing_tables(
    records: Iterable[ObjectRecord], configuration: Callable[[], Configuration | None], ledger: Any
) -> tuple[StandingTable, ...]:
    """The tables of these objects that stand still, by name. The configuration in force and the ledger are asked only while something is pending."""
    waiting: dict[tuple[str, str, str], int] = defaultdict(int)
    for record in records:
        if record.state == PENDING and record.table:
            waiting[(record.table, record.lane or "", record.topic or "")] += 1
    if not waiting:
        return ()
    in_force = configuration()
    states = ledger.table_states(sorted({table for table, _, _ in waiting}))
    found = (
        _standing(table, lane, topic, count, in_force, states[table])
        for (table, lane, topic), count in sorted(waiting.items())
    )
    return tuple(item for item in found if item is not None)


def _standing(
    table: str, lane: str, topic: str, objects: int, configuration: Configuration | None, state: TableState
) -> StandingTable | None:
    config = configuration.table_for_topic(topic) if configuration is not None else None
    if state.rebuild:
        return StandingTable(
            table,
            lane,
            objects,
            "is being rebuilt",
            f"`sluice rebuild table {table}` goes on with it, then `sluice resume {lane}`",
        )
    if state.paused or (config is not None and config.paused):
        return StandingTable(
            table, lane, objects, "is paused", "Take `paused` out of its rule in tables.yaml, and `sluice config push`"
        )
    if configuration is not None and config is None:
        return StandingTable(
            table,
            lane,
            objects,
            f"is fed by topic {topic}, which no rule takes any more",
            "`sluice config push` a tables.yaml with a rule for it",
        )
    if configuration is not None and config is not None and config.table == table:
        own = fed_by(configuration, config.lane, {table: config}, {table: state})[table].topic
        if own != topic:
            return StandingTable(
                table, lane, objects, f"is fed by topic {own}, and these are of {topic}", TwoTopics.next_step
            )
    return None
