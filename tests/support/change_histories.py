"""Random histories of a source table, and an oracle of ten lines for what the source holds at their end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluice.changes.row_history import Change

COLUMNS = ("place", "name", "big", "doc", "late")
KEYS = (1, 2, 3)


@dataclass(frozen=True)
class Event:
    """A change of one key, or a truncate (`key` is None)."""

    key: int | None
    change: Change


def position(number: int, again: int = 0) -> str:
    """A position in PostgreSQL's form; `again` is another Kafka offset of the same change."""
    return f"0000.{number:020d}.{number * 10 + again:020d}"


def source_rows(events: Sequence[Event]) -> dict[int, dict[str, Any] | None]:
    """The rows after these changes, each applied once, in position order; None for a deleted one."""
    rows: dict[int, dict[str, Any] | None] = {}
    for event in sorted(set(events), key=lambda event: event.change.position):
        change = event.change
        if event.key is None:
            rows = {key: None for key in rows}
        elif change.deleted:
            rows[event.key] = None
        else:
            before = (None if change.op == "c" else rows.get(event.key)) or {}
            rows[event.key] = {
                column: before.get(column) if column in change.unchanged else change.values.get(column)
                for column in COLUMNS
            }
    return rows


def history(draw: random.Random, *, most: int = 14) -> list[Event]:
    """Creates, updates, moves, deletes, key changes, truncates, unchanged columns and a column that is added, in
    position order.
    """
    events: list[Event] = []
    alive: dict[int, bool] = {}
    number, added = 0, draw.randint(0, most)
    for step in range(draw.randint(1, most)):
        number += draw.randint(1, 3)
        at, key = position(number), draw.choice(KEYS)
        kind = draw.choices(("write", "delete", "move_key", "truncate"), (12, 3, 2, 1))[0]
        if kind == "truncate":
            events.append(Event(None, Change(at, "t", False)))
            alive = {}
        elif kind == "write":
            op = draw.choice("ur") if alive.get(key, draw.random() < 0.5) else draw.choice("cr")
            events.append(Event(key, _write(draw, at, op, step >= added)))
            alive[key] = True
        else:
            events.append(Event(key, Change(at, "d", True)))
            alive[key] = False
            if kind == "move_key":
                other = draw.choice([one for one in KEYS if one != key])
                events.append(Event(other, _moved(_write(draw, position(number, 1), "c", step >= added), at, number)))
                alive[other] = True
    return events


def _moved(created: Change, at: str, number: int) -> Change:
    """The row under a new key: created, as a source writes a new primary key, or updated where another key is new.

    Of such an update the deletion of the former key's row is made, at its very position, and it has the whole row.
    """
    values = {**{name: f"{name}{at[-4:]}" for name in created.unchanged}, **created.values}
    return created if number % 2 else Change(at, "u", False, values)


def _write(draw: random.Random, at: str, op: str, with_late: bool) -> Change:
    values = {"place": draw.choice(("A", "B", None)), "name": at[-4:], "big": f"big{at[-4:]}", "doc": f"doc{at[-4:]}"}
    if with_late:
        values["late"] = f"late{at[-4:]}"
    unchanged = frozenset(name for name in ("big", "doc") if op != "r" and draw.random() < 0.4)
    return Change(at, op, False, {name: value for name, value in values.items() if name not in unchanged}, unchanged)


def deliveries(draw: random.Random, events: Sequence[Event], *, objects_at_once: int = 4) -> list[list[list[Event]]]:
    """The changes cut into objects, some of these repeated, in any order: batches of objects."""
    objects: list[list[Event]] = []
    rest = list(events)
    while rest:
        size = draw.randint(1, 4)
        objects.append(rest[:size])
        rest = rest[size:]
    waiting = objects + draw.sample(objects, draw.randint(0, len(objects)))
    draw.shuffle(waiting)
    batches: list[list[list[Event]]] = []
    while waiting:
        size = draw.randint(1, objects_at_once)
        batches.append(waiting[:size])
        waiting = waiting[size:]
    return batches
