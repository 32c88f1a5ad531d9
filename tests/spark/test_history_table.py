"""Every change of a table, once, in its history table; and the states of rows that readers see in it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from support.builders import change, flattened
from support.workbench import Died, Silver, Workbench, dies, params, table

from sluice.batch.outcome import HISTORY_CHANGES
from sluice.catalog.history_view import SPARK, history_view_sql
from sluice.config.table import TableConfig
from sluice_read.errors import NotRetained
from sluice_read.moments import span_of
from sluice_read.sql import run_query
from sluice_spark.merge.by_arrow import attempt as by_arrow

TEXT = ["null", "string"]
SCHEMA = flattened({"id": ["null", "int"], "place": TEXT, "name": TEXT, "big": TEXT})
MARK = "__debezium_unavailable_value"
MINUTE_MS = 60_000
COLUMNS = ("id", "_sluice_position", "name", "big", "_sluice_owed", "__deleted", "_sluice_op")


def row(op: str, minute: int, id: int | None, name: str | None = None, big: str | None = "big") -> dict[str, Any]:
    """A change at a minute, which is its place in the log and its time."""
    values = {"id": id, "place": "A", "name": name, "big": big}
    return {**change(op, minute, **values), "__source_ts_ms": minute * MINUTE_MS}


def truncate(minute: int) -> dict[str, Any]:
    return {**change("t", minute, id=None, place=None, name=None, big=None), "__source_ts_ms": minute * MINUTE_MS}


def states(bench: Workbench, config: TableConfig) -> list[tuple[Any, ...]]:
    """The states of all rows: key, name, large column, first and last minute, and whether the state is current."""
    sql = (
        "select id, name, big, epoch_ms(valid_from) // 60000, epoch_ms(valid_to) // 60000, is_current "
        f"from {config.history_table.table} order by 1, 4"
    )
    with run_query(Silver(bench.services.tables_uri), sql) as (_, result):
        return result.fetchall()


def states_by_spark(bench: Workbench, config: TableConfig) -> list[tuple[Any, ...]]:
    """The same by the view's statement for Spark."""
    bench.spark.read.format("hudi").load(bench.path(config.history_table)).createOrReplaceTempView("changes")
    view = history_view_sql(["id", "name", "big"], record_key=["id"], source="changes", dialect=SPARK)
    minutes = ", ".join(f"unix_seconds({name}) div 60" for name in ("valid_from", "valid_to"))
    return [
        tuple(row)
        for row in bench.spark.sql(f"SELECT id, name, big, {minutes}, is_current FROM ({view}) ORDER BY 1, 4").collect()
    ]


def past_rows(bench: Workbench, config: TableConfig, *, minute: int) -> list[tuple[Any, ...]]:
    """The table's rows half a minute after a minute, long before its files."""
    span = span_of(as_of=f"1970-01-01T00:{minute:02d}:30Z")
    with run_query(
        Silver(bench.services.tables_uri), f"select id, name, big from {config.table} order by id", span=span
    ) as (_, result):
        return result.fetchall()


CHANGES = (
    [row("r", 1, 1, "a"), row("r", 1, 2, "x")],
    [row("u", 3, 1, "b", big=MARK), row("d", 4, 2)],
    [row("u", 5, 1, "c", big="new"), row("c", 6, 2, "again")],
)
STATES = [
    (1, "a", "big", 1, 3, False),
    (1, "b", "big", 3, 5, False),
    (1, "c", "new", 5, None, True),
    (2, "x", "big", 1, 4, False),
    (2, "again", "big", 6, None, True),
]


ORDERS = itertools.product(("cow", "mor"), itertools.permutations(range(3)))


@pytest.mark.parametrize(("table_type", "order"), params(ORDERS, short={("cow", (2, 0, 1))}))
def test_any_order_gives_the_same_states_and_a_replay_changes_neither_table(
    bench: Workbench, table_type: str, order: tuple[int, ...]
) -> None:
    config = table(f"h_{table_type}_{''.join(map(str, order))}", table_type=table_type, history=True)
    objects = [bench.put(changes, SCHEMA) for changes in CHANGES]
    for number in order:
        bench.merge(config, [objects[number]])
    assert states(bench, config) == STATES == states_by_spark(bench, config)
    assert past_rows(bench, config, minute=2) == [(1, "a", "big"), (2, "x", "big")]
    assert past_rows(bench, config, minute=4) == [(1, "b", "big")]
    stored = bench.rows(config.history_table, *COLUMNS)
    assert len(stored) == 6 and bench.rows_by_hudi_rs(config.history_table, *COLUMNS) == stored
    before = bench.timeline(config.history_table), bench.timeline(config)
    bench.new_run()
    replay = bench.merge(config, [replace(item, first_batch="b-1") for item in objects])
    assert replay.no_change and (replay.counts["read_again"], replay.counts[HISTORY_CHANGES]) == (6, 0)
    assert (bench.timeline(config.history_table), bench.timeline(config)) == before


