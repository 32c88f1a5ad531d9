"""One topic with the changes of several source tables: a truncate concerns the rows of its own table alone."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from support.builders import envelope
from support.workbench import COW, MOR, Workbench
from support.workbench import table as unmerged

from sluice.changes import hidden_columns as hidden
from sluice.config.table import TableConfig

TEXT = ["null", "string"]
MARK = "__debezium_unavailable_value"
JAN, FEB = "orders_2024_01", "orders_2024_02"


def table(name: str, **settings: Any) -> TableConfig:
    return unmerged(name, merged=True, **settings)


COLUMNS = {"id": "long", "name": TEXT, "big": TEXT}
AT = {"lsn": ["null", "long"], "ts_ms": "long"}
SCHEMA = envelope(COLUMNS, {"db": TEXT, "schema": TEXT, "table": TEXT, **AT})
UNNAMED = envelope(COLUMNS, AT)  # as a connector writes it that names no table


def event(op: str, lsn: int, source: str | None, id: int | None = None, name: str = "", big: str = "b") -> Any:
    """A change of a source table, or its truncate."""
    row = None if id is None else {"id": id, "name": name or source, "big": big}
    before, after = (row, None) if op == "d" else (None, row)
    place = {"db": source and "d", "schema": source and "public", "table": source, "lsn": lsn, "ts_ms": lsn * 60_000}
    return {"op": op, "before": before, "after": after, "source": place}


def live(bench: Workbench, config: TableConfig) -> list[Any]:
    """The rows that aren't deleted, alike by three readers."""
    columns = ("id", "name", "__deleted")
    by_spark = bench.rows(config, *columns)
    assert by_spark == bench.rows_by_hudi_rs(config, *columns) == bench.rows_by_sluice(config, *columns)
    return [row[:2] for row in by_spark if not row[2]]


def test_an_object_of_another_source_table_is_refused_whole(bench: Workbench) -> None:
    config = unmerged("one_source")
    own, both = bench.put([event("c", 10, JAN, 1)], SCHEMA), bench.put([event("c", 11, FEB, 2)], SCHEMA)
    mixed = bench.put([event("u", 12, JAN, 1, "new"), event("c", 13, FEB, 3)], SCHEMA)
    outcome = None
    for objects, foreign in (([own, mixed], mixed), ([both], both)):  # what the table holds is in the ledger
        outcome = bench.merge(config, objects, after=outcome)
        assert {error.object: error.code for error in outcome.quarantined} == {foreign.id.hash: "other_source_table"}
    assert live(bench, config) == [(1, JAN)]
    outcome = bench.merge(unmerged("one_source", merged=True), [mixed, both], after=outcome)
    assert not outcome.quarantined and live(bench, config) == [(1, "new"), (2, FEB), (3, FEB)]


FIRST = [*(event("c", 10 + id, JAN, id) for id in (1, 2, 3)), *(event("c", 10 + id, FEB, id) for id in (11, 12, 13))]
LEFT = [(11, FEB), (12, FEB), (13, FEB)]


@COW
def test_a_truncate_empties_its_own_source_table_and_defeats_late_rows_of_it_alone(
    bench: Workbench, table_type: str
) -> None:
    config = table(f"shared_{table_type}", table_type=table_type)
    bench.apply(config, *FIRST, schema=SCHEMA)
    outcome = bench.apply(config, event("t", 100, JAN), event("c", 101, FEB, 14), schema=SCHEMA)
    assert (outcome.counts["truncated"], outcome.notes) == (3, ())
    assert live(bench, config) == [*LEFT, (14, FEB)]
    bench.new_run()  # floors are the table's own, not a run's
    late = [event("u", 50, JAN, 1), event("c", 51, JAN, 4), event("u", 52, FEB, 11, "later"), event("c", 53, FEB, 15)]
    assert bench.apply(config, *late, schema=SCHEMA).counts["losing"] == 2
    assert live(bench, config) == [(11, "later"), (12, FEB), (13, FEB), (14, FEB), (15, FEB)]
    bench.apply(config, event("c", 110, JAN, 1), event("t", 111, FEB), schema=SCHEMA)
    assert live(bench, config) == [(1, JAN)]
    # A truncate that names no table concerns all.
    bench.apply(config, event("c", 120, FEB, 11), event("t", 130, None), event("c", 125, FEB, 12), schema=SCHEMA)
    bench.apply(config, event("c", 126, "other", 16), schema=SCHEMA)
    assert live(bench, config) == []


@MOR
def test_rows_of_a_first_batch_are_judged_by_the_floor_of_their_own_source_table(
    bench: Workbench, table_type: str
) -> None:
    config = table(f"first_{table_type}", table_type=table_type)
    bench.merge(config, [bench.put([event("t", 100, JAN)], SCHEMA), bench.put(FIRST, SCHEMA)])
    assert live(bench, config) == LEFT


