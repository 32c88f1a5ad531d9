"""Random histories against an oracle: any order, grouping and repetition applies each change once, by position."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.builders import change, flattened
from support.change_histories import COLUMNS, Event, deliveries, history, source_rows
from support.workbench import Workbench, table

from sluice.changes.row_history import Change
from sluice.config.table import TableConfig
from sluice.hudi import options as hudi_options
from sluice.services.requests import COMPACTION
from sluice_spark.hudi.jvm import HudiJvm

TEXT = ["null", "string"]
FIRST = {"id": ["null", "int"], **{name: TEXT for name in COLUMNS if name != "late"}}
SCHEMAS = {False: flattened(FIRST), True: flattened({**FIRST, "late": TEXT})}
MARK = "__debezium_unavailable_value"


def record(event: Event, with_late: bool) -> dict[str, Any]:
    """The flattened change that says it."""
    made: Change = event.change
    columns = [name for name in COLUMNS if with_late or name != "late"]
    values = {name: MARK if name in made.unchanged else made.values.get(name) for name in columns}
    return change(made.op, int(made.position[5:25]), id=event.key, **values)


def compact(bench: Workbench, config: TableConfig, draw: random.Random) -> str:
    """Compact one file group or all of them, or only plan it, so that later changes follow the plan. Returns which."""
    budget = draw.choice((1, 1024**3))
    if draw.random() < 0.3:
        client = bench.hudi(config).client(hudi_options.compaction_options(budget))
        client.scheduleCompaction(HudiJvm(bench.spark).none())
        client.close()
        bench.new_run()
        return "planned"
    done = bench.serve(config, COMPACTION, budget_bytes=budget)
    return "compacted" if done.report.instant else "nothing"


@pytest.mark.parametrize(
    ("table_type", "partition_by", "seed"),
    [
        pytest.param("cow", ("place",), 11, marks=pytest.mark.whole),
        ("mor", ("place",), 5),
        pytest.param("mor", (), 4, marks=pytest.mark.whole),
        pytest.param("cow", (), 3, marks=pytest.mark.whole),
    ],
)
def test_any_order_grouping_and_repetition_gives_the_same_table(
    bench: Workbench, table_type: str, partition_by: tuple[str, ...], seed: int
) -> None:
    draw = random.Random(seed)
    config = table(table_type=table_type, partition_by=partition_by)
    events = history(draw, most=24)
    while sum(event.key is None for event in events) != 1 or not any(
        event.change.values.get("late") for event in events
    ):
        events = history(draw, most=24)
    items: dict[tuple[int, ...], Any] = {}
    applied: list[Event] = []
    compactions: list[str] = []
    for objects in deliveries(draw, events, objects_at_once=5):
        for changes in objects:
            with_late = any("late" in event.change.values for event in changes)
            if (mark := tuple(map(id, changes))) not in items:
                items[mark] = bench.put([record(event, with_late) for event in changes], SCHEMAS[with_late])
        bench.merge(config, list(dict.fromkeys(items[tuple(map(id, changes))] for changes in objects)))
        applied += [event for changes in objects for event in changes]
        if table_type == "mor" and draw.random() < 0.5:
            compactions.append(compact(bench, config, draw))
        present = [
            name for name in COLUMNS if name != "late" or any("late" in event.change.values for event in applied)
        ]
        stored = {
            row[0]: dict(zip(present, row[2:])) for row in bench.rows(config, "id", "__deleted", *present) if not row[1]
        }
        wanted = {
            key: {name: row[name] for name in present} for key, row in source_rows(applied).items() if row is not None
        }
        assert stored == wanted
    assert table_type == "cow" or {"planned", "compacted"} <= set(compactions), "a seed whose history shows something"
    columns = ("id", "place", "name", "big", "doc", "__deleted", "_sluice_position", "_sluice_owed")
    assert bench.rows_by_hudi_rs(config, *columns) == bench.rows(config, *columns)
