"""Every way of merging gives the rows of the table of examples, batch by batch and all at once as a first load."""

from __future__ import annotations

from datetime import date, datetime, timezone
from itertools import product
from typing import Any
from zlib import crc32

import pytest
from support.builders import change, flattened
from support.merge_cases import (
    BATCH_OFFSETS,
    COLUMNS,
    EMPTIED,
    EVERY,
    KEEPING,
    KEEPING_ALL,
    SCHEMA,
    UNCHANGED_NULLS,
    Group,
    row_text,
)
from support.workbench import Workbench, params, table

from sluice.config.table import TableConfig
from sluice_spark.merge import driver_limits, part
from sluice_spark.merge.by_arrow import attempt as by_arrow
from sluice_spark.merge.by_arrow import driver_merge, stored
from sluice_spark.merge.by_arrow.large import plan as large_plan
from sluice_spark.merge.by_spark import attempt as by_spark
from sluice_spark.merge.context import MergedPart, PartContext
from sluice_spark.merge.key_index import KeyIndex
from sluice_spark.merge.prepare import Prepared

BY_SPARK, FILES, TASKS = "Spark", "files in the driver", "files in tasks"
HARD = Group(EVERY.examples, {"delete_mode": "hard"})


def restrict(patch: pytest.MonkeyPatch, way: str) -> None:
    """Let only this way merge parts: one that it doesn't cover fails, but for a first load of unknown partitions."""

    def by_arrow_alone(context: PartContext, prepared: Prepared) -> MergedPart | None:
        merged, may_go = by_arrow.attempt(context, prepared), prepared.facts.empty and context.config.partition_by
        return by_spark.attempt(context, prepared) if merged is None and may_go else merged

    patch.setattr(part, "WAYS", (by_spark.attempt if way == BY_SPARK else by_arrow_alone,))
    if way == TASKS:
        patch.setattr(KeyIndex, "has_room", lambda index, size: False)
        patch.setattr(stored, "READ_IN_DRIVER", 0)
        patch.setattr(driver_merge, "WRITTEN_IN_DRIVER", 0)
        patch.setattr(driver_limits, "OBJECTS_IN_DRIVER", 0)
        patch.setattr(large_plan, "STORED_BYTES_PER_PART", 2_000)


