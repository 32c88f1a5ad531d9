"""Large parts, truncates and dumps go by Arrow, and leave what Spark leaves."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.builders import flattened
from support.workbench import SCHEMA, Workbench, row, table, told

from sluice.batch.manifest import ManifestObject
from sluice.config.table import TableConfig
from sluice_spark.merge import driver_limits
from sluice_spark.merge.by_arrow import covers
from sluice_spark.merge.by_arrow.large import plan as large_plan

STORED = ("id", "place", "name", "__deleted", "_sluice_position", "_sluice_op", "_sluice_offset")
ROWS = 60
OF_FILES = dict.fromkeys(("rewritten", "files_written"))  # where many rows change, a slice gets no log here


@pytest.fixture(params=["tasks", pytest.param("driver", marks=pytest.mark.whole)])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where large parts are merged. Those of more than a few changes are large."""
    monkeypatch.setattr(covers, "MOST_CHANGES", 20)
    if request.param == "tasks":
        monkeypatch.setattr(driver_limits, "OBJECTS_IN_DRIVER", 0)
        monkeypatch.setattr(large_plan, "STORED_BYTES_PER_PART", 2_000)
    return str(request.param)


def backlog(bench: Workbench, draw: random.Random) -> list[list[ManifestObject]]:
    """Two batches: the rows of a snapshot; then updates, moves, deletes and new rows, some of them late."""
    first = [row("r", 1, id, draw.choice("ABC")) for id in range(ROWS)]
    later = [
        row(draw.choice("uuuudc"), 10 + number, draw.randint(0, 2 * ROWS), draw.choice(("A", "B", "C", "D", None)))
        for number in range(3 * ROWS)
    ]
    draw.shuffle(later)
    late = [row("u", 0, id, "A", "late") for id in range(0, ROWS, 5)]
    return [[bench.put(first, SCHEMA)], [bench.put(later[:99], SCHEMA), bench.put(later[99:] + late, SCHEMA)]]


SHAPES = pytest.mark.parametrize(
    ("table_type", "partition_by"),
    [
        ("cow", ("place",)),
        ("mor", ("place",)),
        pytest.param("cow", (), marks=pytest.mark.whole),
        pytest.param("mor", (), marks=pytest.mark.whole),
    ],
)


def merged_as_by_spark(bench: Workbench, batches: list[list[ManifestObject]], **settings: Any) -> TableConfig:
    """Merge batches by Arrow, and compare rows and counts with those of Spark's way."""
    arrow, spark = table("here", **settings), table("there", topic="src.public.here", **settings)
    bench.services.tables.leave_to_spark(spark)
    for items in batches:
        here, told_of_spark = bench.merge(arrow, items), bench.left_to_spark()
        there = bench.merge(spark, items)
        assert told_of_spark is None
        assert told(here)["counts"] | OF_FILES == told(there)["counts"] | OF_FILES
        assert len(here.notes) == len(there.notes)
        rows = bench.rows_by_hudi_rs(arrow, *STORED)
        assert rows == bench.rows_by_hudi_rs(spark, *STORED)
        assert rows == bench.rows(arrow, *STORED)
    return arrow


@SHAPES
def test_a_backlog_in_two_batches_leaves_nothing_to_spark(
    bench: Workbench, way: str, table_type: str, partition_by: tuple[str, ...]
) -> None:
    settings: dict[str, Any] = {"table_type": table_type, "partition_by": partition_by}
    batches = backlog(bench, random.Random(3))
    arrow = merged_as_by_spark(bench, [*batches, batches[1]], **settings)
    few = [bench.put([row("u", 900, 1, "D"), row("d", 901, 2), row("c", 902, 900, "E")], SCHEMA)]
    bench.merge(arrow, few)  # by single keys, into what large merges wrote
    assert bench.left_to_spark() is None
    assert bench.rows(arrow, *STORED) == bench.rows_by_hudi_rs(arrow, *STORED)


@SHAPES
def test_a_truncate_among_changes_leaves_nothing_to_spark(
    bench: Workbench, way: str, table_type: str, partition_by: tuple[str, ...]
) -> None:
    first, second = backlog(bench, random.Random(4))
    truncate = [row("t", 100, 0, None, None) | {"id": None}, row("c", 101, 1, "A"), row("u", 99, 2, "B")]
    nullable = flattened(
        {name: ["null", kind] for name, kind in (("id", "int"), ("place", "string"), ("name", "string"))}
    )
    late = [bench.put([row("u", 50, id, "C", "late") for id in range(0, 30)], SCHEMA)]
    merged_as_by_spark(
        bench, [first, [bench.put(truncate, nullable)], second, late], table_type=table_type, partition_by=partition_by
    )


@pytest.mark.parametrize("partition_by", [("place",), pytest.param((), marks=pytest.mark.whole)])
def test_a_backlog_of_a_table_with_a_history_leaves_nothing_to_spark(
    bench: Workbench, way: str, partition_by: tuple[str, ...]
) -> None:
    first, second = backlog(bench, random.Random(5))
    merged_as_by_spark(bench, [first, second, first], partition_by=partition_by, history=True)
    here, there = (table(name, history=True).history_table for name in ("here", "there"))
    rows = bench.rows_by_hudi_rs(here, *STORED)
    assert len(rows) > 3 * ROWS and rows == bench.rows_by_hudi_rs(there, *STORED)
