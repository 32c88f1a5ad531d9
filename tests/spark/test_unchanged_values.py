"""Columns that a change omits as unchanged: filled from the newest older change, in any order of arrival."""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any

import pytest
from workbench import Workbench, change, flattened, table

MARK = "__debezium_unavailable_value"
TEXT, BYTES, TEXTS, INTS = (
    ["null", "string"],
    ["null", "bytes"],
    ["null", {"type": "array", "items": "string"}],
    ["null", {"type": "array", "items": "int"}],
)
SCHEMA = flattened({"id": "int", "place": TEXT, "n": ["null", "int"], "big": TEXT})
WIDE = flattened(
    {"id": "int", "text": TEXT, "coded": TEXT, "raw": BYTES, "texts": TEXTS, "ints": INTS, "n": ["null", "int"]}
)
ORDERS = list(itertools.permutations(range(3)))


def row(op: str, lsn: int, id: int, big: str | None, place: str | None = "A") -> dict[str, Any]:
    return change(op, lsn, id=id, place=place, n=lsn, big=big)


def three_changes(id: int) -> list[dict[str, Any]]:
    """A creation, an update of the large column, and one that moves the row and leaves the column unchanged."""
    return [row("c", 10, id, "A"), row("u", 20, id, "B"), row("u", 30, id, MARK, place="B")]


@pytest.mark.whole
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_an_unchanged_column_has_its_newest_value_in_all_six_orders_and_batchings(
    bench: Workbench, table_type: str
) -> None:
    parted = table("parted", table_type=table_type, partition_by=("place",))
    whole = table("whole", table_type=table_type)
    for place in range(3):  # every key has an order of its own
        arriving = bench.put([three_changes(id)[order[place]] for id, order in enumerate(ORDERS)], SCHEMA)
        bench.merge(parted, [arriving])
        last = bench.merge(whole, [arriving])
    at_once = table("at_once", table_type=table_type, partition_by=("place",))
    bench.merge(
        at_once, [bench.put([three_changes(id)[number] for number in order], SCHEMA) for id, order in enumerate(ORDERS)]
    )

    wanted = [(id, "B", 30, "B") for id in range(6)]
    for config in (parted, whole, at_once):
        assert bench.rows(config, "id", "place", "n", "big") == wanted
        assert bench.rows_by_hudi_rs(config, "id", "place", "n", "big") == wanted
        assert {json.loads(owed[0])["big"][5:25] for owed in bench.rows(config, "_sluice_owed")} == {f"{20:020d}"}
    assert (
        last.counts["supplied"] == 2
    )  # the keys whose update of the column came last but one in position and last in time


def test_every_form_of_the_placeholder_is_recognized_only_in_its_own_column(bench: Workbench) -> None:
    config = table()
    coded = base64.b64encode(MARK.encode()).decode()
    summary = {"text": "t", "coded": "c", "raw": b"r", "texts": ["x", MARK], "ints": [1]}
    marks = {"text": MARK, "coded": coded, "raw": MARK.encode(), "texts": [MARK], "ints": list(MARK.encode())}
    bench.merge(config, [bench.put([change("c", 1, id=id, n=1, **summary) for id in range(6)], WIDE)])
    updates = [
        change("u", 2, id=id, n=2, **{**dict.fromkeys(summary), name: marks[name]}) for id, name in enumerate(summary)
    ]
    outcome = bench.merge(config, [bench.put([*updates, change("u", 2, id=5, n=2, **marks)], WIDE)])

    columns = list(summary)
    rows = [dict(zip(columns, found[1:])) for found in bench.rows(config, "id", *columns)]
    assert rows[:5] == [{**dict.fromkeys(summary), name: summary[name]} for name in summary]
    assert rows[5] == summary and outcome.counts["owed"] == 0


@pytest.mark.whole
def test_a_column_whose_value_never_comes_is_null_and_counted_as_owed(bench: Workbench) -> None:
    config = table()
    outcome = bench.merge(config, [bench.put([row("u", 30, 1, MARK), row("u", 30, 2, "x")], SCHEMA)])
    assert (outcome.counts["owed"], outcome.counts["winning"]) == (1, 2)
    assert bench.rows(config, "id", "big", "_sluice_owed") == [(1, None, '{"big":""}'), (2, "x", None)]

    again = bench.merge(config, [bench.put([row("u", 40, 1, MARK)], SCHEMA)])
    assert again.counts["owed"] == 1
    late = bench.merge(config, [bench.put([row("u", 35, 1, "late")], SCHEMA)])
    assert (late.counts["supplied"], late.counts["winning"], late.counts["losing"], late.counts["owed"]) == (1, 0, 0, 0)
    assert [found[:3] for found in bench.rows(config, "id", "n", "big")] == [(1, 40, "late"), (2, 30, "x")]


