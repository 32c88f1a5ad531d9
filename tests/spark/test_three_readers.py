"""This Spark, hudi-rs and the 0.15.0 bundle read the same rows of merge-on-read tables (`three-readers`)."""

from __future__ import annotations

import pytest
from support.extent import WHOLE
from support.workbench import SCHEMA, Workbench, row, table

from sluice.services.requests import COMPACTION

MARK = "__debezium_unavailable_value"
COLUMNS = ("id", "place", "name", "_sluice_position", "__deleted")


@pytest.mark.parametrize(
    "partition_by, index",
    [
        pytest.param((), "auto", id="unpartitioned", marks=pytest.mark.whole),
        pytest.param(("place",), "auto", id="partitioned"),
        pytest.param(("place",), "record", id="record index", marks=pytest.mark.whole),
    ],
)
def test_three_readers_agree_on_a_table_whose_changes_came_out_of_order(
    bench: Workbench, partition_by: tuple[str, ...], index: str
) -> None:
    config = table(table_type="mor", partition_by=partition_by, index=index)
    bench.apply(config, *(row("r", 10, id) for id in range(6)))
    late = [bench.put([row("u", 20, 1, "B", "late")], SCHEMA), bench.put([row("u", 21, 2, "B", "late")], SCHEMA)]
    bench.apply(config, row("u", 30, 1, "C", "newest"), row("d", 31, 2, None, None))
    # The changes of 4 and 5 lack the names, which older changes supply: over a log block, and in another partition.
    bench.apply(config, row("u", 32, 4, "A", MARK), row("u", 33, 5, "B", MARK))
    bench.merge(
        config, [*late, bench.put([row("u", 22, 4, "A", "supplied"), row("u", 23, 5, "A", "supplied")], SCHEMA)]
    )
    bench.apply(config, row("u", 40, 3, "B", "once"), row("u", 41, 3, "A", "twice"))
    path = bench.local_path(config)
    logs = [entry.name for entry in path.rglob("*") if ".log." in entry.name]
    assert logs, "nothing to merge: the readers would agree on base files alone"

    here = bench.rows(config, *COLUMNS)

    assert [item[:3] for item in here] == [
        (0, "A", "n"),
        (1, "C", "newest"),
        (2, None, None),
        (3, "A", "twice"),
        (4, "A", "supplied"),
        (5, "B", "supplied"),
    ]
    assert bench.rows_by_hudi_rs(config, *COLUMNS) == here
    assert bench.rows_by_old_bundle(config, *COLUMNS) == here
    for newer in ("1.1.1", "1.2.0") if WHOLE else ():
        assert bench.rows_by_old_bundle(config, *COLUMNS, hudi=newer) == here, newer

    bench.in_tasks().apply(config, row("u", 50, 1, "D", "by Spark"), row("c", 51, 7))
    bench.new_run()
    bench.in_driver().apply(config, row("u", 45, 1, "D", "too late"), row("u", 52, 2, "E", "back"))
    changed = [(1, "D", "by Spark"), (2, "E", "back"), (3, "A", "twice")]
    assert bench.rows_by_both(config, "id", "place", "name")[1:4] == changed
    rows = bench.rows(config, *COLUMNS)
    bench.serve(config, COMPACTION)
    assert bench.rows_by_both(config, *COLUMNS) == rows
