"""Every way of merging gives the rows of the table of examples, batch by batch and all at once as a first load."""

from __future__ import annotations

from typing import Any

import pytest
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
from support.workbench import Workbench, table

from sluice.config.table import TableConfig
from sluice_spark.merge import driver_limits, part
from sluice_spark.merge.by_arrow import attempt as by_arrow
from sluice_spark.merge.by_arrow import driver_merge, first_load, stored
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
        patch.setattr(first_load, "STORED_BYTES_PER_PART", 2_000)


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
    if group.settings.get("delete_mode") != "ignore":
        bench.merge(at_once, items)
        assert group.by_name(rows(bench, at_once)) == group.rows_at_once


def rows(bench: Workbench, config: TableConfig) -> dict[int, str]:
    """The table's rows by key, as a reader without Spark has them."""
    found = bench.rows_by_hudi_rs(config, "id", "__deleted", "_sluice_position", "_sluice_owed", *COLUMNS)
    return {id: row_text(deleted, values, position, owed) for id, deleted, position, owed, *values in found}