@pytest.mark.whole
def test_no_value_comes_across_a_delete_or_a_creation(bench: Workbench) -> None:
    config = table(table_type="mor")
    bench.merge(config, [bench.put([row("c", 10, id, "before") for id in (1, 2, 3)], SCHEMA)])
    # 1: deleted, and created again under another row's key; 2: the delete comes late; 3: the older values come late.
    bench.merge(
        config,
        [
            bench.put(
                [
                    row("d", 20, 1, None),
                    row("c", 30, 1, MARK),
                    row("u", 30, 2, MARK),
                    row("d", 20, 3, None),
                    row("u", 30, 3, MARK),
                ],
                SCHEMA,
            )
        ],
    )
    bench.merge(config, [bench.put([row("d", 20, 2, None), row("u", 15, 3, "late"), row("u", 25, 1, "late")], SCHEMA)])
    assert bench.rows(config, "id", "n", "big") == [(1, 30, None), (2, 30, None), (3, 30, None)]
    bench.merge(config, [bench.put([row("c", 25, 2, "after"), row("c", 25, 3, "after")], SCHEMA)])
    assert bench.rows(config, "id", "n", "big") == [(1, 30, None), (2, 30, "after"), (3, 30, "after")]


def test_a_replay_of_unchanged_columns_and_their_values_changes_nothing(bench: Workbench) -> None:
    config = table()
    objects = [
        bench.put([row("c", 10, 1, "A")], SCHEMA),
        bench.put([row("u", 20, 1, "B")], SCHEMA),
        bench.put([row("u", 30, 1, MARK), row("c", 30, 2, MARK)], SCHEMA),
    ]
    bench.merge(config, objects)
    before = bench.rows(config, "_hoodie_commit_time", "id", "big", "_sluice_owed")
    for replayed in (objects, objects[2:], objects[:2]):
        outcome = bench.merge(config, replayed)
        assert (outcome.no_change, outcome.instant) == (True, None)
    assert bench.rows(config, "_hoodie_commit_time", "id", "big", "_sluice_owed") == before


@pytest.mark.whole
def test_a_row_moves_when_the_column_that_it_owed_is_its_partition(bench: Workbench) -> None:
    for table_type in ("cow", "mor"):
        config = table(table_type, table_type=table_type, partition_by=("place",))
        bench.merge(config, [bench.put([row("u", 30, 1, "x", place=MARK), row("c", 10, 2, "y")], SCHEMA)])
        bench.merge(config, [bench.put([row("u", 20, 1, "x", place="B")], SCHEMA)])
        assert (
            bench.rows(config, "id", "place", "n")
            == bench.rows_by_hudi_rs(config, "id", "place", "n")
            == [(1, "B", 30), (2, "A", 10)]
        )


@pytest.mark.parametrize("table_type", ["mor", pytest.param("cow", marks=pytest.mark.whole)])
def test_a_null_that_the_rule_calls_unchanged_keeps_the_newest_value_in_every_order(
    bench: Workbench, table_type: str
) -> None:
    schema = flattened({"id": "int", "v": ["null", {"type": "array", "items": "double"}], "n": ["null", "int"]})

    def row(op: str, lsn: int, id: int, v: list[float] | None, n: int | None) -> dict[str, Any]:
        return change(op, lsn, id=id, v=v, n=n)

    config = table(table_type, table_type=table_type, null_is_unchanged=("v", "n"))
    changes = [
        lambda id: row("c", 10, id, [1.5], 1),
        lambda id: row("u", 20, id, [2.5], None),
        lambda id: row("u", 30, id, None, 3),
    ]
    for place in range(3):  # every key has an order of its own
        arriving = [changes[order[place]](id) for id, order in enumerate(ORDERS)]
        bench.merge(config, [bench.put(arriving, schema)])
    assert bench.rows(config, "id", "v", "n") == [(id, [2.5], 3) for id in range(6)]
    assert bench.rows_by_hudi_rs(config, "id", "v", "n") == [(id, [2.5], 3) for id in range(6)]
    bench.merge(config, [bench.put([row("u", 40, 0, None, None), row("c", 40, 1, None, None)], schema)])
    assert bench.rows(config, "id", "v", "n")[:2] == [(0, [2.5], 3), (1, None, None)]
