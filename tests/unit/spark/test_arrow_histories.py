"""Rows that follow from their keys' histories, by Arrow: as the definition has them, batch by batch."""

import json
import random
from collections.abc import Collection, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from support.change_histories import COLUMNS, Event, deliveries, history
from support.merge_cases import COLUMNS as SHOWN
from support.merge_cases import EVERY, KEEPING, Group, row_text

from sluice.changes import hidden_columns as hidden
from sluice.changes.row_history import Change, Row, row_after
from sluice.config.table import IGNORE, SOFT, TableConfig
from sluice_aws.s3.objects import ObjectSource
from sluice_formats.records import ReaderPlan
from sluice_spark.merge.by_arrow.decide import KEY
from sluice_spark.merge.by_arrow.driver_merge import decided_by_key, with_keys
from sluice_spark.merge.by_arrow.keyed_rows import Key, StoredRow, as_counts, from_counts
from sluice_spark.merge.by_arrow.large.merge import total
from sluice_spark.merge.by_arrow.large.plan import LoadPlan
from sluice_spark.merge.rows import rows_schema

TARGET = {"id": "int", **dict.fromkeys(COLUMNS, "string"), **{c.name: c.spark_type for c in hidden.HIDDEN}}


class Table:
    """A table in memory, whose batches are decided by Arrow."""

    def __init__(self, delete_mode: str = SOFT) -> None:
        self.config = TableConfig("db.t", "db", "t", "topic", ("id",), delete_mode=delete_mode)
        self.rows: dict[Key, dict[str, Any]] = {}

    def merge(self, changes: list[tuple[int, Change]]) -> dict[str, int]:
        """Merge changes of keys, and return the counts."""
        schema = rows_schema(TARGET)
        table = pa.Table.from_pylist([_raw(key, change) for key, change in changes], schema)
        keyed, wanted = with_keys(table, ("id",))
        reader = ReaderPlan(self.config, batch="b-1", columns=(), inferred={})
        own: Any = {"ignore_deletes": self.config.delete_mode == IGNORE}
        plan = LoadPlan(reader, TARGET, "", ObjectSource("eu-west-1", "silver"), False, hidden.LINEAGE_WORDS, **own)
        decided = decided_by_key(keyed, wanted, self._by_index(wanted.rows), plan, read_values=self._values)
        self.rows.update({(row["id"],): row for row in decided.rows.to_pylist()})
        return total([decided.counts])

    def _values(self, needs: pa.Table, plan: LoadPlan, columns: Collection[str]) -> dict[Key, StoredRow]:
        rows = self._stored(needs, columns)
        own: Any = {key: {**row.values, KEY: str(*key), hidden.INEXACT: 0} for key, row in rows.items()}
        return {(*key, str(*key)): replace(row, values=own[key]) for key, row in rows.items()}

    def _by_index(self, newest: pa.Table) -> dict[Key, StoredRow]:
        """The stored rows as the index of keys has them: at the highest position, where a change is above that."""
        highest = max((row[hidden.POSITION] for row in self.rows.values()), default="")
        above = {(row["id"],) for row in newest.to_pylist() if row[hidden.POSITION] > highest}
        return {
            key: StoredRow(highest, None, "", 0) if key in above and row.owed is None else row
            for key, row in self._stored(newest, ()).items()
        }

    def _stored(self, wanted: pa.Table, columns: Collection[str]) -> dict[Key, StoredRow]:
        rows = {(id,): self.rows.get((id,)) for id in wanted.column("id").to_pylist()}
        return {
            key: StoredRow(row[hidden.POSITION], row[hidden.OWED], "", 0, values={name: row[name] for name in columns})
            for key, row in rows.items()
            if row is not None
        }


def _raw(key: int, change: Change) -> dict[str, Any]:
    # Rows of a snapshot that share a key are left to Spark.
    op = "u" if change.op == hidden.SNAPSHOT_READ else change.op
    own = {hidden.POSITION: change.position, hidden.DELETED: change.deleted, hidden.OP: op, hidden.INEXACT: 0}
    return {"id": key, **change.values, **own, hidden.UNCHANGED: sorted(change.unchanged) or None}


def _row(row: Mapping[str, Any]) -> Row:
    deleted, owed = row[hidden.DELETED], json.loads(row[hidden.OWED] or "{}")
    return Row(row[hidden.POSITION], deleted, {} if deleted else {name: row[name] for name in COLUMNS}, owed)


@pytest.mark.parametrize("group", [EVERY, KEEPING], ids=["kept tombstones", "ignored deletes"])
def test_every_example_has_its_row(group: Group) -> None:
    table = Table(group.settings.get("delete_mode", SOFT))
    histories = {id: group.changes_of(id) for id in range(len(group.examples))}
    for number in range(max(map(len, histories.values()))):
        table.merge([(id, change) for id, batches in histories.items() for change in batches[number]])
    own = (hidden.POSITION, hidden.OWED)
    rows = {
        id: row_text(row[hidden.DELETED], [row[name] for name in SHOWN], *map(row.get, own))
        for (id,), row in table.rows.items()
    }
    assert group.by_name(rows) == group.rows


@pytest.mark.parametrize("delete_mode", [SOFT, IGNORE])
@pytest.mark.parametrize("seed", range(60))
def test_batches_in_any_order_give_the_rows_of_the_definition(seed: int, delete_mode: str) -> None:
    draw = random.Random(seed)
    table, wanted = Table(delete_mode), dict[int, Row | None]()
    events = [event for event in history(draw, most=24) if event.key is not None]
    for objects in deliveries(draw, events):
        batch: list[Event] = [event for changes in objects for event in changes]
        before = dict(wanted)
        for key in {event.key for event in batch if event.key is not None}:
            own = [event.change for event in batch if event.key == key]
            wanted[key] = row_after(before.get(key), own, columns=COLUMNS, ignore_deletes=delete_mode == IGNORE)
        counts = table.merge([(event.key, event.change) for event in batch if event.key is not None])
        assert {key: _row(row) for (key,), row in table.rows.items()} == wanted
        newer = [key for key, row in wanted.items() if row and row.position > getattr(before.get(key), "position", "")]
        assert counts["winning"] == len(newer)
        counted = counts["losing"] + counts["winning"] + counts.get("supplied", 0)
        assert counted == len({event.key for event in batch})


def test_values_are_counts_and_back_again() -> None:
    counts: dict[str, list[Any]] = {
        "day": [2_932_897, None],
        "at": [253_402_300_800_000_000, None],
        "days": [[1, None], None],
        "price": [Decimal("1.50"), None],
        "raw": [b"a", None],
    }
    kinds = (pa.date32(), pa.timestamp("us", "UTC"), pa.list_(pa.date32()), pa.decimal128(9, 2), pa.binary())
    schema = pa.schema(zip(counts, kinds))
    table = from_counts([*(dict(zip(counts, row)) for row in zip(*counts.values())), {}], schema)
    assert table.schema == schema
    again = {name: as_counts(table.column(name).combine_chunks()).to_pylist() for name in counts}
    assert again == {name: [*values, None] for name, values in counts.items()}