@pytest.mark.parametrize(
    ("way", "group", "table_type", "partition_by"),
    [
        (BY_SPARK, EVERY, "cow", ("place",)),
        # The others of Spark have the same examples in another table type, or test_source_tables.py has them.
        pytest.param(BY_SPARK, EVERY, "mor", (), marks=pytest.mark.whole),
        pytest.param(BY_SPARK, HARD, "cow", (), marks=pytest.mark.whole),
        pytest.param(BY_SPARK, EVERY, "mor", ("place",), marks=pytest.mark.whole),
        (BY_SPARK, UNCHANGED_NULLS, "mor", ("place",)),
        pytest.param(BY_SPARK, EMPTIED, "cow", ("place",), marks=pytest.mark.whole),
        pytest.param(BY_SPARK, EMPTIED, "mor", (), marks=pytest.mark.whole),
        (BY_SPARK, KEEPING, "mor", ("place",)),
        pytest.param(BY_SPARK, KEEPING, "cow", (), marks=pytest.mark.whole),
        pytest.param(BY_SPARK, KEEPING_ALL, "cow", ("place",), marks=pytest.mark.whole),
        (FILES, EVERY, "cow", ()),
        (FILES, EVERY, "mor", ("place",)),
        pytest.param(FILES, EVERY, "mor", (), marks=pytest.mark.whole),
        (FILES, EVERY, "cow", ("place",)),
        (FILES, KEEPING, "mor", ("place",)),
        pytest.param(FILES, KEEPING, "cow", (), marks=pytest.mark.whole),
        (TASKS, UNCHANGED_NULLS, "mor", ("place",)),
        pytest.param(TASKS, EVERY, "cow", (), marks=pytest.mark.whole),
        (TASKS, EVERY, "cow", ("place",)),
        (FILES, EMPTIED, "cow", ("place",)),
        pytest.param(FILES, EMPTIED, "mor", ("place",), marks=pytest.mark.whole),
        (TASKS, EMPTIED, "mor", ("place",)),
        pytest.param(TASKS, EMPTIED, "cow", (), marks=pytest.mark.whole),
    ],
)
def test_each_way_gives_the_row_of_each_example(
    bench: Workbench,
    way: str,
    group: Group,
    table_type: str,
    partition_by: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restrict(monkeypatch, way)
    shape: dict[str, Any] = {"table_type": table_type, "partition_by": partition_by, **group.settings}
    in_batches, at_once = table("in_batches", **shape), table("at_once", **shape)
    items = [
        bench.put(changes, SCHEMA, offset=number * BATCH_OFFSETS) for number, changes in enumerate(group.batches())
    ]
    for item in items:
        bench.merge(in_batches, [item])
        bench.new_run()  # what decides is the table's own
    assert group.by_name(rows(bench, in_batches)) == group.rows
    again = bench.merge(in_batches, items)
    assert (again.no_change, again.instant) == (True, None)
    if group is not KEEPING:
        bench.merge(at_once, items)
        assert group.by_name(rows(bench, at_once)) == group.rows_at_once


MICROS = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
TIMED = flattened({"id": "int", "at": ["null", MICROS], "name": ["null", "string"]})
NONE = "__HIVE_DEFAULT_PARTITION__"


def event(op: str, lsn: int, id: int, at: datetime | None, name: str | None = "n") -> dict[str, Any]:
    micros = None if at is None else int(at.replace(tzinfo=timezone.utc).timestamp()) * 10**6
    return change(op, lsn, id=id, at=micros, name=name)


LATE, EARLY, OLD = datetime(2026, 11, 28, 23, 59, 59), datetime(2026, 11, 29), datetime(1969, 12, 31, 5)
TIMED_BATCHES = (
    [event("c", 1, 1, LATE), event("c", 2, 2, EARLY), event("c", 3, 3, OLD), event("c", 4, 4, None)],
    [event("u", 5, 1, EARLY), event("d", 6, 2, None, None), event("u", 7, 4, OLD), event("c", 8, 5, LATE)],
    [event("u", 10, 3, OLD, "later"), event("u", 9, 1, OLD), event("u", 11, 1, LATE), event("c", 12, 2, OLD)],
)
PLACES = {1: LATE, 2: OLD, 3: OLD, 4: OLD, 5: LATE}


WAYS = product((FILES, BY_SPARK, TASKS), ("cow", "mor"))


@pytest.mark.parametrize(("way", "table_type"), params(WAYS, short={(FILES, "mor"), (BY_SPARK, "cow")}))
def test_rows_lie_where_their_times_say_batch_by_batch_and_at_once(
    bench: Workbench, way: str, table_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    restrict(monkeypatch, way)
    settings = {"table_type": table_type, "partition_by": ("day(at)", "hour(at)", "bucket(4)"), "history": True}
    in_batches, at_once = table("in_batches", **settings), table("at_once", **{**settings, "history": False})
    items = [bench.put(changes, TIMED, offset=100 * number) for number, changes in enumerate(TIMED_BATCHES)]
    for item in items[:2]:
        bench.merge(in_batches, [item])
    columns = ("id", "at_day", "at_hour", "key_bucket", "_hoodie_partition_path", "__deleted")
    gone = next(row for row in bench.rows_by_hudi_rs(in_batches, *columns) if row[0] == 2)
    assert gone == (2, None, None, None, f"at_day={NONE}/at_hour={NONE}/key_bucket={NONE}", True)
    bench.merge(in_batches, items[2:])
    bench.merge(at_once, items)
    wanted = []
    for id, at in PLACES.items():
        hour, bucket = f"{at:%Y-%m-%d-%H}", crc32(str(id).encode()) % 4
        path = f"at_day={at:%Y-%m-%d}/at_hour={hour}/key_bucket={bucket}"
        wanted.append((id, date(at.year, at.month, at.day), hour, bucket, path, False))
    for config in (in_batches, at_once):
        assert bench.rows_by_hudi_rs(config, *columns) == wanted
        assert bench.rows(config, *columns) == wanted
    assert bench.properties(in_batches)["hoodie.table.partition.fields"] == "at_day,at_hour,key_bucket"
    states = bench.rows_by_hudi_rs(in_batches.history_table, "id", "at_day", "__deleted")
    days = {day for id, day, _ in states if id == 1}
    assert len(states) == 12 and days == {date(2026, 11, 28), date(2026, 11, 29), date(1969, 12, 31)}


def rows(bench: Workbench, config: TableConfig) -> dict[int, str]:
    """The table's rows by key, as a reader without Spark has them."""
    stored = bench.rows_by_hudi_rs(config, "id", "__deleted", "_sluice_position", "_sluice_owed", *COLUMNS)
    return {id: row_text(deleted, values, position, owed) for id, deleted, position, owed, *values in stored}
