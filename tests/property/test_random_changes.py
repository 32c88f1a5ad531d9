"""Random histories through the merge's decisions: any order, grouping and repetition gives the source's state."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.captures import play, rules
from support.change_histories import COLUMNS, KEYS, Event, deliveries, history, source_rows
from support.shapes import lines

from sluice.changes.row_history import NEVER, Row, row_after

SEEDS = st.integers(0, 2**48)


class Table:
    """A stored table: rows by key, and the position of the newest truncate."""

    def __init__(self, ignore_deletes: bool = False) -> None:
        self.rows: dict[int, Row] = {}
        self.floor = NEVER
        self.ignore_deletes = ignore_deletes

    def merge(self, batch: list[Event]) -> int:
        """One batch, as the merge does it; how many rows it wrote."""
        self.floor = max([event.change.position for event in batch if event.key is None] + [self.floor])
        written = 0
        for key in KEYS:
            changes = [event.change for event in batch if event.key == key]
            row = row_after(
                self.rows.get(key), changes, columns=COLUMNS, floor=self.floor, ignore_deletes=self.ignore_deletes
            )
            if row is not None:
                written += _differs(row, self.rows.get(key))
                self.rows[key] = row
        return written

    def live(self) -> dict[int, dict[str, Any] | None]:
        return {key: None if row.deleted else dict(row.values) for key, row in self.rows.items()}


def _differs(row: Row, before: Row | None) -> bool:
    return before is None or (row.position, row.deleted, row.values, row.owed) != (
        before.position,
        before.deleted,
        before.values,
        before.owed,
    )


def live_in_source(events: list[Event]) -> dict[int, Any]:
    return {key: row for key, row in source_rows(events).items() if row is not None}


def live_in_table(table: Table) -> dict[int, Any]:
    return {key: row for key, row in table.live().items() if row is not None}


class SourceAndTable(RuleBasedStateMachine):
    """A source whose changes arrive in any order, in batches, more than once; after each batch the table is what
    arrived, applied in order.
    """

    @initialize(seed=SEEDS)
    def begin(self, seed: int) -> None:
        self.events, self.arrived, self.table = history(random.Random(seed), most=20), [], Table()

    @rule(numbers=st.lists(st.integers(0, 40), min_size=1, max_size=6))
    def batch_arrives(self, numbers: list[int]) -> None:
        batch = [self.events[number % len(self.events)] for number in numbers]
        self.table.merge(batch)
        self.arrived += batch

    @precondition(lambda self: self.arrived)
    @rule(numbers=st.lists(st.integers(0, 40), min_size=1, max_size=4))
    def what_was_merged_arrives_again(self, numbers: list[int]) -> None:
        assert self.table.merge([self.arrived[number % len(self.arrived)] for number in numbers]) == 0

    @invariant()
    def the_table_is_what_arrived_applied_in_position_order(self) -> None:
        if hasattr(self, "arrived"):
            assert live_in_table(self.table) == live_in_source(self.arrived)

    @invariant()
    def a_row_owes_only_columns_known_no_later_than_itself(self) -> None:
        for row in self.table.rows.values() if hasattr(self, "arrived") else ():
            assert all(known_at <= row.position for known_at in row.owed.values()) and not (row.deleted and row.owed)


TestSourceAndTable = SourceAndTable.TestCase
TestSourceAndTable.settings = settings(max_examples=60, stateful_step_count=10, deadline=None)


@settings(max_examples=2_500, deadline=None)
@given(SEEDS)
def test_any_order_grouping_and_repetition_gives_what_the_source_holds(seed: int) -> None:
    draw = random.Random(seed)
    events = history(draw)
    table, arrived = Table(), []
    for objects in deliveries(draw, events):
        batch = [event for item in objects for event in item]
        table.merge(batch)
        arrived += batch
        assert live_in_table(table) == live_in_source(arrived)
    assert live_in_table(table) == live_in_source(events)


@settings(max_examples=1_000, deadline=None)
@given(SEEDS)
def test_what_a_row_is_does_not_depend_on_how_its_changes_were_batched(seed: int) -> None:
    draw = random.Random(seed)
    events = history(draw)
    at_once, in_batches = Table(), Table()
    at_once.merge(events)
    for objects in deliveries(draw, events):
        in_batches.merge([event for item in objects for event in item])
    # A row that a truncate defeats is never stored at once, and is a deleted one where it came in a batch before.
    assert all(in_batches.rows[key].deleted for key in in_batches.rows.keys() - at_once.rows.keys())
    for key, row in at_once.rows.items():
        for name in ("position", "deleted", "values", "owed"):
            assert getattr(row, name) == getattr(in_batches.rows[key], name)


@settings(max_examples=500, deadline=None)
@given(SEEDS)
def test_when_deletes_are_ignored_no_row_disappears_and_positions_only_grow(seed: int) -> None:
    table, draw = Table(ignore_deletes=True), random.Random(seed)
    for objects in deliveries(draw, history(draw)):
        before = dict(table.rows)
        table.merge([event for item in objects for event in item])
        for key, row in before.items():
            assert table.rows[key].position >= row.position and (row.deleted or not table.rows[key].deleted)


def test_record_keys_that_no_primary_key_guards_change_in_any_order() -> None:
    for seed in range(60):
        draw = random.Random(seed)
        rows: dict[int, dict[str, Any]] = {}
        records: list[bytes] = []
        for at in range(draw.randint(2, 9)):
            id = draw.randint(1, 3)
            free = [code for code in "abcde" if code not in {row["code"] for row in rows.values()}]
            before, after = rows.get(id), {"id": id, "code": draw.choice(free), "at": at}
            if before is not None and draw.random() < 0.3:
                after["code"] = before["code"]
            gone = before is not None and draw.random() < 0.25
            op = "d" if gone else "c" if before is None else "u"
            source = {"connector": "postgresql", "lsn": at + 1, "table": "t", "db": "d", "schema": "s"}
            records.append(lines({"before": before, "after": None if gone else after, "source": source, "op": op}))
            rows = {**rows, id: after} if not gone else {key: row for key, row in rows.items() if key != id}
        objects = [b"".join(records[at : at + 2]) for at in range(0, len(records), 2)]
        objects += draw.sample(objects, draw.randint(0, len(objects)))
        draw.shuffle(objects)
        rule = {"topic": "s.t", "table": "d.t", "record_key": "code", "types": {"id": "long"}}
        played = play({f"topics/s.t/{number}.json": body for number, body in enumerate(objects)}, rules(rule))
        wanted = sorted((row["code"], row["id"], row["at"]) for row in rows.values())
        assert ([(row["code"], row["id"], row["at"]) for row in played.rows], played.refused) == (wanted, []), seed
