"""Tables that are blocked: objects are pending, but no run will claim them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sluice.batch.claim import TableState, fed_by
from sluice.config.document import Configuration
from sluice.config.table import refuse_changes
from sluice.errors import ChangeRefused, TwoTopics
from sluice.ledger.keys import PENDING
from sluice.ledger.records import ObjectRecord
from sluice_aws.ledger.ledger import Ledger


def step_of(state: TableState, lane: str | None) -> str:
    """The step that unblocks a blocked table, with the names of the table and of its lane, if it is known."""
    return with_names(str((state.blocked or {}).get("next_step", "")), state.table, lane)


def with_names(text: str, table: str, lane: str | None) -> str:
    """A text with the names of a table and of its lane, if it is known, in its commands: `sluice pause LANE`."""
    names = {"TABLE": table, "LANE": lane or "LANE"}
    return re.sub(
        "`sluice [^`]*`", lambda found: re.sub(r"\b(TABLE|LANE)\b", lambda word: names[word[1]], found[0]), text
    )


def _about_it(table: str, error: Any) -> str:
    """An error after the name of its table, which it then doesn't begin with."""
    rest = str(error).removeprefix(f"{table} ")
    return rest if rest == error else f"it {rest}"


@dataclass(frozen=True)
class BlockedTable:
    """A blocked table: the number of pending objects, the reason, and the step that unblocks it."""

    table: str
    lane: str
    objects: int
    reason: str
    next_step: str


def blocked_tables(
    records: Iterable[ObjectRecord], configuration: Callable[[], Configuration | None], ledger: Ledger
) -> tuple[BlockedTable, ...]:
    """The blocked tables among those of these objects, by name.

    Loads the configuration and asks the ledger only if an object is pending.
    """
    waiting: dict[tuple[str, str, str], int] = defaultdict(int)
    for record in records:
        if record.state == PENDING and record.table:
            waiting[(record.table, record.lane or "", record.topic or "")] += 1
    if not waiting:
        return ()
    active = configuration()
    states = ledger.tables.get_many(sorted({table for table, _, _ in waiting}))
    found = (
        _blocked(table, lane, topic, count, active, states[table])
        for (table, lane, topic), count in sorted(waiting.items())
    )
    return tuple(item for item in found if item is not None)


def _blocked(
    table: str, lane: str, topic: str, objects: int, configuration: Configuration | None, state: TableState
) -> BlockedTable | None:
    config = configuration.table_for_topic(topic) if configuration is not None else None
    if state.rebuild:
        return BlockedTable(
            table,
            lane,
            objects,
            "is being rebuilt",
            f"`sluice rebuild table {table}` continues it, then `sluice resume {lane}`",
        )
    if state.blocked:
        return BlockedTable(
            table, lane, objects, f"is blocked: {_about_it(table, state.blocked['error'])}", step_of(state, lane)
        )
    if config is not None and config.paused:
        return BlockedTable(
            table,
            lane,
            objects,
            "is paused",
            "Remove `paused` from its rule in tables.yaml, and run `sluice config push`",
        )
    if configuration is not None and config is None:
        return BlockedTable(
            table,
            lane,
            objects,
            f"is fed by topic {topic}, which no rule takes any longer",
            "Run `sluice config push` with a rule for it in tables.yaml",
        )
    if configuration is not None and config is not None and config.table == table:
        own = fed_by(configuration, config.lane, {table: config}, {table: state})[table].topic
        if own != topic:
            return BlockedTable(table, lane, objects, f"is fed by topic {own}, not {topic}", TwoTopics.next_step)
        try:
            refuse_changes(config, state.pinned)
        except ChangeRefused as refused:
            step = with_names(refused.next_step, table, lane)
            return BlockedTable(table, lane, objects, refused.message.removeprefix(f"{table} "), step)
    return None