MOVED = (
    [event("c", 10, JAN, 1), event("c", 11, FEB, 2)],
    [event("d", 20, JAN, 1), event("c", 21, FEB, 1, "moved")],
    [event("t", 100, JAN)],
)


@pytest.mark.whole
@COW
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_row_that_moved_to_another_partition_stays_whatever_the_order(
    bench: Workbench, table_type: str, order: tuple[int, ...]
) -> None:
    config = table(f"moved_{table_type}_{''.join(map(str, order))}", table_type=table_type)
    objects = [bench.put(changes, SCHEMA) for changes in MOVED]
    for number in order:
        bench.merge(config, [objects[number]])
    assert live(bench, config) == [(1, "moved"), (2, FEB)]


@MOR
def test_a_row_without_a_large_value_inherits_nothing_from_before_its_own_truncate(
    bench: Workbench, table_type: str
) -> None:
    config = table(f"large_{table_type}", table_type=table_type)
    bench.apply(config, *FIRST, schema=SCHEMA)
    changes = [event("t", 100, JAN), event("u", 101, JAN, 1, "again", MARK), event("u", 102, FEB, 11, "again", MARK)]
    bench.apply(config, *changes, schema=SCHEMA)
    rows = [row for row in bench.rows(config, "id", "name", "big", "__deleted") if not row[3]]
    assert [row[:3] for row in rows] == [(1, "again", None), (11, "again", "b"), (12, FEB, "b"), (13, FEB, "b")]


@pytest.mark.whole
@COW
def test_earlier_rows_without_a_source_table_stay_in_doubt_with_a_note(bench: Workbench, table_type: str) -> None:
    shared, own = (table(f"{name}_{table_type}", table_type=table_type) for name in ("earlier", "own"))
    own = replace(own, topic=f"src.public.{JAN}")
    for config in (shared, own):
        bench.merge(config, [bench.put(FIRST if config is shared else FIRST[:3], UNNAMED)])
        assert hidden.SOURCE not in bench.spark.read.format("hudi").load(bench.path(config)).columns
    bench.new_run()
    outcome = bench.apply(shared, event("t", 100, JAN), event("c", 101, FEB, 14), schema=SCHEMA)
    assert outcome.counts["source_unknown"] == 6 and "`sluice rebuild table db.earlier" in outcome.notes[0]
    assert live(bench, shared) == [(1, JAN), *LEFT, (14, FEB), (2, JAN), (3, JAN)]
    # The topic is named after the table: its rows are the table's own.
    outcome = bench.apply(own, event("t", 100, JAN), event("c", 101, JAN, 4), schema=SCHEMA)
    assert (outcome.notes, live(bench, own)) == ((), [(4, JAN)])


@MOR
def test_shards_with_the_same_ids_have_rows_of_their_own_by_their_metadata(bench: Workbench, table_type: str) -> None:
    config = table(f"shards_{table_type}", table_type=table_type, record_key=("__table", "id"))
    both = [event("r", 10, name, id) for name in (JAN, FEB) for id in (1, 2)]
    assert bench.apply(config, *both, schema=SCHEMA).quarantined == ()
    bench.apply(config, event("u", 20, JAN, 1, "new"), event("d", 21, FEB, 2), schema=SCHEMA)
    columns = ("__table", "id", "name", "__deleted")
    wanted = [(JAN, 1, "new", False), (JAN, 2, JAN, False), (FEB, 1, FEB, False), (FEB, 2, None, True)]
    assert sorted(bench.rows(config, *columns)) == wanted == sorted(bench.rows_by_hudi_rs(config, *columns))
    bench.apply(config, event("t", 30, JAN), event("c", 31, JAN, 3), schema=SCHEMA)
    assert sorted(row[:2] for row in bench.rows(config, *columns) if not row[3]) == [(JAN, 3), (FEB, 1)]


@pytest.mark.whole
def test_a_truncate_ends_the_states_of_its_own_source_table_in_the_history(bench: Workbench) -> None:
    config = table("h_shared", history=True)
    for changes in MOVED:
        bench.apply(config, *changes, schema=SCHEMA)
    bench.apply(config, event("c", 5, JAN, 3), event("c", 6, FEB, 4), schema=SCHEMA)
    ends = [row for row in bench.rows(config.history_table, "id", "_sluice_source_ts_ms", "__deleted") if row[2]]
    assert ends == [(1, 20 * 60_000, True), (3, None, True)]
    assert live(bench, config) == [(1, "moved"), (2, FEB), (4, FEB)]