@pytest.mark.whole
def test_a_history_that_is_switched_on_later_gets_the_changes_of_a_replay(bench: Workbench) -> None:
    config = table("h_later")
    item = bench.put(CHANGES[0], SCHEMA)
    bench.merge(config, [item])
    config = table("h_later", history=True)
    replay = bench.merge(config, [replace(item, first_batch="b-1", attempt=1)])
    assert replay.no_change and replay.counts[HISTORY_CHANGES] == 2
    assert len(bench.rows(config.history_table, "id")) == 2


@pytest.mark.whole
def test_a_part_that_dies_between_the_two_commits_writes_no_change_twice(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table("h_dies", history=True)
    bench.apply(config, *CHANGES[0], schema=SCHEMA)
    manifest = bench.manifest(config, [bench.put(CHANGES[1], SCHEMA)])
    with monkeypatch.context() as patch:
        commits = iter((by_arrow.commit,))  # of the history
        patch.setattr(by_arrow, "commit", lambda *given, **more: next(commits, dies)(*given, **more))
        with pytest.raises(Died):
            bench.merge_manifest(manifest, config)
    stored, timeline = bench.rows(config.history_table, *COLUMNS), bench.timeline(config.history_table)
    assert len(stored) == 4
    bench.new_run()
    assert bench.resolve(manifest, config) is None
    assert bench.merge_manifest(manifest, config).instant is not None
    assert (bench.rows(config.history_table, *COLUMNS), bench.timeline(config.history_table)) == (stored, timeline)
    assert bench.rows(config, "id", "name", "__deleted") == [(1, "b", False), (2, None, True)]


@pytest.mark.whole
def test_a_write_of_the_history_that_died_is_rolled_back_and_written_again(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table("h_cut", history=True)
    bench.apply(config, *CHANGES[0], schema=SCHEMA)
    manifest = bench.manifest(config, [bench.put(CHANGES[1], SCHEMA)])
    held = iter((True, True, False))
    with pytest.raises(Exception, match="taken over"):
        bench.merge_manifest(manifest, config, still_held=lambda: next(held, False))
    bench.new_run()
    assert bench.resolve(manifest, config) is None
    bench.merge_manifest(manifest, config)
    assert len(bench.rows(config.history_table, "id")) == 4


@pytest.mark.whole
def test_a_truncate_ends_the_states_of_all_rows_and_of_those_that_come_late(bench: Workbench) -> None:
    config = table("h_truncated", history=True)
    bench.apply(config, row("c", 1, 1, "a"), row("c", 2, 2, "x"), schema=SCHEMA)
    bench.apply(config, truncate(5), row("c", 7, 2, "again"), schema=SCHEMA)
    bench.new_run()
    bench.apply(config, row("c", 3, 3, "late"), schema=SCHEMA)
    assert past_rows(bench, config, minute=2) == [(1, "a", "big"), (2, "x", "big")]
    with pytest.raises(NotRetained, match="doesn't know the state of 1 of its rows"):
        past_rows(bench, config, minute=8)
    assert states(bench, config) == [
        (1, "a", "big", 1, 5, False),
        (2, "x", "big", 2, 5, False),
        (2, "again", "big", 7, None, True),
        (3, "late", "big", 3, None, False),  # the time of an earlier batch's truncate is not kept, its position is
    ]


@pytest.mark.whole
def test_a_new_and_a_wider_column_are_those_of_the_history_too(bench: Workbench) -> None:
    config = table("h_evolves", history="h_log")
    narrow = flattened({"id": "int", "n": ["null", "int"]})
    wide = flattened({"id": "int", "n": ["null", "long"], "more": TEXT})
    bench.apply(config, change("c", 1, id=1, n=1), schema=narrow)
    bench.apply(config, change("u", 2, id=1, n=2**40, more="m"), schema=wide)
    wanted = [(1, 1, None), (1, 2**40, "m")]
    assert bench.rows(config.history_table, "id", "n", "more") == wanted
    assert bench.rows_by_sluice(config.history_table, "id", "n", "more") == wanted
    assert config.history_table.name == "h_log" and bench.services.history.columns(config.table).history == "h_log"
